//! Whether commits belong to the project of this repository, or to another one that is kept in it.
//!
//! The history of a library that `git subtree` keeps below a directory, and the branch of a website, are not based on the
//! first commit of this project. A file has another name there than here.

use std::collections::HashSet;
use std::time::Duration;

use super::history::History;
use super::{GitError, Oid, Repo};

/// How long it may take to find the first commit.
const FIRST_TIME: Duration = Duration::from_secs(1);
/// The most commits below a history that are looked at. With more, all belong to this project.
const EDGES_MAX: usize = 32;

/// The first commit of the project whose main branch this is. `None` if it cannot be found in time.
pub fn first_commit(repo: &Repo, main: &Oid) -> Option<Oid> {
    let call = repo.git().args(["rev-list", "--first-parent", "--max-parents=0", main.as_str()]);
    let listed = call.output_within(FIRST_TIME).ok()?;
    listed.split(|&b| b == b'\n').find_map(Oid::parse)
}

/// Whether none of `tips` is based on the first commit of the project.
pub fn are_foreign(repo: &Repo, first: &Oid, tips: &[Oid]) -> Result<bool, GitError> {
    for tip in tips {
        if repo.is_descendant(tip, first)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Those of the commits below a history, which others know, that are not based on the first commit of the project.
pub fn foreign_edges(repo: &Repo, first: &Oid, history: &History) -> Result<HashSet<Oid>, GitError> {
    let edges = history.edges();
    let mut foreign = HashSet::new();
    for edge in edges.iter().filter(|_| edges.len() <= EDGES_MAX) {
        if !repo.is_descendant(edge, first)? {
            foreign.insert((*edge).clone());
        }
    }
    Ok(foreign)
}
