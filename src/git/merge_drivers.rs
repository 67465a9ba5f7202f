//! Programs that the user has configured to merge files.
//!
//! A merge driver may keep one side and discard the other. What such a program makes of two sides is not the automatic merge
//! that a commit is compared with. Wherever git merges for a comparison, these programs are replaced by one that makes
//! neither side of it, so the file counts as changed by the merge.

use super::{GitError, Repo, split_nul};

/// Adds a line to our side, and reports a conflict.
const NEITHER_SIDE: &str = "echo neither side >>%A; exit 1";

/// Settings for `git -c` that replace every configured merge driver.
pub fn replaced(repo: &Repo) -> Result<Vec<String>, GitError> {
    let listed = repo.git().args(["config", "-z", "--name-only", "--get-regexp", r"^merge\..*\.driver$"]).answer()?;
    let names = split_nul(&listed.unwrap_or_default());
    Ok(names.iter().map(|name| format!("{}={NEITHER_SIDE}", String::from_utf8_lossy(name))).collect())
}
