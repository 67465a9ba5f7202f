//! What a few commits change, found without starting a process.
//!
//! A push or a ref update usually adds a handful of commits, and a process would take longer than reading them. The result
//! has every change that git would list, and sometimes more: a commit may be new here and known to git if clocks were
//! wrong, and a file that a merge combined from both sides counts as changed by the merge. So nothing in conflict here
//! means that nothing is, and a conflict is for the git program to confirm. One thing that git lists is not found: where
//! git would have moved a file after a rename, a merge that leaves it where its branch has it only carries it.
//!
//! `None` means that only the program can tell, or that it would be faster.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use git2::{Oid as Id, Repository, TreeEntry};

use super::changed::{Change, Entry, beyond_parents};
use super::walk::{DEPTH_MAX, canonical, is_tree};
use super::{Oid, Path, Repo};

/// The most trees that are read. A process costs about as much as a few hundred.
const TREES_MAX: usize = 2_000;

/// A commit with its parents, and the paths that differ from each parent.
struct NewCommit {
    oid: Id,
    parents: Vec<Id>,
    differing: Vec<Vec<Change>>,
}

/// Every path with every content that it gets from the commits below `tips`, without those below `known`, sorted, each once.
///
/// `moved` are branches with their old and new commit; one that is not moved forward is left to git. At most `visits`
/// commits are read.
pub fn changes(repo: &Repo, tips: &[Oid], known: &[Oid], moved: &[(Oid, Oid)], visits: usize) -> Option<Vec<Change>> {
    // libgit2 does not see these as git does.
    if repo.common_dir.join("info/grafts").exists() || !repo.shallow().is_empty() {
        return None;
    }
    let commits = repo.library()?.with(|library| {
        let tips = tips.iter().map(|tip| commit_id(library, tip)).collect::<Option<Vec<_>>>()?;
        // A commit that is not here hides nothing.
        let known: Vec<Id> = known.iter().filter_map(|known| commit_id(library, known)).collect();
        let mut commits = new_commits(library, &tips, &known, visits)?;
        for (old, new) in moved {
            let (old, new) = (commit_id(library, old)?, commit_id(library, new)?);
            if !is_forward(&commits, old, new) {
                return None;
            }
        }
        let mut left = TREES_MAX;
        for commit in &mut commits {
            // Without a common commit, only git's own merge tells what a merge has decided.
            if commit.parents.len() > 1 && library.merge_base_octopus(&commit.parents).is_err() {
                return None;
            }
            commit.differing = differing(library, commit, &mut left)?;
        }
        Some(commits)
    })?;
    let mut all = Vec::new();
    for NewCommit { parents, mut differing, .. } in commits {
        match differing.len() {
            1 => all.append(&mut differing[0]),
            _ => {
                let parents: Vec<Oid> = parents.iter().map(|parent| Oid::of_bytes(parent.as_bytes())).collect();
                all.extend(beyond_parents(repo, &parents, differing));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// What differs between the two commits of each pair, some of which may not be here.
pub fn net<'a>(repo: &Repo, pairs: impl Iterator<Item = &'a (Oid, Oid)>) -> Option<Vec<Change>> {
    repo.library()?.with(|library| {
        let mut left = TREES_MAX;
        let mut all = Vec::new();
        for (old, new) in pairs {
            let Some(old) = commit_id(library, old) else { continue };
            let pair = NewCommit { oid: commit_id(library, new)?, parents: vec![old], differing: Vec::new() };
            all.extend(differing(library, &pair, &mut left)?.into_iter().flatten());
        }
        Some(all)
    })
}

/// The commit that an object id names, itself or through tags.
pub(super) fn commit_id(repo: &Repository, oid: &Oid) -> Option<Id> {
    let object = repo.find_object(Id::from_str(oid.as_str()).ok()?, None).ok()?;
    Some(object.peel_to_commit().ok()?.id())
}

/// What is known about a commit during the walk.
#[derive(Clone, Copy)]
struct Visit {
    is_known: bool,
    is_queued: bool,
}

/// Commits that are below `tips` and not below `known`. Like git, the newest first, until only known commits are left.
fn new_commits(repo: &Repository, tips: &[Id], known: &[Id], visits: usize) -> Option<Vec<NewCommit>> {
    let mut queue = BinaryHeap::new();
    let mut seen: HashMap<Id, Visit> = HashMap::new();
    let mut found: Vec<NewCommit> = Vec::new();
    // How many commits in the queue are not known, and the time of the oldest one that was found.
    let (mut open, mut oldest) = (0_usize, i64::MAX);
    let mut left = visits;
    let starts = known.iter().map(|oid| (*oid, true)).chain(tips.iter().map(|oid| (*oid, false)));
    let mut next: Vec<(Id, bool)> = starts.collect();
    loop {
        for (oid, is_known) in next.drain(..) {
            let visit = seen.get(&oid).copied();
            match visit {
                Some(visit) if visit.is_known || !is_known => continue,
                // It turns out to be known.
                Some(Visit { is_queued: true, .. }) => {
                    open -= 1;
                    seen.insert(oid, Visit { is_known: true, is_queued: true });
                    continue;
                }
                // Its ancestors were listed as new; they are corrected by another visit.
                _ => {}
            }
            left = left.checked_sub(1)?;
            let time = repo.find_commit(oid).ok()?.time().seconds();
            open += usize::from(!is_known);
            seen.insert(oid, Visit { is_known, is_queued: true });
            queue.push((time, oid));
        }
        // A known commit of the same second or later may have commits below it that were found as new.
        let is_over = || queue.peek().is_none_or(|(time, _)| *time < oldest) || left == 0;
        if open == 0 && is_over() {
            break;
        }
        let (time, oid) = queue.pop()?;
        let visit = seen.get_mut(&oid)?;
        visit.is_queued = false;
        let is_known = visit.is_known;
        let parents: Vec<Id> = repo.find_commit(oid).ok()?.parent_ids().collect();
        next.extend(parents.iter().map(|parent| (*parent, is_known)));
        if !is_known {
            open -= 1;
            oldest = oldest.min(time);
            found.push(NewCommit { oid, parents, differing: Vec::new() });
        }
    }
    found.retain(|commit| !seen[&commit.oid].is_known);
    Some(found)
}

/// Whether `new` is `old` or was made on top of it, as far as these commits tell.
fn is_forward(commits: &[NewCommit], old: Id, new: Id) -> bool {
    let parents: HashMap<Id, &[Id]> = commits.iter().map(|commit| (commit.oid, commit.parents.as_slice())).collect();
    let mut left = vec![new];
    let mut seen = std::collections::HashSet::new();
    while let Some(oid) = left.pop() {
        if oid == old {
            return true;
        }
        if seen.insert(oid) {
            left.extend_from_slice(parents.get(&oid).copied().unwrap_or_default());
        }
    }
    false
}

/// The paths that differ between a commit and each of its parents; without a parent, every path.
fn differing(repo: &Repository, commit: &NewCommit, left: &mut usize) -> Option<Vec<Vec<Change>>> {
    let tree = |oid: Id| Some(repo.find_commit(oid).ok()?.tree_id());
    let after = tree(commit.oid)?;
    let mut befores: Vec<Option<Id>> = commit.parents.iter().map(|parent| tree(*parent)).collect();
    if befores.is_empty() {
        befores.push(None);
    } else if befores.contains(&None) {
        return None;
    }
    let compare = |before: Option<Id>| {
        let mut comparison = Comparison { repo, path: Vec::new(), depth: 0, left, changes: Vec::new() };
        comparison.trees(before, Some(after))?;
        Some(comparison.changes)
    };
    befores.into_iter().map(compare).collect()
}

/// Two trees, compared side by side. Directories that are the same are not read.
struct Comparison<'a> {
    repo: &'a Repository,
    /// The current directory: empty, or a path with a slash at its end.
    path: Path,
    depth: usize,
    /// How many more trees may be read.
    left: &'a mut usize,
    changes: Vec<Change>,
}

impl Comparison<'_> {
    fn trees(&mut self, before: Option<Id>, after: Option<Id>) -> Option<()> {
        if before == after {
            return Some(());
        }
        let mut read = |oid: Option<Id>| {
            *self.left = self.left.checked_sub(1)?;
            oid.map(|oid| self.repo.find_tree(oid)).transpose().ok()
        };
        let (before, after) = (read(before)?, read(after)?);
        let mut before = before.iter().flat_map(git2::Tree::iter).peekable();
        let mut after = after.iter().flat_map(git2::Tree::iter).peekable();
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return Some(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(before), Some(after)) => in_order(before, after),
            };
            let old = if order == Ordering::Greater { None } else { before.next() };
            let new = if order == Ordering::Less { None } else { after.next() };
            self.entries(old.as_ref(), new.as_ref())?;
        }
    }

    /// Two entries of the same name and kind, or one alone.
    fn entries(&mut self, old: Option<&TreeEntry<'_>>, new: Option<&TreeEntry<'_>>) -> Option<()> {
        let any = old.or(new)?;
        if is_tree(any) {
            if self.depth == DEPTH_MAX {
                return None;
            }
            let outside = self.path.len();
            self.path.extend_from_slice(any.name_bytes());
            self.path.push(b'/');
            self.depth += 1;
            self.trees(old.map(TreeEntry::id), new.map(TreeEntry::id))?;
            self.depth -= 1;
            self.path.truncate(outside);
            return Some(());
        }
        let entry = |entry: &TreeEntry<'_>| Entry {
            mode: canonical(entry.filemode_raw()),
            oid: Oid::of_bytes(entry.id().as_bytes()),
        };
        if old.map(|old| (old.id(), canonical(old.filemode_raw())))
            != new.map(|new| (new.id(), canonical(new.filemode_raw())))
        {
            let path = [self.path.as_slice(), any.name_bytes()].concat();
            self.changes.push(Change { path, after: new.map(entry) });
        }
        Some(())
    }
}

