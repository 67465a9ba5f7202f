//! Rules: who holds which key, and who is next.
//!
//! Nothing in here knows a clock, a file or a socket: the time arrives as `now`, changes leave as records.
//! Start at [`Engine::execute`]; all state changes happen in [`Engine::apply`], which replay also uses.

mod apply;
mod check;
mod command;
mod conflict;
mod deadlock;
mod execute;
mod expiry;
mod ids;
mod image;
mod index;
mod notice;
mod pause;
mod queue;
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

pub use command::{
    Actor, Command, Conflict, CycleStep, Few, Grant, Intent, Intro, KeyCheck, Named, Notice, Outcome, Pause, Person,
    Refusal, Reserve, UnlockRequest,
};
pub use ids::{ReservationId, SESSION_ID_MAX, Seq, SessionId, Text, Timestamp, Ttl};
pub use image::Image;
pub use record::{Answer, EndState, Event, LeftWhy, Mode, Owner, Record, Want, Why};
pub use state::{Engine, Policy, Totals};
pub use turn::Turn;
pub use view::{Numbers, SessionView, WaitView};
