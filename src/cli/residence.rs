//! Who works in this worktree: the token file of its session, and whether a command that wrote it still runs.
//!
//! A command under `git-dibs run` holds a lock beside the token as long as it lives. When it is killed the lock is gone
//! with it and the token stays, and whoever comes next ends the session that was left behind.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::here::Here;
use super::opening::Opened;
use super::talk;
use crate::client::{Credential, Limits, Origin};
use crate::git::Repo;
use crate::hook::text::clean;
use crate::local::{TOKEN_FILE, data_dir};
use crate::wire::{EndSession, EndState, SessionState};

/// Held for as long as the command runs whose session is in the token file.
pub struct Occupied(#[expect(dead_code, reason = "the lock is held while the file is open")] File);

/// The session that works in this worktree, if it is alive. One that was left behind is ended first.
pub fn resident(here: &mut Here) -> Option<String> {
    let repo = here.repo.clone()?;
    let credential = keeper(&repo)?;
    let session = credential.session.clone()?;
    if is_abandoned(&repo) {
        let client = here.client_as(Some(credential), Limits::default());
        let ended = client.ok()?.end(&session, &EndSession { state: Some(EndState::Failed) });
        forget(&repo, &session);
        if ended.is_ok() {
            let id = clean(&session, 200);
            talk::say(&format!("session {id} was left behind by a command that was killed, and has been ended"));
        }
        return None;
    }
    here.client.session(&session).is_ok_and(|info| info.state == SessionState::Active).then_some(session)
}

/// Writes the session's token into the worktree's file and says where that is; nothing where there is no repository.
pub fn keep(here: &Here, opened: &Opened) -> Result<Option<PathBuf>> {
    let Some(repo) = &here.repo else { return Ok(None) };
    let file = repo.git_dir.join(TOKEN_FILE);
    data_dir::make_private(file.parent().unwrap_or(&repo.git_dir))?;
    let _ = fs::remove_file(lock_file(repo));
    data_dir::write_private(&file, format!("{}\n", opened.credential.token()).as_bytes())?;
    Ok(Some(file))
}

/// The same for a command that runs in the session; the token counts as left behind once that is gone.
pub fn occupy(here: &Here, opened: &Opened) -> Result<Option<Occupied>> {
    let Some(repo) = &here.repo else { return Ok(None) };
    keep(here, opened)?;
    let file = lock_file(repo);
    let lock = File::create(&file).with_context(|| format!("cannot make {}", file.display()))?;
    lock.try_lock().with_context(|| format!("cannot lock {}", file.display()))?;
    Ok(Some(Occupied(lock)))
}

/// Removes the worktree's token file, if it is this session's.
pub fn forget(repo: &Repo, session: &str) {
    if keeper(repo).and_then(|credential| credential.session).as_deref() == Some(session) {
        // What stays behind is a dead token, and the next session replaces it.
        let _ = fs::remove_file(repo.git_dir.join(TOKEN_FILE));
        let _ = fs::remove_file(lock_file(repo));
    }
}

/// Whose token the worktree's file holds.
fn keeper(repo: &Repo) -> Option<Credential> {
    let file = repo.git_dir.join(TOKEN_FILE);
    let text = fs::read_to_string(&file).ok()?;
    Credential::new(&text, Origin::Worktree(file)).ok()
}

/// Whether the token was written by a command that is gone. One that was started by hand belongs to no command.
fn is_abandoned(repo: &Repo) -> bool {
    let Ok(lock) = File::open(lock_file(repo)) else { return false };
    !matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock | TryLockError::Error(_)))
}

fn lock_file(repo: &Repo) -> PathBuf {
    repo.git_dir.join(TOKEN_FILE).with_extension("lock")
}
