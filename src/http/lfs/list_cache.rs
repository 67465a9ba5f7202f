//! The lists of locks that were made last, one for each repository. A list is used until there is another record, or, if a
//! pattern is held, another commit at HEAD.

use std::sync::{Arc, Mutex, PoisonError};

use super::files::{FileList, TrackedFiles};
use super::lock_list::{HeldPaths, LockList};
use crate::engine::{Actor, Engine, Seq, Text};
use crate::http::app::Repository;
use crate::http::background::without_blocking;
use crate::http::error::ApiResult;
use crate::http::submit::read_state;

/// About the most memory that the lists of all repositories take, in bytes. The ones that were used last are kept.
const LISTS_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The reservations that one visit of the desk reads.
const HELD_AT_ONCE: usize = 4096;

/// The kept lists of all repositories.
#[derive(Default)]
pub struct LockLists {
    /// The one that was used last comes last.
    kept: Mutex<Vec<Kept>>,
}

#[derive(Clone)]
struct Kept {
    repo: Text,
    list: Arc<LockList>,
    /// The files of the commit that the list was expanded at. They stay the same while what is held changes.
    files: Option<Arc<FileList>>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.list.bytes() + self.files.as_ref().map_or(0, |files| files.bytes())
    }
}

impl LockLists {
    /// The locks of a repository as they are now.
    pub async fn current(&self, repo: &Repository) -> ApiResult<Arc<LockList>> {
        let head = repo.desk.feed().head();
        if let Some(kept) = self.kept(&repo.name)
            && is_current(&kept.list, repo, head).await
        {
            return Ok(kept.list);
        }
        // One request makes the list. Those that came before it was made wait for it, and use it.
        let _turn = repo.lock_list_turn.lock().await;
        let before = self.kept(&repo.name);
        if let Some(kept) = &before
            && is_current(&kept.list, repo, head).await
        {
            return Ok(kept.list.clone());
        }
        let (head, held) = read_held(repo).await?;
        let known_files = before.and_then(|kept| kept.files);
        let kept = without_blocking(true, || {
            let files = if held.patterns.is_empty() { None } else { files_of_head(repo, known_files) };
            let list = Arc::new(LockList::build(head, &held, files.as_deref()));
            Kept { repo: repo.name.clone(), list, files }
        })
        .await;
        let list = kept.list.clone();
        self.keep(kept);
        Ok(list)
    }

    fn kept(&self, repo: &Text) -> Option<Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|kept| kept.repo == *repo)?;
        let found = kept.remove(place);
        kept.push(found.clone());
        Some(found)
    }

    fn keep(&self, new: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.repo != new.repo);
        kept.push(new);
        while kept.iter().map(Kept::bytes).sum::<usize>() > LISTS_BYTES_MAX {
            kept.remove(0);
        }
    }
}

/// Whether a list has everything up to this record, and the files of HEAD.
async fn is_current(list: &LockList, repo: &Repository, head: Seq) -> bool {
    list.head >= head
        && match &list.commit {
            None => true,
            Some(commit) => without_blocking(true, || head_of(repo) == *commit).await,
        }
}

/// Everything that is held, and the record after which it was. The desk decides other requests in between. A change of
/// those may be in the list or not; the next request sees a later record, and makes a new list.
async fn read_held(repo: &Repository) -> ApiResult<(Seq, HeldPaths)> {
    let (mut head, mut held, mut after) = (None, HeldPaths::default(), Seq(0));
    loop {
        let read =
            move |engine: &Engine, _| (engine.head(), engine.scan_reservations(after, None, HELD_AT_ONCE, |_| true));
        let (seen, scan) = read_state(&repo.desk, Actor::Reader, read).await?.value;
        let head = *head.get_or_insert(seen);
        let last = scan.found.last().map(|(_, grant)| grant.fence);
        held.add(scan.found);
        match scan.next.or(last.filter(|_| scan.has_more)) {
            Some(next) => after = next,
            None => return Ok((head, held)),
        }
    }
}

/// The files of HEAD: those that are known, if HEAD has not moved. None where they cannot be read, or where there is no
/// commit yet.
fn files_of_head(repo: &Repository, known: Option<Arc<FileList>>) -> Option<Arc<FileList>> {
    let commit = head_of(repo)?;
    if let Some(known) = known.filter(|known| *known.commit() == commit) {
        return Some(known);
    }
    let rules = repo.policy().rules.clone();
    let source = repo.tracked_files.as_deref()?;
    logged(repo, FileList::read(source, commit, &rules)).map(Arc::new)
}

fn head_of(repo: &Repository) -> Option<Text> {
    logged(repo, repo.tracked_files.as_deref().map_or(Ok(None), TrackedFiles::head)).flatten()
}

fn logged<T>(repo: &Repository, result: Result<T, String>) -> Option<T> {
    let warn = |why: &String| {
        tracing::warn!(
            repo = &*repo.name,
            "Git LFS clients see no files of patterns, because HEAD cannot be read: {why}"
        );
    };
    result.inspect_err(warn).ok()
}
