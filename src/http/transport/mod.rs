//! Sockets and connections: accepting, limits on time, stopping.

pub mod read_timeout;
pub mod server;
pub mod tls;
pub mod unread;
pub mod write_timeout;
