//! Everything git-dibs keeps in a repository: journal, ledger, secret, tokens, notes.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::git::Repo;
use crate::local::data_dir::dibs_dir;
use crate::serve::repository_lock::RepositoryLock;

/// Deletes it, in every worktree, and the repository's `dibs.*` settings. Refused while a server runs. Returns what was
/// deleted, a line each.
pub fn remove(repo: &Repo) -> Result<Vec<String>> {
    let _lock = RepositoryLock::take(repo).context("stop the server first")?;
    let mut done = Vec::new();
    for dir in directories(repo) {
        match fs::remove_dir_all(&dir) {
            Ok(()) => done.push(format!("{} deleted", dir.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot delete {}", dir.display())),
        }
    }
    let local = || repo.git().args(["config", "--local"]);
    if local().args(["--get-regexp", r"^dibs\."]).answer()?.is_some() {
        local().args(["--remove-section", "dibs"]).output()?;
        done.push("the dibs.* settings of this repository deleted".to_owned());
    }
    Ok(done)
}

/// The directory in the git directory that all worktrees share, and one in that of each worktree.
fn directories(repo: &Repo) -> Vec<PathBuf> {
    let worktrees = fs::read_dir(repo.common_dir.join("worktrees")).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = worktrees.map(|entry| entry.path().join("dibs")).collect();
    all.push(dibs_dir(repo));
    all
}
