//! The session that works in a worktree: its token file, and whether the command that wrote the file still runs.
//!
//! A command under `git-dibs run` holds a file lock beside the token while it runs. If the command is killed, the lock is
//! gone and the token stays; the next command in the worktree then ends the abandoned session.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::data_dir;
use super::discover::ServerAccess;
use super::identity::TOKEN_FILE;
use crate::client::{Client, Credential, Limits, Origin};
use crate::git::Repo;
use crate::wire::{EndSession, EndState, SessionState};

/// The lock of a command that runs in the worktree's session. Dropping it releases the lock.
pub struct WorktreeLock(#[expect(dead_code, reason = "the lock is held while the file is open")] File);

/// The state of the session whose token is in the worktree.
pub enum WorktreeSession {
    /// There is no token, or its session has ended.
    None,
    /// A living session works here.
    Active(String),
    /// The command that ran in this session was killed. The session has been ended now.
    Abandoned(String),
}

/// Finds the session that works in this worktree, and ends it if it was abandoned.
pub fn current_session(repo: &Repo, access: &ServerAccess, client: &mut Client) -> WorktreeSession {
    let Some(credential) = token(repo) else { return WorktreeSession::None };
    let Some(session) = credential.session.clone() else { return WorktreeSession::None };
    if is_abandoned(repo) {
        let Ok(mut client) = access.client_as(Some(credential), Limits::default()) else {
            return WorktreeSession::None;
        };
        let ended = client.end(&session, &EndSession { state: Some(EndState::Failed) });
        forget(repo, &session);
        return if ended.is_ok() { WorktreeSession::Abandoned(session) } else { WorktreeSession::None };
    }
    match client.session(&session) {
        Ok(info) if info.state == SessionState::Active => WorktreeSession::Active(session),
        _ => WorktreeSession::None,
    }
}

/// Writes a session's token into the worktree's file.
pub fn keep(repo: &Repo, credential: &Credential) -> Result<()> {
    let file = repo.git_dir.join(TOKEN_FILE);
    data_dir::make_private(file.parent().unwrap_or(&repo.git_dir))?;
    let _ = fs::remove_file(lock_file(repo));
    data_dir::write_private(&file, format!("{}\n", credential.token()).as_bytes())
}

/// Writes a session's token into the worktree's file while a command runs. When the lock is dropped, the session counts
/// as abandoned.
pub fn occupy(repo: &Repo, credential: &Credential) -> Result<WorktreeLock> {
    keep(repo, credential)?;
    let file = lock_file(repo);
    let lock = File::create(&file).with_context(|| format!("cannot create {}", file.display()))?;
    lock.try_lock().with_context(|| format!("cannot lock {}", file.display()))?;
    Ok(WorktreeLock(lock))
}

/// Removes the worktree's token file if it belongs to this session.
pub fn forget(repo: &Repo, session: &str) {
    if token(repo).and_then(|credential| credential.session).as_deref() == Some(session) {
        // A file that cannot be removed holds an invalid token, and the next session replaces it.
        let _ = fs::remove_file(repo.git_dir.join(TOKEN_FILE));
        let _ = fs::remove_file(lock_file(repo));
    }
}

fn token(repo: &Repo) -> Option<Credential> {
    let file = repo.git_dir.join(TOKEN_FILE);
    let text = fs::read_to_string(&file).ok()?;
    Credential::new(&text, Origin::Worktree(file)).ok()
}

/// Whether the command that wrote the token no longer runs. A session that was started by hand has no lock file.
fn is_abandoned(repo: &Repo) -> bool {
    let Ok(lock) = File::open(lock_file(repo)) else { return false };
    !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock | TryLockError::Error(_)))
}

fn lock_file(repo: &Repo) -> PathBuf {
    repo.git_dir.join(TOKEN_FILE).with_extension("lock")
}
