//! Records in an SQLite file: one transaction and one sync for each append, which is one row unless there is very much.
//!
//! The file belongs to one process, which holds a lock beside it (see [`file`]). How rows become records again is in
//! [`rows`]. SQLite's write-ahead log lets readers read while the one writer writes.

mod checkpoint;
pub(super) mod file;
mod presence;
pub(super) mod restore;
pub(super) mod rows;
mod upgrade;

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod torn_tests;
#[cfg(test)]
mod upgrade_tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params, params_from_iter};

use self::checkpoint::{CHECKPOINT_BYTES, Checkpoints};
use self::file::OwnerLock;
pub use self::presence::JournalFiles;
use self::presence::Presence;
use self::rows::sql;
use super::{Journal, JournalError, JournalReader, LoadCallback, RecordPage, assert_numbered};
use crate::engine::{Record, Seq};

/// Snapshots are split into rows of this size, because SQLite reads and writes whole rows, of at most a gigabyte.
const PIECE_BYTES: usize = 1 << 20;

/// A row has about this many bytes at most: one row is read as a whole, also for a few of its records, and SQLite takes none
/// above a gigabyte.
const ROW_BYTES: usize = 1 << 20;

/// How many rows are dropped in one transaction. Appends wait for it, so it must take milliseconds only.
const DROP_BATCHES: i64 = 64;
const DROP_PIECES: i64 = 8;

/// After so many pieces of a snapshot, and after so many steps of dropping, the write-ahead log is copied, so that it does not
/// become as long as what is written.
const COPY_PIECES: i64 = 8;
const COPY_STEPS: i64 = 32;

/// The pause between two transactions of a snapshot, in which a waiting append gets its turn.
const STEP_PAUSE: Duration = Duration::from_millis(1);

/// The capacity the append buffer may keep between appends; larger batches are rare.
const BUFFER_KEEP_BYTES: usize = 4 << 20;

/// Adds a row only if the journal still ends where the caller expects: otherwise `last` is NULL, and the row is ignored.
/// One statement is one transaction and one sync. An INSERT of a SELECT would be plainer, but copies the records again.
const APPEND: &str = "INSERT OR IGNORE INTO batch (first, last, records)
    VALUES (?1, CASE WHEN ?4 = (SELECT seq FROM head) THEN ?2 END, ?3)";

/// The journal that servers use.
pub struct SqliteJournal {
    path: PathBuf,
    /// Before the connection, so that its thread has ended when that is closed.
    checkpoints: Checkpoints,
    db: Connection,
    head: Seq,
    /// An append has failed, and it is not known what is in the file.
    broken: bool,
    buffer: Vec<u8>,
    /// The time that the last append spent in SQLite.
    sync_time: Option<Duration>,
    presence: Presence,
    /// Held while a snapshot is stored. Only one reader may do that at a time, because it deletes all unknown pieces.
    storing: Arc<Mutex<()>>,
    /// The last field, so that it is released after the connection.
    _lock: OwnerLock,
}

/// A second connection to the same file.
struct SqliteReader {
    path: PathBuf,
    db: Connection,
    storing: Arc<Mutex<()>>,
}

impl SqliteJournal {
    /// Opens the journal at `path`, or creates one that only this user can read and write. The directory must exist.
    pub fn open(path: &Path) -> Result<SqliteJournal, JournalError> {
        let path = file::resolve(path)?;
        if restore::is_unfinished(&path) {
            restore::finish(&path, &OwnerLock::take(&path)?)?;
        }
        // Checked before the lock file is created, so that a foreign file gets no lock file beside it.
        file::inspect(&path)?;
        let lock = OwnerLock::take(&path)?;
        match file::inspect(&path)? {
            file::FileState::Missing => file::create(&path)?,
            file::FileState::Journal { format } if format < file::FORMAT => upgrade::keep_copy(&path)?,
            file::FileState::Journal { .. } => {}
        }
        SqliteJournal::open_locked(path, lock)
    }

    /// Opens a journal that was just copied, so that there is no need for another copy before its format is changed.
    pub(super) fn open_copy(path: &Path) -> Result<SqliteJournal, JournalError> {
        let path = file::resolve(path)?;
        let lock = OwnerLock::take(&path)?;
        SqliteJournal::open_locked(path, lock)
    }

