//! How often a session that is kept alive sends a heartbeat.

use std::time::Duration;

use super::clock;
use crate::wire::Time;

/// The longest time between two heartbeats; the help of `git-dibs run` promises it. A key that is reserved right after a
/// heartbeat must last until the next one. The default of 60 s for a file survives five lost heartbeats.
pub const MAX: Duration = Duration::from_secs(10);

/// The shortest time between two heartbeats, so that a reservation of one second does not keep the server busy.
pub const MIN: Duration = Duration::from_millis(250);

/// The time until the next heartbeat: a third of the time left, so that one or two lost heartbeats do no harm.
pub fn until_next(expires: Time, now: Option<Time>) -> Duration {
    (clock::between(now.unwrap_or_else(clock::now), expires) / 3).clamp(MIN, MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_heartbeat_comes_before_anything_expires() {
        let next = |ms| until_next(Time(ms), Some(Time(0)));
        assert_eq!(next(60_000), Duration::from_secs(10));
        assert_eq!(next(15_000), Duration::from_secs(5));
        assert_eq!(next(100), MIN);
        assert_eq!(next(-5), MIN);
        assert_eq!(next(i64::MAX), MAX);
    }
}
