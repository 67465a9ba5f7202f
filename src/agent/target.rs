//! Which file of which repository an edit reaches.
//!
//! The path's own repository decides, wherever the agent was started: another worktree, a submodule, another repository.
//! A link is followed, because the edit follows it: the file that changes is the one that is reserved. Not ours are files
//! outside of any repository, files inside of a git directory, and files of a repository where git-dibs was never set up.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::git::{self, Place};

/// The most links that are followed one after the other, as in the kernel.
const LINKS_MAX: usize = 40;

/// Files that an edit changes, by repository. A path is relative to the top of its repository.
pub type Targets = Vec<(Place, Vec<git::Path>)>;

/// The files that are ours, of those that an edit in `cwd` names.
pub fn targets(cwd: &Path, files: &[String]) -> Targets {
    let mut all: Targets = Vec::new();
    for file in files {
        let Some((place, path)) = target(cwd, Path::new(file)) else { continue };
        match all.iter_mut().find(|(known, _)| *known == place) {
            Some((_, paths)) if paths.contains(&path) => {}
            Some((_, paths)) => paths.push(path),
            None => all.push((place, vec![path])),
        }
    }
    all
}

/// The repository of a file and the file's path in it; none if it is not ours.
fn target(cwd: &Path, file: &Path) -> Option<(Place, git::Path)> {
    let file = reached(&cwd.join(file), LINKS_MAX)?;
    let place = Place::around(file.parent()?)?;
    let path = file.strip_prefix(&place.top).ok()?;
    let is_git = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
    if path.components().any(is_git) || path.as_os_str().is_empty() {
        return None;
    }
    Some((place, path.as_os_str().as_bytes().to_vec()))
}

/// The file that a write to this path reaches, without links. What does not exist yet is below what exists.
fn reached(path: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    if let Ok(to) = path.read_link() {
        // A link to nothing: the write creates what it points to.
        return reached(&path.parent()?.join(to), links.checked_sub(1)?);
    }
    let parent = reached(path.parent()?, links)?;
    match path.components().next_back()? {
        Component::Normal(name) => Some(parent.join(name)),
        Component::ParentDir => parent.parent().map(Path::to_owned),
        _ => Some(parent),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_edit_is_reserved_where_it_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for repo in ["one", "one/inner", "two"] {
            git2::Repository::init(top.join(repo)).unwrap();
        }
        fs::create_dir(top.join("one/src")).unwrap();
        fs::write(top.join("one/src/a"), "").unwrap();
        symlink("src/a", top.join("one/link")).unwrap();
        symlink("src/new", top.join("one/dangling")).unwrap();
        symlink("../two", top.join("one/other")).unwrap();
        symlink("/etc", top.join("one/etc")).unwrap();
        symlink("loop", top.join("one/loop")).unwrap();
        let found = |file: &str| {
            let (place, path) = target(&top.join("one"), Path::new(file))?;
            let repo = place.top.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
            Some(format!("{repo}:{}", String::from_utf8(path).unwrap()))
        };
        for (file, expected) in [
            ("src/a", "one:src/a"),
            ("./src//a", "one:src/a"),
            ("src/../src/a", "one:src/a"),
            ("new/deep/file", "one:new/deep/file"),
            ("new/../b", "one:b"),
            ("link", "one:src/a"),
            ("dangling", "one:src/new"),
            ("other/x", "two:x"),
            ("../two/x", "two:x"),
            ("inner/x", "one/inner:x"),
        ] {
            assert_eq!(found(file).as_deref(), Some(expected), "{file}");
        }
        let absolute = top.join("two/y");
        assert_eq!(found(absolute.to_str().unwrap()).as_deref(), Some("two:y"));
        for file in ["etc/passwd", "../x", ".git/config", ".git/hooks/pre-commit", "sub/.GIT/x", "loop", "/", ".", ""] {
            assert_eq!(found(file), None, "{file}");
        }
        let two = targets(&top.join("one"), &["src/a", "link", "other/x", "b"].map(str::to_owned));
        assert_eq!(two.iter().map(|(_, paths)| paths.len()).collect::<Vec<_>>(), [2, 1]);
    }
}
