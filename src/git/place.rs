//! Where a repository is, without opening it: the nearest directory above a file that has a `.git`.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The largest `.git` or `commondir` file that is read, in bytes.
const LINK_BYTES_MAX: u64 = 8 * 1024;

/// The directories of a repository, as one worktree sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory that has the `.git`.
    pub top: PathBuf,
    /// The directory with this worktree's own HEAD and index.
    pub git_dir: PathBuf,
    /// The directory that all worktrees of the repository share.
    pub common_dir: PathBuf,
}

impl Place {
    /// The repository around a directory, which must be absolute. A repository in a repository is found first.
    pub fn around(dir: &Path) -> Option<Place> {
        dir.ancestors().find_map(Place::with_top)
    }

    fn with_top(top: &Path) -> Option<Place> {
        let dot_git = top.join(".git");
        let about = std::fs::metadata(&dot_git).ok()?;
        let git_dir = match about.is_dir() {
            true => dot_git,
            false => top.join(link(&dot_git, b"gitdir: ")?),
        };
        // Git ignores a `.git` that is no repository, such as an empty directory.
        if git_dir.join("HEAD").symlink_metadata().is_err() {
            return None;
        }
        let common_dir = match link(&git_dir.join("commondir"), b"") {
            Some(common) => git_dir.join(common).canonicalize().ok()?,
            None => git_dir.clone(),
        };
        Some(Place { top: top.to_owned(), git_dir, common_dir })
    }
}

/// The path in a small file that git writes.
fn link(file: &Path, before: &[u8]) -> Option<PathBuf> {
    let mut text = Vec::new();
    std::fs::File::open(file).ok()?.take(LINK_BYTES_MAX).read_to_end(&mut text).ok()?;
    let path = text.trim_ascii_end().strip_prefix(before)?;
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Repo;

    #[test]
    fn a_place_is_where_git_finds_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("main");
        let script = "git init -q main; cd main; git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x
            git worktree add -q ../linked; mkdir -p sub/.git deep/er; git init -q inner; mkdir inner/sub";
        let done = std::process::Command::new("sh").args(["-ec", script]).current_dir(dir.path()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        for (below, expected) in
            [("", ""), ("deep/er", ""), ("sub", ""), ("inner/sub", "inner"), ("../linked", "../linked")]
        {
            let at = top.join(below).canonicalize().unwrap();
            let (place, repo) = (Place::around(&at).unwrap(), Repo::at(&at).unwrap());
            assert_eq!(place.top, top.join(expected).canonicalize().unwrap());
            let same = |one: &Path, other: &Path| one.canonicalize().unwrap() == other.canonicalize().unwrap();
            assert!(same(&place.git_dir, &repo.git_dir) && same(&place.common_dir, &repo.common_dir), "{place:?}");
        }
        assert_eq!(Place::around(Path::new("/")), None);
    }
}
