//! The hooks of coding agents: real git, a real server, real processes that are killed, and the recorded input of agents.

mod edits;
mod fake;
mod lifetime;
mod shapes;
mod shell;
