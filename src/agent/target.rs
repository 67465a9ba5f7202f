//! Which file of which repository an edit reaches.
//!
//! The path's own repository decides, wherever the agent was started: another worktree, a submodule, another repository.
//! A link is followed, because the edit follows it: the file that changes is the one that is reserved. Not ours are files
//! outside of any repository, files inside of a git directory, and files of a repository where git-dibs was never set up.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::git::{self, Place};
use crate::text::percent;

/// The most links that are followed one after the other, as in the kernel.
const LINKS_MAX: usize = 40;

/// The longest path of a file, in bytes, as in the kernel.
const PATH_BYTES_MAX: usize = 4096;

/// Files that an edit changes, by repository. A path is relative to the top of its repository.
pub type Targets = Vec<(Place, Vec<git::Path>)>;

/// The files that are ours, of those that an edit in `cwd` names.
pub fn targets(cwd: &Path, files: &[String]) -> Targets {
    let mut all: Targets = Vec::new();
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    for file in files.iter().flat_map(|file| spellings(cwd, file, home.as_deref())) {
        let Some((place, path)) = target(&file) else { continue };
        match all.iter_mut().find(|(known, _)| *known == place) {
            Some((_, paths)) if paths.contains(&path) => {}
            Some((_, paths)) => paths.push(path),
            None => all.push((place, vec![path])),
        }
    }
    all
}

/// A directory without links in its path. What does not exist stays as it is.
pub fn without_links(dir: PathBuf) -> PathBuf {
    reached(&dir, LINKS_MAX).unwrap_or(dir)
}

/// What an agent may do with a path before it opens the file: take white space away around it, put the home directory in the
/// place of `~`, accept a URI, and take out `..` without a look at links. Where that makes a difference, all of these files are meant.
fn spellings(cwd: &Path, file: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let literal = cwd.join(file);
    let trimmed = file.trim();
    let of_uri = trimmed.strip_prefix("file://").filter(|path| path.starts_with('/')).and_then(percent::decode);
    let expanded = match (of_uri, trimmed.strip_prefix("~/"), home) {
        (Some(path), ..) => PathBuf::from(OsStr::from_bytes(&path)),
        (None, Some(rest), Some(home)) => home.join(rest),
        _ => cwd.join(trimmed),
    };
    let mut all = vec![literal, expanded];
    if all[0] != all[1] && all[0].symlink_metadata().is_err() {
        all.remove(0);
    }
    all.extend(all.clone().iter().map(|path| without_parents(path)));
    let mut known = std::collections::HashSet::new();
    // The system opens no longer path.
    all.retain(|path| path.as_os_str().len() < PATH_BYTES_MAX && known.insert(path.clone()));
    all
}

fn without_parents(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(short.pop()),
            part => short.push(part),
        }
    }
    short
}

/// The repository of a file and the file's path in it; none if it is not ours.
fn target(file: &Path) -> Option<(Place, git::Path)> {
    let file = reached(file, LINKS_MAX)?;
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
    fn a_path_is_spelled_as_agents_spell_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = Path::new("/home/ana");
        let spelled = |file: &str| spellings(dir.path(), file, Some(home));
        assert_eq!(spelled("a"), [dir.path().join("a")]);
        assert_eq!(spelled(" a\n"), [dir.path().join("a")]);
        assert_eq!(spelled("~/x/../a"), [home.join("x/../a"), home.join("a")]);
        assert_eq!(spelled("file:///x/a%20b"), [Path::new("/x/a b")]);
        assert_eq!(spelled("/x/../a"), [Path::new("/x/../a"), Path::new("/a")]);
        fs::write(dir.path().join("a "), "").unwrap();
        assert_eq!(spelled("a "), [dir.path().join("a "), dir.path().join("a")]);
        assert_eq!(spellings(dir.path(), "~/a", None), [dir.path().join("~/a")]);
        assert_eq!(spelled(&format!("{}a", "x/../".repeat(10_000))), [dir.path().join("a")]);
        assert!(spelled(&"x/".repeat(1_000_000)).is_empty());
    }

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
            let (place, path) = target(&top.join("one").join(file))?;
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
        // Agents shorten "other/../one/src/a", and the system follows the link first: both are meant.
        symlink("one/src", top.join("short")).unwrap();
        let both = targets(&top, &["short/../two/b".to_owned()]);
        let both: Vec<_> = both.iter().map(|(place, paths)| (place.top.strip_prefix(&top).unwrap(), paths)).collect();
        assert_eq!(both, [(Path::new("one"), &vec![b"two/b".to_vec()]), (Path::new("two"), &vec![b"b".to_vec()])]);
        let two = targets(&top.join("one"), &["src/a", "link", "other/x", "b"].map(str::to_owned));
        assert_eq!(two.iter().map(|(_, paths)| paths.len()).collect::<Vec<_>>(), [2, 1]);
    }
}
