//! The session that a worktree is bound to. Its token is in a file of the worktree, which `git-dibs session start` writes
//! and nothing else.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::data_dir;
use super::discover::ServerAccess;
use super::identity::TOKEN_FILE;
use super::session::CreateError;
use crate::client::{Credential, Limits, Origin};
use crate::git::Repo;
use crate::wire::{Code, SessionState};

/// Only one command at a time changes what a worktree is bound to. Dropping it lets the next one go on.
pub struct BindingLock(#[expect(dead_code, reason = "the lock is held while the file is open")] File);

/// Waits until no other command changes what the worktree is bound to.
pub fn lock_binding(repo: &Repo) -> Result<BindingLock> {
    let path = token_file(repo).with_extension("lock");
    data_dir::make_private(&repo.git_dir.join("dibs"))?;
    let lock = File::create(&path).and_then(|file| file.lock().map(|()| file));
    Ok(BindingLock(lock.with_context(|| format!("cannot lock {}", path.display()))?))
}

/// The session that the worktree is bound to, if the session is active and the worktree's token is valid.
pub fn active_session(repo: &Repo, access: &ServerAccess) -> Result<Option<String>, CreateError> {
    let Ok(Some(own)) = Credential::read(&token_file(repo), Origin::Worktree(token_file(repo))) else {
        return Ok(None);
    };
    let Some(session) = own.session.clone() else { return Ok(None) };
    if access.destination.refusal(&own).is_some() {
        return Ok(None);
    }
    // As a reader first: a call with the session's own token is a sign of life, and must not bring a lost session back.
    for credential in access.reader().into_iter().chain([own]) {
        let is_own = credential.session.as_deref() == Some(&*session);
        let client = access.client_as(Some(credential), Limits::default())?;
        let reply = client.with_inbox(access.inbox.clone()).session(&session);
        match reply {
            Ok(info) if info.state == SessionState::Active => {}
            Ok(_) => return Ok(None),
            Err(error) => match error.code() {
                Some(Code::NotFound) => return Ok(None),
                Some(Code::Unauthenticated | Code::Forbidden | Code::SessionEnded) if is_own => return Ok(None),
                Some(Code::Unauthenticated | Code::Forbidden | Code::SessionEnded) => {}
                _ => return Err(error.into()),
            },
        }
    }
    Ok(Some(session))
}

/// Binds the worktree to a session.
pub fn bind(repo: &Repo, credential: &Credential) -> Result<()> {
    data_dir::make_private(&repo.git_dir.join("dibs"))?;
    data_dir::write_private(&token_file(repo), credential.file_text().as_bytes())
}

/// Removes the binding if it is to this session.
pub fn unbind(repo: &Repo, session: &str) {
    let bound = Credential::read(&token_file(repo), Origin::Worktree(token_file(repo)));
    if bound.ok().flatten().and_then(|credential| credential.session).as_deref() == Some(session) {
        // A file that cannot be removed holds an invalid token, and the next session replaces it.
        let _ = fs::remove_file(token_file(repo));
    }
}

fn token_file(repo: &Repo) -> PathBuf {
    repo.git_dir.join(TOKEN_FILE)
}
