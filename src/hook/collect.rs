//! Which paths a change touches, for each hook.
//!
//! Checks only what the new commits themselves change:
//!
//! | hook | compared |
//! |---|---|
//! | pre-commit, pre-applypatch | the index against HEAD; in a merge, against every parent |
//! | pre-merge-commit | the same; git names the other parents in variables |
//! | prepare-commit-msg | the same, unless pre-commit has just passed this index; not during a rebase |
//! | pre-push | every commit that the remote does not have |
//! | pre-receive | every commit that no ref here has |
//! | reference-transaction | the same, for branches and HEAD |

use std::collections::HashSet;
use std::ffi::OsString;

use crate::git::changed::{self, After};
use crate::git::range::{Range, Update, written};
use crate::git::{GitError, Oid, Path, Repo};

use super::Moment;
use super::passed;
use crate::judge::CheckPolicy;
use crate::local::Environment;

/// What git passed to the hook.
#[derive(Clone, Copy)]
pub struct HookInput<'a> {
    pub moment: Moment,
    pub args: &'a [OsString],
    pub stdin: &'a [u8],
    pub environment: &'a Environment,
}

/// The paths of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Changed paths, sorted, each once.
    pub paths: Vec<Path>,
    kind: ChangeKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ChangeKind {
    Index,
    Tips(Vec<Oid>),
    Range(Range),
    /// A range as it was typed.
    Written(String),
}

/// What to read from git. Making the plan does not start git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// The index against HEAD and these other parents.
    Index(Vec<Oid>),
    /// What a push adds to the remote of this name and URL.
    Push(OsString, OsString, Vec<Update>),
    /// What a push adds to this repository.
    Receive(Vec<Update>),
    /// The commits that a ref update makes visible.
    Transaction(Range),
}

/// Decides what to read; `None` if there is nothing to check.
pub fn plan(repo: &Repo, input: HookInput<'_>) -> Option<Plan> {
    match input.moment {
        Moment::PreCommit => Some(Plan::staged(repo)),
        Moment::PreMergeCommit => {
            let named = input.environment.merging();
            Some(Plan::Index(if named.is_empty() { changed::merge_heads(repo) } else { named }))
        }
        Moment::PrepareCommitMsg if is_rebasing(repo) || passed::is_same(repo) => None,
        Moment::PrepareCommitMsg => Some(Plan::staged(repo)),
        // A rebase with the apply backend runs this hook too.
        Moment::PreApplypatch if is_rebasing(repo) => None,
        Moment::PreApplypatch => Some(Plan::Index(Vec::new())),
        Moment::PrePush => {
            let (remote, url, updates) = push(input);
            updates.iter().any(Update::brings_work).then_some(Plan::Push(remote, url, updates))
        }
        Moment::PreReceive => {
            let updates = Update::of_receive(input.stdin);
            updates.iter().any(Update::brings_work).then_some(Plan::Receive(updates))
        }
        Moment::ReferenceTransaction => {
            let prepared = input.args.first().is_some_and(|state| state == "prepared");
            if !prepared || is_rebasing(repo) {
                return None;
            }
            Range::of_transaction(repo, &Update::of_receive(input.stdin)).map(Plan::Transaction)
        }
    }
}

impl Plan {
    /// What is staged, as the hook of a commit reads it.
    pub fn staged(repo: &Repo) -> Plan {
        Plan::Index(changed::merge_heads(repo))
    }

    /// Reads the changed paths.
    pub fn collect(self, repo: &Repo) -> Result<Collected, GitError> {
        let range = match self {
            Plan::Index(others) => {
                let paths = changed::staged_merge(repo, &others)?;
                return Ok(Collected { paths, kind: ChangeKind::Index });
            }
            Plan::Transaction(range) => {
                let paths = range.paths(repo)?;
                return Ok(Collected { paths, kind: ChangeKind::Tips(range.tips) });
            }
            Plan::Push(remote, url, updates) => Range::of_push(repo, &remote, &url, &updates)?,
            Plan::Receive(updates) => Range::of_receive(repo, &updates)?,
        };
        // No range means that the other side has no commits yet, so nothing can be reserved.
        let range = range.unwrap_or_default();
        Ok(Collected { paths: range.paths(repo)?, kind: ChangeKind::Range(range) })
    }
}

