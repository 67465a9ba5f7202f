//! Maintenance of a journal file: backup, check, compact, restore.

use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::sqlite::file::{self, FileState, OwnerLock};
use super::sqlite::{SqliteJournal, restore, rows};
use super::{JournalError, begin_generation};
use crate::engine::{Seq, Timestamp};

/// What [`check`] found in an intact journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalReport {
    /// The oldest record that is still stored; if there is none, the number of the next one.
    pub oldest: Seq,
    /// The last record ever appended.
    pub head: Seq,
    /// The number of stored records.
    pub records: u64,
    /// The last record in the snapshot, if there is one.
    pub snapshot: Option<Seq>,
}

/// Copies the journal at `path` into a new file at `to`, in a consistent state, also while a server uses it. Never
/// overwrites a file.
pub fn backup(path: &Path, to: &Path) -> Result<(), JournalError> {
    let path = existing(path)?;
    let failed = |error| JournalError::from_io("write", to, error);
    // An absolute path, because SQLite reads a name that begins with `file:` as a URI.
    let to = &*std::path::absolute(to).map_err(failed)?;
    let failed = |error| JournalError::from_io("write", to, error);
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).to_owned();
    let target = options.open(to).map_err(failed)?;
    let copied = copy(&path, to).and_then(|()| target.sync_all().map_err(failed));
    if copied.is_err() {
        // Half a copy is worse than none. If it cannot be removed either, the first error matters more.
        let _ = fs::remove_file(to);
    }
    copied.and_then(|()| file::sync_directory(to).map_err(failed))
}

/// Reads the whole journal at `path`, also while a server uses it, and reports what it has or what is wrong with it.
pub fn check(path: &Path) -> Result<JournalReport, JournalError> {
    let path = existing(path)?;
    let failed = |error| JournalError::from_sqlite("read", &path, error);
    let db = file::connect_to_read(&path)?;
    let moment = db.unchecked_transaction().map_err(failed)?;
    let complaint: String = moment.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if complaint != "ok" {
        return Err(JournalError::corrupt(&path, complaint));
    }
    let (oldest, head) = (rows::oldest(&moment, &path)?, rows::head(&moment, &path)?);
    let snapshot = rows::snapshot(&moment, &path)?.map(|(at, _)| at);
    // Records before the snapshot are not needed, but they must be without gaps too.
    let from = snapshot.unwrap_or(Seq::ZERO).min(Seq(oldest.0.saturating_sub(1)));
    let mut records = 0;
    rows::walk(&moment, &path, from, |batch| {
        records += batch.len() as u64;
        Ok(true)
    })?;
    Ok(JournalReport { oldest, head, records, snapshot })
}

/// Gives the space of dropped records back to the file system. Returns the size before and after, in bytes. Fails while
/// a server uses the journal.
pub fn compact(path: &Path) -> Result<(u64, u64), JournalError> {
    let path = existing(path)?;
    let _lock = OwnerLock::take(&path)?;
    let size =
        || fs::metadata(&path).map(|file| file.len()).map_err(|error| JournalError::from_io("read", &path, error));
    let before = size()?;
    let db = file::connect(&path)?;
    db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
        .map_err(|error| JournalError::from_sqlite("compact", &path, error))?;
    Ok((before, size()?))
}

/// What [`restore`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// The last record of the backup.
    pub kept: Seq,
    /// The first number of the new generation.
    pub begins: Seq,
    /// Where the journal is that was replaced, if there was one.
    pub replaced: Option<PathBuf>,
}

/// Replaces the journal at `path` by the backup, and begins a new generation in it. Fails while a server uses the journal.
/// `used` is a record number that is known to have been given out, and `now` the time.
pub fn restore(path: &Path, backup: &Path, used: Seq, now: Timestamp) -> Result<RestoreReport, JournalError> {
    let backup = existing(backup)?;
    let path = file::resolve(path)?;
    let lock = OwnerLock::take(&path)?;
    if restore::is_unfinished(&path) {
        restore::finish(&path, &lock)?;
    }
    let known = restore::kept(&path).into_iter().map(|(_, kept)| kept).chain([path.clone()]);
    // What cannot be read has no number to tell; the journal may be replaced because it is damaged.
    let used = known.filter_map(|path| head(&path).ok()).fold(used, Seq::max);
    let prepared = restore::preparing(&path);
    for leftover in ["", "-wal", "-shm", ".lock"].map(|suffix| file::beside(&prepared, suffix)) {
        let _ = fs::remove_file(leftover);
    }
    let made = prepare(&backup, &prepared, used, now);
    let _ = fs::remove_file(file::beside(&prepared, ".lock"));
    if made.is_err() {
        let _ = fs::remove_file(&prepared);
    }
    let (kept, begins) = made?;
    Ok(RestoreReport { kept, begins, replaced: restore::replace(&path, &lock)? })
}

