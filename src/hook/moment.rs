//! The git hooks that git-dibs installs.

use std::fmt;

use crate::judge::{Occasion, OnUnreachable};

/// A git hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Before a commit is made from the index.
    PreCommit,
    /// Before a merge that went well becomes a commit.
    PreMergeCommit,
    /// Before the message is edited; git runs it even with `--no-verify`.
    PrepareCommitMsg,
    /// After `git am` applied a patch, before it is committed.
    PreApplypatch,
    /// Before a rebase begins.
    PreRebase,
    /// Before commits leave for a remote.
    PrePush,
    /// On the receiving side, before refs move.
    PreReceive,
    /// When any ref is about to move (strict installations).
    ReferenceTransaction,
}

impl Moment {
    /// All hooks, in the order they are installed.
    pub const ALL: [Moment; 8] = [
        Moment::PreCommit,
        Moment::PreMergeCommit,
        Moment::PrepareCommitMsg,
        Moment::PreApplypatch,
        Moment::PreRebase,
        Moment::PrePush,
        Moment::PreReceive,
        Moment::ReferenceTransaction,
    ];

    /// Reads git's name of the hook.
    pub fn parse(name: &str) -> Option<Moment> {
        Moment::ALL.into_iter().find(|moment| moment.name() == name)
    }

    /// Git's name of the hook.
    pub fn name(self) -> &'static str {
        match self {
            Moment::PreCommit => "pre-commit",
            Moment::PreMergeCommit => "pre-merge-commit",
            Moment::PrepareCommitMsg => "prepare-commit-msg",
            Moment::PreApplypatch => "pre-applypatch",
            Moment::PreRebase => "pre-rebase",
            Moment::PrePush => "pre-push",
            Moment::PreReceive => "pre-receive",
            Moment::ReferenceTransaction => "reference-transaction",
        }
    }

    /// What git is about to do.
    pub fn occasion(self) -> Occasion {
        // After a push the commits are out of reach, so an unchecked one is blocked. The push checks commits again.
        let on_unreachable = if self.is_push() { OnUnreachable::Block } else { OnUnreachable::Warn };
        Occasion { noun: self.noun(), is_staged: self == Moment::PreCommit, on_unreachable }
    }

    /// The word for it in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Moment::PreCommit | Moment::PrepareCommitMsg => "commit",
            Moment::PreMergeCommit => "merge",
            Moment::PreApplypatch => "patch",
            Moment::PreRebase => "rebase",
            Moment::PrePush | Moment::PreReceive => "push",
            Moment::ReferenceTransaction => "ref update",
        }
    }

    /// Whether git writes to this hook's stdin.
    pub fn reads_stdin(self) -> bool {
        matches!(self, Moment::PrePush | Moment::PreReceive | Moment::ReferenceTransaction)
    }

    /// Whether commits leave this repository or arrive in it.
    pub fn is_push(self) -> bool {
        matches!(self, Moment::PrePush | Moment::PreReceive)
    }

    /// Whether the hook that was there before runs first.
    ///
    /// At a commit it may still change the index, and the result is what must be checked. At a push it may upload for
    /// minutes (git-lfs), which is wasted if the push is then blocked.
    pub fn next_goes_first(self) -> bool {
        !self.reads_stdin()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
