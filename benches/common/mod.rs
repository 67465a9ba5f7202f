//! What the benches share: tables, clocks, a load generator, keys and commands, servers.
#![allow(dead_code, reason = "each bench uses a part of it")]

pub mod clock;
pub mod commands;
pub mod http;
pub mod inside;
pub mod lines;
pub mod load;
pub mod place;
pub mod processes;
pub mod ready;
pub mod table;

#[path = "../../tests/support/mod.rs"]
pub mod support;
