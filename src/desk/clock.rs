//! The only clock. Its time never jumps and never goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::boot_clock;
use crate::engine::Timestamp;

/// Tells the desk the time.
pub trait Clock: Send {
    /// The current time, never earlier than a time it returned before.
    fn now(&self) -> Timestamp;

    /// From now on, never returns a time before `moment`.
    fn not_before(&mut self, moment: Timestamp);

    /// How much of the time between two turns the desk's thread may have been away. That is all of it, except for a clock
    /// that knows better.
    fn maybe_away(&self, last: Timestamp, now: Timestamp) -> Duration {
        last.until(now)
    }
}

/// Starts with the wall clock's time and then counts the time since boot, sleep included. Setting the wall clock while
/// the server runs has no effect, so no reservation ends early because of it.
pub struct SystemClock {
    /// Added to the time since boot.
    offset_ms: i64,
}

impl SystemClock {
    /// A clock that starts with the wall clock's time.
    #[expect(clippy::new_without_default, reason = "reading a clock is not a default")]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { offset_ms: i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX) - boot_clock::now_ms() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(boot_clock::now_ms() + self.offset_ms)
    }

    fn not_before(&mut self, moment: Timestamp) {
        self.offset_ms += (moment.0 - self.now().0).max(0);
    }
}

/// A clock for tests that only moves when told to. Clones share one time.
///
/// The desk cannot tell a step of this clock from an absence. So the test says which of the two it is: the desk listened
/// while the clock was advanced, and was away while it was stalled.
#[derive(Clone)]
pub struct ManualClock {
    now: Arc<AtomicI64>,
    /// How long the desk was away since it last asked, in milliseconds.
    away_ms: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { now: Arc::new(AtomicI64::new(start.0)), away_ms: Arc::default() }
    }

    /// Moves the clock forward while the desk listens. A sleeping desk notices after [`Desk::poke`](super::Desk::poke).
    pub fn advance(&self, time: Duration) {
        let ms = i64::try_from(time.as_millis()).expect("tests do not take that long");
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    /// The same while the desk is away.
    pub fn stall(&self, time: Duration) {
        self.away_ms.fetch_add(u64::try_from(time.as_millis()).expect("tests do not take that long"), Ordering::SeqCst);
        self.advance(time);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn not_before(&mut self, moment: Timestamp) {
        self.now.fetch_max(moment.0, Ordering::SeqCst);
    }

    fn maybe_away(&self, _: Timestamp, _: Timestamp) -> Duration {
        Duration::from_millis(self.away_ms.swap(0, Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_never_shows_a_time_before_the_last_record() {
        let mut clock = SystemClock::new();
        let later = Timestamp(clock.now().0 + 3_600_000);
        clock.not_before(later);
        assert!(clock.now() >= later);
        let now = clock.now();
        clock.not_before(Timestamp(0));
        assert!(clock.now() >= now, "an earlier moment moves nothing");
    }
}
