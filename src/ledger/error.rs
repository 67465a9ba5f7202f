//! What can go wrong with a ledger, each with what to do about it. Grants go on meanwhile.

use std::io;
use std::path::{Path, PathBuf};

use crate::engine::Seq;
use crate::journal::JournalError;

/// Why the ledger could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// There is none.
    #[error("there is no ledger at {}; git dibs serve writes one, and git dibs ledger fetch brings one here", .path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// Not one of ours; it was left as it is.
    #[error("{} is not a git-dibs ledger, or only half of one, and was left as it is; move it away and a new one is made", .path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// Written by a later version.
    #[error("the ledger {} has version {found}, and this git-dibs knows version {known}; use the newer git-dibs that wrote it", .path.display())]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest this one knows.
        known: i64,
    },
    /// Another process writes it.
    #[error("the ledger {} is being written by another process; stop that first", .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Ours, but something in it is missing or makes no sense.
    #[error("the ledger {} is damaged: {what}; move it away and a new one is made from the journal", .path.display())]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It tells of other events than the journal does.
    #[error("the ledger {} tells another story than the journal at {at}: it belongs to another journal, or an old one was restored; move it away and a new one is made", .path.display())]
    Diverged {
        /// The directory.
        path: PathBuf,
        /// The event they do not agree on.
        at: Seq,
    },
    /// The journal dropped records in the meantime.
    #[error("the journal does not have the records after {after} any more; the ledger goes on after a gap")]
    RecordsDropped {
        /// The last record that is written.
        after: Seq,
    },
    /// The system refused.
    #[error("could not {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as in "could not …".
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl LedgerError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LedgerError {
        let path = path.to_owned();
        move |source| LedgerError::Io { doing, path, source }
    }

    pub(super) fn damaged(path: &Path, what: impl ToString) -> LedgerError {
        LedgerError::Damaged { path: path.to_owned(), what: what.to_string() }
    }
}
