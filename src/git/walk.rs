//! Which paths differ between an index file and a tree, found by walking both side by side.
//!
//! The same result as `git diff-index --cached`, without a process. The index caches the tree of each unchanged directory;
//! a directory whose cached tree is the tree it is compared with is skipped, so the work hardly grows with the repository.

use std::cmp::Ordering;

use git2::{ObjectType, Oid, Repository};

use super::changed::{Change, Entry};
use super::index::{CacheTree, Entries};
use super::{Oid as ObjectId, Path};

/// Paths whose entries in the index differ from those of the tree (`None` means an empty tree), sorted, each once.
///
/// Returns `None` if only the git program can tell.
pub fn index_against_tree(repo: &Repository, index: &[u8], tree: Option<Oid>) -> Option<Vec<Change>> {
    let (entries, cache) = Entries::of_file(index)?;
    let mut walk = Walk { repo, entries, directory: Vec::new(), depth: 0, changed: Vec::new() };
    walk.directory(tree, cache.as_ref())?;
    // If entries remain, the index is not sorted.
    if walk.entries.entry().is_some() {
        return None;
    }
    walk.changed.sort_unstable();
    Some(walk.changed)
}

struct Walk<'a> {
    repo: &'a Repository,
    entries: Entries<'a>,
    /// The current directory: empty, or a path with a slash at its end.
    directory: Path,
    /// The depth of the current directory.
    depth: usize,
    changed: Vec<Change>,
}

/// No work tree is deeper. A damaged index or tree that is deeper must not overflow the stack.
pub(super) const DEPTH_MAX: usize = 512;

/// A file or a directory.
#[derive(Clone, Copy)]
struct Next {
    length: usize,
    is_directory: bool,
}

impl Walk<'_> {
    /// Compares one directory. The index is at its first entry.
    fn directory(&mut self, tree: Option<Oid>, cache: Option<&CacheTree<'_>>) -> Option<()> {
        if let (Some((count, oid)), Some(tree)) = (cache.and_then(|cache| cache.written), tree)
            && oid == tree.as_bytes()
        {
            return self.entries.skip(count);
        }
        let tree = tree.map(|oid| self.repo.find_tree(oid)).transpose().ok()?;
        let mut there = tree.iter().flat_map(git2::Tree::iter).peekable();
        loop {
            let ours = self.next();
            let order = match (ours, there.peek()) {
                (None, None) => return Some(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                // Git sorts a directory as if its name ended with a slash, in the index and in trees.
                (Some(next), Some(theirs)) => {
                    let slash = |yes: bool| if yes { &b"/"[..] } else { b"" };
                    let ours = self.name(next).iter().chain(slash(next.is_directory));
                    ours.cmp(theirs.name_bytes().iter().chain(slash(is_tree(theirs))))
                }
            };
            let theirs = if order == Ordering::Less { None } else { there.next() };
            match (ours.filter(|_| order != Ordering::Greater), theirs) {
                (Some(next), theirs) if next.is_directory => {
                    let name = self.name(next).to_vec();
                    let cache = cache.and_then(|cache| cache.child(&name));
                    self.within(&name, |walk| walk.directory(theirs.map(|entry| entry.id()), cache))?;
                }
                (Some(_), theirs) => {
                    let entry = self.entries.entry()?;
                    let is_same = match (&theirs, entry.is_intended) {
                        // An intent-to-add entry is not part of the commit.
                        (None, is_intended) => is_intended,
                        (Some(_), true) => false,
                        (Some(theirs), false) => {
                            entry.oid == theirs.id().as_bytes() && entry.mode == canonical(theirs.filemode_raw())
                        }
                    };
                    if !is_same {
                        // An intent-to-add entry that replaces a file deletes the file.
                        let after = Entry { mode: entry.mode, oid: ObjectId::of_bytes(entry.oid) };
                        let after = Some(after).filter(|_| !entry.is_intended);
                        self.changed.push(Change { path: self.entries.name().to_vec(), after });
                    }
                    self.entries.advance().then_some(())?;
                }
                (None, Some(theirs)) => self.gone(&theirs)?,
                (None, None) => return None,
            }
        }
    }

    /// Lists everything below a tree's entry as deleted.
    fn gone(&mut self, entry: &git2::TreeEntry<'_>) -> Option<()> {
        if !is_tree(entry) {
            let path = [self.directory.as_slice(), entry.name_bytes()].concat();
            self.changed.push(Change { path, after: None });
            return Some(());
        }
        let tree = self.repo.find_tree(entry.id()).ok()?;
        self.within(entry.name_bytes(), |walk| tree.iter().try_for_each(|entry| walk.gone(&entry)))
    }

    /// The next file or directory of the index in this directory.
    fn next(&self) -> Option<Next> {
        self.entries.entry()?;
        let name = self.entries.name().strip_prefix(self.directory.as_slice())?;
        let slash = name.iter().position(|&b| b == b'/');
        Some(Next { length: slash.unwrap_or(name.len()), is_directory: slash.is_some() })
    }

    /// The name in this directory.
    fn name(&self, next: Next) -> &[u8] {
        &self.entries.name()[self.directory.len()..][..next.length]
    }

    fn within(&mut self, name: &[u8], work: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let outside = self.directory.len();
        self.directory.extend_from_slice(name);
        self.directory.push(b'/');
        let done = work(self);
        self.directory.truncate(outside);
        self.depth -= 1;
        done
    }
}

pub(super) fn is_tree(entry: &git2::TreeEntry<'_>) -> bool {
    entry.kind() == Some(ObjectType::Tree)
}

/// The mode as git writes it today; old trees have other modes.
pub(super) fn canonical(mode: i32) -> u32 {
    match mode.cast_unsigned() & 0o170_000 {
        0o100_000 if mode & 0o100 != 0 => 0o100_755,
        0o100_000 => 0o100_644,
        kind => kind,
    }
}
