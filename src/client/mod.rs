//! Talking to a server: for the command line, the hooks and whatever else stands outside of it.
//!
//! Nothing in here decides or prints anything, and nothing looks at a repository. [`Client`] asks, with a limit on everything
//! (time to connect, time in all, size of the answer), and every way it can fail is a [`ClientError`] that reads as
//! a sentence. Calls block: behind them is a runtime without threads. [`check_briefly`] does without any for the one
//! call that every commit waits for.

mod address;
mod brief;
mod calls;
mod credential;
mod error;
mod exchange;
#[cfg(test)]
mod tests;

pub use address::Endpoint;
pub use brief::{Asking, Brief, check_briefly};
pub use calls::{Held, Past};
pub use credential::{Credential, Origin, is_absent};
pub use error::ClientError;
pub use exchange::{Client, Limits};
