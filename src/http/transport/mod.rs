//! Sockets and connections: accepting, limits on time, stopping.

pub mod connections;
pub mod read_timeout;
pub mod server;
pub mod tls;
pub mod write_timeout;
