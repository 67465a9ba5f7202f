//! First step of a hook: which paths is this about?
//!
//! Judged is what the commits being introduced themselves change:
//!
//! | moment | compared |
//! |---|---|
//! | pre-commit, pre-applypatch | the index against HEAD; in a merge, against every parent |
//! | pre-merge-commit | the same; git names the other parents in variables |
//! | prepare-commit-msg | the same, unless pre-commit has just passed this very index; not during a rebase |
//! | pre-push | every commit the remote does not have |
//! | pre-receive | every commit no ref here has |
//! | reference-transaction | the same, for branches and HEAD |

use std::collections::HashSet;
use std::ffi::OsString;

use crate::git::changed::{self, After};
use crate::git::range::{Range, Update};
use crate::git::{GitError, Oid, Path, Repo};

use super::Moment;
use super::passed;
use super::policy::Policy;
use crate::local::Environment;

/// What git told the hook when it started it.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// Which hook.
    pub moment: Moment,
    /// Its arguments.
    pub args: &'a [OsString],
    /// All of its stdin.
    pub stdin: &'a [u8],
    /// Its environment.
    pub environment: &'a Environment,
}

/// The paths a verdict is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Changed paths, sorted, each once.
    pub paths: Vec<Path>,
    from: From,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    Index,
    Tips(Vec<Oid>),
    Range(Range),
}

/// What there is to read, found out without starting git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// The index against HEAD and these other parents.
    Index(Vec<Oid>),
    /// What a push brings to the remote of this name and URL.
    Push(OsString, OsString, Vec<Update>),
    /// What a push brings here.
    Receive(Vec<Update>),
    /// What moving these refs makes visible.
    Transaction(Range),
}

/// Decides what is to be read; `None` when there is nothing to judge at this moment.
pub fn plan(repo: &Repo, told: Told<'_>) -> Option<Plan> {
    match told.moment {
        Moment::PreCommit => Some(Plan::Index(changed::merge_heads(repo))),
        Moment::PreMergeCommit => {
            let named = told.environment.merging();
            Some(Plan::Index(if named.is_empty() { changed::merge_heads(repo) } else { named }))
        }
        Moment::PrepareCommitMsg if is_rebasing(repo) || passed::is_same(repo) => None,
        Moment::PrepareCommitMsg => Some(Plan::Index(changed::merge_heads(repo))),
        // Rebasing with the apply backend runs this hook too.
        Moment::PreApplypatch if is_rebasing(repo) => None,
        Moment::PreApplypatch => Some(Plan::Index(Vec::new())),
        Moment::PrePush => {
            let (remote, url, updates) = push(told);
            updates.iter().any(Update::brings_work).then_some(Plan::Push(remote, url, updates))
        }
        Moment::PreReceive => {
            let updates = Update::of_receive(told.stdin);
            updates.iter().any(Update::brings_work).then_some(Plan::Receive(updates))
        }
        Moment::ReferenceTransaction => {
            let prepared = told.args.first().is_some_and(|state| state == "prepared");
            if !prepared || is_rebasing(repo) {
                return None;
            }
            Range::of_transaction(repo, &Update::of_receive(told.stdin)).map(Plan::Transaction)
        }
    }
}

impl Plan {
    /// Reads the changed paths.
    pub fn collect(self, repo: &Repo) -> Result<Collected, GitError> {
        let range = match self {
            Plan::Index(others) => {
                let paths = changed::staged_merge(repo, &others)?;
                return Ok(Collected { paths, from: From::Index });
            }
            Plan::Transaction(range) => {
                let paths = range.paths(repo)?;
                return Ok(Collected { paths, from: From::Tips(range.tips) });
            }
            Plan::Push(remote, url, updates) => Range::of_push(repo, &remote, &url, &updates)?,
            Plan::Receive(updates) => Range::of_receive(repo, &updates)?,
        };
        // No range: there is nothing to protect yet.
        let range = range.unwrap_or_default();
        Ok(Collected { paths: range.paths(repo)?, from: From::Range(range) })
    }
}

impl Collected {
    /// Those of `suspects` that do not count after all: they undo a change that was not theirs to make, or, at a push
    /// with `dibs.pushNet`, are in the end as the other side has them.
    pub fn forgiven(&self, repo: &Repo, policy: &Policy, suspects: &[Path]) -> Result<HashSet<Path>, GitError> {
        if suspects.is_empty() {
            return Ok(HashSet::new());
        }
        match &self.from {
            From::Index => changed::undone(repo, suspects, After::Index),
            From::Range(range) if policy.push_net.value => range.put_back(repo, suspects),
            From::Range(_) => Ok(HashSet::new()),
            From::Tips(tips) => {
                // Where several branches move at once, a path must be harmless on each of them.
                let mut left = suspects.to_vec();
                for tip in tips {
                    let undone = changed::undone(repo, &left, After::Commit(tip))?;
                    left.retain(|path| undone.contains(path));
                }
                Ok(left.into_iter().collect())
            }
        }
    }
}

/// Where a push goes, and what it moves there.
fn push(told: Told<'_>) -> (OsString, OsString, Vec<Update>) {
    let word = |n: usize| told.args.get(n).cloned().unwrap_or_default();
    let updates = Update::of_push(told.stdin);
    let variable = |name: &str| told.environment.text(&format!("PRE_COMMIT_{name}")).unwrap_or_default();
    // The manager pre-commit reads stdin itself and passes on one update in variables.
    let Some(new) = Oid::parse(variable("TO_REF").as_bytes()).filter(|_| updates.is_empty()) else {
        return (word(0), word(1), updates);
    };
    let zero = || Oid::parse("0".repeat(new.as_str().len()).as_bytes());
    let old = Oid::parse(variable("FROM_REF").as_bytes()).or_else(zero);
    let name = variable("REMOTE_BRANCH");
    let update = old.map(|old| Update { name, old, new: new.clone() });
    (variable("REMOTE_NAME").into(), variable("REMOTE_URL").into(), update.into_iter().collect())
}

/// Whether a rebase is under way. It replays commits that were judged when they were made, and stopping it half way
/// helps nobody; the push decides. `git am` uses the same directory as an old-style rebase, but is none.
fn is_rebasing(repo: &Repo) -> bool {
    repo.git_dir.join("rebase-merge").is_dir() || repo.git_dir.join("rebase-apply/rebasing").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_understood_also_behind_the_manager_pre_commit() {
        let (a, b) = ("1".repeat(40), "2".repeat(40));
        let variables = [
            ("PRE_COMMIT_REMOTE_NAME", "origin"),
            ("PRE_COMMIT_REMOTE_URL", "https://x"),
            ("PRE_COMMIT_REMOTE_BRANCH", "refs/heads/main"),
            ("PRE_COMMIT_FROM_REF", a.as_str()),
            ("PRE_COMMIT_TO_REF", b.as_str()),
        ];
        let environment = Environment::from_pairs(variables);
        let told = Told { moment: Moment::PrePush, args: &[], stdin: b"", environment: &environment };
        let (remote, url, updates) = push(told);
        assert_eq!((remote.to_str(), url.to_str()), (Some("origin"), Some("https://x")));
        assert_eq!((updates[0].old.as_str(), updates[0].new.as_str()), (a.as_str(), b.as_str()));
        let without_old = Environment::from_pairs(variables.into_iter().filter(|(name, _)| !name.contains("FROM")));
        let (_, _, updates) = push(Told { environment: &without_old, ..told });
        assert!(updates[0].old.is_zero());
    }
}
