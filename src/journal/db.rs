//! Looking after a journal: a copy, a thorough look, a smaller file.

use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::JournalError;
use super::sqlite::file::{self, Found, OwnerLock};
use super::sqlite::rows;
use crate::engine::Seq;

/// What [`check`] found in a journal that is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// The oldest record still stored, or the number the next one will get.
    pub oldest: Seq,
    /// The last record ever appended.
    pub head: Seq,
    /// How many are stored.
    pub records: u64,
    /// The last record the snapshot contains, where there is one.
    pub snapshot: Option<Seq>,
}

/// Copies the journal at `path`, in use or not, into a new file at `to`, as it is at one moment. Never overwrites.
pub fn backup(path: &Path, to: &Path) -> Result<(), JournalError> {
    let path = existing(path)?;
    let failed = |error| JournalError::from_io("write", to, error);
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).to_owned();
    let target = options.open(to).map_err(failed)?;
    let copied = copy(&path, to).and_then(|()| target.sync_all().map_err(failed));
    if copied.is_err() {
        // Half a copy is worse than none, and that it cannot be removed is the smaller of two troubles.
        let _ = fs::remove_file(to);
    }
    copied.and_then(|()| file::sync_directory(&std::path::absolute(to).map_err(failed)?).map_err(failed))
}

/// Reads everything in the journal at `path`, in use or not, and says what is there or what is wrong.
pub fn check(path: &Path) -> Result<Checked, JournalError> {
    let path = existing(path)?;
    let failed = |error| JournalError::from_sqlite("read", &path, error);
    let db = file::connect(&path)?;
    // What is damaged stays as it is; without this the last one to close would tidy up.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    let moment = db.unchecked_transaction().map_err(failed)?;
    let complaint: String = moment.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if complaint != "ok" {
        return Err(JournalError::corrupt(&path, complaint));
    }
    let (oldest, head) = (rows::oldest(&moment, &path)?, rows::head(&moment, &path)?);
    let snapshot = rows::snapshot(&moment, &path)?.map(|(at, _)| at);
    let needed = snapshot.unwrap_or(Seq::ZERO);
    if oldest > needed.next() {
        let what = format!("records up to {needed} are in its snapshot, and the next one stored is {oldest}");
        return Err(JournalError::corrupt(&path, what));
    }
    let mut records = 0;
    rows::walk(&moment, &path, Seq(oldest.0.saturating_sub(1)), |batch| {
        records += batch.len() as u64;
        Ok(true)
    })?;
    Ok(Checked { oldest, head, records, snapshot })
}

/// Gives the room of dropped records back to the file system. Answers the size before and after, in bytes. Not while a
/// server uses the journal.
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

fn existing(path: &Path) -> Result<std::path::PathBuf, JournalError> {
    let path = file::resolve(path)?;
    match file::look(&path)? {
        Found::Journal => Ok(path),
        Found::Nothing => Err(JournalError::from_io("find", &path, std::io::ErrorKind::NotFound.into())),
    }
}

fn copy(path: &Path, to: &Path) -> Result<(), JournalError> {
    let db = file::connect(path)?;
    // Passed as bytes, because a path need not be UTF-8.
    let target = ToSqlOutput::Borrowed(ValueRef::Text(to.as_os_str().as_bytes()));
    db.execute("VACUUM INTO ?1", [target]).map_err(|error| JournalError::from_sqlite("back up", to, error))?;
    Ok(())
}
