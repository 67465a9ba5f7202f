//! Which paths differ: the index or a commit against what came before it.
//!
//! Compared are mode and content as git stores them, so a change of the executable bit, a symlink's target or a
//! submodule's commit counts. Renames are never looked for: both ends appear, the old one as deleted, the new one as added.

use std::collections::HashSet;

use super::repo::oids_in;
use super::{GitError, Oid, Path, Repo, split_nul};

/// What a change leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After<'a> {
    /// The index that `GIT_INDEX_FILE` names, else the worktree's own.
    Index,
    /// A commit.
    Commit(&'a Oid),
}

/// Paths that differ between the index and HEAD; where HEAD has no commit yet, all that is in the index.
///
/// An entry made by `git add --intent-to-add` is not part of a commit and not listed.
pub fn staged(repo: &Repo) -> Result<Vec<Path>, GitError> {
    match between(repo, "HEAD", After::Index) {
        Err(GitError::Failed { .. }) if is_unborn(repo)? => {
            let nothing = repo.git().args(["hash-object", "-t", "tree", "--stdin"]).output()?;
            between(repo, &String::from_utf8_lossy(nothing.trim_ascii()), After::Index)
        }
        other => other,
    }
}

/// Paths that a merge of `others` into HEAD changes by itself: those in the index that differ from every parent.
///
/// What equals one parent was merely carried, and is that parent's doing.
pub fn staged_merge(repo: &Repo, others: &[Oid]) -> Result<Vec<Path>, GitError> {
    let mut paths = staged(repo)?;
    for other in others {
        if paths.is_empty() {
            break;
        }
        let changed: HashSet<Path> = between(repo, other.as_str(), After::Index)?.into_iter().collect();
        paths.retain(|path| changed.contains(path));
    }
    Ok(paths)
}

/// The other parents of a merge that waits to be committed.
pub fn merge_heads(repo: &Repo) -> Vec<Oid> {
    oids_in(&repo.git_dir.join("MERGE_HEAD"))
}

/// Those of `paths` whose content in `after` is what the branch's upstream has, or had where this branch left it, or
/// what the commit before HEAD had: they undo a change rather than make one.
pub fn undone(repo: &Repo, paths: &[Path], after: After<'_>) -> Result<HashSet<Path>, GitError> {
    let mut left: HashSet<&Path> = paths.iter().collect();
    for base in bases(repo)? {
        if left.is_empty() {
            break;
        }
        let changed: HashSet<Path> = between(repo, base.as_str(), after)?.into_iter().collect();
        left.retain(|path| changed.contains(*path));
    }
    Ok(paths.iter().filter(|path| !left.contains(path)).cloned().collect())
}

/// Paths that differ between a commit or tree and what comes after it, sorted, each once.
pub fn between(repo: &Repo, before: &str, after: After<'_>) -> Result<Vec<Path>, GitError> {
    let common = ["-z", "--name-only", "--no-renames", "--ignore-submodules=none"];
    let call = match after {
        After::Index => {
            repo.git().args(["diff-index", "--cached", "--ita-invisible-in-index"]).args(common).arg(before)
        }
        After::Commit(oid) => repo.git().args(["diff-tree", "-r"]).args(common).args([before, oid.as_str()]),
    };
    let mut paths = split_nul(&call.arg("--").output()?);
    // An unmerged path comes once per side.
    paths.sort_unstable();
    paths.dedup();
    Ok(paths)
}

/// Where a foreign change may be undone to.
fn bases(repo: &Repo) -> Result<Vec<Oid>, GitError> {
    // A branch that follows nothing was most likely begun from where the remote stands.
    let upstream = match repo.commit("@{upstream}") {
        Ok(Some(found)) => Some(found),
        _ => repo.commit("refs/remotes/origin/HEAD").unwrap_or(None),
    };
    let mut bases: Vec<Oid> = Vec::new();
    if let Some(upstream) = upstream {
        let fork = repo.git().args(["merge-base", "HEAD", upstream.as_str()]).answer()?;
        bases.push(upstream);
        bases.extend(fork.and_then(|text| Oid::parse(text.trim_ascii())));
    }
    bases.extend(repo.commit("HEAD^")?);
    bases.dedup();
    Ok(bases)
}

/// Whether HEAD names a branch that has no commit yet.
fn is_unborn(repo: &Repo) -> Result<bool, GitError> {
    let branch = repo.git().args(["symbolic-ref", "--quiet", "HEAD"]).answer()?;
    Ok(branch.is_some() && repo.commit("HEAD")?.is_none())
}
