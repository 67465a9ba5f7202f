//! Starts the repository's server if none runs, so that a command or a hook finds one.
//!
//! `refusal.rs` says where none is started, `spawn.rs` starts a process that outlives its starter. Only one starter at a
//! time tries: the others wait for it and use the server that it started.

mod refusal;
pub mod spawn;
mod stop;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use super::discover::Lookup;
use super::environment::Environment;
use super::process::ProcessIdentity;
use super::server::{self, ServerRecord};
use super::{data_dir, server_lock};
use crate::client::{Endpoint, Starter, accepts};
use crate::text::terminal::clean;
use refusal::Refusal;
use spawn::Spawned;
pub use stop::stop;

/// How long a command waits until the server that it started is ready.
const START_TIME_MAX: Duration = Duration::from_secs(15);

/// The same for a hook, which a commit waits for.
const HOOK_START_TIME_MAX: Duration = Duration::from_secs(5);

/// How long hooks do not try again after a start failed: a rebase runs many of them.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(15);

/// How often to look whether another process has finished.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest reason that is repeated, in characters.
const WHY_CHARS_MAX: usize = 500;

/// Why there is no server now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// `dibs.autostart` or `DIBS_AUTOSTART` says that none is started.
    Off,
    /// A reason that completes the sentence "none was started: …".
    Because(String),
}

/// How the server of one repository is started. Made without looking at anything; see [`Autostart::start`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autostart {
    common_dir: PathBuf,
    /// The value of `dibs.autostart`.
    setting: Option<String>,
    /// The value of `dibs.idleTimeout`.
    idle_timeout: Option<String>,
    /// Whether a hook asks: it waits for a shorter time, and does not try again at once.
    for_check: bool,
}

impl Autostart {
    /// None outside of a repository, and if the caller must not start a server.
    pub(super) fn of(lookup: &Lookup<'_>) -> Option<Autostart> {
        Some(Autostart {
            common_dir: lookup.common_dir.filter(|_| lookup.may_start)?.to_owned(),
            setting: lookup.setting("autostart").map(str::to_owned),
            idle_timeout: lookup.setting("idleTimeout").map(str::to_owned),
            for_check: lookup.is_check,
        })
    }

    /// Returns when a server for the repository accepts connections: one that runs, one that another process is starting,
    /// or a new one.
    pub fn start(&self) -> Result<(), StartError> {
        let dibs_dir = self.common_dir.join("dibs");
        if let Some(refusal) = refusal::find(&self.common_dir, self.setting.as_deref(), &Environment::of_process()) {
            return Err(match refusal {
                Refusal::Off => StartError::Off,
                Refusal::Because(why) => StartError::Because(why),
            });
        }
        let failure = dibs_dir.join("start-failed");
        if let Some(why) = self.recent_failure(&failure) {
            return Err(StartError::Because(why));
        }
        let limit = if self.for_check { HOOK_START_TIME_MAX } else { START_TIME_MAX };
        match self.start_until(&dibs_dir, Instant::now() + limit) {
            Ok(()) => {
                let _ = std::fs::remove_file(failure);
                Ok(())
            }
            Err(why) => {
                let why = clean(&why, WHY_CHARS_MAX);
                // If it cannot be written, the next hook tries again.
                let _ = data_dir::write_private(&failure, why.as_bytes());
                Err(StartError::Because(why))
            }
        }
    }

    /// For a client, which uses it when no server answers.
    pub(super) fn into_starter(self) -> Starter {
        Box::new(move || match self.start() {
            Ok(()) => Ok(self.endpoints()),
            Err(StartError::Off) => Err(None),
            Err(StartError::Because(why)) => Err(Some(why)),
        })
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        server::local_endpoints(&self.common_dir)
    }

    /// Why a start failed a moment ago, for a hook.
    fn recent_failure(&self, file: &Path) -> Option<String> {
        let written = std::fs::metadata(file).ok().filter(|_| self.for_check)?.modified().ok()?;
        // A time in the future, after the clock was set back, counts as long ago.
        let age = SystemTime::now().duration_since(written).ok()?;
        std::fs::read_to_string(file).ok().filter(|_| age < FAILURE_REMEMBERED)
    }

    fn start_until(&self, dibs_dir: &Path, deadline: Instant) -> Result<(), String> {
        let unwritable = |error: &dyn std::fmt::Display| format!("{} cannot be written ({error})", dibs_dir.display());
        data_dir::make_private(dibs_dir).map_err(|error| unwritable(&error.root_cause()))?;
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).to_owned();
        let turn = options.open(dibs_dir.join("start.lock")).map_err(|error| unwritable(&error))?;
        wait_for_turn(&turn, deadline)?;
        if self.is_running_until(deadline)? {
            return Ok(());
        }
        match spawn::start(self.command()?, deadline) {
            Ok(Spawned::Ready(_)) => Ok(()),
            // A server that was started by hand at the same time may have the repository.
            Ok(Spawned::Ended(why)) => match self.is_running_until(deadline) {
                Ok(true) => Ok(()),
                _ => Err(why),
            },
            Ok(Spawned::Late) => Err(late("the server that was started is not ready")),
            Err(error) => Err(format!("the program cannot be started in the background ({error})")),
        }
    }

    /// Waits while a server has the repository and does not answer: it is starting or stopping.
    fn is_running_until(&self, deadline: Instant) -> Result<bool, String> {
        loop {
            let answers = || self.endpoints().iter().any(|endpoint| accepts(&endpoint.address));
            match server_lock::is_served(&self.common_dir) {
                Some(false) => return Ok(false),
                None => return Ok(answers()),
                Some(true) if answers() => return Ok(true),
                Some(true) if Instant::now() > deadline => {
                    return Err(late("another server has the repository and does not answer"));
                }
                Some(true) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// The server's process: the same program, in the git directory that all worktrees share, with the settings of a
    /// server and nothing else from the environment of a hook.
    fn command(&self) -> Result<Command, String> {
        let program = std::env::current_exe().map_err(|error| format!("this program is not found ({error})"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--detached", "--json"]).current_dir(&self.common_dir).env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| spawn::is_for_server(name)));
        if let Some(seconds) = &self.idle_timeout {
            command.args(["--idle-timeout", seconds]);
        }
        Ok(command)
    }
}

fn late(what: &str) -> String {
    format!("{what} after the longest time that a command waits for it")
}

/// Waits until no other process is starting a server.
fn wait_for_turn(turn: &File, deadline: Instant) -> Result<(), String> {
    loop {
        match turn.try_lock() {
            Ok(()) => return Ok(()),
            // A file system without locks: the repository's own lock still lets only one server run.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(format!("the lock for starting a server failed ({error})")),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(late("another process has been starting a server and is not done"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

/// The record of the server that runs for the repository; none if none runs.
pub fn running(common_dir: &Path) -> Option<ServerRecord> {
    let record = ServerRecord::read(&common_dir.join(server::SERVER_FILE))?;
    (server_lock::is_served(common_dir) != Some(false)).then_some(record)
}

/// The same; where a server has the repository and is not ready yet, waits for it.
pub fn running_until(common_dir: &Path, deadline: Instant) -> Option<ServerRecord> {
    loop {
        let record = running(common_dir).filter(|record| ProcessIdentity::of(record.pid).is_some());
        let answers = || server::local_endpoints(common_dir).iter().any(|endpoint| accepts(&endpoint.address));
        match (record, server_lock::is_served(common_dir)) {
            (Some(record), _) if answers() => return Some(record),
            (_, Some(true)) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            _ => return None,
        }
    }
}
