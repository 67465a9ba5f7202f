//! Makes records durable and gives them back, without knowing what they mean.
//!
//! Nothing in here decides anything or reads a clock, and no event is ever looked into. A journal has one writer, the
//! [`Journal`] itself; a [`JournalReader`] is its second hand, for looking back and for snapshots on another thread.
//! Start at [`Journal::append`]; [`SqliteJournal`] is what servers use, [`MemoryJournal`] what tests use.

mod error;
mod memory;
mod sqlite;

pub mod db;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod suite;

pub use error::JournalError;
pub use memory::MemoryJournal;
pub use sqlite::SqliteJournal;
pub(crate) use sqlite::file::lock_soon;

use std::time::Duration;

use crate::engine::{Record, Seq};

/// Where records go before anybody hears of them.
pub trait Journal: Send {
    /// Gives back what is stored: the newest snapshot, then every record after it, in order. Answers the head, which is
    /// the number of the last record ever appended. Called once, at start.
    fn load(&mut self, on: OnLoaded<'_>) -> Result<Seq, JournalError>;

    /// Stores the records as one: durable when it returns, and never half of them. `after` is the head the caller
    /// believes in; if it is not the head, the answer is [`JournalError::Superseded`] and nothing is written.
    ///
    /// Any other failure leaves it open whether the records were stored, so nothing more is taken until the journal is
    /// opened again.
    ///
    /// # Panics
    ///
    /// If the records are not numbered `after + 1`, `after + 2` and so on: numbering them is the caller's promise.
    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError>;

    /// How long the latest append took to write and to sync, where there is something to sync.
    fn sync_time(&self) -> Option<Duration> {
        None
    }

    /// A second handle, for another thread: it reads and stores snapshots while appends go on.
    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError>;
}

/// Looks back into a journal and makes its past shorter; never adds to it.
pub trait JournalReader: Send {
    /// As [`Journal::load`], but without the records after `up_to`. Answers how far it came: `up_to`, or the head if
    /// that is smaller, or the snapshot's number if that is larger.
    fn load(&mut self, up_to: Seq, on: OnLoaded<'_>) -> Result<Seq, JournalError>;

    /// At most `limit` records after `after`, oldest first. See [`Page::begins_late`] for a past that is gone.
    fn read(&mut self, after: Seq, limit: usize) -> Result<Page, JournalError>;

    /// The number of the last record ever appended.
    fn head(&mut self) -> Result<Seq, JournalError>;

    /// Stores what all records up to and including `at` add up to, then drops older snapshots and the records before
    /// `keep_from`, but never one after `at`. Records appended together are only dropped together, so a few more may
    /// stay. A crash at any moment leaves either the old snapshot or the new one in force. A snapshot that is no newer
    /// than the stored one is not kept.
    ///
    /// # Panics
    ///
    /// If `at` lies beyond the head: nobody can know what records add up to that are not there.
    fn save_snapshot(&mut self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError>;
}

/// Whom [`Journal::load`] tells; an error from here ends the load and is its answer.
pub type OnLoaded<'a> = &'a mut dyn FnMut(Loaded<'_>) -> Result<(), JournalError>;

/// One step of a load.
#[derive(Debug)]
pub enum Loaded<'a> {
    /// What the records up to `at` added up to. Comes first, if at all.
    Snapshot {
        /// The last record it contains.
        at: Seq,
        /// As it was given to [`JournalReader::save_snapshot`].
        state: &'a [u8],
    },
    /// The next record.
    Record(Record),
}

/// Some records in a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Oldest first.
    pub records: Vec<Record>,
    /// The oldest record that is still stored; where none is, the number the next one will get.
    pub oldest: Seq,
}

impl Page {
    /// Whether records between `after` and this page were dropped, so that whoever asked has missed something.
    pub fn begins_late(&self, after: Seq) -> bool {
        self.oldest > after && self.oldest.0 - after.0 > 1
    }
}

/// The engine numbers records. A wrong number here would be a wrong fence for good.
fn assert_numbered(after: Seq, records: &[Record]) {
    for (expected, record) in (after.0 + 1..).zip(records) {
        assert_eq!(record.seq.0, expected, "records appended after {after} must be numbered without gaps");
    }
}
