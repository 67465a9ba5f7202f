//! What the test binaries and the benches share: a scratch directory with repositories and a server ([`world`]), an
//! HTTP client ([`http`]), a Git LFS client ([`lfs`]), an MCP client ([`mcp`]), programs and waits that have a limit ([`process`]), tokens ([`mint`]) and repeatable random
//! numbers ([`dice`]).
//!
//! Each of them includes this with `#[path]`, so it may add methods of its own to [`World`](world::World).
#![allow(dead_code, reason = "each test binary and bench uses a part of it")]

pub mod dice;
pub mod document;
pub mod http;
pub mod lfs;
pub mod mcp;
pub mod mint;
pub mod process;
pub mod server;
pub mod session;
pub mod world;
