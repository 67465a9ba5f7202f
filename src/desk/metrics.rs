//! Counters, gauges and histograms of one desk.
//!
//! All but the counts of sent and refused messages are written by the desk's thread alone, so plain atomic loads and
//! stores are enough. A reader never waits for the thread, also when the thread is stuck; it may see values that are a
//! moment old.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::{Numbers, Seq};

/// Buckets of a histogram; one more counts what is larger than all of them.
const BUCKETS: usize = 20;

/// What one desk has done since the start, and how long it took.
pub struct Metrics {
    /// Time from submitting a command until its records are durable and its reply can be sent.
    pub decisions: Histogram,
    /// Time to make a batch of records durable.
    pub appends: Histogram,
    /// The part of that spent on writing and syncing.
    pub syncs: Histogram,
    /// Records made durable together.
    pub batches: Histogram,
    /// Messages that callers tried to put into the inbox; also the source of ticket numbers.
    sent: AtomicU64,
    /// Messages that did not fit.
    refused: AtomicU64,
    /// Messages that the thread has taken out of the inbox.
    taken: AtomicU64,
    head: AtomicU64,
    granted: AtomicU64,
    expired: AtomicU64,
    conflicts: AtomicU64,
    deadlocks: AtomicU64,
    reservations: AtomicU64,
    waiters: AtomicU64,
    sessions: AtomicU64,
    turn_records_max: AtomicU64,
    turn_work_max: AtomicU64,
    late_turns: AtomicU64,
    away_ms_max: AtomicU64,
    lost_ms: AtomicU64,
}

/// The counters and gauges at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The last durable record.
    pub head: u64,
    /// Reservations granted since the journal began.
    pub granted: u64,
    /// Reservations that expired since the journal began.
    pub expired: u64,
    /// Requests refused because of another session, since the journal began.
    pub conflicts: u64,
    /// Waits refused because they would have closed a cycle, since the journal began.
    pub deadlocks: u64,
    /// Reservations held now.
    pub reservations: u64,
    /// Requests waiting now.
    pub waiters: u64,
    /// Live sessions.
    pub sessions: u64,
    /// Messages in the inbox now.
    pub inbox: u64,
    /// Messages that did not fit into the inbox, since the start.
    pub refused: u64,
    /// The most records of one turn, since the start.
    pub turn_records_max: u64,
    /// The most work of one turn, since the start; see `engine::work`.
    pub turn_work_max: u64,
    /// How often the desk was away for more than a second, since the start.
    pub late_turns: u64,
    /// How long it was away at most, since the start.
    pub away_ms_max: u64,
    /// How much time did not count against deadlines because of that, since the start.
    pub lost_ms: u64,
}

/// A histogram whose bucket bounds double from one bucket to the next.
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS + 1],
    /// The bound of the first bucket is two to the power of this.
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
            turn_records_max: zero(),
            turn_work_max: zero(),
            late_turns: zero(),
            away_ms_max: zero(),
            lost_ms: zero(),
        }
    }

    pub fn counts(&self) -> Counts {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        // `taken` is read before `sent`, so that the difference is never below the real number.
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
            turn_records_max: read(&self.turn_records_max),
            turn_work_max: read(&self.turn_work_max),
            late_turns: read(&self.late_turns),
            away_ms_max: read(&self.away_ms_max),
            lost_ms: read(&self.lost_ms),
        }
    }

    /// Counts a message before it is put into the inbox. Returns its number.
    pub(super) fn count_sent(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a message that did not fit.
    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many messages were put into the inbox so far.
    pub(super) fn accepted(&self) -> u64 {
        let refused = self.refused.load(Ordering::SeqCst);
        self.sent.load(Ordering::SeqCst).saturating_sub(refused)
    }

    /// How many messages the thread has taken out of the inbox so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Records that the desk was away before a turn, and how much of that does not count against deadlines.
    pub(super) fn count_absence(&self, away: Duration, lost: Duration, is_late: bool) {
        let away_ms = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
        if away_ms > self.away_ms_max.load(Ordering::Relaxed) {
            self.away_ms_max.store(away_ms, Ordering::Relaxed);
        }
        if !lost.is_zero() || is_late {
            add(&self.late_turns, u64::from(is_late));
            add(&self.lost_ms, u64::try_from(lost.as_millis()).unwrap_or(u64::MAX));
        }
    }

    /// Notes how much a turn has done.
    pub(super) fn note_turn(&self, records: u64, work: u64) {
        for (most, number) in [(&self.turn_records_max, records), (&self.turn_work_max, work)] {
            if number > most.load(Ordering::Relaxed) {
                most.store(number, Ordering::Relaxed);
            }
        }
    }

    /// Records the end of a turn that took `taken` messages from the inbox.
    pub(super) fn end_turn(&self, taken: u64, head: Seq, numbers: &Numbers) {
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

    /// Each bucket's upper bound (none for the last) and count, and the sum of all values. Bounds of times are in
    /// microseconds, their sum is in nanoseconds.
    pub fn read(&self) -> (Vec<(Option<u64>, u64)>, u64) {
        let bound = |n: usize| (n < BUCKETS).then(|| 1 << (n as u32 + self.first));
        let buckets = self.buckets.iter().enumerate();
        let buckets = buckets.map(|(n, count)| (bound(n), count.load(Ordering::Relaxed))).collect();
        (buckets, self.sum.load(Ordering::Relaxed))
    }

    /// Adds a number. Only for the desk's thread.
    pub(super) fn add_number(&self, number: u64) {
        self.add(number, number);
    }

    /// Adds a time. Only for the desk's thread.
    pub(super) fn add_time(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.add(nanos.div_ceil(1000), nanos);
    }

    fn add(&self, size: u64, sum: u64) {
        // The exponent of the smallest power of two that is not below `size`.
        let power = u64::BITS - size.saturating_sub(1).leading_zeros();
        let bucket = power.saturating_sub(self.first) as usize;
        add(&self.buckets[bucket.min(BUCKETS)], 1);
        add(&self.sum, sum);
    }
}

/// Adds to a number that only one thread writes.
fn add(cell: &AtomicU64, number: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_the_smallest_bucket_that_holds_it() {
        let histogram = Histogram::new(0);
        for number in [0, 1, 2, 3, 4, 5, 1 << 19, (1 << 19) + 1, u64::MAX] {
            histogram.add_number(number);
        }
        let (buckets, _) = histogram.read();
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(Some(1), 2), (Some(2), 1), (Some(4), 2), (Some(8), 1), (Some(1 << 19), 1), (None, 2)],);
        let times = Histogram::new(4);
        for micros in [1, 16, 17, 8_388_608, 8_388_609] {
            times.add_time(Duration::from_micros(micros));
        }
        let (buckets, sum) = times.read();
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(filled, [(Some(16), 2), (Some(32), 1), (Some(1 << 23), 1), (None, 1)]);
        assert_eq!(sum, (1 + 16 + 17 + 8_388_608 + 8_388_609) * 1000);
    }
}
