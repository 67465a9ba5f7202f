//! Which paths differ: the index or a commit against what came before it.
//!
//! Mode and content are compared as git stores them, so a change of the executable bit, of a symlink's target or of a
//! submodule's commit counts. Renames are not detected: the old path appears as deleted, the new one as added.

use std::collections::BTreeMap;

use super::repo::oids_in;
use super::{GitError, Oid, Path, Repo, merge_drivers};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// As git writes it: a file, an executable file, a symlink or a submodule.
    pub mode: u32,
    /// The content, or the commit of a submodule.
    pub oid: Oid,
}

/// A path that a change touches, and what is there afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Change {
    pub path: Path,
    /// None if the path is deleted.
    pub after: Option<Entry>,
}

/// The state after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After<'a> {
    /// The index that `GIT_INDEX_FILE` names, else the worktree's own.
    Index,
    /// A commit or a tree.
    Commit(&'a Oid),
}

/// A commit that a change may be undone to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub commit: Oid,
    /// It is what the protected repository has now, not an earlier commit.
    pub is_tip: bool,
}

/// A merge, and the paths that differ from at least one of its parents.
pub struct Merge<'a> {
    pub parents: &'a [Oid],
    /// For each path, the parents that have the same there as the merge.
    pub paths: Vec<(Path, Vec<bool>)>,
}

/// Paths that differ between the index and HEAD; before the first commit, every path in the index.
///
/// An entry made by `git add --intent-to-add` is not part of the commit and is not listed.
pub fn staged(repo: &Repo) -> Result<Vec<Change>, GitError> {
    match between(repo, "HEAD", After::Index) {
        Err(GitError::Failed { .. }) if is_unborn(repo)? => {
            let nothing = repo.git().args(["hash-object", "-t", "tree", "--stdin"]).output()?;
            between(repo, &String::from_utf8_lossy(nothing.trim_ascii()), After::Index)
        }
        other => other,
    }
}

/// Paths that a merge of `others` into HEAD changes by itself, as far as the parents tell without merging file contents.
pub fn staged_merge(repo: &Repo, others: &[Oid]) -> Result<Vec<Change>, GitError> {
    if let Some(changes) = staged_nearby(repo, others) {
        return Ok(changes);
    }
    let ours = staged(repo)?;
    if others.is_empty() {
        return Ok(ours);
    }
    let Some(head) = repo.head()? else { return Ok(ours) };
    if repo.library().is_none()
        && let [other] = others
        && let Some(changes) = beyond_automatic_merge(repo, other)?
    {
        return Ok(changes);
    }
    let parents: Vec<Oid> = [&[head], others].concat();
    let mut differing = vec![ours];
    for other in others {
        differing.push(between(repo, other.as_str(), After::Index)?);
    }
    Ok(beyond_parents(repo, &parents, differing))
}

/// The same, without starting a process. `None` if that takes git.
pub fn staged_nearby(repo: &Repo, others: &[Oid]) -> Option<Vec<Change>> {
    let library = repo.library()?;
    let against = |commit: &str| library.index_against(&repo.index_file(), commit);
    let ours = against("HEAD")?;
    if others.is_empty() {
        return Some(ours);
    }
    let parents: Vec<Oid> = [&[library.head()?], others].concat();
    let theirs = others.iter().map(|other| against(other.as_str()));
    let differing = [Some(ours)].into_iter().chain(theirs).collect::<Option<_>>()?;
    Some(beyond_parents(repo, &parents, differing))
}

/// Paths that an existing merge changes by itself, in the same way; used where git does not compute it.
pub(super) fn committed_merge(repo: &Repo, commit: &Oid, parents: &[Oid]) -> Result<Vec<Change>, GitError> {
    let differing = parents.iter().map(|parent| between(repo, parent.as_str(), After::Commit(commit)));
    Ok(beyond_parents(repo, parents, differing.collect::<Result<_, _>>()?))
}

