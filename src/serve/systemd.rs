//! Tells a service manager how the server is doing, where one wants to know (`sd_notify`).

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// It listens, and answers.
pub const READY: &str = "READY=1";

/// It is going down.
pub const STOPPING: &str = "STOPPING=1";

/// Says so. A manager that does not listen misses nothing it could use.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(&name),
        _ => return,
    };
    let send = || -> std::io::Result<usize> { UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address?) };
    if let Err(error) = send() {
        tracing::warn!(%error, "could not tell the service manager: {state}");
    }
}
