//! Which paths differ: the index or a commit against what came before it.
//!
//! Mode and content are compared as git stores them, so a change of the executable bit, of a symlink's target or of a
//! submodule's commit counts. Renames are not detected: the old path appears as deleted, the new one as added.

use std::collections::HashSet;

use super::repo::oids_in;
use super::{GitError, Oid, Path, Repo, split_nul};

/// The state after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After<'a> {
    /// The index that `GIT_INDEX_FILE` names, else the worktree's own.
    Index,
    /// A commit.
    Commit(&'a Oid),
}

/// Paths that differ between the index and HEAD; before the first commit, every path in the index.
///
/// An entry made by `git add --intent-to-add` is not part of the commit and is not listed.
pub fn staged(repo: &Repo) -> Result<Vec<Path>, GitError> {
    match between(repo, "HEAD", After::Index) {
        Err(GitError::Failed { .. }) if is_unborn(repo)? => {
            let nothing = repo.git().args(["hash-object", "-t", "tree", "--stdin"]).output()?;
            between(repo, &String::from_utf8_lossy(nothing.trim_ascii()), After::Index)
        }
        other => other,
    }
}

/// Paths that a merge of `others` into HEAD changes by itself: those in the index that differ from every parent.
///
/// A path that equals one parent was changed by that parent, not by the merge.
pub fn staged_merge(repo: &Repo, others: &[Oid]) -> Result<Vec<Path>, GitError> {
    let mut paths = staged(repo)?;
    for other in others {
        if paths.is_empty() {
            break;
        }
        let changed: HashSet<Path> = between(repo, other.as_str(), After::Index)?.into_iter().collect();
        paths.retain(|path| changed.contains(path));
    }
    Ok(paths)
}

/// The other parents of a merge that is not committed yet.
pub fn merge_heads(repo: &Repo) -> Vec<Oid> {
    oids_in(&repo.git_dir.join("MERGE_HEAD"))
}

/// Those of `paths` that only undo a change: their content in `after` is that of the branch's upstream, of the commit where
/// the branch left its upstream, or of the commit before HEAD.
pub fn undone(repo: &Repo, paths: &[Path], after: After<'_>) -> Result<HashSet<Path>, GitError> {
    let mut left: HashSet<&Path> = paths.iter().collect();
    for base in bases(repo)? {
        if left.is_empty() {
            break;
        }
        let changed: HashSet<Path> = between(repo, base.as_str(), after)?.into_iter().collect();
        left.retain(|path| changed.contains(*path));
    }
    Ok(paths.iter().filter(|path| !left.contains(path)).cloned().collect())
}

/// Paths that differ between a commit or tree and what comes after it, sorted, each once.
pub fn between(repo: &Repo, before: &str, after: After<'_>) -> Result<Vec<Path>, GitError> {
    if after == After::Index
        && let Some(paths) = repo.library().and_then(|library| library.index_against(&repo.index_file(), before))
    {
        return Ok(paths);
    }
    by_program(repo, before, after)
}

/// The same, by the git program.
fn by_program(repo: &Repo, before: &str, after: After<'_>) -> Result<Vec<Path>, GitError> {
    let common = ["-z", "--name-only", "--no-renames", "--ignore-submodules=none"];
    let call = match after {
        After::Index => {
            repo.git().args(["diff-index", "--cached", "--ita-invisible-in-index"]).args(common).arg(before)
        }
        After::Commit(oid) => repo.git().args(["diff-tree", "-r"]).args(common).args([before, oid.as_str()]),
    };
    let mut paths = split_nul(&call.arg("--").output()?);
    // An unmerged path is listed once for each side.
    paths.sort_unstable();
    paths.dedup();
    Ok(paths)
}

/// The commits to which a change may be undone.
fn bases(repo: &Repo) -> Result<Vec<Oid>, GitError> {
    // A branch without an upstream most likely started from the remote's default branch.
    let upstream = match repo.commit("@{upstream}") {
        Ok(Some(found)) => Some(found),
        _ => repo.commit("refs/remotes/origin/HEAD").unwrap_or(None),
    };
    let mut bases: Vec<Oid> = Vec::new();
    if let Some(upstream) = upstream {
        let fork = repo.git().args(["merge-base", "HEAD", upstream.as_str()]).answer()?;
        bases.push(upstream);
        bases.extend(fork.and_then(|text| Oid::parse(text.trim_ascii())));
    }
    bases.extend(repo.commit("HEAD^")?);
    bases.dedup();
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
            let output = self.repo.git().with(&who).args(args).input(input.into()).output().unwrap();
            String::from_utf8(output).unwrap().trim().to_owned()
        }

        /// Makes a commit of what is in the index, without its files.
        fn commit(&self) {
            let tree = self.git(&["write-tree", "--missing-ok"], "");
            let commit = self.git(&["commit-tree", "-m", "m", &tree], "");
            self.git(&["update-ref", "HEAD", &commit], "");
        }

        /// The paths that the walk finds, which must be those that git finds.
        fn walked(&self, about: &str) -> Vec<Path> {
            let walked = self.repo.library().unwrap().index_against(&self.repo.index_file(), "HEAD");
            let walked = walked.unwrap_or_else(|| panic!("{about}: left to git"));
            assert_eq!(walked, by_program(&self.repo, "HEAD", After::Index).unwrap(), "{about}");
            walked
        }
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
        assert_eq!(walked, Some(vec![b"a".to_vec(), b"b".to_vec()]), "no commit yet");
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
