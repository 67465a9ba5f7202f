//! Reservation rules: who holds which key, and who is next.
//!
//! Pure: the time arrives in a [`Turn`], changes leave in it as records. There is no clock, file or socket here. Start at
//! [`Engine::execute`]; each rule has a file of its own.
//!
//! What must survive a restart is *recorded state*. It changes only when a record is applied, in `apply.rs`: while a
//! command is decided, which numbers the record too, and in a replay by [`Engine::apply`]. Everything else is *working
//! memory*, which the rules change directly: deadlines, when a session last called, how many requests were refused
//! since the last record of that, notices, and announced pushes. [`Engine::resume`] sets the deadlines again after a replay.
//! Deadlines are in listening time (see `listening.rs`), everything else is in real time.

mod apply;
mod check;
mod command;
mod commit;
mod conflict;
mod deadlock;
mod execute;
mod expiry;
mod generation;
mod held_list;
mod idle;
mod ids;
mod image;
mod index;
mod lapsed;
mod listening;
mod notice;
mod over;
mod pause;
mod ports;
mod push;
mod queue;
mod quota;
mod record;
mod release;
mod reserve;
mod session;
mod slab;
mod state;
mod timer;
mod turn;
mod unlock;
mod view;
mod wait_graph;
mod work;

pub use command::{
    Actor, AllocatePorts, Command, Conflict, CycleStep, Few, Grant, Intent, KeyCheck, KeyName, Notice, Outcome, Pause,
    Pusher, RefUpdate, Refusal, Reserve, SessionIdentity, SessionName, UnlockRequest,
};
pub use conflict::HOLDERS_LISTED;
pub use ids::{ObjectId, ReservationId, SESSION_ID_MAX, Seq, SessionId, Text, Timestamp, Ttl, WaiterId};
pub use image::{Image, ReservationImage};
pub use over::RELEASED_LISTED;
pub use ports::{PortGrant, PortRange};
pub use push::{ANNOUNCED_PER_SESSION_MAX, ANNOUNCEMENT_TIME};
pub use record::{Content, EndState, Event, LeftWhy, Mode, Owner, Record, UnlockAnswer, Want, Why};
pub use state::{Engine, Policy, Totals};
pub use turn::Turn;
pub use view::{EntityView, Numbers, ReservationScan, SessionView, WAITED_KEYS_LISTED, WaitView, WhoHolds};
pub use wait_graph::{BlockedWait, WaitBlocker};
pub use work::{Pair, WorkReport};
