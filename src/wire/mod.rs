//! The JSON of the contract: every request, answer and event body, defined once for server and clients.
//!
//! Nothing here knows a framework, a rule or a clock. [`read`] parses the bytes of a request into one of these types, or
//! says which field is wrong. Everything else is plain data with public fields.
//!
//! Text that the server already has ([`Text`]) is shared, not copied; file names are `String`s, because they are written
//! out of keys. A field that the contract always shows is `null` when it has no value; an optional field is left out.

mod body;
mod contention;
mod deserialize;
mod entities;
mod error;
mod event;
mod file_replies;
mod file_requests;
mod history;
pub mod lfs;
pub mod limits;
mod login;
mod notices;
mod operating;
mod ports;
mod pushes;
mod reservation_history;
pub mod schema;
mod sessions;
mod time;
mod unlock_requests;

/// Text that is cheap to clone.
pub type Text = std::sync::Arc<str>;

pub use body::{BadBody, EmptyBody, OneOrMany, read, read_limited};
pub use contention::{
    Blocker, BlockerKind, Contender, ExpiringSession, HotDirectory, HotPath, HotspotWindow, Hotspots, Live,
    LiveReservation, LiveSession, Refusals, RefusedRequest, RootBlocker, Wait, WaitBlocker, Waits,
};
pub(crate) use deserialize::whole;
pub use entities::{Entity, EntityAgent, EntityLock, EntityRequest, LockEntity, RequestEntity};
pub use error::{Code, CycleStep, ErrorBody};
pub use event::{Event, EventKind, Notices, Reset};
pub use file_replies::{
    CheckReply, Conflict, HeldBy, Paused, Released, ReleasedAll, RenewReply, Renewed, RenewedMany, ReserveReply,
    Reserved, ReservedMany,
};
pub use file_requests::{Check, Encoding, Intent, Mode, Release, Renew, Reserve};
pub use history::{HistoryReply, MissingEvents};
pub use login::{CurrentLogin, Login, LoginCode, SignIn, SignedIn};
pub use notices::Notice;
pub use operating::{
    ClusterHealth, Health, Held, LedgerHealth, LedgerProblem, Override, Reservation, ReservationList, Stats,
};
pub use ports::{AllocatePorts, Ports};
pub use pushes::{AnnouncePush, ClaimPush, ClaimReply, PushAnnounced, RefUpdate};
pub use reservation_history::{LockState, ReservationHistory, StateChange};
pub use sessions::{
    CreateSession, EndSession, EndState, Ended, Heartbeat, SessionCreated, SessionInfo, SessionList, SessionState,
};
pub use time::Time;
pub use unlock_requests::{
    Approve, Reject, UnlockRequest, UnlockRequestInfo, UnlockRequestList, UnlockRequests, UnlockStatus,
};