impl Collected {
    /// The paths that the commits of a range such as `A..B` change.
    pub fn in_range(repo: &Repo, range: &str) -> Result<Collected, GitError> {
        Ok(Collected { paths: written(repo, range)?, kind: ChangeKind::Written(range.to_owned()) })
    }

    /// Those of `suspects` that do not count: they only undo an earlier change, or, at a push with `dibs.pushNet`, are in
    /// the end as the other side has them.
    pub fn undone(&self, repo: &Repo, policy: &CheckPolicy, suspects: &[Path]) -> Result<HashSet<Path>, GitError> {
        if suspects.is_empty() {
            return Ok(HashSet::new());
        }
        match &self.kind {
            ChangeKind::Index => changed::undone(repo, suspects, After::Index),
            ChangeKind::Range(range) if policy.push_net.value => range.put_back(repo, suspects),
            ChangeKind::Written(text) if policy.push_net.value => Range::parse(repo, text)?.put_back(repo, suspects),
            ChangeKind::Range(_) | ChangeKind::Written(_) => Ok(HashSet::new()),
            ChangeKind::Tips(tips) => {
                // If several branches move at once, a path must be undone on each of them.
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

/// The remote's name and URL, and the refs that a push updates.
fn push(input: HookInput<'_>) -> (OsString, OsString, Vec<Update>) {
    let word = |n: usize| input.args.get(n).cloned().unwrap_or_default();
    let updates = Update::of_push(input.stdin);
    let variable = |name: &str| input.environment.text(&format!("PRE_COMMIT_{name}")).unwrap_or_default();
    // The hook manager pre-commit reads stdin itself and passes one update in variables.
    let Some(new) = Oid::parse(variable("TO_REF").as_bytes()).filter(|_| updates.is_empty()) else {
        return (word(0), word(1), updates);
    };
    let zero = || Oid::parse("0".repeat(new.as_str().len()).as_bytes());
    let old = Oid::parse(variable("FROM_REF").as_bytes()).or_else(zero);
    let name = variable("REMOTE_BRANCH");
    let update = old.map(|old| Update { name, old, new: new.clone() });
    (variable("REMOTE_NAME").into(), variable("REMOTE_URL").into(), update.into_iter().collect())
}

/// Whether a rebase is in progress. It replays commits that were checked when they were made, and to stop it half way
/// would only leave a mess; the push checks them again. `git am` uses the same directory as an old-style rebase.
fn is_rebasing(repo: &Repo) -> bool {
    repo.git_dir.join("rebase-merge").is_dir() || repo.git_dir.join("rebase-apply/rebasing").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_read_from_the_variables_of_the_manager_pre_commit() {
        let (a, b) = ("1".repeat(40), "2".repeat(40));
        let variables = [
            ("PRE_COMMIT_REMOTE_NAME", "origin"),
            ("PRE_COMMIT_REMOTE_URL", "https://x"),
            ("PRE_COMMIT_REMOTE_BRANCH", "refs/heads/main"),
            ("PRE_COMMIT_FROM_REF", a.as_str()),
            ("PRE_COMMIT_TO_REF", b.as_str()),
        ];
        let environment = Environment::from_pairs(variables);
        let input = HookInput { moment: Moment::PrePush, args: &[], stdin: b"", environment: &environment };
        let (remote, url, updates) = push(input);
        assert_eq!((remote.to_str(), url.to_str()), (Some("origin"), Some("https://x")));
        assert_eq!((updates[0].old.as_str(), updates[0].new.as_str()), (a.as_str(), b.as_str()));
        let without_old = Environment::from_pairs(variables.into_iter().filter(|(name, _)| !name.contains("FROM")));
        let (_, _, updates) = push(HookInput { environment: &without_old, ..input });
        assert!(updates[0].old.is_zero());
    }
}
