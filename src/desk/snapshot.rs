//! Keeping start-up short: every so often another thread replays the journal and stores what it adds up to.
//!
//! The desk goes on meanwhile; it only says when. The other thread needs nothing from it but a second handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::recover::rebuild;
use crate::engine::{Engine, Policy, Seq};
use crate::journal::{Journal, JournalError, JournalReader, encode_image};

/// Records between two snapshots at the least: well under a second's worth of replay. Where there is much more to keep
/// than that, there are half as many records as things to keep: a start takes half as long again at the most, and
/// however much there is, a record pays for two things and no more.
const SNAPSHOT_EVERY: u64 = 100_000;

/// Records that stay readable behind a snapshot, for event streams that resume and for histories.
const HISTORY_KEPT: u64 = 200_000;

/// How many times as long as a snapshot took there is none: in a storm of requests, the processor is for them.
const REST: u32 = 9;

pub(super) struct Snapshots {
    last: Seq,
    busy: Arc<AtomicBool>,
}

impl Snapshots {
    /// Counts from the latest snapshot there is, so that a server that is restarted often takes them too.
    pub fn new(last: Seq) -> Self {
        Self { last, busy: Arc::default() }
    }

    /// Starts a snapshot if it is time and none is under way.
    pub fn consider(&mut self, engine: &Engine, journal: &dyn Journal) {
        let head = engine.head();
        if head.0 - self.last.0 < pause(engine.weight()) || self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        self.last = head;
        let (busy, policy) = (self.busy.clone(), engine.policy().clone());
        let reader = journal.reader();
        let run = move || {
            let begun = Instant::now();
            let done = reader.and_then(|mut reader| take(reader.as_mut(), head, policy));
            if let Err(error) = done {
                // The journal itself is fine, or its next append will say so; start-up takes longer, that is all.
                tracing::warn!(%error, "could not store a snapshot; the next one will be tried later");
            }
            std::thread::sleep(begun.elapsed() * REST);
            busy.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("snapshot".to_owned()).spawn(run).is_err() {
            self.busy.store(false, Ordering::Release);
        }
    }
}

/// How many records there are between two snapshots that keep so many things.
fn pause(weight: usize) -> u64 {
    SNAPSHOT_EVERY.max(weight as u64 / 2)
}

pub(super) fn take(reader: &mut dyn JournalReader, head: Seq, policy: Policy) -> Result<(), JournalError> {
    let (engine, at) = rebuild(reader, head, policy)?;
    let state = encode_image(&engine.image());
    reader.save_snapshot(at, &state, Seq(at.0.saturating_sub(HISTORY_KEPT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_cost_a_record_no_more_however_much_they_keep() {
        assert_eq!(pause(0), SNAPSHOT_EVERY);
        assert_eq!(pause(1_000), SNAPSHOT_EVERY);
        // Nothing but new keys, one with each record: whenever their number has doubled.
        let (mut last, mut taken) = (0, 0);
        for head in 1..=10_000_000 {
            if head - last >= pause(head as usize) {
                (last, taken) = (head, taken + 1);
            }
        }
        assert_eq!(taken, 7, "of ten million");
    }
}
