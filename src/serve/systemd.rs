//! The two protocols of service managers such as systemd: sockets they open for us (`sd_listen_fds`), and telling them the
//! server's state (`sd_notify`).

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Result, bail};

/// The state "accepts connections".
pub const READY: &str = "READY=1";

/// The state "is shutting down".
pub const STOPPING: &str = "STOPPING=1";

/// The file descriptor of the first inherited socket.
const FIRST_FD: RawFd = 3;

/// The sockets the service manager opened for this process. Call it once, before anything else opens a file. Processes
/// started later do not inherit these sockets.
pub fn inherited_sockets() -> Result<Vec<OwnedFd>> {
    let variable = |name: &str| std::env::var(name).ok();
    if variable("LISTEN_PID") != Some(std::process::id().to_string()) {
        return Ok(Vec::new());
    }
    let count: RawFd = match variable("LISTEN_FDS").as_deref().map(str::parse) {
        Some(Ok(count @ 0..=64)) => count,
        _ => bail!("LISTEN_FDS must be the number of inherited sockets, from 0 to 64"),
    };
    (FIRST_FD..FIRST_FD + count).map(inherit).collect()
}

fn inherit(fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: this only sets a flag of the descriptor; if the number is not an open file, the call fails.
    let is_open = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    if !is_open {
        bail!("LISTEN_FDS says that file descriptor {fd} is a socket, and it is not open");
    }
    // SAFETY: it is open, and by the protocol this process owns it; no other code here knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Tells the service manager the server's state, if there is one that listens.
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
        tracing::warn!(%error, "could not send {state} to the service manager (NOTIFY_SOCKET)");
    }
}
