//! Notices that the files of an open journal were deleted or replaced.
//!
//! What is written to a deleted file is lost when the process ends, and SQLite does not notice. So an append looks for the
//! files before it succeeds, though not every time: what was acknowledged since the last look is no worse off than everything
//! before, which was in the same files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file::beside;
use crate::journal::JournalError;

/// How long an append may rely on the last look.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Device and inode of a file.
type Identity = (u64, u64);

/// The files of an open journal: the database, its log, and the index of the log.
#[derive(Debug, Clone)]
pub struct JournalFiles {
    files: Vec<(PathBuf, Identity)>,
}

impl JournalFiles {
    /// The files as they are now, just after the journal at `path` was opened.
    pub(super) fn of(path: &Path) -> JournalFiles {
        let files = ["", "-wal", "-shm"].map(|suffix| beside(path, suffix));
        JournalFiles { files: files.into_iter().filter_map(|file| identity(&file).map(|it| (file, it))).collect() }
    }

    /// Fails if one of the files is not where it was.
    pub fn check(&self) -> Result<(), JournalError> {
        match self.files.iter().find(|(file, opened)| identity(file) != Some(*opened)) {
            Some((file, _)) => Err(JournalError::Gone { path: file.clone() }),
            None => Ok(()),
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

/// Looks for the files from time to time.
pub(super) struct Presence {
    pub files: JournalFiles,
    last: Instant,
}

impl Presence {
    pub fn of(path: &Path) -> Presence {
        Presence { files: JournalFiles::of(path), last: Instant::now() }
    }

    /// Fails if it is time to look, and the files are gone. The caller knows the time.
    pub fn check(&mut self, now: Instant) -> Result<(), JournalError> {
        if now.duration_since(self.last) < LOOK_EVERY {
            return Ok(());
        }
        self.last = now;
        self.files.check()
    }
}
