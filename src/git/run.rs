//! Running the `git` program: raw bytes in and out, no prompt, no lock on the index.
//!
//! The program is used for everything that must work in every kind of repository, because it alone reads all
//! formats (sha256, reftable, split and sparse indexes, promisor remotes).

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The variables that tie a process to one repository, as `git rev-parse --local-env-vars` lists them.
///
/// They are removed from calls for another repository: a leaked `GIT_DIR` or `GIT_INDEX_FILE` would make git write into the
/// wrong one.
pub const LOCAL_VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REFERENCE_BACKEND",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Variables that change how git reads paths on its command line. Our calls write them in one way only.
const PATHSPEC_VARIABLES: [&str; 4] =
    ["GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"];

/// Why a call of the git program failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git program, or it could not be started.
    #[error("git could not be started ({0}); is it installed and on PATH?")]
    NotStarted(std::io::Error),
    /// It exited with a failure.
    #[error("git {call} failed: {said}")]
    Failed {
        call: String,
        /// The exit code; none if a signal killed it.
        code: Option<i32>,
        /// The first lines of its stderr.
        said: String,
    },
    /// It did not finish in time.
    #[error("git {call} did not finish within {} ms", limit.as_millis())]
    TooSlow { call: String, limit: Duration },
    /// Its output is not as documented.
    #[error("git {call} printed something unexpected: {what}")]
    Odd { call: String, what: String },
}

/// A call of the git program that is being prepared.
#[derive(Debug)]
pub struct Git {
    command: Command,
    input: Vec<u8>,
    call: String,
}

impl Git {
    /// A call in the environment of this process, as hooks need it: with the same index and the same quarantine.
    pub fn here() -> Git {
        Git::in_environment(Command::new("git"))
    }

    /// A call for the repository at `dir`, whatever repository this process was started in.
    pub fn elsewhere(dir: &Path) -> Git {
        let mut command = Command::new("git");
        command.current_dir(dir);
        for name in LOCAL_VARIABLES {
            command.env_remove(name);
        }
        // Git ignores the numbered pairs without GIT_CONFIG_COUNT, which was removed.
        Git::in_environment(command)
    }

    fn in_environment(mut command: Command) -> Git {
        command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        // Checks the real objects, not their local replacements.
        command.env("GIT_NO_REPLACE_OBJECTS", "1");
        for name in PATHSPEC_VARIABLES {
            command.env_remove(name);
        }
        Git { command, input: Vec::new(), call: String::new() }
    }

    /// Adds an argument. The first one that is not an option names the call in messages.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Git {
        let arg = arg.as_ref();
        if self.call.is_empty() && !arg.as_encoded_bytes().starts_with(b"-") {
            self.call = arg.to_string_lossy().into_owned();
        }
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Git {
        args.into_iter().fold(self, Git::arg)
    }

