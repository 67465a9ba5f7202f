//! The commands: a file for each, with its arguments and its work.

pub mod approve;
pub mod check;
pub mod completions;
pub mod doctor;
pub mod hook;
pub mod install;
pub mod install_commands;
pub mod log;
pub mod man;
pub mod reject;
pub mod release;
pub mod renew;
pub mod request;
pub mod requests;
pub mod reserve;
pub mod rlock;
pub mod run;
pub mod session;
pub mod status;
pub mod uninstall;
pub mod wait;
pub mod who;
pub mod withdraw;
