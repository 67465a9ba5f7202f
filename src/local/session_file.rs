//! Session files: how a process whose environment has lost `DIBS_TOKEN` still finds its session.
//!
//! Some agents remove variables with TOKEN, KEY or SECRET in their names from the shells they start. `git-dibs run`
//! therefore also exports `DIBS_RUN`, a random handle. The SHA-256 of the handle names a file with mode 0600 under the
//! common git directory, and that file has the token. An agent's own session variable leads to a file in the same way;
//! that value is hashed with the agent's name and never shown.
//!
//! While `git-dibs run` lives it holds a lock on its file, and the file names its process. If it is killed, the file stays
//! behind; [`end_abandoned`] then ends the session and removes the file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};

use super::discover::ServerAccess;
use super::environment::Environment;
use super::identity::OwnToken;
use super::process::start_of;
use super::{data_dir, notices, server};
use crate::client::{Client, ClientError, Credential, Endpoint, Limits, Origin};
use crate::git::Repo;
use crate::text::hex;
use crate::wire::{Code, EndSession, EndState};

/// The variable with the handle that `git-dibs run` gives to its command.
pub const RUN_VARIABLE: &str = "DIBS_RUN";

/// Agents that name their session in a variable.
const AGENTS: [(&str, &str); 4] = [
    ("claude", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "CODEX_SESSION_ID"),
    ("copilot", "COPILOT_AGENT_SESSION_ID"),
    ("qwen", "QWEN_CODE_SESSION_ID"),
];

/// Under the common directory: the session files.
const DIRECTORY: &str = "dibs/runs";

/// The random bytes of a handle.
const HANDLE_BYTES: usize = 32;

/// The largest session file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 32 * 1024;

/// The most session files that one command examines for abandoned sessions.
const EXAMINED_MAX: usize = 256;

/// A file without content is removed after this time. Until then the command that created it may be about to write it.
const EMPTY_AGE_MAX: Duration = Duration::from_secs(60);

/// What a session file has in it, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    token: String,
    /// The session, if the token is a worker's, which does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The address of the server that the token is for; none for the repository's local server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// A file with certificate authorities for that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// The process that the session ends with; none if it does not end with a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
}

impl Content {
    fn credential(&self, from: Origin) -> Result<Credential, &'static str> {
        let credential = Credential::new(&self.token, from)?;
        match &self.session {
            Some(session) if credential.is_worker => Ok(credential.acting_for(session)),
            _ => Ok(credential),
        }
    }
}

/// A process. A process id alone would also fit a later process.
#[derive(Serialize, Deserialize)]
struct Owner {
    pid: u32,
    /// When it started, in the kernel's clock ticks since boot; none where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<u64>,
}

/// The session file of a running `git-dibs run`.
pub struct RunFile {
    /// The value of `DIBS_RUN`.
    pub handle: String,
    path: PathBuf,
    /// The lock is held while the file is open.
    _lock: File,
}

impl RunFile {
    /// Writes the file of a session that ends with this process.
    pub fn create(repo: &Repo, access: &ServerAccess, credential: &Credential) -> Result<RunFile> {
        let mut random = [0; HANDLE_BYTES];
        aws_lc_rs::rand::fill(&mut random).ok().context("the system has no random numbers")?;
        let handle = hex::encode(&random);
        let dir = repo.common_dir.join(DIRECTORY);
        data_dir::make_private(&dir)?;
        let path = dir.join(file_name(&handle));
        let url = (!access.is_local).then(|| access.endpoints.first().map(ToString::to_string)).flatten();
        let pid = std::process::id();
        let owner = Some(Owner { pid, started: start_of(pid).flatten() });
        let (token, session) = (credential.token().to_owned(), credential.chosen_session.clone());
        let ca_file = access.ca_file.clone();
        let content = serde_json::to_vec(&Content { token, session, url, ca_file, owner })?;
        let write = || -> std::io::Result<File> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            // Locked before it has content: a file with content and without a lock counts as abandoned. A file system
            // without locks leaves the process id to decide.
            let _ = file.try_lock();
            file.write_all(&content)?;
            Ok(file)
        };
        let lock = write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(RunFile { handle, path, _lock: lock })
    }

    /// Removes the file, because the session has ended.
    pub fn remove(self) {
        // A file that cannot be removed is found by the next command.
        let _ = fs::remove_file(&self.path);
    }
}

