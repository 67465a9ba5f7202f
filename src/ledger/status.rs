//! How far the ledger is, for whoever asks from another thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::Seq;

/// What the ledger's thread says about itself.
#[derive(Debug, Default)]
pub struct LedgerStatus {
    written: AtomicU64,
    head: AtomicU64,
    rest: Mutex<Rest>,
}

#[derive(Debug, Default)]
struct Rest {
    behind: Option<Instant>,
    trouble: Option<String>,
}

/// How far behind the journal the ledger is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// Records that are not in it yet.
    pub records: u64,
    /// Since when there are any.
    pub time: Duration,
}

impl LedgerStatus {
    /// The last record that is in the ledger for good.
    pub fn written(&self) -> Seq {
        Seq(self.written.load(Ordering::Acquire))
    }

    /// How far behind it is.
    pub fn lag(&self) -> Lag {
        let records = self.head.load(Ordering::Acquire).saturating_sub(self.written().0);
        Lag { records, time: self.rest().behind.map(|since| since.elapsed()).unwrap_or_default() }
    }

    /// Why it does not come further, in a sentence.
    pub fn error(&self) -> Option<String> {
        self.rest().trouble.clone()
    }

    pub(super) fn set_head(&self, head: Seq) {
        self.head.fetch_max(head.0, Ordering::AcqRel);
        self.update();
    }

    pub(super) fn set_written(&self, seq: Seq) {
        self.written.store(seq.0, Ordering::Release);
        self.head.fetch_max(seq.0, Ordering::AcqRel);
        self.update();
    }

    /// Answers whether this is news.
    pub(super) fn set_error(&self, sentence: Option<String>) -> bool {
        let mut rest = self.rest();
        let news = rest.trouble != sentence;
        rest.trouble = sentence;
        news
    }

    fn update(&self) {
        let is_behind = self.head.load(Ordering::Acquire) > self.written().0;
        let mut rest = self.rest();
        rest.behind = is_behind.then(|| rest.behind.unwrap_or_else(Instant::now));
    }

    /// What is in it is true also when somebody panicked over it.
    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