    fn open_locked(path: PathBuf, lock: OwnerLock) -> Result<SqliteJournal, JournalError> {
        let db = file::connect(&path)?;
        file::raise_format(&db, &path)?;
        let head = rows::head(&db, &path)?;
        let (buffer, sync_time, storing) = (Vec::new(), None, Arc::default());
        // After the first read, which creates the log.
        let presence = Presence::of(&path);
        let checkpoints = Checkpoints::new(&path, CHECKPOINT_BYTES);
        Ok(SqliteJournal {
            path,
            checkpoints,
            db,
            head,
            broken: false,
            buffer,
            sync_time,
            presence,
            storing,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files it consists of.
    pub fn files(&self) -> JournalFiles {
        self.presence.files.clone()
    }

    /// The number of the last record.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Begins an empty journal with the state after the record `at`, which was in another journal before.
    pub fn begin_with_snapshot(&mut self, at: Seq, state: &[u8]) -> Result<(), JournalError> {
        assert_eq!(self.head, Seq::ZERO, "the journal has records");
        let mut reader =
            SqliteReader { db: file::connect(&self.path)?, path: self.path.clone(), storing: self.storing.clone() };
        reader.store(at, state).map_err(|error| JournalError::from_sqlite("store a snapshot in", &self.path, error))?;
        self.head = at;
        Ok(())
    }

    /// Closes the journal so that everything is in the file itself, and nothing in a log beside it.
    pub(super) fn close(mut self) -> Result<(), JournalError> {
        self.checkpoints.stop();
        let failed = |error| JournalError::from_sqlite("write", &self.path, error);
        let (busy, _, _): (i64, i64, i64) = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .map_err(failed)?;
        if busy != 0 {
            return Err(JournalError::InUse { path: self.path, pid: None });
        }
        self.db.close().map_err(|(_, error)| JournalError::from_sqlite("write", &self.path, error))
    }

    /// Copies the log each time it has grown by so many bytes.
    #[cfg(test)]
    fn copy_log_every(&mut self, bytes: u64) {
        self.checkpoints = Checkpoints::new(&self.path, bytes);
    }

    /// Stores the records. False if the journal does not end where the caller expects.
    fn insert(&mut self, after: Seq, records: &[Record]) -> Result<bool, JournalError> {
        let failed = |error| JournalError::from_sqlite("write", &self.path, error);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEEP_BYTES);
        let mut rest = write_row(&mut self.buffer, records);
        let mut row = &records[..records.len() - rest.len()];
        let (mut after, mut start) = (after, Instant::now());
        let mut time = Duration::ZERO;
        let transaction = match rest {
            // One statement is a transaction of its own.
            [] => None,
            _ => Some(self.db.unchecked_transaction().map_err(failed)?),
        };
        while let [first, .., last] | [first @ last] = row {
            let text = std::str::from_utf8(&self.buffer).expect("JSON is UTF-8");
            let values = params![sql(first.seq), sql(last.seq), text, sql(after)];
            let done = self.db.prepare_cached(APPEND).and_then(|mut append| append.execute(values)).map_err(failed)?;
            if done != 1 {
                return Ok(false);
            }
            time += start.elapsed();
            after = last.seq;
            self.checkpoints.note_append(self.buffer.len());
            self.buffer.clear();
            row = rest;
            rest = write_row(&mut self.buffer, row);
            row = &row[..row.len() - rest.len()];
            start = Instant::now();
        }
        if let Some(transaction) = transaction {
            transaction.commit().map_err(failed)?;
        }
        let end = Instant::now();
        self.sync_time = Some(time + end.duration_since(start));
        self.presence.check(end)?;
        Ok(true)
    }
}

/// Writes records as the JSON array of one row. Returns those that are left for further rows.
fn write_row<'a>(buffer: &mut Vec<u8>, records: &'a [Record]) -> &'a [Record] {
    let mut rest = records;
    while let [next, others @ ..] = rest {
        if buffer.len() >= ROW_BYTES {
            break;
        }
        buffer.push(if buffer.is_empty() { b'[' } else { b',' });
        serde_json::to_writer(&mut *buffer, next).expect("records are plain data, and memory takes every write");
        rest = others;
    }
    buffer.push(b']');
    rest
}

impl Journal for SqliteJournal {
    fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.head = rows::load(&self.db, &self.path, None, on)?;
        Ok(self.head)
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        assert_numbered(after, records);
        if self.broken {
            return Err(JournalError::Broken { path: self.path.clone() });
        }
        if after != self.head {
            return Err(JournalError::Superseded { expected: after, actual_head: self.head });
        }
        let Some(last) = records.last() else { return Ok(()) };
        // Until the append has certainly succeeded or failed, it is not known what the file holds.
        self.broken = true;
        let is_stored = self.insert(after, records)?;
        self.broken = false;
        if !is_stored {
            return Err(JournalError::Superseded { expected: after, actual_head: rows::head(&self.db, &self.path)? });
        }
        self.head = last.seq;
        Ok(())
    }

    fn maintain(&mut self) {
        self.checkpoints.finish(&self.db);
    }

    fn sync_time(&self) -> Option<Duration> {
        self.sync_time
    }

    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
        let (path, storing) = (self.path.clone(), Arc::clone(&self.storing));
        let db = file::connect(&path)?;
        // A snapshot need not be synced by itself: it is in the log before every later append, whose sync includes it.
        db.execute_batch("PRAGMA synchronous = NORMAL")
            .map_err(|error| JournalError::from_sqlite("open", &path, error))?;
        Ok(Box::new(SqliteReader { db, path, storing }))
    }
}

