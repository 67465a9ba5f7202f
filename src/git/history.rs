//! The commits of a range, and what each of them changes by itself.
//!
//! An ordinary commit changes what differs from its parent. A merge changes what differs from the automatic merge of its
//! parents: carrying another branch changes nothing, discarding a change of one side does.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::time::Duration;

use super::changed::{Change, Entry, Step, committed_merge, step_head};
use super::{GitError, Oid, Path, Repo, merge_drivers};

/// The most versions of a file that are looked through for an earlier one.
const VERSIONS_MAX: usize = 1_000;
/// How long that may take.
const VERSIONS_TIME: Duration = Duration::from_secs(1);

/// Commits, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    pub commits: Vec<Commit>,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// None for a commit that is about to be made.
    pub oid: Option<Oid>,
    pub parents: Vec<Oid>,
    pub steps: Vec<Step>,
}

impl History {
    /// Reads the commits that the revisions in `input` select; `before` and `after` are options of `git log` that must
    /// stand before or after those.
    pub fn read(repo: &Repo, before: &[&str], after: &[OsString], input: Vec<u8>) -> Result<History, GitError> {
        // The user's settings for `git log` must not change which paths are listed.
        let plain = ["diff.orderFile=/dev/null", "diff.relative=false", "log.showSignature=false", "log.follow=false"];
        let drivers = merge_drivers::replaced(repo)?;
        let log = |merges: &str| {
            let call = repo.git().with(plain).with(&drivers).arg("log").args(before).arg("--stdin").args(after);
            let call = call.args(["-z", "--format=%x01%H %P", "--raw", "--no-abbrev", "--root", merges]);
            call.args(["--no-renames", "--ignore-submodules=none", "--"]).input(input.clone()).output()
        };
        // Merging again needs a place for temporary objects, which a read-only repository has not.
        let (listed, merged) = match log("--remerge-diff") {
            Ok(listed) => (listed, true),
            Err(GitError::Failed { .. }) => (log("--diff-merges=off")?, false),
            Err(error) => return Err(error),
        };
        let mut history = History::parse(&listed);
        for commit in &mut history.commits {
            // Git merges two parents again, not more.
            let by_git = commit.parents.len() < 2 || (merged && commit.parents.len() == 2);
            if let Some(oid) = commit.oid.as_ref().filter(|_| !by_git) {
                let changes = committed_merge(repo, oid, &commit.parents)?;
                let step = |Change { path, after }| Step { path, before: None, after };
                commit.steps = changes.into_iter().map(step).collect();
            }
        }
        Ok(history)
    }

    fn parse(listed: &[u8]) -> History {
        let mut commits: Vec<Commit> = Vec::new();
        let mut pieces = listed.split(|&b| b == 0);
        while let Some(piece) = pieces.next() {
            let piece = piece.strip_prefix(b"\n").unwrap_or(piece);
            // Git may print a warning before a commit: it does not merge more than two parents again.
            if let Some(at) = piece.iter().position(|&b| b == b'\x01') {
                let mut oids = piece[at + 1..].split(|b| b.is_ascii_whitespace()).filter_map(Oid::parse);
                commits.push(Commit { oid: oids.next(), parents: oids.collect(), steps: Vec::new() });
            } else if let Some((before, after)) = step_head(piece)
                && let (Some(path), Some(commit)) = (pieces.next(), commits.last_mut())
            {
                commit.steps.push(Step { path: path.to_vec(), before, after });
            }
        }
        History { commits }
    }

    /// Every path with every content it gets, sorted, each once.
    pub fn changes(&self) -> Vec<Change> {
        let steps = self.commits.iter().flat_map(|commit| &commit.steps);
        let mut all: Vec<Change> =
            steps.map(|step| Change { path: step.path.clone(), after: step.after.clone() }).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether `new` is one of these commits and was made on top of `old`, as far as these commits tell.
    pub fn continues(&self, old: &Oid, new: &Oid) -> bool {
        self.below(new).iter().any(|commit| commit.parents.contains(old))
    }

    /// Whether `tip`, or a commit of this history below it, changes the path.
    pub fn changes_below(&self, tip: &Oid, path: &Path) -> bool {
        self.below(tip).iter().any(|commit| commit.steps.iter().any(|step| step.path == *path))
    }

    /// The commits outside of this history on which it is based, each once.
    pub fn edges(&self) -> HashSet<&Oid> {
        let at = self.positions();
        self.commits.iter().flat_map(|commit| &commit.parents).filter(|parent| !at.contains_key(parent)).collect()
    }

    /// For each commit, whether it is based on no commit outside of this history except `foreign` ones. Others know those
    /// outside; `foreign` are commits of another project.
    pub fn unrelated(&self, foreign: &HashSet<Oid>) -> Vec<bool> {
        let at = self.positions();
        let mut unrelated = vec![false; self.commits.len()];
        // A commit is listed before its parents unless clocks were wrong; then it counts as related.
        for (n, commit) in self.commits.iter().enumerate().rev() {
            let is_unrelated = |parent: &Oid| match at.get(parent) {
                Some(&parent) => parent > n && unrelated[parent],
                None => foreign.contains(parent),
            };
            unrelated[n] = commit.oid.is_some() && commit.parents.iter().all(is_unrelated);
        }
        unrelated
    }

    /// The commits of this history that `tip` has: itself and its ancestors.
    fn below(&self, tip: &Oid) -> Vec<&Commit> {
        let at = self.positions();
        let mut left: Vec<usize> = at.get(tip).copied().into_iter().collect();
        let mut seen: HashSet<usize> = HashSet::new();
        while let Some(n) = left.pop() {
            if seen.insert(n) {
                left.extend(self.commits[n].parents.iter().filter_map(|parent| at.get(parent)));
            }
        }
        seen.into_iter().map(|n| &self.commits[n]).collect()
    }

    fn positions(&self) -> HashMap<&Oid, usize> {
        self.commits.iter().enumerate().filter_map(|(n, commit)| Some((commit.oid.as_ref()?, n))).collect()
    }
}

/// Whether a path had this content before, in one of `tips` or below: then a change to it goes back. The mode does not
/// matter.
///
/// If that cannot be found out in time, the answer is yes.
pub fn had_before(repo: &Repo, tips: &[Oid], path: &Path, entry: Option<&Entry>) -> bool {
    if tips.is_empty() {
        return false;
    }
    let call = repo.git().arg("--literal-pathspecs").args(["log", "-z", "--format=", "--raw", "--no-abbrev", "--root"]);
    let call = call.args(["--full-history", "--no-renames", "--ignore-submodules=none", "-m"]);
    let call = call.arg(format!("--max-count={VERSIONS_MAX}")).args(tips.iter().map(Oid::as_str)).arg("--");
    let call = call.arg(std::os::unix::ffi::OsStrExt::from_bytes(path.as_slice()) as &std::ffi::OsStr);
    let Ok(listed) = call.output_within(VERSIONS_TIME) else { return true };
    let heads = listed.split(|&b| b == 0).filter_map(|piece| step_head(piece.trim_ascii_start()));
    heads.into_iter().any(|(_, after)| after.as_ref().map(|after| &after.oid) == entry.map(|entry| &entry.oid))
}