/// Paths at which a merge is not what its parents make it. `differing` has the paths that differ from each parent.
///
/// If one side changed a path since the parents' common commit, the merge must have that side's version: a merge that has
/// the other one discards a change. If several sides changed it, only the merge itself can have decided.
pub(super) fn beyond_parents(repo: &Repo, parents: &[Oid], differing: Vec<Vec<Change>>) -> Vec<Change> {
    let mut all: BTreeMap<Path, (Option<Entry>, Vec<bool>)> = BTreeMap::new();
    for (n, changes) in differing.into_iter().enumerate() {
        for Change { path, after } in changes {
            all.entry(path).or_insert_with(|| (after, vec![true; parents.len()])).1[n] = false;
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    let paths = all.iter().map(|(path, (_, equals))| (path.clone(), equals.clone())).collect();
    let carried = repo.library().and_then(|library| library.carried_by_merge(&Merge { parents, paths }));
    // If libgit2 cannot read the repository, every path counts until git has merged the parents itself.
    let carried = carried.unwrap_or_else(|| vec![false; all.len()]);
    let counting = all.into_iter().zip(carried).filter(|(_, carried)| !carried);
    counting.map(|((path, (after, _)), _)| Change { path, after }).collect()
}

/// The other parents of a merge that is not committed yet.
pub fn merge_heads(repo: &Repo) -> Vec<Oid> {
    oids_in(&repo.git_dir.join("MERGE_HEAD"))
}

/// Paths at which the index is not what `git merge` makes of HEAD and `other` by itself. A file in conflict is one of them.
///
/// `None` if this git cannot merge without a work tree (before 2.38).
pub fn beyond_automatic_merge(repo: &Repo, other: &Oid) -> Result<Option<Vec<Change>>, GitError> {
    let call = repo.git().with(merge_drivers::replaced(repo)?);
    let call = call.args(["merge-tree", "--write-tree", "--no-messages", "HEAD", other.as_str()]);
    let output = call.everything()?;
    // It exits with 1 if there are conflicts, and writes a tree all the same.
    let tree = matches!(output.status.code(), Some(0 | 1)).then(|| output.stdout.split(|&b| !b.is_ascii_hexdigit()));
    let Some(tree) = tree.and_then(|mut words| Oid::parse(words.next()?)) else { return Ok(None) };
    by_program(repo, tree.as_str(), After::Index).map(Some)
}

/// Paths that differ between a commit or tree and what comes after it, sorted, each once.
pub fn between(repo: &Repo, before: &str, after: After<'_>) -> Result<Vec<Change>, GitError> {
    if after == After::Index
        && let Some(changes) = repo.library().and_then(|library| library.index_against(&repo.index_file(), before))
    {
        return Ok(changes);
    }
    by_program(repo, before, after)
}

/// The same, by the git program.
fn by_program(repo: &Repo, before: &str, after: After<'_>) -> Result<Vec<Change>, GitError> {
    let common = ["-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none"];
    let call = match after {
        After::Index => {
            repo.git().args(["diff-index", "--cached", "--ita-invisible-in-index"]).args(common).arg(before)
        }
        After::Commit(oid) => repo.git().args(["diff-tree", "-r"]).args(common).args([before, oid.as_str()]),
    };
    let listed = call.arg("--").output()?;
    let mut changes: Vec<Change> = steps(&listed).map(|step| Change { path: step.path, after: step.after }).collect();
    changes.sort_unstable();
    // An unmerged path is listed once for each side.
    changes.dedup_by(|one, other| one.path == other.path);
    Ok(changes)
}

/// A path as a change found it and left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub path: Path,
    pub before: Option<Entry>,
    pub after: Option<Entry>,
}

/// Reads git's raw format with `-z`: `:MODE MODE OLD NEW STATUS`, then the path.
fn steps(listed: &[u8]) -> impl Iterator<Item = Step> {
    let mut pieces = listed.split(|&b| b == 0);
    std::iter::from_fn(move || {
        let (before, after) = step_head(pieces.next()?)?;
        Some(Step { path: pieces.next()?.to_vec(), before, after })
    })
}

/// Reads `:MODE MODE OLD NEW STATUS`.
pub(super) fn step_head(piece: &[u8]) -> Option<(Option<Entry>, Option<Entry>)> {
    let mut words = piece.strip_prefix(b":")?.split(|&b| b == b' ');
    let mut word = || words.next();
    let (modes, oids) = ([word()?, word()?], [word()?, word()?]);
    let entry = |n: usize| {
        let mode = u32::from_str_radix(std::str::from_utf8(modes[n]).ok()?, 8).ok()?;
        let oid = Oid::parse(oids[n])?;
        Some(Some(Entry { mode, oid }).filter(|entry| !entry.oid.is_zero()))
    };
    Some((entry(0)?, entry(1)?))
}

/// The commits to which the current branch may be undone.
pub fn bases(repo: &Repo) -> Result<Vec<Base>, GitError> {
    // A branch without an upstream most likely started from the remote's default branch.
    let upstream = match repo.commit("@{upstream}") {
        Ok(Some(found)) => Some(found),
        _ => repo.commit("refs/remotes/origin/HEAD").unwrap_or(None),
    };
    let mut bases: Vec<Base> = Vec::new();
    if let Some(upstream) = upstream {
        let fork = repo.git().args(["merge-base", "HEAD", upstream.as_str()]).answer()?;
        bases.push(Base { commit: upstream, is_tip: true });
        let fork = fork.and_then(|text| Oid::parse(text.trim_ascii()));
        bases.extend(fork.map(|commit| Base { commit, is_tip: false }));
    }
    // What a remote has already may be the holder's; only a commit that is nowhere else is undone by going back.
    let published = repo.git().args(["for-each-ref", "--count=1", "--format=x", "--contains=HEAD", "refs/remotes/"]);
    if repo.head()?.is_some() && published.answer()?.is_some_and(|found| found.is_empty()) {
        bases.extend(repo.commit("HEAD^")?.map(|commit| Base { commit, is_tip: false }));
    }
    bases.dedup_by(|one, other| one.commit == other.commit);
    Ok(bases)
}

/// Whether HEAD names a branch that has no commit yet.
fn is_unborn(repo: &Repo) -> Result<bool, GitError> {
    let branch = repo.git().args(["symbolic-ref", "--quiet", "HEAD"]).answer()?;
    Ok(branch.is_some() && repo.commit("HEAD")?.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers from a seed.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % n
        }

        /// A path made of few names, so that files become directories, which matters for the sort order.
        fn path(&mut self) -> String {
            const NAMES: [&str; 8] = ["a", "a-", "a.b", "a0", "b", "é", "ab", "c"];
            let mut path = NAMES[self.below(8)].to_owned();
            for _ in 0..self.below(4) {
                path = format!("{path}/{}", NAMES[self.below(8)]);
            }
            path
        }

        fn entry(&mut self) -> String {
            let mode = ["100644", "100755", "120000", "160000"][self.below(4)];
            format!("{mode} {:040x}\t{}\n", self.below(3) + 1, self.path())
        }
    }

    struct Place {
        dir: tempfile::TempDir,
        repo: Repo,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            git2::Repository::init(dir.path()).unwrap();
            Place { repo: Repo::at(dir.path()).unwrap(), dir }
        }

        fn git(&self, args: &[&str], input: &str) -> String {
            let who = ["user.name=x", "user.email=x@x", "core.checkStat=minimal"];
            let output = self.repo.git().with(who).args(args).input(input.into()).output().unwrap();
            String::from_utf8(output).unwrap().trim().to_owned()
        }

        /// Makes a commit of what is in the index, without its files.
        fn commit(&self) {
            let tree = self.git(&["write-tree", "--missing-ok"], "");
            let commit = self.git(&["commit-tree", "-m", "m", &tree], "");
            self.git(&["update-ref", "HEAD", &commit], "");
        }

        /// The changes that the walk finds, which must be those that git finds.
        fn walked(&self, about: &str) -> Vec<Path> {
            let walked = self.repo.library().unwrap().index_against(&self.repo.index_file(), "HEAD");
            let walked = walked.unwrap_or_else(|| panic!("{about}: left to git"));
            assert_eq!(walked, by_program(&self.repo, "HEAD", After::Index).unwrap(), "{about}");
            paths(walked)
        }
    }

    fn paths(changes: Vec<Change>) -> Vec<Path> {
        changes.into_iter().map(|change| change.path).collect()
    }

    #[test]
    fn the_walk_finds_what_git_finds() {
        let mut seen = 0;
        for seed in 0..40 {
            let mut dice = Dice(seed);
            let place = Place::new();
            let entries = |dice: &mut Dice, n| (0..n).map(|_| dice.entry()).collect::<String>();
            // Later entries replace earlier ones that are in their way.
            place.git(&["update-index", "--replace", "--index-info"], &entries(&mut dice, 40));
            place.commit();
            assert_eq!(place.walked(&format!("{seed}, as committed")), Vec::<Path>::new());
            let (version, changes) = (["2", "4"][dice.below(2)], dice.below(12));
            place.git(&["update-index", "--index-version", version], "");
            place.git(&["update-index", "--replace", "--index-info"], &entries(&mut dice, changes));
            let listed = place.git(&["ls-files"], "");
            for path in listed.lines().filter(|path| path.is_ascii()) {
                if dice.below(8) == 0 {
                    place.git(&["update-index", "--force-remove", path], "");
                }
            }
            if dice.below(2) == 0 {
                std::fs::write(place.dir.path().join("announced"), "x").unwrap();
                place.git(&["add", "--intent-to-add", "announced"], "");
            }
            seen += place.walked(&format!("{seed}, changed")).len();
            if dice.below(2) == 0 {
                // Now git remembers all trees.
                place.git(&["write-tree", "--missing-ok"], "");
                place.walked(&format!("{seed}, written"));
            }
        }
        assert!(seen > 100, "there was something to find: {seen}");
    }

    #[test]
    fn the_first_commit_an_announced_file_and_an_old_mode() {
        let place = Place::new();
        let blob = place.git(&["hash-object", "-w", "--stdin"], "x");
        place.git(&["update-index", "--index-info"], &format!("100644 {blob}\ta\n100644 {blob}\tb\n"));
        let walked = place.repo.library().unwrap().index_against(&place.repo.index_file(), "HEAD");
        assert_eq!(walked.map(paths), Some(vec![b"a".to_vec(), b"b".to_vec()]), "no commit yet");
        place.commit();
        place.git(&["rm", "--cached", "-q", "a"], "");
        std::fs::write(place.dir.path().join("a"), "x").unwrap();
        place.git(&["add", "-N", "a"], "");
        assert_eq!(place.walked("announced again"), [b"a".to_vec()]);

        // Git wrote the group's permission once.
        let oid = git2::Oid::from_str(&blob).unwrap();
        let tree = [b"100664 a\0", oid.as_bytes(), b"100664 b\0", oid.as_bytes()].concat();
        let repository = git2::Repository::open(place.dir.path()).unwrap();
        let tree = repository.odb().unwrap().write(git2::ObjectType::Tree, &tree).unwrap();
        let commit = place.git(&["commit-tree", "-m", "m", &tree.to_string()], "");
        place.git(&["update-ref", "HEAD", &commit], "");
        place.git(&["add", "a"], "");
        assert_eq!(place.walked("an old mode"), Vec::<Path>::new());
    }

    #[test]
    fn what_the_walk_does_not_read_is_left_to_git() {
        let place = Place::new();
        std::fs::write(place.dir.path().join("a"), "x").unwrap();
        place.git(&["add", "a"], "");
        place.commit();
        let walked = || place.repo.library().unwrap().index_against(&place.repo.index_file(), "HEAD");
        assert_eq!(walked(), Some(Vec::new()));
        let good = std::fs::read(place.repo.index_file()).unwrap();
        // Cut off anywhere, or with any byte changed: never a panic, and never more than the files there are.
        for n in 0..good.len() {
            std::fs::write(place.repo.index_file(), &good[..n]).unwrap();
            assert!(walked().is_none_or(|paths| paths.len() <= 2), "{n}");
            let mut bad = good.clone();
            bad[n] ^= 0xff;
            std::fs::write(place.repo.index_file(), &bad).unwrap();
            assert!(walked().is_none_or(|paths| paths.len() <= 2), "{n}");
        }
        std::fs::write(place.repo.index_file(), &good).unwrap();
        place.git(&["update-index", "--split-index"], "");
        assert_eq!(walked(), None, "split");
        place.git(&["update-index", "--no-split-index"], "");
        let blob = place.git(&["rev-parse", "HEAD:a"], "");
        place.git(&["update-index", "--index-info"], &format!("0 {blob}\ta\n100644 {blob} 2\ta\n"));
        assert_eq!(walked(), None, "in conflict");
        std::fs::remove_file(place.repo.index_file()).unwrap();
        assert_eq!(walked(), None, "gone");
    }
}
