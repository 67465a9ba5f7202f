//! What can go wrong with a journal, each with what to do about it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

use crate::engine::Seq;

/// What lies underneath, for those who want the details.
type Source = Box<dyn Error + Send + Sync>;

/// Why a journal could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Somebody else has appended, so what the caller knows is out of date. Nothing was written.
    #[error(
        "the journal goes on after {found}, not after {expected}: another server has taken over; \
         stop this one, and start it again if it should be the one that serves"
    )]
    Superseded {
        /// The head the caller believed in.
        expected: Seq,
        /// The head there is.
        found: Seq,
    },
    /// Another process has it open, or keeps it locked.
    #[error(
        "the journal {} is in use by {}; stop that first, or choose another directory with --data",
        .path.display(), by(.pid)
    )]
    InUse {
        /// The journal.
        path: PathBuf,
        /// Who, where that is known.
        pid: Option<u32>,
    },
    /// Written by a later version.
    #[error(
        "the journal {} has format {found}, and this git-dibs knows formats up to {known}; \
         use the newer git-dibs that wrote it",
        .path.display()
    )]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest this version knows.
        known: i64,
    },
    /// Not one of ours; it was left as it is.
    #[error(
        "{} is not a git-dibs journal and was left as it is; move it away, or choose another directory with --data",
        .path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Ours, but something in it is missing or makes no sense.
    #[error(
        "the journal {} is damaged: {what}; keep a copy of it, see what git dibs db check says, and restore a backup",
        .path.display()
    )]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A snapshot this version cannot make sense of.
    #[error("{what} in the journal cannot be read: {why}; see what git dibs db check says, and restore a backup")]
    Unreadable {
        /// Which part.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// No room to write.
    #[error("there is no room left to write {}; free some space there and start the server again", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Source,
    },
    /// No right to write.
    #[error(
        "{} cannot be written; let this user write the file and its directory, \
         and see that the file system is not mounted read-only",
        .path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// An earlier append failed, and only opening it again shows what is stored.
    #[error(
        "an earlier write to the journal {} failed, so nothing more is written; start the server again",
        .path.display()
    )]
    Broken {
        /// The journal.
        path: PathBuf,
    },
    /// Anything else the system refused.
    #[error("could not {doing} {}: {source}; once that is put right, start again", .path.display())]
    Io {
        /// What was tried, as in "could not …".
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: Source,
    },
}

impl JournalError {
    /// What a failed system call means for the file at `path`.
    pub(super) fn from_io(doing: &'static str, path: &Path, error: io::Error) -> JournalError {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                JournalError::Full { path, source: error.into() }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => JournalError::ReadOnly { path },
            _ => JournalError::Io { doing, path, source: error.into() },
        }
    }

    /// What a failed SQLite call means for the journal at `path`.
    pub(super) fn from_sqlite(doing: &'static str, path: &Path, error: rusqlite::Error) -> JournalError {
        let owned = path.to_owned();
        match error.sqlite_error_code() {
            // The second is what SQLite says when the index beside its log cannot grow.
            Some(_) if error.sqlite_extended_error_code() == Some(SQLITE_IOERR_SHMSIZE) => {
                JournalError::Full { path: owned, source: error.into() }
            }
            Some(ErrorCode::DiskFull) => JournalError::Full { path: owned, source: error.into() },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => JournalError::ReadOnly { path: owned },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::InUse { path: owned, pid: None },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                JournalError::Corrupt { path: owned, what: error.to_string() }
            }
            _ => JournalError::Io { doing, path: owned, source: error.into() },
        }
    }

    /// Damage at `path`, in words that follow "is damaged:".
    pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> JournalError {
        JournalError::Corrupt { path: path.to_owned(), what: what.into() }
    }
}

fn by(pid: &Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another program".to_owned(),
    }
}
