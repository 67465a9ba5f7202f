//! The commands: a file for each, with its arguments and its work.

pub mod check;
pub mod completions;
pub mod hooks;
pub mod install_commands;
pub mod log;
pub mod man;
pub mod release;
pub mod reserve;
pub mod rlock;
pub mod run;
pub mod session;
pub mod status;
pub mod unlock;
pub mod who;