impl JournalReader for SqliteReader {
    fn load(&mut self, up_to: Seq, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        rows::load(&self.db, &self.path, Some(up_to), on)
    }

    fn read(&mut self, after: Seq, limit: usize) -> Result<RecordPage, JournalError> {
        rows::read(&self.db, &self.path, after, limit)
    }

    fn head(&mut self) -> Result<Seq, JournalError> {
        rows::head(&self.db, &self.path)
    }

    fn first_within(&mut self, bytes: u64) -> Result<Seq, JournalError> {
        rows::first_within(&self.db, &self.path, bytes)
    }

    fn save_snapshot(&mut self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError> {
        let storing = Arc::clone(&self.storing);
        // After a panic only loose pieces are left, and they are deleted below.
        let _one_at_a_time = storing.lock().unwrap_or_else(PoisonError::into_inner);
        let head = rows::head(&self.db, &self.path)?;
        assert!(at <= head, "a snapshot at {at} was taken of a journal that ends at {head}");
        self.store(at, state)
            .and_then(|()| self.trim(keep_from.min(at.next())))
            .map_err(|error| JournalError::from_sqlite("store a snapshot in", &self.path, error))
    }
}

impl SqliteReader {
    /// Uses many short transactions instead of a long one, because appends wait for each. The snapshot is valid once its
    /// row in `snapshot` exists; pieces without that row are left over from a crash.
    fn store(&mut self, at: Seq, state: &[u8]) -> rusqlite::Result<()> {
        let newest: i64 = self.db.query_row("SELECT ifnull(max(at), 0) FROM snapshot", [], |row| row.get(0))?;
        if sql(at) <= newest {
            return Ok(());
        }
        self.drop_loose_pieces()?;
        let pieces = state.chunks(PIECE_BYTES);
        let count = pieces.len() as i64;
        for (n, piece) in (0_i64..).zip(pieces) {
            self.db
                .prepare_cached("INSERT INTO snapshot_piece (at, n, bytes) VALUES (?1, ?2, ?3)")?
                .execute(params![sql(at), n, piece])?;
            if n % COPY_PIECES == COPY_PIECES - 1 {
                checkpoint::copy_log(&self.db)?;
            }
            std::thread::sleep(STEP_PAUSE);
        }
        let moment = self.db.transaction()?;
        moment.execute("DELETE FROM snapshot", [])?;
        moment.execute(
            "INSERT INTO snapshot (at, pieces, bytes) VALUES (?1, ?2, ?3)",
            params![sql(at), count, state.len() as i64],
        )?;
        moment.commit()?;
        self.drop_loose_pieces()
    }

    fn drop_loose_pieces(&mut self) -> rusqlite::Result<()> {
        self.drop_in_steps(
            "DELETE FROM snapshot_piece WHERE rowid IN
                (SELECT rowid FROM snapshot_piece WHERE at NOT IN (SELECT at FROM snapshot) LIMIT ?1)",
            &[DROP_PIECES],
        )
    }

    /// Oldest first, so that the rest has no gap, whenever this is interrupted. The condition on `first` is there because
    /// only `first` has an index; without it, the last step would read every remaining row.
    fn trim(&mut self, keep_from: Seq) -> rusqlite::Result<()> {
        self.drop_in_steps(
            "DELETE FROM batch WHERE first IN
                (SELECT first FROM batch WHERE first < ?2 AND last < ?2 ORDER BY first LIMIT ?1)",
            &[DROP_BATCHES, sql(keep_from)],
        )
    }

    fn drop_in_steps(&mut self, statement: &str, values: &[i64]) -> rusqlite::Result<()> {
        let mut delete = self.db.prepare_cached(statement)?;
        for step in 1.. {
            if delete.execute(params_from_iter(values))? == 0 {
                break;
            }
            if step % COPY_STEPS == 0 {
                checkpoint::copy_log(&self.db)?;
            }
            std::thread::sleep(STEP_PAUSE);
        }
        Ok(())
    }
}
