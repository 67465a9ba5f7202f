//! Notices that the files of an open journal were deleted or replaced.
//!
//! What is written to a deleted file is lost when the process ends, and SQLite does not notice. So every append asks, after
//! its sync and before it succeeds, whether its files still have a name. On Linux that takes about a microsecond. Looking
//! for them at their paths takes several times as long, so it is done from time to time: a file that was only moved still
//! has all that was acknowledged.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file::beside;
use crate::journal::JournalError;

/// How long an append may rely on the last look at the paths.
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

/// Whether the files are still there, for appends.
pub(super) struct Presence {
    pub files: JournalFiles,
    handles: Vec<(PathBuf, File)>,
    last: Instant,
}

impl Presence {
    pub fn of(path: &Path) -> Presence {
        let files = JournalFiles::of(path);
        let open = |(file, _): &(PathBuf, Identity)| open_for_status(file).map(|handle| (file.clone(), handle));
        Presence { handles: files.files.iter().filter_map(open).collect(), files, last: Instant::now() }
    }

    /// Fails if a file was deleted. Also if it is time to look for them, and one is not where it was. The caller knows the
    /// time.
    pub fn check(&mut self, now: Instant) -> Result<(), JournalError> {
        let is_deleted = |file: &File| file.metadata().is_ok_and(|about| about.nlink() == 0);
        if let Some((path, _)) = self.handles.iter().find(|(_, file)| is_deleted(file)) {
            return Err(JournalError::Gone { path: path.clone() });
        }
        if !self.handles.is_empty() && now.duration_since(self.last) < LOOK_EVERY {
            return Ok(());
        }
        self.last = now;
        self.files.check()
    }
}

/// A handle that only tells about the file. An ordinary one must not exist beside those of SQLite: closing it would drop
/// their locks. Without any, every append looks at the paths.
#[cfg(target_os = "linux")]
fn open_for_status(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;

    File::options().read(true).custom_flags(libc::O_PATH).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_for_status(_: &Path) -> Option<File> {
    None
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::engine::Seq;
    use crate::journal::suite::{OnDisk, records};
    use crate::journal::{Journal, SqliteJournal};

    /// For up to 200 ms, appends to a deleted file succeeded.
    #[test]
    fn the_first_append_after_a_file_was_deleted_fails() {
        for (suffix, replaced) in [("", false), ("", true), ("-wal", false), ("-wal", true), ("-shm", false)] {
            let place = OnDisk::new();
            let mut journal = SqliteJournal::open(&place.path()).unwrap();
            journal.append(Seq(0), &records(1, 1)).unwrap();
            let file = beside(journal.path(), suffix);
            if replaced {
                let other = beside(journal.path(), ".other");
                fs::copy(&file, &other).unwrap();
                fs::rename(&other, &file).unwrap();
            } else {
                fs::remove_file(&file).unwrap();
            }
            let refused = journal.append(Seq(1), &records(2, 2)).unwrap_err();
            assert!(matches!(&refused, JournalError::Gone { path } if *path == file), "{refused}");
        }
    }

    /// The handles must not take the lock of SQLite with them when they are closed.
    #[cfg(target_os = "linux")]
    #[test]
    fn looking_at_a_file_keeps_its_locks() {
        let place = OnDisk::new();
        let mut journal = SqliteJournal::open(&place.path()).unwrap();
        journal.append(Seq(0), &records(1, 1)).unwrap();
        drop(Presence::of(journal.path()));
        let file = File::options().read(true).write(true).open(journal.path()).unwrap();
        // SAFETY: plain data, for which zero is valid.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_whence) = (libc::F_WRLCK as _, libc::SEEK_SET as _);
        // SAFETY: the descriptor is open, and the lock lives as long as the call. It asks which lock is in the way.
        let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
        assert_eq!((asked, i32::from(lock.l_type)), (0, libc::F_RDLCK), "SQLite has a shared lock");
    }
}
