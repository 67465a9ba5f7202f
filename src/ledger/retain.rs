//! A wrapper around the journal that keeps records from being dropped before they are in the ledger.
//!
//! This is the ledger's only influence on the journal. It also reports each append to the status, which
//! computes the lag.

use std::sync::Arc;
use std::time::Duration;

use super::LedgerStatus;
use crate::engine::{Record, Seq};
use crate::journal::{Journal, JournalError, JournalReader, LoadCallback, RecordPage};

/// A journal whose snapshots keep every record that is not in the ledger yet.
pub struct RetainingJournal {
    journal: Box<dyn Journal>,
    status: Arc<LedgerStatus>,
}

struct RetainingReader {
    reader: Box<dyn JournalReader>,
    status: Arc<LedgerStatus>,
}

impl RetainingJournal {
    pub fn new(journal: Box<dyn Journal>, status: Arc<LedgerStatus>) -> RetainingJournal {
        RetainingJournal { journal, status }
    }
}

impl Journal for RetainingJournal {
    fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.journal.load(on)
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        self.journal.append(after, records)?;
        if let Some(last) = records.last() {
            self.status.set_head(last.seq);
        }
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.journal.confirm()
    }

    fn maintain(&mut self) {
        self.journal.maintain();
    }

    fn sync_time(&self) -> Option<Duration> {
        self.journal.sync_time()
    }

    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
        Ok(Box::new(RetainingReader { reader: self.journal.reader()?, status: self.status.clone() }))
    }
}

impl JournalReader for RetainingReader {
    fn load(&mut self, up_to: Seq, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.reader.load(up_to, on)
    }

    fn read(&mut self, after: Seq, limit: usize) -> Result<RecordPage, JournalError> {
        self.reader.read(after, limit)
    }

    fn head(&mut self) -> Result<Seq, JournalError> {
        self.reader.head()
    }

    fn first_within(&mut self, bytes: u64) -> Result<Seq, JournalError> {
        self.reader.first_within(bytes)
    }

    fn save_snapshot(&mut self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError> {
        self.reader.save_snapshot(at, state, keep_from.min(self.status.last_written_seq().next()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::journal::MemoryJournal;

    /// Writes down which calls it gets.
    struct CalledJournal(MemoryJournal, Arc<Mutex<Vec<&'static str>>>);

    impl Journal for CalledJournal {
        fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
            self.0.load(on)
        }

        fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
            self.0.append(after, records)
        }

        fn confirm(&mut self) -> Result<(), JournalError> {
            self.1.lock().unwrap().push("confirm");
            Ok(())
        }

        fn maintain(&mut self) {
            self.1.lock().unwrap().push("maintain");
        }

        fn sync_time(&self) -> Option<Duration> {
            self.1.lock().unwrap().push("sync_time");
            None
        }

        fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
            self.0.reader()
        }
    }

    /// A call that was not passed on let the write-ahead log of every server with a ledger grow without end.
    #[test]
    fn calls_that_a_journal_need_not_have_are_passed_on() {
        let calls = Arc::<Mutex<Vec<&'static str>>>::default();
        let journal = CalledJournal(MemoryJournal::new(), calls.clone());
        let mut retaining = RetainingJournal::new(Box::new(journal), Arc::default());
        retaining.confirm().unwrap();
        retaining.maintain();
        retaining.sync_time();
        assert_eq!(*calls.lock().unwrap(), ["confirm", "maintain", "sync_time"]);
    }
}
