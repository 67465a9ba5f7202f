//! The session file of an agent's session, which the agent's first hook writes and its last hook removes.
//!
//! It is found through a hash of the agent's own id for the session: by the later hooks of the agent, which are told the
//! id, and by git hooks and commands in the agent's shell, where a variable has it. A subagent with an id of its own has a
//! file of its own with the same token. The file names the agent's process, so that a session whose agent and keeper were
//! killed is ended by the next command that it is in the way of.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::agent_process::agent_process;
use super::data_dir;
use super::discover::ServerAccess;
use super::process::ProcessIdentity;
use super::session_file::{Content, DIRECTORY, EXAMINED_MAX, Handle, client, read};
use crate::client::{Client, Credential};

/// The longest time that a hook waits for another one that is opening a session.
const OPENING_MAX: Duration = Duration::from_secs(2);

/// Writes the file that a handle leads to. Returns whether it is this call's: another hook may have been faster.
pub fn create(
    common_dir: &Path,
    handle: &Handle,
    access: &ServerAccess,
    credential: &Credential,
    owner: Option<ProcessIdentity>,
) -> Result<bool> {
    write_new(common_dir, handle, &Content::new(access, credential, owner))
}

/// Makes these handles lead to a session that ends with this process: that of an MCP server, which an agent started.
pub fn lead_to_own(common_dir: &Path, handles: &[Handle], access: &ServerAccess, credential: &Credential) {
    let owner = ProcessIdentity::of(std::process::id());
    let is_kept = |handle: &Handle| match read(&path_of(common_dir, handle)) {
        Ok(Some(content)) => content.owner().is_some_and(|owner| owner.is_running()),
        _ => false,
    };
    // Another process of the agent may have a session too; its file stays.
    for handle in handles.iter().filter(|handle| !is_kept(handle)) {
        remove_handle(common_dir, handle);
        // If it cannot be written, git hooks in the agent's shell have no session.
        let _ = create(common_dir, handle, access, credential, owner);
    }
}

/// The session of an agent's process that a process below it opened and ends: an MCP server's own.
pub fn session_of_child(common_dir: &Path, process: ProcessIdentity) -> Option<String> {
    let handle = Handle::of_process(process);
    let content = read(&path_of(common_dir, &handle)).ok()??;
    content.owner().filter(|owner| *owner != process && owner.is_running())?;
    content.credential(handle.origin()).ok()?.session
}

/// The handle of the agent that started this program, if the agent's hooks opened a session. The session of another MCP
/// server below the same process is not meant: a program may start one for each of its agents.
pub fn of_hooks(common_dir: &Path) -> Option<Handle> {
    let process = agent_process()?;
    let handle = Handle::of_process(process);
    let content = read(&path_of(common_dir, &handle)).ok()??;
    (content.owner() == Some(process)).then_some(handle)
}

/// Makes another handle lead to the same session, for a subagent. One that leads somewhere stays as it is.
pub fn add_handle(common_dir: &Path, of: &Handle, handle: &Handle) -> Result<()> {
    match read(&path_of(common_dir, of)) {
        Ok(Some(content)) => write_new(common_dir, handle, &content).map(drop),
        Ok(None) => Ok(()),
        Err(why) => anyhow::bail!("the session file {why}"),
    }
}

/// Whether a handle leads to the session of this token.
pub fn leads_to(common_dir: &Path, handle: &Handle, token: &str) -> bool {
    matches!(read(&path_of(common_dir, handle)), Ok(Some(content)) if content.is_token(token))
}

/// Removes the file of a handle that leads to no session any more.
pub fn remove_handle(common_dir: &Path, handle: &Handle) {
    let _ = fs::remove_file(path_of(common_dir, handle));
}

/// Removes every file that leads to the session of this token.
pub fn remove(common_dir: &Path, token: &str) {
    let entries = fs::read_dir(common_dir.join(DIRECTORY)).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).take(EXAMINED_MAX) {
        if matches!(read(&path), Ok(Some(content)) if content.is_token(token)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// A session whose process runs.
pub struct LivingSession {
    pub id: String,
    pub process: ProcessIdentity,
}

/// The sessions whose processes run, except that of this token.
pub fn others(common_dir: &Path, token: &str) -> Vec<LivingSession> {
    let entries = fs::read_dir(common_dir.join(DIRECTORY)).into_iter().flatten().flatten();
    let living = |path: PathBuf| {
        let content = read(&path).ok()??;
        let process = content.owner().filter(ProcessIdentity::is_running)?;
        let credential = content.credential(Handle::of_agent("", "").origin()).ok()?;
        (!content.is_token(token)).then_some(LivingSession { id: credential.session?, process })
    };
    entries.map(|entry| entry.path()).take(EXAMINED_MAX).filter_map(living).collect()
}

/// Lets one hook at a time open a session, for as long as the result lives. Without a lock, or if another hook takes
/// longer than `OPENING_MAX`, two hooks may open two sessions, of which one ends at once.
pub fn lock_opening(common_dir: &Path) -> Option<File> {
    let dir = common_dir.join(DIRECTORY);
    data_dir::make_private(&dir).ok()?;
    let lock = File::open(dir).ok()?;
    let deadline = Instant::now() + OPENING_MAX;
    while let Err(TryLockError::WouldBlock) = lock.try_lock() {
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(lock)
}

/// An agent's session, as its keeper needs it.
pub struct KeptSession {
    pub credential: Credential,
    pub session: String,
    /// The agent's process.
    pub owner: ProcessIdentity,
    content: Content,
    path: PathBuf,
}

impl KeptSession {
    /// The session in the file of this name; none if it names no process.
    pub fn read(common_dir: &Path, file_name: &str) -> Option<KeptSession> {
        let path = common_dir.join(DIRECTORY).join(file_name);
        let content = read(&path).ok()??;
        let credential = content.credential(Handle::of_agent("", "").origin()).ok()?;
        let (session, owner) = (credential.session.clone()?, content.owner()?);
        Some(KeptSession { credential, session, owner, content, path })
    }

    /// A client for the session's server, wherever it listens now.
    pub fn client(&self, common_dir: &Path) -> Option<Client> {
        client(common_dir, &self.content, self.credential.clone())
    }

    /// Whether the session's file is still there. The agent's last hook removes it.
    pub fn is_open(&self) -> bool {
        matches!(read(&self.path), Ok(Some(content)) if content.is_token(self.credential.token()))
    }
}

/// Writes a file with its content at once; false if there is one already.
fn write_new(common_dir: &Path, handle: &Handle, content: &Content) -> Result<bool> {
    data_dir::make_private(&common_dir.join(DIRECTORY))?;
    let path = path_of(common_dir, handle);
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let write = || -> std::io::Result<bool> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        match fs::hard_link(&new, &path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    };
    let written = write();
    let _ = fs::remove_file(&new);
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn path_of(common_dir: &Path, handle: &Handle) -> PathBuf {
    common_dir.join(DIRECTORY).join(handle.file_name())
}
