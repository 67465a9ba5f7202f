//! The desk in numbers, for whoever watches over it.
//!
//! Almost all of it is written by the desk's thread alone, so plain loads and stores are enough and nobody waits for
//! anybody. Whoever reads sees each number as it was a moment ago, and needs nothing from a desk that is stuck.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::{Numbers, Seq};

/// Buckets of a histogram; one more counts what is larger than all of them.
const BUCKETS: usize = 20;

/// What the desk of one repository did so far, and how long it took.
pub struct Metrics {
    /// From the desk's inbox to an answer that may go out, because everything before it is durable.
    pub decisions: Histogram,
    /// Making a batch of records durable.
    pub appends: Histogram,
    /// Of that, writing and syncing.
    pub syncs: Histogram,
    /// Records made durable together.
    pub batches: Histogram,
    /// Messages that were put into the inbox or did not fit; also the numbers of tickets.
    sent: AtomicU64,
    /// Those that did not fit.
    refused: AtomicU64,
    /// Those the desk took out again.
    taken: AtomicU64,
    head: AtomicU64,
    granted: AtomicU64,
    expired: AtomicU64,
    conflicts: AtomicU64,
    deadlocks: AtomicU64,
    reservations: AtomicU64,
    waiters: AtomicU64,
    sessions: AtomicU64,
}

/// What there is and what there was, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The last durable record.
    pub head: u64,
    /// Reservations granted since the journal began.
    pub granted: u64,
    /// Reservations that ran out since then.
    pub expired: u64,
    /// Requests refused because of somebody else.
    pub conflicts: u64,
    /// Waits refused because they would never have ended.
    pub deadlocks: u64,
    /// Held now.
    pub reservations: u64,
    /// Waiting now.
    pub waiters: u64,
    /// Sessions alive now.
    pub sessions: u64,
    /// Messages the desk has not looked at yet.
    pub inbox: u64,
    /// Messages that did not fit into the inbox since the start.
    pub refused: u64,
}

/// How often something was how large. Each bucket reaches twice as far as the one before it.
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS + 1],
    /// The first bucket reaches to two to the power of this.
    first: u32,
    sum: AtomicU64,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            // Times in microseconds: from 16 µs to 8 s.
            decisions: Histogram::new(4),
            appends: Histogram::new(4),
            syncs: Histogram::new(4),
            batches: Histogram::new(0),
            sent: zero(),
            refused: zero(),
            taken: zero(),
            head: zero(),
            granted: zero(),
            expired: zero(),
            conflicts: zero(),
            deadlocks: zero(),
            reservations: zero(),
            waiters: zero(),
            sessions: zero(),
        }
    }

    /// What there is now.
    pub fn counts(&self) -> Counts {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        // What was taken is read first, so that the difference is never below what is really there.
        let taken = read(&self.taken);
        let refused = read(&self.refused);
        Counts {
            head: read(&self.head),
            granted: read(&self.granted),
            expired: read(&self.expired),
            conflicts: read(&self.conflicts),
            deadlocks: read(&self.deadlocks),
            reservations: read(&self.reservations),
            waiters: read(&self.waiters),
            sessions: read(&self.sessions),
            inbox: read(&self.sent).saturating_sub(refused + taken),
            refused,
        }
    }

    /// Somebody puts a message into the inbox; its number.
    pub(super) fn send(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::Relaxed)
    }

    /// It did not fit.
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The desk has taken so many messages and stands there now.
    pub(super) fn turn(&self, taken: u64, head: Seq, numbers: &Numbers) {
        add(&self.taken, taken);
        let write = |cell: &AtomicU64, number: u64| cell.store(number, Ordering::Relaxed);
        write(&self.head, head.0);
        write(&self.granted, numbers.totals.granted);
        write(&self.expired, numbers.totals.expired);
        write(&self.conflicts, numbers.totals.conflicts);
        write(&self.deadlocks, numbers.totals.deadlocks);
        write(&self.reservations, numbers.reservations as u64);
        write(&self.waiters, numbers.waiters as u64);
        write(&self.sessions, numbers.sessions as u64);
    }
}

impl Histogram {
    fn new(first: u32) -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), first, sum: AtomicU64::new(0) }
    }

    /// How often something was at most so large and larger than the bound before; the last has no bound. Beside it
    /// the sum of everything, in nanoseconds where these are times.
    pub fn read(&self) -> (Vec<(Option<u64>, u64)>, u64) {
        let bound = |n: usize| (n < BUCKETS).then(|| 1 << (n as u32 + self.first));
        let buckets = self.buckets.iter().enumerate();
        let buckets = buckets.map(|(n, count)| (bound(n), count.load(Ordering::Relaxed))).collect();
        (buckets, self.sum.load(Ordering::Relaxed))
    }

    /// Only the desk's thread calls this.
    pub(super) fn count(&self, number: u64) {
        self.note(number, number);
    }

    /// The same, for a time.
    pub(super) fn time(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.note(nanos.div_ceil(1000), nanos);
    }

    fn note(&self, size: u64, sum: u64) {
        // The number of the smallest power of two that is not smaller.
        let power = u64::BITS - size.saturating_sub(1).leading_zeros();
        let bucket = power.saturating_sub(self.first) as usize;
        add(&self.buckets[bucket.min(BUCKETS)], 1);
        add(&self.sum, sum);
    }
}

/// For numbers with one writer.
fn add(cell: &AtomicU64, number: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_falls_into_the_bucket_that_just_holds_it() {
        let histogram = Histogram::new(0);
        for number in [0, 1, 2, 3, 4, 5, 1 << 19, (1 << 19) + 1, u64::MAX] {
            histogram.count(number);
        }
        let (buckets, _) = histogram.read();
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(Some(1), 2), (Some(2), 1), (Some(4), 2), (Some(8), 1), (Some(1 << 19), 1), (None, 2)],);
        let times = Histogram::new(4);
        for micros in [1, 16, 17, 8_388_608, 8_388_609] {
            times.time(Duration::from_micros(micros));
        }
        let (buckets, sum) = times.read();
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(Some(16), 2), (Some(32), 1), (Some(1 << 23), 1), (None, 1)]);
        assert_eq!(sum, (1 + 16 + 17 + 8_388_608 + 8_388_609) * 1000);
    }
}
