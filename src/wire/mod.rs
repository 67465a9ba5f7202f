//! The JSON that travels between servers and clients: every request and answer body, once, for both ends.
//!
//! Nothing in here knows a framework, a rule or a clock. [`read`] turns the bytes of a request into one of these
//! shapes or says which field is wrong; everything else is plain data with public fields.
//!
//! Text the server already has at hand ([`Text`]) is shared, not copied; names of files are `String`s, because they
//! are written out of keys. A field that the contract always shows is `null` when there is nothing to say; a field
//! it calls optional is left out.

mod body;
mod code;
mod events;
mod files;
mod granted;
mod history;
mod look;
mod notice;
pub mod schema;
mod sessions;
mod time;
mod unlock;
mod values;

/// Text that is cheap to hand around.
pub type Text = std::sync::Arc<str>;

pub use body::{BadBody, OneOrMany, RESERVE_KEYS_MAX, read};
pub use code::{Code, ErrorBody, Wait};
pub use events::{Event, Happened, Notices, Reset};
pub use files::{Check, Encoding, Intent, Mode, Release, Renew, Reserve};
pub use granted::{
    Checked, Conflict, HeldBy, Paused, Released, ReleasedAll, Renewed, RenewedMany, Reserved, ReservedMany,
};
pub use history::{History, HistoryEvent, Missing};
pub use look::{Done, Health, LedgerHealth, Override, Reservation, ReservationList, Stats};
pub use notice::Notice;
pub use sessions::{
    CreateSession, EndSession, EndState, Ended, Heartbeat, SessionCreated, SessionInfo, SessionList, SessionState,
};
pub use time::Time;
pub use unlock::{Approve, Reject, UnlockRequest, UnlockRequestInfo, UnlockRequests, UnlockStatus};
