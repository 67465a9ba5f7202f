//! Session files: how a process whose environment has lost `DIBS_TOKEN` still finds its session.
//!
//! Some agents remove variables with TOKEN, KEY or SECRET in their names from the shells they start. `git-dibs run`
//! therefore also exports `DIBS_RUN`, a random handle. The SHA-256 of the handle names a file with mode 0600 under the
//! common git directory, and that file has the token. An agent's own session variable leads to a file in the same way;
//! that value is hashed with the agent's name and never shown. In the shell of an agent without such a variable, the
//! agent's process above leads to it.
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

use super::agent_process::agent_process;
use super::discover::ServerAccess;
use super::environment::Environment;
use super::identity::OwnToken;
use super::process::ProcessIdentity;
use super::{data_dir, notices, server};
use crate::client::{Client, ClientError, Credential, Endpoint, Limits, Origin, joined};
use crate::git::Repo;
use crate::text::hex;
use crate::wire::{Code, EndSession, EndState};

/// The variable with the handle that `git-dibs run` gives to its command.
pub const RUN_VARIABLE: &str = "DIBS_RUN";

/// Agents that name their session in a variable of their shells. Our plugin for opencode sets its variable.
const AGENTS: [(&str, &str); 6] = [
    ("claude", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "CODEX_SESSION_ID"),
    ("copilot", "COPILOT_AGENT_SESSION_ID"),
    ("qwen", "QWEN_CODE_SESSION_ID"),
    ("gemini", "GEMINI_SESSION_ID"),
    ("opencode", "DIBS_OPENCODE_SESSION"),
];

/// Variables in the shells of agents that do not name their session there. Their processes lead to it.
const WITHOUT_VARIABLE: [&str; 2] = ["GEMINI_CLI", "CURSOR_AGENT"];

/// Under the common directory: the session files.
pub(super) const DIRECTORY: &str = "dibs/runs";

/// The random bytes of a handle.
const HANDLE_BYTES: usize = 32;

/// The largest session file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 32 * 1024;

/// The most session files that one command examines for abandoned sessions.
pub(super) const EXAMINED_MAX: usize = 256;

/// A file without content is removed after this time. Until then the command that created it may be about to write it.
const EMPTY_AGE_MAX: Duration = Duration::from_secs(60);

/// What a session file has in it, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    token: String,
    /// The session, if the token is a worker's, which does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The address of the server that the token is for, or those of a cluster with commas; none for the repository's local
    /// server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// A file with certificate authorities for that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// The process that the session ends with; none if it does not end with a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<ProcessIdentity>,
}

impl Content {
    /// The content for a session of this server.
    pub(super) fn new(access: &ServerAccess, credential: &Credential, owner: Option<ProcessIdentity>) -> Content {
        let url = (!access.is_local && !access.endpoints.is_empty()).then(|| joined(&access.endpoints));
        let (token, session) = (credential.token().to_owned(), credential.chosen_session.clone());
        Content { token, session, url, ca_file: access.ca_file.clone(), owner }
    }

    pub(super) fn owner(&self) -> Option<ProcessIdentity> {
        self.owner
    }

    pub(super) fn is_token(&self, token: &str) -> bool {
        self.token == token
    }

    pub(super) fn credential(&self, from: Origin) -> Result<Credential, &'static str> {
        let credential = Credential::new(&self.token, from)?;
        match &self.session {
            Some(session) if credential.is_worker => Ok(credential.acting_for(session)),
            _ => Ok(credential),
        }
    }
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
        data_dir::make_private(&repo.common_dir.join(DIRECTORY))?;
        let path = path_of(&repo.common_dir, &handle);
        let owner = ProcessIdentity::of(std::process::id());
        let content = serde_json::to_vec(&Content::new(access, credential, owner))?;
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

/// What leads to a session file: text that only the processes of the session know.
#[derive(Clone, PartialEq, Eq)]
pub struct Handle {
    text: String,
    /// What messages call it.
    label: &'static str,
}

