//! The tree of the next commit. Each directory remembers its git id until something in it changes.
//!
//! Only changed directories are written again, so the cost of a flush depends on what it changes, not on what is held.

use std::collections::BTreeMap;

use git2::Oid;

use super::pack::{ObjectKind, Pack, id_of};
use super::tree_path::set_aside;

#[derive(Debug, Default)]
pub struct Tree {
    root: TreeNode,
}

/// An entry of a directory: a blob, a directory, or both; see [`Tree::set`].
#[derive(Debug, Default)]
struct TreeNode {
    blob: Option<Oid>,
    children: Children,
    /// The git id of this directory; none once something in it has changed.
    git_id: Option<Oid>,
}

/// The entries of a directory by name. Most directories have few, for which a map would take ten times the memory.
#[derive(Debug)]
enum Children {
    /// Sorted.
    Few(Vec<(Box<[u8]>, TreeNode)>),
    Many(BTreeMap<Box<[u8]>, TreeNode>),
}

/// A directory with more entries has a map.
const FEW_MAX: usize = 16;

impl Default for Children {
    fn default() -> Self {
        Children::Few(Vec::new())
    }
}

impl Children {
    fn len(&self) -> usize {
        match self {
            Children::Few(list) => list.len(),
            Children::Many(map) => map.len(),
        }
    }

    fn find_or_insert(&mut self, name: &[u8]) -> &mut TreeNode {
        if let Children::Few(list) = self
            && list.len() == FEW_MAX
            && list.binary_search_by(|(other, _)| (**other).cmp(name)).is_err()
        {
            *self = Children::Many(std::mem::take(list).into_iter().collect());
        }
        match self {
            Children::Few(list) => {
                let at = list.binary_search_by(|(other, _)| (**other).cmp(name));
                let at = at.unwrap_or_else(|at| {
                    list.reserve_exact(1);
                    list.insert(at, (name.into(), TreeNode::default()));
                    at
                });
                &mut list[at].1
            }
            Children::Many(map) => map.entry(name.into()).or_default(),
        }
    }

    fn remove(&mut self, name: &[u8]) {
        match self {
            Children::Few(list) => {
                if let Ok(at) = list.binary_search_by(|(other, _)| (**other).cmp(name)) {
                    list.remove(at);
                }
            }
            Children::Many(map) => {
                map.remove(name);
                if map.len() <= FEW_MAX / 2 {
                    *self = Children::Few(std::mem::take(map).into_iter().collect());
                }
            }
        }
    }

    fn iter_mut(&mut self) -> Box<dyn Iterator<Item = (&[u8], &mut TreeNode)> + '_> {
        match self {
            Children::Few(list) => Box::new(list.iter_mut().map(|(name, child)| (&**name, child))),
            Children::Many(map) => Box::new(map.iter_mut().map(|(name, child)| (&**name, child))),
        }
    }
}

impl Tree {
    /// Puts a blob at a path, or removes it. While there are entries below a path, it must be a directory in git; its blob
    /// is then at [`set_aside`] instead.
    pub fn set(&mut self, path: &[u8], blob: Option<Oid>) {
        let mut moved = Vec::new();
        self.root.set(path, path, blob, &mut moved);
        for (path, blob) in moved {
            // These paths never have entries below them, so nothing moves again.
            self.root.set(&set_aside(&path), &set_aside(&path), blob, &mut Vec::new());
        }
    }

    /// The git id of the tree. Adds changed directories to the pack.
    pub fn write(&mut self, pack: &mut Pack) -> Oid {
        self.root.write(&mut |body| pack.add(ObjectKind::Tree, body))
    }

    /// The git id of the tree. Treats all directories as written.
    pub fn id(&mut self) -> Oid {
        self.root.write(&mut |body| id_of(ObjectKind::Tree, body))
    }
}

impl TreeNode {
    fn set(&mut self, whole: &[u8], rest: &[u8], blob: Option<Oid>, moved: &mut Vec<(Vec<u8>, Option<Oid>)>) {
        self.git_id = None;
        let mut parts = rest.splitn(2, |&b| b == b'/');
        let (name, below) = (parts.next().unwrap_or_default(), parts.next());
        let child = self.children.find_or_insert(name);
        let was_directory = child.is_directory();
        match below {
            None => child.blob = blob,
            Some(below) => child.set(whole, below, blob, moved),
        }
        let path = &whole[..whole.len() - below.map_or(0, |below| below.len() + 1)];
        match (below, child.blob) {
            (None, blob) if was_directory => moved.push((path.to_vec(), blob)),
            (Some(_), Some(own)) if was_directory != child.is_directory() => {
                moved.push((path.to_vec(), child.is_directory().then_some(own)));
            }
            _ => {}
        }
        if child.blob.is_none() && !child.is_directory() {
            self.children.remove(name);
        }
    }

