//! All worktrees of a repository.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::{GitError, Repo};

/// One worktree of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its top directory.
    pub path: PathBuf,
    /// It is the bare repository itself, which has no files.
    pub bare: bool,
    /// Its directory no longer exists.
    pub gone: bool,
}

/// Every worktree, the main one first.
pub fn worktrees(repo: &Repo) -> Result<Vec<Worktree>, GitError> {
    let listed = repo.git().args(["worktree", "list", "--porcelain", "-z"]).output()?;
    let mut all: Vec<Worktree> = Vec::new();
    for line in listed.split(|&b| b == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            let gone = !path.is_dir();
            all.push(Worktree { path, bare: false, gone });
        } else if line == b"bare"
            && let Some(last) = all.last_mut()
        {
            last.bare = true;
        }
    }
    Ok(all)
}
