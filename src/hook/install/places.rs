//! The directories in which git looks for hooks, for every worktree, and who owns them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::git::{Git, GitError, Repo, worktrees};

use super::managers::Manager;

/// A directory from which git runs hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HooksDir {
    /// Its absolute path; it may not exist.
    pub path: PathBuf,
    /// The worktrees that use it.
    pub worktrees: Vec<PathBuf>,
    pub owner: Owner,
    inside: bool,
}

/// Who decides about the contents of a hooks directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// This repository: git-dibs may write there.
    Repository,
    /// It is outside the repository (`core.hooksPath`), so other repositories may use it.
    Outside,
    /// A hook manager that writes its own scripts there.
    Manager(Manager),
}

impl HooksDir {
    /// Whether git-dibs may write files there. Husky empties its generated directory again and again.
    pub fn is_ours_to_write(&self) -> bool {
        self.inside && self.owner != Owner::Manager(Manager::Husky)
    }
}

/// Which settings decide where git looks for hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsScope {
    /// Those in files: what is installed lasts longer than this process.
    Stored,
    /// Also those in the environment of this process (`git -c`, `GIT_CONFIG_COUNT`), as the user's git reads them.
    AsUser,
}

/// The same call with the settings in the environment of this process, which a call for another directory does without.
pub fn as_user(call: Git) -> Git {
    let names = ["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"];
    let set = names.into_iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    set.fold(call, |call, (name, value)| call.env(name, value))
}

/// Every hooks directory of the repository, each once. Worktrees differ when `core.hooksPath` is relative or set per
/// worktree.
pub fn hooks_dirs(repo: &Repo, settings: SettingsScope) -> Result<Vec<HooksDir>, GitError> {
    let mut tops: Vec<PathBuf> = Vec::new();
    for worktree in worktrees(repo)?.into_iter().filter(|worktree| !worktree.gone && !worktree.bare) {
        tops.push(worktree.path);
    }
    if tops.is_empty() {
        tops.push(repo.work_dir.clone().unwrap_or_else(|| repo.common_dir.clone()));
    }
    let homes: Vec<PathBuf> = tops.iter().chain([&repo.common_dir]).map(|home| real(home)).collect();
    let mut all: Vec<HooksDir> = Vec::new();
    for top in tops {
        let path = hooks_path(&top, settings)?;
        if let Some(known) = all.iter_mut().find(|known| known.path == path) {
            known.worktrees.push(top);
            continue;
        }
        let inside = homes.iter().any(|home| real(&path).starts_with(home));
        let owner = match Manager::of(&top, &path) {
            Some(manager) => Owner::Manager(manager),
            None if inside => Owner::Repository,
            None => Owner::Outside,
        };
        all.push(HooksDir { path, worktrees: vec![top], owner, inside });
    }
    Ok(all)
}

/// The directory in which git looks for hooks in the worktree `top`.
fn hooks_path(top: &Path, settings: SettingsScope) -> Result<PathBuf, GitError> {
    let git = || match settings {
        SettingsScope::Stored => Git::elsewhere(top),
        SettingsScope::AsUser => as_user(Git::elsewhere(top)),
    };
    let as_path = |mut answer: Vec<u8>| {
        answer.pop_if(|last| *last == b'\n');
        PathBuf::from(OsString::from_vec(answer))
    };
    let hooks = git().args(["rev-parse", "--path-format=absolute", "--git-path", "hooks"]).output();
    match hooks {
        Ok(answer) => Ok(as_path(answer)),
        // Git refuses an impossible path, such as `.git/hooks` in a linked worktree, where `.git` is a file.
        Err(error) => match git().args(["config", "--type=path", "core.hooksPath"]).answer() {
            Ok(Some(answer)) => Ok(top.join(as_path(answer))),
            _ => Err(error),
        },
    }
}

/// The path with links resolved, as far as it exists.
fn real(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(found) = std::fs::canonicalize(ancestor) {
            return found.join(path.strip_prefix(ancestor).unwrap_or(Path::new("")));
        }
    }
    path.to_owned()
}