    fn is_directory(&self) -> bool {
        self.children.len() > 0
    }

    fn write(&mut self, add: &mut dyn FnMut(&[u8]) -> Oid) -> Oid {
        if let Some(id) = self.git_id {
            return id;
        }
        let mut entries: Vec<(&[u8], bool, Oid)> = Vec::with_capacity(self.children.len());
        for (name, child) in self.children.iter_mut() {
            if child.is_directory() {
                entries.push((name, true, child.write(add)));
            } else {
                entries.push((name, false, child.blob.expect("an entry without children has a blob")));
            }
        }
        // Git sorts directories as if their names ended in a slash.
        let ending = |is_directory: bool| if is_directory { &b"/"[..] } else { b"" };
        entries.sort_by(|a, b| a.0.iter().chain(ending(a.1)).cmp(b.0.iter().chain(ending(b.1))));
        let mut body = Vec::new();
        for (name, is_directory, id) in entries {
            body.extend_from_slice(if is_directory { b"40000 " } else { b"100644 " });
            body.extend_from_slice(name);
            body.push(0);
            body.extend_from_slice(id.as_bytes());
        }
        *self.git_id.insert(add(&body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(text: &str) -> Option<Oid> {
        Some(id_of(ObjectKind::Blob, text.as_bytes()))
    }

    /// The tree as git's own index would write it.
    fn expected(entries: &[(&str, &str)]) -> Oid {
        let dir = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let mut index = repo.index().unwrap();
        for (path, text) in entries {
            let entry = git2::IndexEntry {
                ctime: git2::IndexTime::new(0, 0),
                mtime: git2::IndexTime::new(0, 0),
                dev: 0,
                ino: 0,
                mode: 0o100_644,
                uid: 0,
                gid: 0,
                file_size: 0,
                id: repo.blob(text.as_bytes()).unwrap(),
                flags: 0,
                flags_extended: 0,
                path: path.as_bytes().to_vec(),
            };
            index.add(&entry).unwrap();
        }
        index.write_tree().unwrap()
    }

    #[test]
    fn a_tree_is_the_same_as_git_writes_it() {
        let entries = [("a", "1"), ("a.b", "2"), ("a-", "3"), ("b/c", "4"), ("b.c", "5"), ("b/d/e", "6"), ("c", "7")];
        let mut tree = Tree::default();
        for (path, text) in entries {
            tree.set(path.as_bytes(), blob(text));
            tree.id();
        }
        assert_eq!(tree.id(), expected(&entries));
        tree.set(b"b/d/e", None);
        tree.set(b"a", None);
        tree.set(b"nobody", None);
        let left = [("a.b", "2"), ("a-", "3"), ("b/c", "4"), ("b.c", "5"), ("c", "7")];
        assert_eq!(tree.id(), expected(&left));
        for (path, _) in left {
            tree.set(path.as_bytes(), None);
        }
        assert_eq!(tree.id(), expected(&[]), "no empty directory stays");
    }

    #[test]
    fn a_file_is_set_aside_while_there_are_entries_below_it() {
        let mut tree = Tree::default();
        tree.set(b"a/b", blob("1"));
        assert_eq!(tree.id(), expected(&[("a/b", "1")]));
        tree.set(b"a/b/c", blob("2"));
        assert_eq!(tree.id(), expected(&[("a/b/c", "2"), (".dibs/path/a%2Fb", "1")]));
        tree.set(b"a/b", blob("3"));
        tree.set(b"a", blob("4"));
        assert_eq!(
            tree.id(),
            expected(&[("a/b/c", "2"), (".dibs/path/a%2Fb", "3"), (".dibs/path/a", "4")]),
            "the same whichever came first"
        );
        tree.set(b"a/b/c", None);
        assert_eq!(tree.id(), expected(&[("a/b", "3"), (".dibs/path/a", "4")]));
        tree.set(b"a/b", None);
        assert_eq!(tree.id(), expected(&[("a", "4")]));
        tree.set(b"a/x", blob("5"));
        tree.set(b"a", None);
        assert_eq!(tree.id(), expected(&[("a/x", "5")]));
    }
}
