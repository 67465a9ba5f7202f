//! Reads a ledger back: commits from the latest to the first, their events, and what their trees say is held.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository};

use super::holdings::{Holding, Holdings};
use super::message::LedgerEvent;
use super::store::{self, BRANCH, Commit, SHARED};
use super::tree_path::{self, EVENTS};
use super::{LedgerError, OWN};
use crate::engine::Seq;
use crate::key::Key;

/// A ledger that is open for reading, also while another process writes it.
pub struct LedgerReader {
    path: PathBuf,
    repo: Repository,
}

impl LedgerReader {
    pub fn open(path: &Path) -> Result<LedgerReader, LedgerError> {
        Ok(LedgerReader { repo: store::open(path)?, path: path.to_owned() })
    }

    /// The latest commit of the ledger that is written here, otherwise of one that was fetched.
    pub fn tip(&self) -> Result<Option<Commit>, LedgerError> {
        match store::tip(&self.repo, &self.path, BRANCH)? {
            Some(tip) => Ok(Some(tip)),
            None => store::tip(&self.repo, &self.path, SHARED),
        }
    }

    pub fn commit(&self, id: Oid) -> Result<Commit, LedgerError> {
        store::commit(&self.repo, &self.path, id)
    }

    /// The commit before this one. None for the first, and where the year before was deleted.
    pub fn before(&self, commit: &Commit) -> Result<Option<Commit>, LedgerError> {
        match commit.before {
            Some(id) if commit.trailers.previous != Some(id) || self.repo.find_commit(id).is_ok() => {
                self.commit(id).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The events of a commit, oldest first.
    pub fn events(&self, commit: &Commit) -> Result<Vec<LedgerEvent>, LedgerError> {
        events(&self.repo, &self.path, commit)
    }

    /// What was held at the time of a commit.
    pub fn holdings(&self, commit: &Commit) -> Result<Holdings, LedgerError> {
        holdings(&self.repo, &self.path, commit.tree)
    }

    /// Where a key is in the latest tree, or would be if it were held.
    pub fn path_in_tree(&self, key: &Key) -> Result<Vec<u8>, LedgerError> {
        let path = tree_path::of(key);
        let Some(tip) = self.tip()? else { return Ok(path) };
        let tree = self.repo.find_tree(tip.tree);
        let tree = tree.map_err(|error| LedgerError::damaged(&self.path, error.message()))?;
        match tree.get_path(Path::new(OsStr::from_bytes(&path))) {
            // A name cannot be a file and a directory at once, so the file is elsewhere.
            Ok(entry) if entry.kind() == Some(ObjectType::Tree) => Ok(tree_path::set_aside(key.spelling())),
            _ => Ok(path),
        }
    }

    /// The id of the blob with the events of a commit.
    pub fn events_blob(&self, commit: &Commit) -> Option<Oid> {
        events_blob(&self.repo, commit)
    }
}

/// The last event of the ledger that is written at `path`. None where there is no such ledger, or it is empty. A directory
/// without packs that is not a ledger counts as none: nothing was ever written to it.
pub fn end(path: &Path) -> Result<Option<Seq>, LedgerError> {
    match store::open(path).and_then(|repo| store::tip(&repo, path, BRANCH)) {
        Ok(tip) => Ok(tip.map(|tip| tip.trailers.seq)),
        Err(LedgerError::Missing { .. }) => Ok(None),
        Err(LedgerError::Foreign { .. }) if store::packs(path) == 0 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a key is in the tree of the ledger at `path`, or would be if it were held or if there were a ledger.
pub fn path_in_tree(path: &Path, key: &Key) -> Result<Vec<u8>, LedgerError> {
    match LedgerReader::open(path) {
        Ok(reader) => reader.path_in_tree(key),
        Err(LedgerError::Missing { .. }) => Ok(tree_path::of(key)),
        Err(error) => Err(error),
    }
}

pub(super) fn events(repo: &Repository, path: &Path, commit: &Commit) -> Result<Vec<LedgerEvent>, LedgerError> {
    let damaged = |what: &dyn std::fmt::Display| {
        LedgerError::damaged(path, format!("the events of commit {} cannot be read: {what}", commit.id))
    };
    let Some(blob) = events_blob(repo, commit) else { return Err(damaged(&format!("{EVENTS} is missing"))) };
    let blob = repo.find_blob(blob).map_err(|error| damaged(&error.message()))?;
    let lines = blob.content().split(|&b| b == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|error| damaged(&error))).collect()
}

pub(super) fn events_blob(repo: &Repository, commit: &Commit) -> Option<Oid> {
    let tree = repo.find_tree(commit.tree).ok()?;
    tree.get_path(Path::new(EVENTS)).ok().map(|entry| entry.id())
}

pub(super) fn holdings(repo: &Repository, path: &Path, tree: Oid) -> Result<Holdings, LedgerError> {
    let mut holdings = Holdings::default();
    let mut trees = vec![(tree, 0)];
    let damaged = |error: git2::Error| LedgerError::damaged(path, error.message());
    while let Some((id, depth)) = trees.pop() {
        let tree = repo.find_tree(id).map_err(damaged)?;
        for entry in &tree {
            match entry.kind() {
                // The depth in our own directory is -1, so that its `events` is not read as a reservation.
                Some(ObjectType::Tree) if depth == 0 && entry.name_bytes() == OWN.as_bytes() => {
                    trees.push((entry.id(), -1));
                }
                Some(ObjectType::Tree) => trees.push((entry.id(), 1)),
                _ if depth == -1 => {}
                _ => {
                    let blob = repo.find_blob(entry.id()).map_err(damaged)?;
                    for line in blob.content().split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
                        let held: Holding = serde_json::from_slice(line)
                            .map_err(|error| LedgerError::damaged(path, format!("blob {}: {error}", entry.id())))?;
                        holdings.insert(held);
                    }
                }
            }
        }
    }
    Ok(holdings)
}
