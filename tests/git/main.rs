//! Real git against the git and hook rooms: which paths each operation is judged by, and what installing does.
//!
//! The hooks that run are the real shims, started by git itself. The program behind them is this test binary: see
//! [`world::as_a_hook`].

mod install;
mod moments;
mod names;
mod server;
mod situations;
mod verdicts;
mod world;
