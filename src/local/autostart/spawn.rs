//! A server in a process of its own, which outlives its starter: no terminal, no parent, no inherited files, a session and
//! a process group of its own. A caller that waits until a pipe of ours is closed does not wait for the server.
//!
//! The starter keeps a pipe to it until it is ready. The server writes its record there, or why it cannot start.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::local::server::ServerRecord;

/// The most that is read of what a server says before it is ready, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Variables that a server gets from the environment of its starter, besides `LC_*` and its own settings.
const PASSED: [&str; 9] =
    ["HOME", "LANG", "LLVM_PROFILE_FILE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "XDG_CONFIG_HOME"];

/// Variables that say who a client is and where it calls. A server must not keep a session's token.
const OF_CLIENTS: [&str; 4] = ["DIBS_RUN", "DIBS_SESSION", "DIBS_TOKEN", "DIBS_URL"];

/// How a start went.
#[derive(Debug)]
pub enum Spawned {
    /// It accepts connections. This is the line it wrote.
    Ready(Box<ServerRecord>),
    /// It ended, and said why.
    Ended(String),
    /// It is not ready yet. It goes on starting.
    Late,
}

/// Whether a server that is started by itself gets this variable.
pub fn is_for_server(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_setting = name.starts_with("DIBS_") && !OF_CLIENTS.contains(&name);
    PASSED.contains(&name) || name.starts_with("LC_") || is_setting
}

/// Starts a server and waits until it is ready.
pub fn start(mut command: Command, deadline: Instant) -> io::Result<Spawned> {
    let (mut reader, writer) = io::pipe()?;
    for name in OF_CLIENTS {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    // SAFETY: between fork and exec only functions that are safe there are called.
    unsafe { command.pre_exec(leave_parent) };
    let mut child = command.spawn()?;
    // Closes our copies of the writing end.
    drop(command);
    // The process in between has ended; the server is its child, and no child of ours.
    child.wait()?;
    wait_until_ready(&mut reader, deadline)
}

/// In the new process: leaves the terminal and the process group, and goes on in a child of its own, with no signal blocked.
/// `git-dibs run` blocks those that it forwards, and a server that inherits that could not be stopped.
fn leave_parent() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: plain system calls that are safe between fork and exec, with a pointer to a live set, which sigemptyset fills.
    // `_exit` runs no exit handlers.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        if libc::setsid() == -1 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(()),
            _ => libc::_exit(0),
        }
    }
}

fn wait_until_ready(reader: &mut PipeReader, deadline: Instant) -> io::Result<Spawned> {
    let mut text = Vec::new();
    while text.len() < TEXT_BYTES_MAX {
        if !is_readable(reader, deadline)? {
            return Ok(Spawned::Late);
        }
        let mut piece = [0; 4096];
        let count = reader.read(&mut piece)?;
        text.extend_from_slice(&piece[..count]);
        let record = |line: &[u8]| serde_json::from_slice(line).ok();
        let complete = text.iter().rposition(|&b| b == b'\n').map_or(&[][..], |end| &text[..end]);
        if let Some(record) = complete.split(|&b| b == b'\n').find_map(record) {
            return Ok(Spawned::Ready(Box::new(record)));
        }
        if count == 0 {
            break;
        }
    }
    let text = String::from_utf8_lossy(&text);
    let sentence = text.lines().map(|line| line.trim_start_matches("git-dibs: ")).collect::<Vec<_>>().join("; ");
    Ok(Spawned::Ended(if sentence.is_empty() { "the server ended at once".to_owned() } else { sentence }))
}

/// Waits until there is something to read, or the end of it; false if the time is over first.
fn is_readable(reader: &PipeReader, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let millis = libc::c_int::try_from(left.as_millis()).unwrap_or(libc::c_int::MAX);
        let mut waiting = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live value, and its number.
        match unsafe { libc::poll(&raw mut waiting, 1, millis) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            0 if left.is_zero() => return Ok(false),
            0 => {}
            _ => return Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(script: &str, time: Duration) -> Spawned {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        start(command, Instant::now() + time).unwrap()
    }

    #[test]
    fn a_start_is_ready_ended_or_late() {
        let minute = Duration::from_secs(60);
        let record = r#"{"pid": 7, "startedAt": "2026-01-01T00:00:00Z"}"#;
        let ready = run(&format!("echo note; echo '{record}'; exec sleep 60 >/dev/null 2>&1"), minute);
        assert!(matches!(ready, Spawned::Ready(record) if record.pid == 7));
        let ended = run("echo 'git-dibs: no room' >&2; exit 1", minute);
        assert!(matches!(ended, Spawned::Ended(why) if why == "no room"));
        assert!(matches!(run("exit 0", minute), Spawned::Ended(why) if why == "the server ended at once"));
        assert!(matches!(run("exec sleep 60", Duration::ZERO), Spawned::Late));
        assert!(start(Command::new("/nowhere/program"), Instant::now()).is_err());
    }

    #[test]
    fn a_started_process_has_a_session_of_its_own_and_no_parent_here() {
        let script = r#"set -- $(cat /proc/$$/stat | sed 's/.*) //'); echo "$2 $3 $4 $$" >&2; echo >&2"#;
        let Spawned::Ended(text) = run(script, Duration::from_secs(60)) else { panic!() };
        let words: Vec<&str> = text.split([' ', ';']).collect();
        let [parent, group, session, own, ..] = words[..] else { panic!("{text}") };
        assert_ne!(parent, std::process::id().to_string());
        assert_eq!(group, session);
        assert_ne!(own, session, "it can get no terminal");
    }

    #[test]
    fn a_server_gets_its_settings_and_no_token() {
        for name in ["HOME", "PATH", "LC_ALL", "DIBS_LISTEN", "DIBS_JWT_SECRET", "DIBS_IDLE_TIMEOUT"] {
            assert!(is_for_server(OsStr::new(name)), "{name}");
        }
        for name in ["DIBS_TOKEN", "DIBS_RUN", "GIT_DIR", "GIT_INDEX_FILE", "CLAUDE_CODE_SESSION_ID", "PWD"] {
            assert!(!is_for_server(OsStr::new(name)), "{name}");
        }
    }
}
