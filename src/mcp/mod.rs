//! MCP over stdin and stdout: `git dibs mcp`, one process for one client.
//!
//! What the messages and tools mean is in [`tools`](crate::tools); here they are read, and each tool call is made over
//! HTTP as the session that `session` finds. A call has a thread of its own, so that a `wait` stops no other call, and
//! a cancelled `wait` leaves the server's queue. What the connection reserved is kept alive while the agent works. Nothing in here prints: the messages go to the writer that is passed in.

mod calls;
mod connection;
mod keep_alive;
mod lines;
mod session;

pub use connection::{Connection, ServeError};