/// The token that `DIBS_RUN` or an agent's variable leads to; none if there is no such file in this repository.
pub(super) fn find(common_dir: &Path, environment: &Environment) -> Option<OwnToken> {
    let handle = |variable: &str| environment.text(variable).filter(|value| !value.trim().is_empty());
    let run = handle(RUN_VARIABLE).map(|value| (RUN_VARIABLE, value));
    let agents =
        AGENTS.iter().filter_map(|(agent, variable)| Some((*variable, format!("{agent}:{}", handle(variable)?))));
    run.into_iter().chain(agents).find_map(|(variable, handle)| {
        let from = Origin::SessionFile(variable);
        match read(&common_dir.join(DIRECTORY).join(file_name(&handle))) {
            Ok(None) => None,
            Ok(Some(content)) => match content.credential(from.clone()) {
                Ok(credential) => Some(OwnToken::Found { credential, url: content.url }),
                Err(why) => Some(OwnToken::Unusable { from, why: why.to_owned() }),
            },
            Err(why) => Some(OwnToken::Unusable { from, why }),
        }
    })
}

/// Ends the sessions of `git-dibs run` processes that were killed, and removes their files. Returns the sessions.
pub fn end_abandoned(repo: &Repo) -> Vec<String> {
    let Ok(entries) = fs::read_dir(repo.common_dir.join(DIRECTORY)) else { return Vec::new() };
    let mut ended = Vec::new();
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    for entry in entries.flatten().filter(is_file).take(EXAMINED_MAX) {
        let path = entry.path();
        let Some((content, _lock)) = abandoned(&path) else { continue };
        let Ok(credential) = content.credential(Origin::SessionFile(RUN_VARIABLE)) else { continue };
        let Some(session) = credential.session.clone() else { continue };
        let Some(mut client) = client(repo, &content, credential) else { continue };
        match client.end(&session, &EndSession { state: Some(EndState::Failed) }) {
            Ok(_) => ended.push(session.clone()),
            // The session ended in another way.
            Err(ClientError::Refused { body, .. }) if is_dead(body.code) => {}
            // The next command tries again. This one must not wait for a server that does not answer more than once.
            Err(_) => break,
        }
        let _ = fs::remove_file(&path);
        // No command of this session is left to show them.
        notices::take(repo, &session);
    }
    ended
}

/// Whether the refusal means that the token will never be accepted again.
fn is_dead(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::Forbidden | Code::SessionEnded | Code::NotFound)
}

/// The content of the file, if the process that it names no longer runs. The lock keeps other commands from ending the
/// same session.
fn abandoned(path: &Path) -> Option<(Content, File)> {
    let file = open(path).ok()?;
    match file.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => {}
        Err(TryLockError::WouldBlock) => return None,
    }
    match read(path) {
        Ok(Some(content)) => {
            let owner = content.owner.as_ref()?;
            (!is_running(owner)).then_some((content, file))
        }
        Ok(None) => None,
        Err(_) => {
            let age = file.metadata().ok()?.modified().ok()?.elapsed().ok()?;
            if age > EMPTY_AGE_MAX {
                let _ = fs::remove_file(path);
            }
            None
        }
    }
}

fn client(repo: &Repo, content: &Content, credential: Credential) -> Option<Client> {
    let endpoints = match &content.url {
        Some(url) => vec![Endpoint::parse(url).ok()?],
        None => server::local_endpoints(&repo.common_dir),
    };
    if endpoints.is_empty() {
        return None;
    }
    let client = Client::new(endpoints, Some(credential), Limits::default()).ok()?;
    Some(client.trusting(content.ca_file.clone()))
}

/// Opens a session file. A link or a pipe in its place is not followed and not waited for.
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Reads a session file; none if there is none. The error completes a sentence that starts with the token's origin.
fn read(path: &Path) -> Result<Option<Content>, String> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if crate::client::is_absent(&error) => return Ok(None),
        Err(error) => return Err(format!("cannot be read ({error})")),
    };
    let about = file.metadata().map_err(|error| format!("cannot be read ({error})"))?;
    if !data_dir::is_own(&about) || about.mode() & 0o077 != 0 {
        return Err("is in a file that is not private to you".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| format!("cannot be read ({error})"))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|_| "is in a file that is not a session file".to_owned())
}

fn file_name(handle: &str) -> String {
    hex::encode(digest::digest(&digest::SHA256, handle.as_bytes()).as_ref())
}

fn is_running(owner: &Owner) -> bool {
    match (start_of(owner.pid), owner.started) {
        (Some(Some(now)), Some(then)) => now == then,
        (found, _) => found.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_id_and_its_start() {
        let pid = std::process::id();
        let started = start_of(pid).expect("this process runs");
        assert!(is_running(&Owner { pid, started }));
        assert!(is_running(&Owner { pid, started: None }));
        if let Some(ticks) = started {
            assert!(!is_running(&Owner { pid, started: Some(ticks + 1) }), "another process had this id before");
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!is_running(&Owner { pid: child.id(), started: Some(1) }));
    }
}
