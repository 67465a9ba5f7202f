//! How far the ledger is behind the journal, and why; read from other threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::LedgerProblem;
use crate::engine::Seq;

/// The state of the ledger's thread.
#[derive(Debug, Default)]
pub struct LedgerStatus {
    last_written: AtomicU64,
    head: AtomicU64,
    fields: Mutex<StatusFields>,
}

#[derive(Debug, Default)]
struct StatusFields {
    behind_since: Option<Instant>,
    /// Why it cannot be written.
    error: Option<(LedgerProblem, String)>,
    /// What is wrong with what was written before.
    damage: Option<String>,
}

/// How far behind the journal the ledger is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// The number of records that are not in the ledger yet.
    pub records: u64,
    /// How long there have been any.
    pub time: Duration,
}

impl LedgerStatus {
    /// The last record that is durable in the ledger.
    pub fn last_written_seq(&self) -> Seq {
        Seq(self.last_written.load(Ordering::Acquire))
    }

    pub fn lag(&self) -> Lag {
        let records = Seq(self.head.load(Ordering::Acquire)).count_since(self.last_written_seq());
        Lag { records, time: self.fields().behind_since.map(|since| since.elapsed()).unwrap_or_default() }
    }

    /// What is wrong with the ledger.
    pub fn problem(&self) -> Option<LedgerProblem> {
        let fields = self.fields();
        let error = fields.error.as_ref().map(|(problem, _)| *problem);
        error.or(fields.damage.as_ref().map(|_| LedgerProblem::Damaged))
    }

    /// Why the ledger cannot be written, as a sentence.
    pub fn error(&self) -> Option<String> {
        self.fields().error.as_ref().map(|(_, sentence)| sentence.clone())
    }

    pub(super) fn set_head(&self, head: Seq) {
        self.head.fetch_max(head.0, Ordering::AcqRel);
        self.update();
    }

    pub(super) fn set_written(&self, seq: Seq) {
        self.last_written.store(seq.0, Ordering::Release);
        self.head.fetch_max(seq.0, Ordering::AcqRel);
        self.update();
    }

    /// Returns whether the error is another one than before.
    pub(super) fn set_error(&self, error: Option<(LedgerProblem, String)>) -> bool {
        let mut fields = self.fields();
        let changed = fields.error != error;
        fields.error = error;
        changed
    }

    /// Returns whether the damage is another one than before.
    pub(super) fn set_damage(&self, damage: Option<String>) -> bool {
        let mut fields = self.fields();
        let changed = fields.damage != damage;
        fields.damage = damage;
        changed
    }

    fn update(&self) {
        let is_behind = self.head.load(Ordering::Acquire) > self.last_written_seq().0;
        let mut fields = self.fields();
        fields.behind_since = is_behind.then(|| fields.behind_since.unwrap_or_else(Instant::now));
    }

    /// No panic leaves a half-changed value behind, so a poisoned lock is taken as it is.
    fn fields(&self) -> MutexGuard<'_, StatusFields> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