    /// Settings for this call only, like `git -c`. Call it before the subcommand is added.
    pub fn with(mut self, settings: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Git {
        for setting in settings {
            self.command.arg("-c").arg(setting);
        }
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Git {
        self.command.env(name, value);
        self
    }

    /// The program's stdin; empty by default.
    pub fn input(mut self, bytes: Vec<u8>) -> Git {
        self.input = bytes;
        self
    }

    /// Starts it without waiting, so that two calls can run at the same time.
    pub fn start(mut self) -> Result<Running, GitError> {
        let stdin = if self.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(GitError::NotStarted)?;
        if let Some(mut pipe) = child.stdin.take() {
            let input = self.input;
            // In a thread, because git may write before it has read everything. If git stops reading, it says why on
            // stderr, so a broken pipe is not an error of its own.
            std::thread::spawn(move || pipe.write_all(&input));
        }
        Ok(Running { child, call: self.call })
    }

    /// Runs it and returns its stdout.
    pub fn output(self) -> Result<Vec<u8>, GitError> {
        self.start()?.output()
    }

    /// Runs it and returns its stdout; `None` if it exited with 1, which many subcommands use for "no".
    pub fn answer(self) -> Result<Option<Vec<u8>>, GitError> {
        self.start()?.answer()
    }

    /// Runs it, but kills it after `limit`.
    pub fn output_within(self, limit: Duration) -> Result<Vec<u8>, GitError> {
        let Running { child, call } = self.start()?;
        let (done, finished) = mpsc::channel();
        let pid = child.id();
        std::thread::spawn(move || done.send(child.wait_with_output()));
        match finished.recv_timeout(limit) {
            Ok(output) => wrote(&call, output.map_err(GitError::NotStarted)?),
            Err(_) => {
                // SAFETY: kill takes plain numbers. The thread above has not reaped the child, or it would have sent.
                unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
                Err(GitError::TooSlow { call, limit })
            }
        }
    }

    /// Runs it and returns stdout, stderr and exit status, also if it failed.
    pub fn everything(self) -> Result<Output, GitError> {
        let running = self.start()?;
        running.child.wait_with_output().map_err(GitError::NotStarted)
    }
}

/// A running call.
#[derive(Debug)]
pub struct Running {
    child: Child,
    call: String,
}

impl Running {
    /// Waits for it and returns its stdout.
    pub fn output(self) -> Result<Vec<u8>, GitError> {
        let output = self.child.wait_with_output().map_err(GitError::NotStarted)?;
        wrote(&self.call, output)
    }

    /// Reads at most so many bytes of its stdout. If there are more, it is killed.
    pub fn output_up_to(mut self, bytes_max: usize) -> Result<Vec<u8>, GitError> {
        let mut stdout = Vec::new();
        if let Some(pipe) = self.child.stdout.take() {
            pipe.take(bytes_max as u64).read_to_end(&mut stdout).map_err(GitError::NotStarted)?;
        }
        if stdout.len() == bytes_max {
            let _ = self.child.kill();
            let _ = self.child.wait();
            return Ok(stdout);
        }
        let rest = self.child.wait_with_output().map_err(GitError::NotStarted)?;
        wrote(&self.call, Output { stdout, ..rest })
    }

    /// Waits for it and returns its stdout; `None` if it exited with 1.
    pub fn answer(self) -> Result<Option<Vec<u8>>, GitError> {
        let output = self.child.wait_with_output().map_err(GitError::NotStarted)?;
        if output.status.code() == Some(1) {
            return Ok(None);
        }
        wrote(&self.call, output).map(Some)
    }
}

fn wrote(call: &str, output: Output) -> Result<Vec<u8>, GitError> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(GitError::Failed {
        call: call.to_owned(),
        code: output.status.code(),
        said: said(&output.stderr, output.status),
    })
}

/// The first lines of an error text; a whole usage page would be too much for a hook's message.
fn said(stderr: &[u8], status: ExitStatus) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
    if lines.is_empty() { status.to_string() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_git_calls_local_is_scrubbed() {
        let listed = Git::here().args(["rev-parse", "--local-env-vars"]).output().unwrap();
        let listed = String::from_utf8(listed).unwrap();
        assert!(listed.lines().count() > 5, "{listed}");
        for name in listed.lines() {
            assert!(LOCAL_VARIABLES.contains(&name), "{name} would leak into another repository");
        }
    }

    #[test]
    fn a_failure_is_a_sentence_with_what_git_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = Git::elsewhere(dir.path()).args(["rev-parse", "--git-dir"]).output().unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("git rev-parse failed: fatal: not a git repository"), "{text}");
    }

    #[test]
    fn a_call_with_a_limit_does_not_outlive_it() {
        let dir = tempfile::tempdir().unwrap();
        let slow = Git::elsewhere(dir.path()).with(["alias.nap=!exec sleep 30"]).arg("nap");
        let error = slow.output_within(Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "git nap did not finish within 50 ms");
    }

    #[test]
    fn input_larger_than_a_pipe_arrives_whole() {
        let dir = tempfile::tempdir().unwrap();
        let body = vec![b'x'; 1 << 20];
        let oid = Git::elsewhere(dir.path()).args(["hash-object", "--stdin"]).input(body).output().unwrap();
        assert_eq!(oid.len(), 41);
    }
}
