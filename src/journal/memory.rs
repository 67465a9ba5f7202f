//! A journal in memory, for tests. No files.
//!
//! A test "restarts" with [`MemoryJournal::reopen`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Journal, JournalError, JournalReader, LoadCallback, LoadItem, RecordPage, assert_numbered};
use crate::engine::{Record, Seq};

/// Records in memory, for tests.
#[derive(Default)]
pub struct MemoryJournal {
    store: Arc<Mutex<MemoryStore>>,
    /// The head as this handle knows it; another handle may have appended since.
    head: Seq,
    broken: bool,
}

struct MemoryReader {
    store: Arc<Mutex<MemoryStore>>,
}

#[derive(Default)]
struct MemoryStore {
    head: Seq,
    snapshot: Option<(Seq, Vec<u8>)>,
    /// In order, ending with `head`.
    records: Vec<Record>,
    full: bool,
}

impl MemoryJournal {
    pub fn new() -> MemoryJournal {
        MemoryJournal::default()
    }

    /// A new handle to the same store, as a restarted server would open it.
    pub fn reopen(&self) -> MemoryJournal {
        MemoryJournal { store: Arc::clone(&self.store), head: lock(&self.store).head, broken: false }
    }

    /// Whether appends fail as on a full disk.
    pub fn set_full(&self, full: bool) {
        lock(&self.store).full = full;
    }
}

impl Journal for MemoryJournal {
    fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.head = load(&self.store, Seq(u64::MAX), on)?;
        Ok(self.head)
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        assert_numbered(after, records);
        if self.broken {
            return Err(JournalError::Broken { path: in_memory() });
        }
        if after != self.head {
            return Err(JournalError::Superseded { expected: after, actual_head: self.head });
        }
        let mut store = lock(&self.store);
        if after != store.head {
            return Err(JournalError::Superseded { expected: after, actual_head: store.head });
        }
        if store.full {
            self.broken = true;
            return Err(JournalError::Full { path: in_memory(), source: "the test said so".into() });
        }
        store.records.extend_from_slice(records);
        self.head = records.last().map_or(after, |record| record.seq);
        store.head = self.head;
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
        Ok(Box::new(MemoryReader { store: Arc::clone(&self.store) }))
    }
}

impl JournalReader for MemoryReader {
    fn load(&mut self, up_to: Seq, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        load(&self.store, up_to, on)
    }

    fn read(&mut self, after: Seq, limit: usize) -> Result<RecordPage, JournalError> {
        let store = lock(&self.store);
        let records = store.records.iter().filter(|record| record.seq > after).take(limit).cloned().collect();
        Ok(RecordPage { records, oldest: store.oldest() })
    }

    fn head(&mut self) -> Result<Seq, JournalError> {
        Ok(lock(&self.store).head)
    }

    fn first_within(&mut self, bytes: u64) -> Result<Seq, JournalError> {
        let store = lock(&self.store);
        let (mut first, mut left) = (store.head.next(), bytes);
        for record in store.records.iter().rev() {
            let size = serde_json::to_vec(record).expect("records are plain data").len() as u64;
            let Some(rest) = left.checked_sub(size) else { break };
            (first, left) = (record.seq, rest);
        }
        Ok(first)
    }

    fn save_snapshot(&mut self, at: Seq, state: &[u8], keep_from: Seq) -> Result<(), JournalError> {
        let mut store = lock(&self.store);
        let head = store.head;
        assert!(at <= head, "a snapshot at {at} was taken of a journal that ends at {head}");
        let stored = store.snapshot.as_ref().map_or(Seq::ZERO, |(stored, _)| *stored);
        if at > stored {
            store.snapshot = Some((at, state.to_vec()));
        }
        store.records.retain(|record| record.seq >= keep_from || record.seq > at);
        Ok(())
    }
}

impl MemoryStore {
    fn oldest(&self) -> Seq {
        self.records.first().map_or(self.head.next(), |record| record.seq)
    }
}

/// Works on a copy, so that the callback may use the journal.
fn load(store: &Mutex<MemoryStore>, up_to: Seq, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
    let (snapshot, records) = {
        let store = lock(store);
        (store.snapshot.clone(), store.records.clone())
    };
    let mut last_seq = Seq::ZERO;
    if let Some((at, state)) = snapshot {
        on(LoadItem::Snapshot { at, state })?;
        last_seq = at;
    }
    let from = last_seq;
    for record in records.into_iter().filter(|record| record.seq > from && record.seq <= up_to) {
        last_seq = record.seq;
        on(LoadItem::Record(record))?;
    }
    Ok(last_seq)
}

/// A test that panicked while it held the lock has left whole records behind, so a poisoned lock is taken as it is.
fn lock(store: &Mutex<MemoryStore>) -> MutexGuard<'_, MemoryStore> {
    store.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn in_memory() -> PathBuf {
    PathBuf::from("in memory")
}
