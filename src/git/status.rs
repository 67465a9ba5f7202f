//! What differs from HEAD, in the index and in the work tree, as `git status` lists it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path as FilePath;

use super::{Git, GitError, Path, Repo, split_nul};

/// A path that differs from HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusEntry {
    /// Git's letter for the index: a space if it is as in HEAD.
    pub index: u8,
    /// Git's letter for the work tree: a space if it is as in the index.
    pub work_tree: u8,
    /// A directory ends with `/`.
    pub path: Path,
}

impl StatusEntry {
    pub fn is_untracked(&self) -> bool {
        self.index == b'?'
    }
}

/// Which untracked files are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untracked {
    No,
    /// A directory that has no tracked files is listed as one. Git can remember the answer.
    Directories,
    /// Each file.
    Files,
}

/// Everything that differs from HEAD. Changes inside of submodules do not count, other commits of them do.
pub fn status(repo: &Repo, untracked: Untracked) -> Result<Vec<StatusEntry>, GitError> {
    listed(repo.git(), untracked, &[])
}

/// What of these paths differs from HEAD.
pub fn status_of(repo: &Repo, paths: &[Path]) -> Result<Vec<StatusEntry>, GitError> {
    let top = repo.work_dir.clone().unwrap_or_default();
    let absolute: Vec<OsString> = paths.iter().map(|path| top.join(OsStr::from_bytes(path)).into()).collect();
    listed(repo.git().arg("--literal-pathspecs"), Untracked::Files, &absolute)
}

/// What differs from HEAD of what is typed in `dir`.
pub fn status_typed(dir: &FilePath, typed: &[String]) -> Result<Vec<StatusEntry>, GitError> {
    let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
    listed(Git::elsewhere(dir), Untracked::Files, &typed)
}

fn listed(git: Git, untracked: Untracked, paths: &[OsString]) -> Result<Vec<StatusEntry>, GitError> {
    let untracked = match untracked {
        Untracked::No => "--untracked-files=no",
        Untracked::Directories => "--untracked-files=normal",
        Untracked::Files => "--untracked-files=all",
    };
    let call = git.args(["status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty", untracked, "--"]);
    let listed = call.args(paths).output()?;
    let entry = |line: Path| match line.as_slice() {
        [index, work_tree, b' ', path @ ..] => {
            Some(StatusEntry { index: *index, work_tree: *work_tree, path: path.to_vec() })
        }
        _ => None,
    };
    Ok(split_nul(&listed).into_iter().filter_map(entry).collect())
}
