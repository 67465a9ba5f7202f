//! Which paths a change touches, for each hook.
//!
//! Checks only what the new commits themselves change:
//!
//! | hook | compared |
//! |---|---|
//! | pre-commit, pre-applypatch | the index against HEAD; in a merge, against what its parents make of it |
//! | pre-merge-commit | the same; git names the other parents in variables |
//! | prepare-commit-msg | the same, unless pre-commit has just passed this index; not during a rebase |
//! | pre-rebase | nothing: it only asks whether the session is paused |
//! | pre-push | every commit that the remote does not have, and what a branch loses that is not moved forward |
//! | pre-receive | the same, for commits that no branch or tag here has |
//! | reference-transaction | commits that no branch, tag or remote has, for branches, tags and HEAD |
//!
//! The lists may have paths that do not count in the end: [`excuse`](super::excuse) looks closer where one is held.

use std::ffi::OsString;

use crate::git::changed::{self, Change};
use crate::git::history::History;
use crate::git::range::{Range, RangeChanges, Update, written};
use crate::git::{GitError, Oid, Path, Repo};

use super::Moment;
use super::passed;
use crate::local::Environment;

/// What git passed to the hook.
#[derive(Clone, Copy)]
pub struct HookInput<'a> {
    pub moment: Moment,
    pub args: &'a [OsString],
    pub stdin: &'a [u8],
    pub environment: &'a Environment,
}

/// What a change touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Changed paths with what they become, sorted. A path that several commits change is listed with each content.
    pub changes: Vec<Change>,
    /// What is different in the end, which may be more: commits count only if the other side does not have them.
    pub net: Vec<Change>,
    pub(super) kind: ChangeKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// The index, with the other parents of a merge.
    Index(Vec<Oid>),
    /// Commits that a local ref gets.
    Transaction(Range, RangeChanges),
    /// Commits that another repository gets.
    Push(Range, RangeChanges),
    /// A range as it was typed.
    Written(String, History),
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
    /// No path: what happens changes none by itself.
    Nothing,
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
        Moment::PreRebase => Some(Plan::Nothing),
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

    /// Reads the changed paths without starting a process: all that [`Plan::collect`] lists, and perhaps more. If none of
    /// them is held, none of those is. `None` if it takes git.
    pub fn nearby(&self, repo: &Repo) -> Option<Vec<Change>> {
        match self {
            Plan::Index(others) => changed::staged_nearby(repo, others),
            Plan::Transaction(range) => range.nearby(repo),
            Plan::Nothing => Some(Vec::new()),
            Plan::Push(remote, url, updates) => Range::nearby_of_push(repo, remote, url, updates),
            Plan::Receive(updates) => match Range::of_receive(repo, updates).ok()? {
                Some(range) => range.nearby(repo),
                None => Some(Vec::new()),
            },
        }
    }

    /// Reads the changed paths.
    pub fn collect(&self, repo: &Repo) -> Result<Collected, GitError> {
        let range = match self {
            Plan::Index(others) => {
                let changes = changed::staged_merge(repo, others)?;
                return Ok(Collected::new(changes, ChangeKind::Index(others.clone())));
            }
            Plan::Transaction(range) => {
                let all = range.changes(repo)?;
                return Ok(Collected::new(all.changes(), ChangeKind::Transaction(range.clone(), all)));
            }
            Plan::Nothing => return Ok(Collected::new(Vec::new(), ChangeKind::Index(Vec::new()))),
            Plan::Push(remote, url, updates) => Range::of_push(repo, remote, url, updates)?,
            Plan::Receive(updates) => Range::of_receive(repo, updates)?,
        };
        // No range means that the other side has no commits yet, so nothing can be reserved.
        let range = range.unwrap_or_default();
        let (all, net) = (range.changes(repo)?, range.net(repo)?);
        Ok(Collected { net, ..Collected::new(all.changes(), ChangeKind::Push(range, all)) })
    }
}

impl Collected {
    pub(super) fn new(changes: Vec<Change>, kind: ChangeKind) -> Collected {
        Collected { changes, net: Vec::new(), kind }
    }

    /// What the commits of a range such as `A..B` change.
    pub fn in_range(repo: &Repo, range: &str) -> Result<Collected, GitError> {
        let history = written(repo, range)?;
        Ok(Collected::new(history.changes(), ChangeKind::Written(range.to_owned(), history)))
    }

    /// The changes and what is different in the end, sorted, each once.
    pub fn all_changes(&self) -> Vec<Change> {
        let mut all = [&self.changes[..], &self.net].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The changed paths, sorted, each once.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths: Vec<Path> = self.changes.iter().map(|change| change.path.clone()).collect();
        paths.dedup();
        paths
    }
}

/// The refs that a push or a transaction updates.
pub(super) fn updates(input: HookInput<'_>) -> Vec<Update> {
    match input.moment {
        Moment::PrePush => push(input).2,
        Moment::PreReceive | Moment::ReferenceTransaction => Update::of_receive(input.stdin),
        _ => Vec::new(),
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
/// would only leave a mess; the push checks them again, and `pre-rebase` asks about a pause. `git am` uses the same directory as an old-style rebase.
fn is_rebasing(repo: &Repo) -> bool {
    let directory = repo.git_dir.join("rebase-merge").is_dir() || repo.git_dir.join("rebase-apply/rebasing").exists();
    // A rebase works on a detached HEAD. On a branch, the directory was left behind by one that was killed.
    directory && !repo.is_on_branch()
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
