//! Rules: who holds which key, and who is next.
//!
//! Nothing in here knows a clock, a file or a socket: the time arrives as `now`, changes leave as records.

mod ids;
mod record;

pub use ids::{ReservationId, SESSION_ID_MAX, Seq, SessionId, Text, Timestamp, Ttl};
pub use record::{Answer, EndState, Event, LeftWhy, Mode, Owner, Record, Want, Why};
