//! Replaces a journal by an earlier copy, and keeps the replaced one.
//!
//! A prepared journal waits beside the old one, under a name of its own. Once it has that name, the replacement is decided: a
//! crash from then on is made good by the next start, which finishes it. So there is always a whole journal, and the log of
//! the old one never meets the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::{OwnerLock, beside, sync_directory};
use crate::journal::JournalError;

/// The name of a prepared journal, appended to the journal's own.
const PREPARED: &str = ".restoring";

/// Where a journal is prepared. It is not used by anyone until it is renamed to [`prepared`].
pub(in crate::journal) fn preparing(path: &Path) -> PathBuf {
    beside(path, ".restoring.new")
}

fn prepared(path: &Path) -> PathBuf {
    beside(path, PREPARED)
}

/// Whether a crash interrupted a replacement.
pub(in crate::journal) fn is_unfinished(path: &Path) -> bool {
    prepared(path).exists()
}

/// Puts the journal from [`preparing`] in the place of the one at `path`. Returns where that one is kept, if there was one.
pub(in crate::journal) fn replace(path: &Path, lock: &OwnerLock) -> Result<Option<PathBuf>, JournalError> {
    let failed = |error| JournalError::from_io("replace", path, error);
    fs::rename(preparing(path), prepared(path)).and_then(|()| sync_directory(path)).map_err(failed)?;
    finish(path, lock)
}

/// Finishes a replacement that was decided. Only for the owner of the lock.
pub(in crate::journal) fn finish(path: &Path, _lock: &OwnerLock) -> Result<Option<PathBuf>, JournalError> {
    let move_away = || -> io::Result<Option<PathBuf>> {
        let (has_journal, has_log) = (path.exists(), beside(path, "-wal").exists());
        let last = kept(path).last().map_or(0, |(number, _)| *number);
        // If only the log is left, a crash came after the journal was moved.
        let number = if has_journal { last + 1 } else { last };
        let kept = beside(path, &format!("{KEPT}{number}"));
        if has_journal {
            fs::rename(path, &kept)?;
        }
        if has_log {
            fs::rename(beside(path, "-wal"), beside(&kept, "-wal"))?;
        }
        match fs::remove_file(beside(path, "-shm")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(prepared(path), path)?;
        sync_directory(path)?;
        Ok(has_journal.then_some(kept))
    };
    move_away().map_err(|error| JournalError::from_io("replace", path, error))
}

/// The suffix of replaced journals; a number follows.
const KEPT: &str = ".replaced-";

/// The journals that were replaced before, with their numbers, the latest last.
pub(in crate::journal) fn kept(path: &Path) -> Vec<(u32, PathBuf)> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let prefix = format!("{}{KEPT}", name.to_string_lossy());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix(&prefix)?.parse().ok();
    let mut all: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| number(entry.file_name()).map(|number| (number, entry.path()))).collect();
    all.sort();
    all
}
