//! This machine's clock, and the time left until a moment that a server named.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::wire::Time;

/// This machine's clock. For the time left of a reservation use the server's clock, if the reply tells it.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The time from `from` to `to`; zero if `to` has passed.
pub fn between(from: Time, to: Time) -> Duration {
    Duration::from_millis(u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0))
}

/// The time since this machine was started. It does not jump when the clock is set, and does not stop while it sleeps.
pub fn uptime() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = libc::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let clock = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
