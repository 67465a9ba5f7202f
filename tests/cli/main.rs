//! The commands as users run them: the real program, a real server, real repositories.

#[path = "../support/mod.rs"]
mod support;

mod autostart;
mod clients;
mod documented;
mod files;
mod help;
mod history;
mod init;
mod mcp;
mod notices;
mod packages;
mod ports;
mod preamble;
mod rlock;
mod run;
mod sessions;
mod setup;
mod trouble;
mod unlock;
mod watch;
mod world;
