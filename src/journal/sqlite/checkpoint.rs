//! Copies the write-ahead log into the database, beside the thread that appends.
//!
//! By itself SQLite copies on the thread whose append makes the log long, and the requests behind that append wait for
//! milliseconds. Here a thread with a connection of its own copies, while appends go on. The log begins anew only once all of it
//! is copied, so the few pages that are appended meanwhile are copied by the thread that appends, when it has nothing else
//! to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::file;

/// The log is copied each time about so many bytes were appended to it.
pub(super) const CHECKPOINT_BYTES: u64 = 16 << 20;

/// An append also writes the inner pages of the table and their headers.
const APPEND_OVERHEAD_BYTES: u64 = 8 << 10;

/// The appending thread copies at most so many pages: that takes as long as an append or two.
const FINISH_PAGES: u32 = 32;

/// How often the other thread goes on with what was appended while it copied. If appends come too fast, the rest is left for
/// the next time, or for the appending thread once the log is [`FORCED_FACTOR`] times as long.
const PASSES: usize = 4;
const FORCED_FACTOR: u64 = 8;

/// There is nothing to copy for the appending thread.
const NOTHING_LEFT: u32 = u32::MAX;

pub(super) struct Checkpoints {
    path: PathBuf,
    every_bytes: u64,
    /// Appended since the other thread was woken last, and since the log began anew.
    since_woken: u64,
    since_begun: u64,
    /// Started by the first long log.
    thread: Option<CopyThread>,
}

struct CopyThread {
    wake: SyncSender<()>,
    /// How many pages it has left, or [`NOTHING_LEFT`].
    left: Arc<AtomicU32>,
    handle: JoinHandle<()>,
}

impl Checkpoints {
    pub fn new(path: &Path, every_bytes: u64) -> Self {
        Self { path: path.to_owned(), every_bytes, since_woken: 0, since_begun: 0, thread: None }
    }

    /// Counts an append, and wakes the other thread if the log has become long.
    pub fn note_append(&mut self, bytes: usize) {
        let bytes = bytes as u64 + APPEND_OVERHEAD_BYTES;
        self.since_woken += bytes;
        self.since_begun += bytes;
        if self.since_woken < self.every_bytes {
            return;
        }
        if self.thread.is_none() {
            self.thread = CopyThread::start(&self.path);
        }
        self.since_woken = 0;
        // A thread that is still busy needs no second message.
        let _ = self.thread.as_ref().map(|thread| thread.wake.try_send(()));
    }

    /// Copies what the other thread has left, if that is little, so that the log begins anew. For the connection that appends.
    pub fn finish(&mut self, db: &Connection) {
        let left = self.thread.as_ref().map_or(NOTHING_LEFT, |thread| thread.left.load(Ordering::Acquire));
        let is_forced = self.since_begun > self.every_bytes * FORCED_FACTOR;
        if left > FINISH_PAGES && !is_forced {
            return;
        }
        // An error changes nothing about what is durable: the log stays as it is, and grows.
        let is_done = copy_log(db).is_ok_and(|left| left == 0);
        if is_done || is_forced {
            self.since_begun = 0;
        }
        if let Some(thread) = &self.thread {
            thread.left.store(NOTHING_LEFT, Ordering::Release);
        }
    }

    /// Ends the other thread and closes its connection.
    pub fn stop(&mut self) {
        if let Some(CopyThread { wake, handle, .. }) = self.thread.take() {
            drop(wake);
            let _ = handle.join();
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CopyThread {
    /// None if there is no thread or no connection to be had. The appending thread then copies, when it must.
    fn start(path: &Path) -> Option<CopyThread> {
        let db = file::connect(path).ok()?;
        let (wake, woken) = sync_channel(1);
        let left = Arc::new(AtomicU32::new(NOTHING_LEFT));
        let shared = left.clone();
        let run = move || {
            for () in woken {
                let mut pages = NOTHING_LEFT;
                for _ in 0..PASSES {
                    pages = copy_log(&db).unwrap_or(NOTHING_LEFT);
                    if pages <= FINISH_PAGES {
                        break;
                    }
                }
                sync_database(&db);
                shared.store(pages, Ordering::Release);
            }
        };
        let handle = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(run).ok()?;
        Some(CopyThread { wake, left, handle })
    }
}

/// Copies what can be copied while others read and append. Returns how many pages of the log are left.
pub(super) fn copy_log(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (busy, log, copied): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // While another connection copies, the numbers say nothing.
        let is_known = busy == 0 && log >= 0;
        Ok(if is_known { u32::try_from(log - copied).unwrap_or(NOTHING_LEFT) } else { NOTHING_LEFT })
    })
}

/// Syncs the database. SQLite does so only when all of the log is copied; without this, the thread that appends would sync what
/// this thread has copied.
fn sync_database(db: &Connection) {
    use rusqlite::ffi;
    let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
    // SAFETY: the connection is open and used by this thread only. SQLite returns its own file, which lives as long as the
    // connection, and whose methods are those of an open file. A second descriptor would end the locks of this process when it is
    // closed, so it has to be this one.
    unsafe {
        let found = ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast(),
        );
        if found == ffi::SQLITE_OK
            && let Some(methods) = file.as_ref().and_then(|file| file.pMethods.as_ref())
            && let Some(sync) = methods.xSync
        {
            // If it fails, the checkpoint that ends the log syncs again, and says so.
            sync(file, ffi::SQLITE_SYNC_NORMAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Seq;
    use crate::journal::{Journal, SqliteJournal, suite};

    fn log_bytes(path: &Path) -> u64 {
        file::beside(path, "-wal").metadata().map_or(0, |about| about.len())
    }

    #[test]
    fn the_log_begins_anew_while_appends_go_on_and_nothing_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        let mut journal = SqliteJournal::open(&path).unwrap();
        journal.copy_log_every(64 << 10);
        let all = suite::records(1, 1_000);
        let (mut head, mut longest) = (Seq::ZERO, 0);
        for record in &all {
            journal.append(head, std::slice::from_ref(record)).unwrap();
            journal.maintain();
            head = record.seq;
            longest = longest.max(log_bytes(&path));
        }
        // Each append writes two pages or more.
        assert!(longest < 2 << 20, "the log has {longest} bytes");
        drop(journal);
        let loaded = suite::load(&mut SqliteJournal::open(&path).unwrap()).unwrap();
        assert_eq!((loaded.records, loaded.head), (all, Seq(1_000)));
    }
}
