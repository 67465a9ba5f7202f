//! Calls to a server, for every room outside of it.
//!
//! Nothing in here decides or prints anything, and nothing looks at a repository. [`Client`] makes the calls, with a limit
//! on everything (time to connect, time in all, size of the reply). Each way a call can fail is a [`ClientError`] that
//! reads as a sentence. Calls block; behind them is an async runtime without threads. [`quick_check`] makes the one call
//! that every commit waits for without a runtime. The notices of every reply go to an [`Inbox`].

mod address;
mod calls;
mod cancel;
mod credential;
mod error;
mod exchange;
mod inbox;
mod partial;
mod peer;
mod quick;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub use address::{Address, Endpoint, are_nodes, joined, part as url_segment};
pub use calls::{HistoryFilter, ReservationFilter};
pub use cancel::Cancel;
pub use credential::{Credential, Origin, is_absent};
pub use error::ClientError;
pub use exchange::{Client, Limits, Starter};
pub use inbox::Inbox;
pub use partial::known_conflicts;
pub use quick::{QuickCall, QuickReply, accepts, quick_announce, quick_check, quick_held, quick_reserve};
pub use stream::Heard;
