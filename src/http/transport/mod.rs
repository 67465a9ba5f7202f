//! Sockets and connections: limits of time and number, and how a connection is closed.

pub mod client_watch;
pub mod connection;
pub mod connections;
pub mod envelope;
pub mod lingering_close;
pub mod pipelined;
pub mod progress;
pub mod read_timeout;
pub mod server;
pub mod tls;
pub mod unread;
pub mod write_timeout;
