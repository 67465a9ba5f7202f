//! Coding agents: which there are, what their models are told, how they are set up.
//!
//! Nothing in here prints, and nothing in here decides whether a change may go ahead.

mod name;
pub mod preamble;
pub mod setup;

pub use name::{Agent, UnknownAgent};
