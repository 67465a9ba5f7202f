//! Stops the repository's server.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{PAUSE, running};
use crate::local::process::ProcessIdentity;
use crate::local::server::ServerRecord;

/// How long to wait until the server has ended. It ends itself by force after 11 s.
const STOP_TIME_MAX: Duration = Duration::from_secs(15);

/// Stops the server and waits until it has ended. Returns its record; none if no server runs. The error is a sentence.
pub fn stop(common_dir: &Path) -> Result<Option<ServerRecord>, String> {
    let Some(record) = running(common_dir) else { return Ok(None) };
    let pid = record.pid;
    let process = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 1);
    let process =
        process.ok_or_else(|| format!("the server's record names process {pid}, which is none of a server"))?;
    let server = ProcessIdentity::of(pid);
    // SAFETY: takes plain numbers. The server has the repository's lock and wrote the record, so the process is its own.
    if unsafe { libc::kill(process, libc::SIGTERM) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!("cannot stop the server, process {pid} ({error})"));
    }
    let deadline = Instant::now() + STOP_TIME_MAX;
    // The process, not its lock: a server that is ending has given up the lock already, and another server that was started
    // at the same time may have it by now.
    while server.is_some_and(|server| server.is_running()) {
        if Instant::now() > deadline {
            return Err(format!("the server, process {pid}, did not end within {} s", STOP_TIME_MAX.as_secs()));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(Some(record))
}
