//! Records in an SQLite file: one row for what was appended together, one sync to make it durable.
//!
//! The file belongs to one process, which says so with a lock beside it (see [`file`]); how rows become records again is
//! in [`rows`]. SQLite's write-ahead log lets readers look while the one writer writes.

pub(super) mod file;
pub(super) mod rows;

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod torn_tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params, params_from_iter};

use self::file::OwnerLock;
use self::rows::sql;
use super::{Journal, JournalError, JournalReader, OnLoaded, Page, assert_numbered};
use crate::engine::{Record, Seq};

/// Snapshots are cut into rows of this size, because SQLite handles a row as a whole and refuses those over a gigabyte.
const PIECE_BYTES: usize = 1 << 20;

/// How many rows are dropped in one go. Appends wait meanwhile, so it must be over in milliseconds.
const DROP_BATCHES: i64 = 64;
const DROP_PIECES: i64 = 8;

/// Between two steps of storing a snapshot, so that an append that waited for the first comes before the second.
const STEP_PAUSE: Duration = Duration::from_millis(1);

/// What the append buffer may keep for itself between appends; a larger batch is rare.
const BUFFER_KEEP_BYTES: usize = 4 << 20;

/// Only adds where the journal still ends where the caller believes: elsewhere `last` would be NULL, and such a row is
/// left out. One statement, so one transaction and one sync. An INSERT of a SELECT would say it more plainly, but copies
/// the records once more.
const APPEND: &str = "INSERT OR IGNORE INTO batch (first, last, records)
    VALUES (?1, CASE WHEN ?1 - 1 = (SELECT seq FROM head) THEN ?2 END, ?3)";

/// The journal servers use.
pub struct SqliteJournal {
    path: PathBuf,
    db: Connection,
    head: Seq,
    /// Set once an append failed in a way that leaves open what is in the file.
    broken: bool,
    buffer: Vec<u8>,
    /// What the latest append spent in SQLite.
    sync_time: Option<Duration>,
    /// One snapshot at a time, whichever reader stores it: each sweeps the pieces it does not know.
    storing: Arc<Mutex<()>>,
    /// Held for life; the last field, so that it is let go after the connection.
    _lock: OwnerLock,
}

/// A second connection to the same file.
struct SqliteReader {
    path: PathBuf,
    db: Connection,
    storing: Arc<Mutex<()>>,
}

impl SqliteJournal {
    /// Opens the journal at `path`, or makes a new one there, readable and writable for this user only. Its directory
    /// must exist.
    pub fn open(path: &Path) -> Result<SqliteJournal, JournalError> {
        let path = file::resolve(path)?;
        // Looked at before anything is put beside it: a foreign file gets no lock of ours as a neighbour.
        file::look(&path)?;
        let lock = OwnerLock::take(&path)?;
        if file::look(&path)? == file::FileState::Nothing {
            file::create(&path)?;
        }
        let db = file::connect(&path)?;
        let head = rows::head(&db, &path)?;
        let (buffer, sync_time, storing) = (Vec::new(), None, Arc::default());
        Ok(SqliteJournal { path, db, head, broken: false, buffer, sync_time, storing, _lock: lock })
    }

    /// The file it is in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn insert(&mut self, first: Seq, last: Seq, records: &[Record]) -> Result<bool, JournalError> {
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEEP_BYTES);
        serde_json::to_writer(&mut self.buffer, records).expect("records are plain data, and memory takes every write");
        let text = std::str::from_utf8(&self.buffer).expect("JSON is UTF-8");
        let begun = Instant::now();
        let done =
            self.db.prepare_cached(APPEND).and_then(|mut append| append.execute(params![sql(first), sql(last), text]));
        self.sync_time = Some(begun.elapsed());
        done.map(|rows| rows == 1).map_err(|error| JournalError::from_sqlite("write", &self.path, error))
    }
}

impl Journal for SqliteJournal {
    fn load(&mut self, on: OnLoaded<'_>) -> Result<Seq, JournalError> {
        self.head = rows::load(&self.db, &self.path, None, on)?;
        Ok(self.head)
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        assert_numbered(after, records);
        if self.broken {
            return Err(JournalError::Broken { path: self.path.clone() });
        }
        if after != self.head {
            return Err(JournalError::Superseded { expected: after, found: self.head });
        }
        let Some(last) = records.last().map(|record| record.seq) else { return Ok(()) };
        // Until the answer is definite, it is open what the file holds.
        self.broken = true;
        let written = self.insert(after.next(), last, records)?;
        self.broken = false;
        if !written {
            return Err(JournalError::Superseded { expected: after, found: rows::head(&self.db, &self.path)? });
        }
        self.head = last;
        Ok(())
    }

    fn sync_time(&self) -> Option<Duration> {
        self.sync_time
    }

    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
        let (path, storing) = (self.path.clone(), Arc::clone(&self.storing));
        Ok(Box::new(SqliteReader { db: file::connect(&path)?, path, storing }))
    }
}

impl JournalReader for SqliteReader {
    fn load(&mut self, up_to: Seq, on: OnLoaded<'_>) -> Result<Seq, JournalError> {
        rows::load(&self.db, &self.path, Some(up_to), on)
    }

    fn read(&mut self, after: Seq, limit: usize) -> Result<Page, JournalError> {
        rows::read(&self.db, &self.path, after, limit)
    }

    fn head(&mut self) -> Result<Seq, JournalError> {
        rows::head(&self.db, &self.path)
    }

    fn save_snapshot(&mut self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError> {
        let storing = Arc::clone(&self.storing);
        // Whoever panicked while it was held has left pieces that are swept now.
        let _one_at_a_time = storing.lock().unwrap_or_else(PoisonError::into_inner);
        let head = rows::head(&self.db, &self.path)?;
        assert!(at <= head, "a snapshot at {at} was taken of a journal that ends at {head}");
        self.store(at, state)
            .and_then(|()| self.trim(keep_from.min(at.next())))
            .map_err(|error| JournalError::from_sqlite("store a snapshot in", &self.path, error))
    }
}

impl SqliteReader {
    /// Many short transactions rather than one long one, since appends wait while one is open. The snapshot counts from
    /// the moment its row in `snapshot` is there; pieces without that row are leftovers of a crash.
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

    /// Oldest first, so that what is left has no gap whenever this ends. `first` is asked for too, because only it has
    /// an index: without that, the last step would look at every row that stays.
    fn trim(&mut self, keep_from: Seq) -> rusqlite::Result<()> {
        self.drop_in_steps(
            "DELETE FROM batch WHERE first IN
                (SELECT first FROM batch WHERE first < ?2 AND last < ?2 ORDER BY first LIMIT ?1)",
            &[DROP_BATCHES, sql(keep_from)],
        )
    }

    fn drop_in_steps(&mut self, statement: &str, values: &[i64]) -> rusqlite::Result<()> {
        let mut delete = self.db.prepare_cached(statement)?;
        while delete.execute(params_from_iter(values))? > 0 {
            std::thread::sleep(STEP_PAUSE);
        }
        Ok(())
    }
}