impl Handle {
    /// The handle of an agent's session, from the agent's own id for it.
    pub fn of_agent(agent: &str, id: &str) -> Handle {
        let label = AGENTS.iter().find(|(name, _)| *name == agent).map_or("this agent", |(_, variable)| variable);
        Handle { text: format!("{agent}:{id}"), label }
    }

    /// The handle of a process: those below it find its session although no variable leads there.
    pub fn of_process(process: ProcessIdentity) -> Handle {
        let started = process.started.unwrap_or_default();
        Handle { text: format!("process:{}:{started}", process.pid), label: "the agent's process" }
    }

    /// The name of the file that the handle leads to.
    pub fn file_name(&self) -> String {
        file_name(&self.text)
    }

    pub(super) fn origin(&self) -> Origin {
        Origin::SessionFile(self.label)
    }

    /// The handles of the agent that started this program, for a session that is opened for it. Its shells have the same
    /// variable, or are below its process. If an agent was started by another agent, there are two variables, and neither
    /// is used: the session of one must not become that of the other.
    pub fn of_parent_agent(environment: &Environment) -> Vec<Handle> {
        let mut handles: Vec<Handle> = Handle::of_variables(environment).take(2).collect();
        if handles.len() > 1 {
            return Vec::new();
        }
        handles.extend(agent_process().map(Handle::of_process));
        handles
    }

    fn of_variables(environment: &Environment) -> impl Iterator<Item = Handle> {
        let value = |variable: &str| environment.text(variable).filter(|value| !value.trim().is_empty());
        AGENTS.iter().filter_map(move |(agent, variable)| Some(Handle::of_agent(agent, &value(variable)?)))
    }

    fn in_environment(environment: &Environment) -> impl Iterator<Item = Handle> {
        let run = environment.text(RUN_VARIABLE).filter(|value| !value.trim().is_empty());
        let run = run.map(|text| Handle { text, label: RUN_VARIABLE });
        // Only where such an agent runs: a look at the processes above takes time.
        let in_agent = WITHOUT_VARIABLE.iter().any(|variable| environment.get(variable).is_some());
        let processes = in_agent.then(ProcessIdentity::ancestors).into_iter().flatten();
        run.into_iter()
            .chain(Handle::of_variables(environment))
            .chain(processes.map(|(process, _)| Handle::of_process(process)))
    }
}

/// The token that `DIBS_RUN`, an agent's variable, or else one of `handles` leads to; none if there is no such file in
/// this repository.
pub(super) fn find(common_dir: &Path, environment: &Environment, handles: &[Handle]) -> Option<OwnToken> {
    Handle::in_environment(environment).chain(handles.iter().cloned()).find_map(|handle| {
        let from = handle.origin();
        match read(&path_of(common_dir, &handle.text)) {
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
        let Some(mut client) = client(&repo.common_dir, &content, credential) else { continue };
        match client.end(&session, &EndSession { state: Some(EndState::Failed) }) {
            Ok(_) => ended.push(session.clone()),
            // The session ended in another way.
            Err(ClientError::Refused { body, .. }) if is_dead(body.code) => {}
            // The next command tries again. This one must not wait for a server that does not answer more than once.
            Err(_) => break,
        }
        let _ = fs::remove_file(&path);
        // No command of this session is left to show them.
        notices::take(&repo.common_dir, &session);
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
            (!owner.is_running()).then_some((content, file))
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

pub(super) fn client(common_dir: &Path, content: &Content, credential: Credential) -> Option<Client> {
    let endpoints = match &content.url {
        Some(url) => url.split(',').map(Endpoint::parse).collect::<Result<_, _>>().ok()?,
        None => server::local_endpoints(common_dir),
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
pub(super) fn read(path: &Path) -> Result<Option<Content>, String> {
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

/// Where the session file of a handle is.
fn path_of(common_dir: &Path, handle: &str) -> PathBuf {
    common_dir.join(DIRECTORY).join(file_name(handle))
}

fn file_name(handle: &str) -> String {
    hex::encode(digest::digest(&digest::SHA256, handle.as_bytes()).as_ref())
}