/// Copies the backup to `to` and begins a new generation there. Returns the last record of the backup and the first of the
/// generation.
fn prepare(from: &Path, to: &Path, used: Seq, now: Timestamp) -> Result<(Seq, Seq), JournalError> {
    backup(from, to)?;
    let mut journal = SqliteJournal::open_copy(to)?;
    let kept = journal.head();
    let begins = begin_generation(&mut journal, used, now)?;
    journal.close()?;
    Ok((kept, begins))
}

fn head(path: &Path) -> Result<Seq, JournalError> {
    let path = existing(path)?;
    rows::head(&file::connect_to_read(&path)?, &path)
}

fn existing(path: &Path) -> Result<PathBuf, JournalError> {
    let path = file::resolve(path)?;
    match file::inspect(&path)? {
        FileState::Journal { .. } => Ok(path),
        FileState::Missing => Err(JournalError::from_io("find", &path, std::io::ErrorKind::NotFound.into())),
    }
}

fn copy(path: &Path, to: &Path) -> Result<(), JournalError> {
    let db = file::connect_to_read(path)?;
    // Passed as bytes, because a path need not be UTF-8.
    let target = ToSqlOutput::Borrowed(ValueRef::Text(to.as_os_str().as_bytes()));
    match db.execute("VACUUM INTO ?1", [target]).map_err(|error| JournalError::from_sqlite("back up", path, error)) {
        Ok(_) => Ok(()),
        // Only the copy needs space; every other error is about the original.
        Err(JournalError::Full { source, .. }) => Err(JournalError::Full { path: to.to_owned(), source }),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::journal::suite::{JournalStorage, OnDisk, load, records};
    use crate::journal::{Journal, SqliteJournal};

    #[test]
    fn a_backup_of_a_journal_in_use_is_a_journal() {
        let place = OnDisk::new();
        let mut journal = place.open();
        journal.append(Seq(0), &records(1, 9)).unwrap();
        journal.reader().unwrap().save_snapshot(Seq(5), b"five", Seq(1)).unwrap();
        let copy = OnDisk::new();
        backup(&place.path(), &copy.path()).unwrap();
        journal.append(Seq(9), &records(10, 10)).unwrap();

        assert_eq!(fs::metadata(copy.path()).unwrap().permissions().mode() & 0o777, 0o600);
        let bytes = fs::read(copy.path()).unwrap();
        assert_eq!(check(&copy.path()).unwrap().records, 9);
        assert!(fs::read(copy.path()).unwrap() == bytes, "a check changes nothing");
        assert_eq!(fs::read_dir(copy.directory.path()).unwrap().count(), 1, "and leaves nothing beside it");
        let mut restored = SqliteJournal::open(&copy.path()).unwrap();
        let loaded = load(&mut restored).unwrap();
        assert_eq!((loaded.snapshot, loaded.records), (Some((Seq(5), b"five".to_vec())), records(6, 9)));
        restored.append(Seq(9), &records(10, 12)).unwrap();
    }

    #[test]
    fn a_backup_overwrites_nothing_and_leaves_no_half_copy() {
        let place = OnDisk::new();
        drop(place.open());
        let target = place.directory.path().join("diary");
        fs::write(&target, "Dear diary").unwrap();
        let refused = backup(&place.path(), &target).unwrap_err();
        assert!(refused.to_string().contains("exists"), "{refused}");
        assert!(backup(&place.path(), &place.path()).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "Dear diary");

        fs::remove_file(&target).unwrap();
        let mut bytes = fs::read(place.path()).unwrap();
        bytes[200..].fill(0xa5);
        fs::write(place.path(), bytes).unwrap();
        let refused = backup(&place.path(), &target).unwrap_err();
        assert!(matches!(refused, JournalError::Corrupt { .. }), "{refused}");
        assert!(!target.exists());
    }

    #[test]
    fn a_backup_can_go_to_a_name_that_is_not_text() {
        let place = OnDisk::new();
        place.open().append(Seq(0), &records(1, 2)).unwrap();
        let target = place.directory.path().join(std::ffi::OsStr::from_bytes(b"b\xff'; --"));
        backup(&place.path(), &target).unwrap();
        assert_eq!(check(&target).unwrap().head, Seq(2));
    }

    #[test]
    fn a_check_counts_the_records_of_a_journal_in_use() {
        let place = OnDisk::new();
        let mut journal = place.open();
        assert_eq!(
            check(&place.path()).unwrap(),
            JournalReport { oldest: Seq(1), head: Seq(0), records: 0, snapshot: None }
        );
        for seq in 1..=9 {
            journal.append(Seq(seq - 1), &records(seq, seq)).unwrap();
        }
        journal.reader().unwrap().save_snapshot(Seq(6), b"six", Seq(4)).unwrap();
        let expected = JournalReport { oldest: Seq(4), head: Seq(9), records: 6, snapshot: Some(Seq(6)) };
        assert_eq!(check(&place.path()).unwrap(), expected);
        journal.reader().unwrap().save_snapshot(Seq(9), b"nine", Seq(10)).unwrap();
        let expected = JournalReport { oldest: Seq(10), head: Seq(9), records: 0, snapshot: Some(Seq(9)) };
        assert_eq!(check(&place.path()).unwrap(), expected);
    }

    #[test]
    fn compacting_makes_the_file_smaller_and_changes_nothing() {
        let place = OnDisk::new();
        let mut journal = place.open();
        journal.append(Seq(0), &records(1, 20_000)).unwrap();
        journal.append(Seq(20_000), &records(20_001, 20_005)).unwrap();
        journal.reader().unwrap().save_snapshot(Seq(20_002), b"state", Seq(20_002)).unwrap();
        let refused = compact(&place.path()).unwrap_err();
        assert!(matches!(refused, JournalError::InUse { pid: Some(_), .. }), "{refused}");
        let before = load(&mut *journal).unwrap();
        drop(journal);
        let (large, small) = compact(&place.path()).unwrap();
        assert!(small * 10 < large, "from {large} to {small} bytes");
        assert_eq!(fs::metadata(place.path()).unwrap().len(), small);
        assert_eq!(load(&mut *place.open()).unwrap(), before);
    }

    #[test]
    fn maintenance_refuses_missing_and_foreign_files() {
        let place = OnDisk::new();
        let target = place.directory.path().join("copy");
        let nothing = [check(&place.path()).err(), compact(&place.path()).err(), backup(&place.path(), &target).err()];
        assert!(nothing.iter().all(|refused| matches!(refused, Some(JournalError::Io { .. }))), "{nothing:?}");
        fs::write(place.path(), "Dear diary").unwrap();
        let foreign = [check(&place.path()).err(), compact(&place.path()).err(), backup(&place.path(), &target).err()];
        assert!(foreign.iter().all(|refused| matches!(refused, Some(JournalError::Foreign { .. }))), "{foreign:?}");
        assert_eq!(fs::read_to_string(place.path()).unwrap(), "Dear diary");
        assert_eq!(fs::read_dir(place.directory.path()).unwrap().count(), 1);
    }

    /// A journal with records up to 9, and a backup of it up to 4.
    fn with_backup() -> (OnDisk, PathBuf) {
        let place = OnDisk::new();
        let mut journal = place.open();
        journal.append(Seq(0), &records(1, 4)).unwrap();
        let copy = place.directory.path().join("backup.db");
        backup(&place.path(), &copy).unwrap();
        journal.append(Seq(4), &records(5, 9)).unwrap();
        (place, copy)
    }

    #[test]
    fn a_restored_backup_begins_a_new_generation() {
        let (place, copy) = with_backup();
        let restored = restore(&place.path(), &copy, Seq(0), Timestamp(5)).unwrap();
        let first = Seq(1 << 40);
        let kept = file::beside(&place.path(), ".replaced-1");
        assert_eq!(restored, RestoreReport { kept: Seq(4), begins: first, replaced: Some(kept.clone()) });
        assert_eq!(check(&kept).unwrap().head, Seq(9), "with what was in its log");
        assert_eq!((check(&copy).unwrap().head, check(&place.path()).unwrap().head), (Seq(4), first));
        let mut journal = place.open();
        let loaded = load(&mut *journal).unwrap();
        assert_eq!((&loaded.records[..4], loaded.records.len()), (&*records(1, 4), 5));
        assert_eq!(loaded.records[4].at, records(4, 4)[0].at, "time does not go back either");
        journal.append(first, &records(first.0 + 1, first.0 + 2)).unwrap();
        let page = journal.reader().unwrap().read(Seq(3), 9).unwrap();
        let numbers: Vec<u64> = page.records.iter().map(|record| record.seq.0).collect();
        assert_eq!(numbers, [4, first.0, first.0 + 1, first.0 + 2]);
        drop(journal);

        // The numbers of every journal that was here stay used, also if the latest cannot be read.
        fs::write(place.path(), "not a journal any more").unwrap();
        let again = restore(&place.path(), &copy, Seq(0), Timestamp(5)).unwrap();
        assert_eq!(again.begins, first, "the only trace of the first generation is gone");
        let again = restore(&place.path(), &copy, Seq(0), Timestamp(5)).unwrap();
        assert_eq!(again.begins, Seq(2 << 40));
        fs::remove_file(place.path()).unwrap();
        let again = restore(&place.path(), &copy, Seq(0), Timestamp(5)).unwrap();
        assert_eq!((again.begins, again.replaced), (Seq(2 << 40), None));
    }

    #[test]
    fn a_restore_is_refused_while_the_journal_is_in_use_or_the_backup_is_damaged() {
        let (place, copy) = with_backup();
        let journal = place.open();
        let refused = restore(&place.path(), &copy, Seq(0), Timestamp(0)).unwrap_err();
        assert!(matches!(refused, JournalError::InUse { pid: Some(_), .. }), "{refused}");
        drop(journal);
        let mut bytes = fs::read(&copy).unwrap();
        bytes[4096..].fill(0xa5);
        fs::write(&copy, bytes).unwrap();
        let before = fs::read_dir(place.directory.path()).unwrap().count();
        assert!(restore(&place.path(), &copy, Seq(0), Timestamp(0)).is_err());
        assert_eq!(fs::read_dir(place.directory.path()).unwrap().count(), before, "nothing is left over");
        assert_eq!(check(&place.path()).unwrap().head, Seq(9));
        let refused = restore(&place.path(), &copy, Seq(u64::MAX), Timestamp(0)).unwrap_err();
        assert!(matches!(refused, JournalError::Corrupt { .. } | JournalError::LastGeneration), "{refused}");
    }

    /// Kills the restore after each step of the replacement, as far as files show it.
    #[test]
    fn an_interrupted_restore_is_finished_by_the_next_start() {
        for steps in 0..=3 {
            let (place, copy) = with_backup();
            let (path, journal) = (place.path(), place.open());
            let log = file::beside(&path, "-wal");
            fs::copy(&log, file::beside(&path, ".log")).unwrap();
            drop(journal);
            fs::rename(file::beside(&path, ".log"), &log).unwrap();
            prepare(&copy, &file::beside(&path, ".restoring"), Seq(9), Timestamp(0)).unwrap();
            let kept = file::beside(&path, ".replaced-1");
            if steps >= 1 {
                fs::rename(&path, &kept).unwrap();
            }
            if steps >= 2 {
                fs::rename(&log, file::beside(&kept, "-wal")).unwrap();
            }
            if steps >= 3 {
                fs::rename(file::beside(&path, ".restoring"), &path).unwrap();
            }
            assert_eq!(load(&mut *place.open()).unwrap().head, Seq(1 << 40), "{steps} steps");
            assert!(kept.exists() && file::beside(&kept, "-wal").exists(), "{steps} steps");
            assert!(!restore::is_unfinished(&path));
        }
    }
}
