//! Errors of a journal. Each message says what to do about it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_SHORT_READ};

use crate::engine::Seq;
use crate::etcd::EtcdError;

/// The underlying error.
type Cause = Box<dyn Error + Send + Sync>;

/// Why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has appended, so the caller's state is out of date. Nothing was written.
    #[error(
        "the journal ends at {actual_head}, not at {expected}: another server has taken over; \
         stop this one, and start it again if it should be the one that serves"
    )]
    Superseded {
        /// The head the caller expected.
        expected: Seq,
        /// The head of the journal.
        actual_head: Seq,
    },
    /// Another process has it open or locked.
    #[error(
        "the journal {} is in use by {}; stop that first, or choose another directory with --data",
        .path.display(), by(.pid)
    )]
    InUse {
        path: PathBuf,
        /// The other process, where it is known.
        pid: Option<u32>,
    },
    /// Written by a later version.
    #[error(
        "the journal {} has format {found}, and this git-dibs knows formats up to {known}; \
         use the newer git-dibs that wrote it",
        .path.display()
    )]
    Newer {
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The newest format this version knows.
        known: i64,
    },
    /// A journal of an earlier format could not be copied before the change.
    #[error(
        "the journal {} has the earlier format {format}; before it is continued in a format that earlier versions cannot \
         read, a copy is kept beside it, which failed: {source}; nothing was changed",
        .path.display()
    )]
    NoCopy {
        path: PathBuf,
        /// The format of the file.
        format: i64,
        source: Box<JournalError>,
    },
    /// The file is not a journal. It was not changed.
    #[error(
        "{} is not a git-dibs journal and was not changed; move it away, or choose another directory with --data",
        .path.display()
    )]
    Foreign { path: PathBuf },
    /// The file is a journal, but something in it is missing or wrong.
    #[error(
        "the journal {} is damaged: {what}; keep a copy of it, run git dibs db check for details, and restore a backup",
        .path.display()
    )]
    Corrupt { path: PathBuf, what: String },
    /// A snapshot that this version cannot read.
    #[error("{what} in the journal cannot be read: {why}; run git dibs db check for details, and restore a backup")]
    Unreadable { what: String, why: String },
    #[error("there is no room left to write {}; free some space there, then start the server again", .path.display())]
    Full { path: PathBuf, source: Cause },
    #[error(
        "{} cannot be written; give this user write access to the file and its directory, \
         and check that the file system is not mounted read-only",
        .path.display()
    )]
    ReadOnly { path: PathBuf },
    /// An earlier append failed. Only opening the journal again shows what is stored.
    #[error(
        "an earlier write to the journal {} failed, so nothing more is written; start the server again",
        .path.display()
    )]
    Broken { path: PathBuf },
    /// The files were deleted or replaced while the journal was open.
    #[error(
        "{} was deleted or replaced while the server was running, and what is written to it now would be lost; \
         put it back or restore a backup, then stop this server and start it again",
        .path.display()
    )]
    Gone { path: PathBuf },
    /// There were too many restores.
    #[error(
        "an earlier journal was restored here so often that no new record numbers are left; \
         move the journal and its ledger away, and the server then begins new ones"
    )]
    LastGeneration,
    /// Another node of the cluster leads the repository, or none does. Nothing was written.
    #[error("this node does not lead the repository any more; another node answers for it")]
    Deposed,
    /// Etcd gave no clear answer, or refused.
    #[error("could not {doing} in etcd: {source}")]
    Etcd {
        /// What was tried, as in "could not …".
        doing: &'static str,
        source: EtcdError,
    },
    /// An earlier append to etcd had no clear outcome.
    #[error("an earlier write to etcd had no clear outcome, so this node writes nothing more until it leads again")]
    EtcdBroken,
    /// A key in etcd is not what it should be.
    #[error("the key {key} in etcd is damaged: {what}; restore a backup of etcd, see docs/cluster.md")]
    DamagedKey { key: String, what: String },
    /// Any other error of the operating system or SQLite.
    #[error("could not {doing} {}: {source}; fix the cause, then start the server again", .path.display())]
    Io {
        /// What was tried, as in "could not …".
        doing: &'static str,
        path: PathBuf,
        source: Cause,
    },
}

impl JournalError {
    /// Whether the records of the failed append may be stored all the same. Only a write that never began, or that had no
    /// room, has certainly stored nothing.
    pub fn may_be_stored(&self) -> bool {
        use JournalError::{Broken, Deposed, EtcdBroken, Full, InUse, LastGeneration, ReadOnly, Superseded};
        !matches!(
            self,
            Superseded { .. }
                | InUse { .. }
                | Full { .. }
                | ReadOnly { .. }
                | Broken { .. }
                | LastGeneration
                | Deposed
                | EtcdBroken
        )
    }