/// Git sorts a directory as if its name ended with a slash. So a file and a directory of the same name are not equal.
fn in_order(one: &TreeEntry<'_>, other: &TreeEntry<'_>) -> Ordering {
    let slash = |entry: &TreeEntry<'_>| if is_tree(entry) { &b"/"[..] } else { b"" };
    one.name_bytes().iter().chain(slash(one)).cmp(other.name_bytes().iter().chain(slash(other)))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::super::range::{Range, Update};
    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        repo: Repo,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            git2::Repository::init(dir.path()).unwrap();
            Place { repo: Repo::at(dir.path()).unwrap(), _dir: dir }
        }

        /// Makes a commit of these files on these parents, at this time.
        fn commit(&self, files: &[(String, u32)], parents: &[git2::Oid], time: i64) -> git2::Oid {
            let library = self.repo.library().unwrap();
            library
                .with(|repo| {
                    let mut index = git2::Index::new().unwrap();
                    for (path, content) in files {
                        let id = repo.blob(content.to_string().as_bytes()).unwrap();
                        let mode = if content % 5 == 0 { 0o100_755 } else { 0o100_644 };
                        let entry = git2::IndexEntry {
                            mode,
                            id,
                            path: path.clone().into_bytes(),
                            ctime: git2::IndexTime::new(0, 0),
                            mtime: git2::IndexTime::new(0, 0),
                            dev: 0,
                            ino: 0,
                            uid: 0,
                            gid: 0,
                            file_size: 0,
                            flags: 0,
                            flags_extended: 0,
                        };
                        // A file and a directory of the same name cannot be in one tree; the later one is left out.
                        let _ = index.add(&entry);
                    }
                    let tree = repo.find_tree(index.write_tree_to(repo).ok()?).unwrap();
                    let who = git2::Signature::new("x", "x@x", &git2::Time::new(time, 0)).unwrap();
                    let parents: Vec<_> = parents.iter().map(|oid| repo.find_commit(*oid).unwrap()).collect();
                    let parents: Vec<_> = parents.iter().collect();
                    Some(repo.commit(None, &who, &who, "m", &tree, &parents).unwrap())
                })
                .unwrap_or_else(|| self.commit(&files[..1], parents, time))
        }
    }

    fn oid(id: git2::Oid) -> Oid {
        Oid::of_bytes(id.as_bytes())
    }

    /// Pseudo-random numbers from a seed.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % n
        }
    }

    #[test]
    fn everything_that_git_lists_is_found() {
        let (mut listed, mut exact) = (0, 0);
        for seed in 0..30 {
            let mut dice = Dice(seed);
            let place = Place::new();
            let mut files: Vec<(String, u32)> = (0..8).map(|n| (format!("d{}/f{n}", n % 3), 1)).collect();
            let mut commits = vec![place.commit(&files, &[], 1000)];
            for n in 1..14_i64 {
                let file = dice.below(10);
                let path = ["d0/f0", "d0/f3", "d1/f1", "d1", "d2/f2", "new", "d0/x/y", "d2/f5", "d1/f4", "d0/f6"][file];
                files.retain(|(name, _)| name != path);
                if dice.below(4) > 0 {
                    files.push((path.to_owned(), u32::try_from(dice.below(6)).unwrap()));
                }
                files.sort();
                let mut parents = vec![commits[dice.below(commits.len())]];
                if dice.below(3) == 0 {
                    parents.push(commits[dice.below(commits.len())]);
                    parents.dedup();
                }
                // Clocks are wrong now and then.
                let time = 1000 + n - i64::from(dice.below(4) == 0) * 20;
                commits.push(place.commit(&files, &parents, time));
            }
            for _ in 0..4 {
                let (tip, known) = (commits[dice.below(commits.len())], commits[dice.below(commits.len())]);
                let range = Range { tips: vec![oid(tip)], known: vec![oid(known)], ..Range::default() };
                let by_git = range.changes(&place.repo).unwrap().changes();
                let found = changes(&place.repo, &range.tips, &range.known, &[], 100).expect("few commits");
                let missing: Vec<_> =
                    by_git.iter().filter(|change| !found.iter().any(|other| other.path == change.path)).collect();
                assert_eq!(missing, Vec::<&Change>::new(), "{seed}: {tip} without {known}");
                listed += by_git.len();
                exact += usize::from(by_git == found);
            }
        }
        assert!(listed > 100 && exact > 40, "{listed} changes, {exact} ranges the same");
    }

    #[test]
    fn what_git_reads_in_another_way_is_left_to_git() {
        let place = Place::new();
        let file = |content| [("a".to_owned(), content)];
        let first = place.commit(&file(1), &[], 1);
        let second = place.commit(&file(2), &[first], 2);
        let third = place.commit(&file(3), &[second], 3);
        let (first, second, third) = (oid(first), oid(second), oid(third));
        let read = |tip: &Oid, known: &Oid, visits| changes(&place.repo, from_ref(tip), from_ref(known), &[], visits);
        assert_eq!(read(&third, &first, 10).map(|changes| changes.len()), Some(2));
        assert_eq!(read(&first, &third, 10), Some(Vec::new()), "going back adds nothing");
        let (other, base) = (place.commit(&file(4), &[], 4), git2::Oid::from_str(third.as_str()).unwrap());
        let merge = oid(place.commit(&file(4), &[base, other], 5));
        let both = [third.clone(), oid(other)];
        assert_eq!(changes(&place.repo, &[merge], &both, &[], 10), None, "a merge without a common commit");
        assert_eq!(read(&third, &first, 2), None, "too many commits");
        let push = |old: &Oid, new: &Oid| {
            let update = Update { name: "refs/heads/main".to_owned(), old: old.clone(), new: new.clone() };
            Range::nearby_of_push(&place.repo, "origin".as_ref(), "nowhere".as_ref(), &[update])
        };
        assert_eq!(push(&first, &third).map(|changes| changes.len()), Some(2));
        assert_eq!(push(&third, &second), None, "a branch that loses a commit");
        let unknown = Oid::parse(&[b'7'; 40]).unwrap();
        assert_eq!(push(&unknown, &second), None, "a branch whose commit is not here");
        assert_eq!(push(&Oid::parse(&[b'0'; 40]).unwrap(), &second), None, "nothing is known about the remote");
        std::fs::write(place.repo.common_dir.join("shallow"), format!("{second}\n")).unwrap();
        assert_eq!(read(&third, &first, 10), None, "shallow");
    }
}
