//! Snapshots, which keep start-up short: from time to time another thread replays the journal and stores the result.
//!
//! The desk's thread only decides when. The other thread reads the journal through a handle of its own, and the desk
//! works on meanwhile. How the engine is rebuilt is in `recover`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::recover::rebuild;
use crate::engine::{Engine, Policy, Record, Seq};
use crate::journal::{Journal, JournalError, JournalReader, encode_image};
use crate::threads;

/// The smallest number of records between two snapshots; their replay takes well under a second. A large state gets
/// half as many records between two snapshots as it has keys and sessions: replay then adds at most half of the
/// time to load the snapshot, and writing snapshots costs two keys or sessions per record, no matter how large the state
/// is.
const SNAPSHOT_EVERY: u64 = 100_000;

/// Records before a snapshot that stay readable, for event streams that resume, for the history, and for the time of the
/// last record. Fewer stay where they are large.
const HISTORY_KEPT: u64 = 200_000;
const HISTORY_BYTES: u64 = 128 << 20;

/// A snapshot is also taken after this many bytes of text in records, or half of what the state has. Otherwise a journal
/// would grow by large records that nothing is left of.
const SNAPSHOT_EVERY_BYTES: usize = 64 << 20;

/// After a snapshot, wait this many times its duration before the next one. This limits the CPU time that is
/// taken from requests.
const PAUSE_FACTOR: u32 = 9;

/// The priority of the thread: requests go first, and a busy machine still gets its snapshots.
const NICE: i32 = 10;

pub(super) struct Snapshots {
    last: Seq,
    /// The bytes of text in records since then.
    bytes: usize,
    busy: Arc<AtomicBool>,
}

impl Snapshots {
    /// Counts from the last stored snapshot, so that a server that restarts often takes snapshots too.
    pub fn new(last: Seq) -> Self {
        Self { last, bytes: 0, busy: Arc::default() }
    }

    /// Starts a snapshot if enough records were appended since the last one and none is running.
    pub fn start_if_due(&mut self, records: &[Record], engine: &Engine, journal: &dyn Journal) {
        self.bytes += records.iter().map(|record| record.event.text_bytes()).sum::<usize>();
        let head = engine.head();
        let is_due = head.count_since(self.last) >= interval(engine.weight())
            || self.bytes >= SNAPSHOT_EVERY_BYTES.max(engine.text_bytes() / 2);
        if !is_due || self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        (self.last, self.bytes) = (head, 0);
        let (busy, policy) = (self.busy.clone(), engine.policy().clone());
        let reader = journal.reader();
        let run = move || {
            threads::go_last(NICE);
            let start = Instant::now();
            let result = reader.and_then(|mut reader| take(reader.as_mut(), head, policy));
            if let Err(error) = result {
                // Only start-up takes longer. If the journal itself is damaged, its next append fails.
                tracing::warn!(%error, "could not store a snapshot; the next one will be tried later");
            }
            std::thread::sleep(start.elapsed() * PAUSE_FACTOR);
            busy.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("snapshot".to_owned()).spawn(run).is_err() {
            self.busy.store(false, Ordering::Release);
        }
    }
}

/// The number of records between two snapshots of a state with this many keys and sessions.
fn interval(weight: usize) -> u64 {
    SNAPSHOT_EVERY.max(weight as u64 / 2)
}

/// Stores a snapshot of the state after the record `head`.
pub(super) fn take(reader: &mut dyn JournalReader, head: Seq, policy: Policy) -> Result<(), JournalError> {
    let (engine, at) = rebuild(reader, head, policy)?;
    let image = engine.image();
    // A large state is in memory often enough.
    drop(engine);
    let state = encode_image(&image);
    drop(image);
    let keep_from = keep_from(at).max(reader.first_within(HISTORY_BYTES)?);
    reader.save_snapshot(at, &state, keep_from)
}

/// The oldest record to keep before a snapshot at `at`. While a generation is young, everything is kept: how many records
/// there are before it cannot be told from their numbers.
fn keep_from(at: Seq) -> Seq {
    if at.count_since(Seq::ZERO) > HISTORY_KEPT { Seq(at.0 - HISTORY_KEPT) } else { Seq::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_before_a_restore_stay_readable_at_first() {
        assert_eq!(keep_from(Seq(HISTORY_KEPT)), Seq::ZERO);
        assert_eq!(keep_from(Seq(HISTORY_KEPT + 5)), Seq(5));
        let second = 1 << 40;
        assert_eq!(keep_from(Seq(second + 7)), Seq::ZERO);
        assert_eq!(keep_from(Seq(second + HISTORY_KEPT + 5)), Seq(second + 5));
    }

    #[test]
    fn the_cost_of_snapshots_per_record_does_not_grow_with_the_state() {
        assert_eq!(interval(0), SNAPSHOT_EVERY);
        assert_eq!(interval(1_000), SNAPSHOT_EVERY);
        // Every record adds a key: a snapshot whenever their number has doubled.
        let (mut last, mut taken) = (0, 0);
        for head in 1..=10_000_000 {
            if head - last >= interval(head as usize) {
                (last, taken) = (head, taken + 1);
            }
        }
        assert_eq!(taken, 7, "of ten million");
    }
}
