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
