//! Makes records durable and returns them, without knowing what they mean.
//!
//! There is no clock and no rule here, and nothing depends on which event a record has. A journal has one writer, the
//! [`Journal`] itself; a [`JournalReader`] is a second handle, for reading and for snapshots on another thread.
//! Start at [`Journal::append`]; servers use [`SqliteJournal`], those of a cluster [`EtcdJournal`], tests [`MemoryJournal`]. Rebuilding state from a
//! snapshot and records is in `replay`, offline maintenance of the file in [`db`].

mod error;
mod etcd;
mod generation;
mod memory;
mod replay;
mod sqlite;

pub mod db;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod suite;

pub use error::JournalError;
pub use etcd::{EtcdJournal, EtcdKeys, Leadership};
pub use generation::begin_generation;
pub use memory::MemoryJournal;
pub use replay::{Replay, ReplayRange, encode_image, replay};
pub(crate) use sqlite::file::lock_soon;
pub use sqlite::{JournalFiles, SqliteJournal};

use std::time::Duration;

use crate::engine::{Record, Seq};

/// Stores records before they are published.
pub trait Journal: Send {
    /// Passes what is stored to `on`: the newest snapshot, then every record after it, in order. Returns the head, which
    /// is the number of the last record ever appended. Called once, at start.
    fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError>;

    /// Stores all the records or none of them; they are durable when it returns. `after` is the head the caller expects;
    /// if the head is another, the error is [`JournalError::Superseded`] and nothing is written.
    ///
    /// After any other failure it is not known whether the records were stored, so further appends fail until the journal
    /// is opened again.
    ///
    /// # Panics
    ///
    /// If the records are not numbered `after + 1`, `after + 2` and so on: numbering them is up to the caller. Only the first
    /// may skip numbers, if it [begins a generation](crate::engine::Event::Restored).
    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError>;

    /// Called before replies leave that rest on no append. An error means that another server may be the one that writes by
    /// now, so that they might be wrong. A journal that only this process can write has nothing to confirm.
    fn confirm(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Called when the replies of an append have left, for short work that no client should wait for.
    fn maintain(&mut self) {}

    /// How long the last append took to write and sync; none for a journal that does not sync.
    fn sync_time(&self) -> Option<Duration> {
        None
    }

    /// A second handle for another thread, which reads and stores snapshots while appends go on.
    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError>;
}

/// Reads a journal, and stores snapshots, which drop old records. Never appends.
pub trait JournalReader: Send {
    /// Like [`Journal::load`], but without the records after `up_to`. Returns the last record it covered: `up_to`, or the
    /// head if that is smaller, or the snapshot's number if that is larger.
    fn load(&mut self, up_to: Seq, on: LoadCallback<'_>) -> Result<Seq, JournalError>;

    /// At most `limit` records after `after`, oldest first. [`RecordPage::begins_late`] tells whether some were dropped.
    fn read(&mut self, after: Seq, limit: usize) -> Result<RecordPage, JournalError>;

    /// The number of the last record ever appended.
    fn head(&mut self) -> Result<Seq, JournalError>;

    /// The first of the newest records that together take about `bytes` in the journal, or less.
    fn first_within(&mut self, bytes: u64) -> Result<Seq, JournalError>;

    /// Stores the state after the record `at`, then drops older snapshots and the records before `keep_from`, but no
    /// record after `at`. Records that are stored together are only dropped together, so a few more may stay. A crash
    /// at any moment leaves either the old snapshot or the new one in force. A snapshot that is not newer than the stored
    /// one is not stored.
    ///
    /// # Panics
    ///
    /// If `at` is beyond the head: there are no such records.
    fn save_snapshot(&mut self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError>;
}

/// Receives what [`Journal::load`] reads. An error ends the load and becomes its result.
pub type LoadCallback<'a> = &'a mut dyn FnMut(LoadItem) -> Result<(), JournalError>;

/// What a load reads: the snapshot first, then each record.
#[derive(Debug)]
pub enum LoadItem {
    /// The state after the record `at`.
    Snapshot {
        at: Seq,
        /// The bytes that [`JournalReader::save_snapshot`] was called with.
        state: Vec<u8>,
    },
    Record(Record),
}

/// Consecutive records.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordPage {
    /// Oldest first.
    pub records: Vec<Record>,
    /// The oldest record that is still stored; if there is none, the number of the next one.
    pub oldest: Seq,
}

impl RecordPage {
    /// Whether records between `after` and this page were dropped.
    pub fn begins_late(&self, after: Seq) -> bool {
        let follows = |first: &Record| first.seq == self.oldest && first.follows(after);
        self.oldest > after && self.oldest.0 - after.0 > 1 && !self.records.first().is_some_and(follows)
    }
}

/// The engine numbers the records. A wrong number stored here would be a wrong fence forever.
fn assert_numbered(after: Seq, records: &[Record]) {
    let Some((first, rest)) = records.split_first() else { return };
    assert!(first.follows(after), "{} cannot be appended after {after}", first.seq);
    for (expected, record) in (first.seq.0 + 1..).zip(rest) {
        assert_eq!(record.seq.0, expected, "records appended after {after} must be numbered without gaps");
    }
}
