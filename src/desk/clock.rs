//! The only clock. Its time never jumps and never goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::engine::Timestamp;

/// Tells the desk the time.
pub trait Clock: Send {
    /// The current time, never earlier than a time it returned before.
    fn now(&self) -> Timestamp;

    /// From now on, never returns a time before `moment`.
    fn not_before(&mut self, moment: Timestamp);
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
        Self { offset_ms: read_ms(libc::CLOCK_REALTIME) - read_ms(boot_clock()) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(read_ms(boot_clock()) + self.offset_ms)
    }

    fn not_before(&mut self, moment: Timestamp) {
        self.offset_ms += (moment.0 - self.now().0).max(0);
    }
}

#[cfg(target_os = "linux")]
fn boot_clock() -> libc::clockid_t {
    libc::CLOCK_BOOTTIME
}

/// On other systems the monotonic clock may not count sleep; reservations then end late, never early.
#[cfg(not(target_os = "linux"))]
fn boot_clock() -> libc::clockid_t {
    libc::CLOCK_MONOTONIC
}

fn read_ms(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and the call writes nothing else.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "the system has the clocks POSIX asks for");
    #[expect(clippy::useless_conversion, reason = "the fields are 32 bits wide on some systems")]
    let (seconds, nanos) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    seconds * 1000 + nanos / 1_000_000
}

/// A clock for tests that only moves when told to. Clones share one time.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.0)))
    }

    /// Moves the clock forward. A sleeping desk notices after [`Desk::poke`](super::Desk::poke).
    pub fn advance(&self, time: std::time::Duration) {
        let ms = i64::try_from(time.as_millis()).expect("tests do not take that long");
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn not_before(&mut self, moment: Timestamp) {
        self.0.fetch_max(moment.0, Ordering::SeqCst);
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
