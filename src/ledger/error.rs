//! Errors of a ledger. Each message says what to do about it. Reservations work on meanwhile.

use std::io;
use std::path::{Path, PathBuf};

use crate::engine::Seq;
use crate::journal::JournalError;

/// Why the ledger could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("there is no ledger at {}; git dibs serve writes one, and git dibs ledger fetch brings one here", .path.display())]
    Missing { path: PathBuf },
    /// Not a ledger. It was not changed.
    #[error("{} is not a git-dibs ledger, or an incomplete one, and was not changed; move it away; the server then creates a new one", .path.display())]
    Foreign { path: PathBuf },
    /// Written by a later version.
    #[error("the ledger {} has version {version}, and this git-dibs knows version {newest_version}; use the newer git-dibs that wrote it", .path.display())]
    Newer {
        path: PathBuf,
        /// The version of the ledger.
        version: i64,
        /// The newest version this program knows.
        newest_version: i64,
    },
    /// Another process writes it.
    #[error("the ledger {} is being written by another process; stop that first", .path.display())]
    InUse { path: PathBuf },
    /// A ledger in which something is missing or wrong.
    #[error("the ledger {} is damaged: {what}; move it away; the server then creates a new one from the journal", .path.display())]
    Damaged { path: PathBuf, what: String },
    /// The ledger and the journal have different events under the same number.
    #[error("the ledger {} and the journal have different events at {at}: the ledger belongs to another journal, or an older journal was restored; move the ledger away; the server then creates a new one", .path.display())]
    Diverged {
        path: PathBuf,
        /// The number with different events.
        at: Seq,
    },
    /// The journal dropped records that are not in the ledger.
    #[error("the journal no longer has the records after {after}; the ledger continues after a gap")]
    RecordsDropped {
        /// The last record in the ledger.
        after: Seq,
    },
    /// An error of the operating system.
    #[error("could not {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as in "could not …".
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What is wrong with a ledger, for a reader that must not see file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerProblem {
    /// There is no room for it.
    Full,
    /// Something in it is missing or wrong.
    Damaged,
    /// It cannot be written for another reason.
    Unwritable,
}

impl LedgerError {
    pub fn problem(&self) -> LedgerProblem {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            LedgerError::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
                LedgerProblem::Full
            }
            LedgerError::Damaged { .. } | LedgerError::Diverged { .. } | LedgerError::Foreign { .. } => {
                LedgerProblem::Damaged
            }
            _ => LedgerProblem::Unwritable,
        }
    }

    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LedgerError {
        let path = path.to_owned();
        move |source| LedgerError::Io { doing, path, source }
    }

    pub(super) fn damaged(path: &Path, what: impl ToString) -> LedgerError {
        LedgerError::Damaged { path: path.to_owned(), what: what.to_string() }
    }
}