    /// The error for a failed system call on the file at `path`.
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

    /// The error for a failed SQLite call on the journal at `path`.
    pub(super) fn from_sqlite(doing: &'static str, path: &Path, error: rusqlite::Error) -> JournalError {
        let path = path.to_owned();
        // SQLite reports a full disk this way when the index beside its log cannot grow.
        if error.sqlite_extended_error_code() == Some(SQLITE_IOERR_SHMSIZE) {
            return JournalError::Full { path, source: error.into() };
        }
        // SQLite reads whole pages, and the file ends inside one: it was truncated.
        if error.sqlite_extended_error_code() == Some(SQLITE_IOERR_SHORT_READ) {
            return JournalError::Corrupt { path, what: "it ends in the middle of a page".to_owned() };
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => JournalError::Full { path, source: error.into() },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => JournalError::ReadOnly { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::InUse { path, pid: None },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                JournalError::Corrupt { path, what: error.to_string() }
            }
            _ => JournalError::Io { doing, path, source: error.into() },
        }
    }

    /// `what` follows "is damaged:" in the message.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_says_what_to_do() {
        let path = || PathBuf::from("/d/journal.db");
        let source = || Cause::from("quota");
        let messages = [
            JournalError::Superseded { expected: Seq(4), actual_head: Seq(7) },
            JournalError::InUse { path: path(), pid: Some(42) },
            JournalError::InUse { path: path(), pid: None },
            JournalError::Newer { path: path(), found: 2, known: 1 },
            JournalError::Foreign { path: path() },
            JournalError::corrupt(&path(), "after #2 comes #5"),
            JournalError::Full { path: path(), source: source() },
            JournalError::ReadOnly { path: path() },
            JournalError::Broken { path: path() },
            JournalError::Io { doing: "read", path: path(), source: source() },
        ]
        .map(|error| error.to_string());
        insta::assert_snapshot!(messages.join("\n"), @r"
        the journal ends at #7, not at #4: another server has taken over; stop this one, and start it again if it should be the one that serves
        the journal /d/journal.db is in use by process 42; stop that first, or choose another directory with --data
        the journal /d/journal.db is in use by another program; stop that first, or choose another directory with --data
        the journal /d/journal.db has format 2, and this git-dibs knows formats up to 1; use the newer git-dibs that wrote it
        /d/journal.db is not a git-dibs journal and was not changed; move it away, or choose another directory with --data
        the journal /d/journal.db is damaged: after #2 comes #5; keep a copy of it, run git dibs db check for details, and restore a backup
        there is no room left to write /d/journal.db; free some space there, then start the server again
        /d/journal.db cannot be written; give this user write access to the file and its directory, and check that the file system is not mounted read-only
        an earlier write to the journal /d/journal.db failed, so nothing more is written; start the server again
        could not read /d/journal.db: quota; fix the cause, then start the server again
        ");
    }

    #[test]
    fn system_errors_are_mapped_to_the_right_kind() {
        let path = Path::new("/d/journal.db");
        let from_io = |code| JournalError::from_io("write", path, io::Error::from_raw_os_error(code));
        assert!(matches!(from_io(libc::ENOSPC), JournalError::Full { .. }));
        assert!(matches!(from_io(libc::EDQUOT), JournalError::Full { .. }));
        assert!(matches!(from_io(libc::EACCES), JournalError::ReadOnly { .. }));
        assert!(matches!(from_io(libc::EROFS), JournalError::ReadOnly { .. }));
        assert!(matches!(from_io(libc::EIO), JournalError::Io { .. }));
        let from_sqlite = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            JournalError::from_sqlite("write", path, error)
        };
        use rusqlite::ffi;
        assert!(matches!(from_sqlite(ffi::SQLITE_FULL), JournalError::Full { .. }));
        assert!(matches!(from_sqlite(ffi::SQLITE_IOERR_SHMSIZE), JournalError::Full { .. }));
        assert!(matches!(from_sqlite(ffi::SQLITE_READONLY_DIRECTORY), JournalError::ReadOnly { .. }));
        assert!(matches!(from_sqlite(ffi::SQLITE_BUSY_RECOVERY), JournalError::InUse { pid: None, .. }));
        assert!(matches!(from_sqlite(ffi::SQLITE_CORRUPT_INDEX), JournalError::Corrupt { .. }));
        assert!(matches!(from_sqlite(ffi::SQLITE_IOERR_SHORT_READ), JournalError::Corrupt { .. }));
        assert!(matches!(from_sqlite(ffi::SQLITE_NOTADB), JournalError::Corrupt { .. }));
        assert!(matches!(from_sqlite(ffi::SQLITE_IOERR_FSYNC), JournalError::Io { .. }));
    }
}
