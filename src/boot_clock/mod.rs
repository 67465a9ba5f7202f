//! The time since this machine was started. It does not jump when the wall clock is set, and counts on while it sleeps.

use std::time::Duration;

#[cfg(target_os = "linux")]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// On other systems the monotonic clock may not count sleep; what ends by it then ends late, never early.
#[cfg(not(target_os = "linux"))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// The time since boot.
pub fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and the call writes nothing else.
    let failed = unsafe { libc::clock_gettime(CLOCK, &mut time) };
    assert_eq!(failed, 0, "the system has the clocks POSIX asks for");
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// The same in whole milliseconds.
pub fn now_ms() -> i64 {
    i64::try_from(now().as_millis()).unwrap_or(i64::MAX)
}
