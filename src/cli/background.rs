//! A server in the background, from both sides: the command that starts it, and the process that leaves its starter.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::local::autostart::spawn::{self, Spawned};
use crate::local::{ServerRecord, autostart, data_dir};

/// The flag that a user gives, and the one that the process in the background gets in its place.
const ASKED: &str = "--background";
const DETACHED: &str = "--detached";

/// How long to wait until the server is ready. Reading a large journal takes a second.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// The server after a command to start it.
pub enum Started {
    /// The command has started it.
    New(ServerRecord),
    /// It ran already, or another command was faster.
    Running(ServerRecord),
}

/// Starts this command line again in the background, and waits until the server is ready. `common_dir` is that of the
/// repository to serve, if it is the one around the current directory.
pub fn start(common_dir: Option<&Path>) -> Result<Started> {
    if let Some(record) = common_dir.and_then(autostart::running) {
        return Ok(Started::Running(record));
    }
    let deadline = Instant::now() + START_TIME_MAX;
    let mut command = Command::new(std::env::current_exe().context("this program is not found")?);
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--json");
    command.args(args.map(|arg| if arg == ASKED { DETACHED.into() } else { arg })).arg("--json");
    match spawn::start(command, deadline).context("the server cannot be started")? {
        Spawned::Ready(record) => Ok(Started::New(*record)),
        // Another command may have started one at the same time: it has the repository then.
        Spawned::Ended(why) => match common_dir.and_then(|dir| autostart::running_until(dir, deadline)) {
            Some(record) => Ok(Started::Running(record)),
            None => bail!(why),
        },
        Spawned::Late => bail!("the server is not ready after {} s; it goes on starting", START_TIME_MAX.as_secs()),
    }
}

/// In the new process, before anything else: closes every file that it inherited, except the three usual ones. A caller of
/// the starter may wait until all copies of such a file are closed.
pub fn close_inherited_files() {
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok();
    let open: Vec<RawFd> = entries.filter_map(number).filter(|fd| *fd > libc::STDERR_FILENO).collect();
    for fd in open {
        // SAFETY: nothing was opened yet, so no other code owns a file of this number. The one of the list above is
        // closed already, and closing it again does nothing.
        unsafe { libc::close(fd) };
    }
}

/// The server is ready: lets go of the starter's pipe and directory. What is still printed goes to the log.
pub fn leave_starter(data: &Path) -> io::Result<()> {
    let log = OpenOptions::new().append(true).create(true).open(data_dir::log(data))?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    replace(libc::STDOUT_FILENO, &nothing)?;
    replace(libc::STDERR_FILENO, &log)?;
    std::env::set_current_dir("/")
}

fn replace(fd: RawFd, file: &File) -> io::Result<()> {
    // SAFETY: both are open files; the number stays one of the three usual ones.
    match unsafe { libc::dup2(file.as_raw_fd(), fd) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
