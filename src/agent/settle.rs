//! Releases paths that are committed and clean again, so that an agent that waits for its user blocks no one.
//!
//! `dibs.agentRelease` says when: `commit` (the default) as soon as HEAD has another version than when the path was reserved
//! and nothing is left to commit; `push` when the upstream branch has that version too; `session` only with the session.
//! A commit replaces the index file, so nothing is read while that file is the same. The hook after a shell command, the
//! hook before the next edit and the keeper look at it; the keeper also notices commits from another terminal.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::reserve::release;
use super::state::{HeldInWorktree, HeldPaths, SessionState, decoded, index_stamp};
use crate::client::Client;
use crate::git::{self, GitError, Oid, Repo, Settings};
use crate::text::percent;

/// The most paths that one call of git gets.
const PATHS_PER_CALL: usize = 500;

/// When a path that was reserved by a hook is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReleaseAt {
    Commit,
    Push,
    Session,
}

impl ReleaseAt {
    fn read(settings: &Settings) -> ReleaseAt {
        match settings.get("agentRelease").map(str::to_ascii_lowercase).as_deref() {
            Some("push") => ReleaseAt::Push,
            Some("session") => ReleaseAt::Session,
            _ => ReleaseAt::Commit,
        }
    }
}

/// Releases what is committed and clean, of what hooks of this session reserved, except for the paths in `keep`.
pub fn settle(state: &SessionState, session: &str, keep: &[git::Path], client: impl FnOnce() -> Option<Client>) {
    let held = state.held();
    let mut client = Some(client);
    let mut open_client = None;
    for (name, worktree) in &held.0 {
        let Some(git_dir) = directory(name) else { continue };
        let stamp = index_stamp(&git_dir);
        if stamp == worktree.index && !worktree.is_unpushed {
            continue;
        }
        // If git cannot tell, the next look tries again.
        let Ok(Finished { paths: mut done, committed, is_unpushed }) = finished(worktree) else { continue };
        done.retain(|path| !keep.contains(path));
        let free: Vec<git::Path> = done.iter().filter(|path| !held.is_elsewhere(name, path)).cloned().collect();
        if !free.is_empty() {
            let Some(client) = open_client.get_or_insert_with(|| client.take().and_then(|open| open())) else { return };
            if release(client, session, &free).is_err() {
                return;
            }
        }
        state.change_held(|held| {
            if let Some(worktree) = held.0.get_mut(name) {
                worktree.index = stamp;
                worktree.is_unpushed = is_unpushed;
                for path in committed.iter().filter(|path| !keep.contains(path)) {
                    worktree.paths.entry(percent::encode(path)).and_modify(|held| held.is_committed = true);
                }
            }
            held.remove(&git_dir, &done);
        });
    }
}

impl HeldPaths {
    /// Whether the path is also edited in another worktree.
    fn is_elsewhere(&self, name: &str, path: &git::Path) -> bool {
        let path = percent::encode(path);
        self.0.iter().any(|(other, worktree)| other != name && worktree.paths.contains_key(&path))
    }
}

/// What of a worktree the session is finished with.
#[derive(Default)]
struct Finished {
    paths: Vec<git::Path>,
    /// The paths that were committed; some of them have changed again.
    committed: Vec<git::Path>,
    /// More paths will be when they are pushed, which does not change the index file.
    is_unpushed: bool,
}

fn finished(worktree: &HeldInWorktree) -> Result<Finished, GitError> {
    let top = directory(&worktree.top).unwrap_or_default();
    if !top.is_dir() {
        let all = worktree.paths.keys().filter_map(|name| decoded(name));
        return Ok(Finished { paths: all.collect(), ..Finished::default() });
    }
    let repo = Repo::at(&top)?;
    let release_at = ReleaseAt::read(&Settings::of(&repo)?);
    let Some(head) = repo.head()?.filter(|_| release_at != ReleaseAt::Session) else { return Ok(Finished::default()) };
    let content = |commit: &Oid, path: &git::Path| -> Result<Option<String>, GitError> {
        Ok(repo.entry(commit, path)?.map(|entry| entry.oid.to_string()))
    };
    let mut committed = Vec::new();
    for (name, held) in &worktree.paths {
        let Some(path) = decoded(name) else { continue };
        let now = content(&head, &path)?;
        if held.is_committed || now != held.base {
            committed.push((path, now));
        }
    }
    let paths: Vec<git::Path> = committed.iter().map(|(path, _)| path.clone()).collect();
    let dirty = dirty(&repo, &paths)?;
    committed.retain(|(path, _)| !dirty.contains(path));
    let mut finished = Finished { committed: paths, ..Finished::default() };
    let upstream = match release_at {
        ReleaseAt::Push if !committed.is_empty() => repo.commit("@{upstream}")?,
        _ => None,
    };
    for (path, now) in committed {
        let is_pushed = match &upstream {
            Some(upstream) => content(upstream, &path)? == now,
            None => release_at == ReleaseAt::Commit,
        };
        match is_pushed {
            true => finished.paths.push(path),
            false => finished.is_unpushed = true,
        }
    }
    Ok(finished)
}

/// Those of the paths that differ from HEAD, in the index or in the work tree.
fn dirty(repo: &Repo, paths: &[git::Path]) -> Result<BTreeSet<git::Path>, GitError> {
    let mut dirty = BTreeSet::new();
    for some in paths.chunks(PATHS_PER_CALL) {
        dirty.extend(git::status_of(repo, some)?.into_iter().map(|entry| entry.path));
    }
    Ok(dirty)
}

fn directory(name: &str) -> Option<PathBuf> {
    decoded(name).map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
}
