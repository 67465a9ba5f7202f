//! Limits the requests per second of each session with a token bucket (GCRA).
//!
//! A bucket that holds one second's worth of requests is stored as one point in time: every request moves it forward by
//! its share of a second, and a request that would move it more than a second ahead of now is refused. A point in the
//! past is the same as none and is dropped, so memory depends only on the sessions of about the last second.

use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::engine::SessionId;

/// Concurrent requests of different sessions rarely need the same lock.
const SHARDS: usize = 16;

/// The size at which a shard first drops entries that lie in the past.
const SWEEP_AT: usize = 1024;

/// The size of a bucket, as time.
const BURST: Duration = Duration::from_secs(1);

/// The buckets of all sessions of a repository.
pub struct RateLimiter {
    started: Instant,
    hasher: DefaultHashBuilder,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// For each session, the time up to which its share is used, since the limiter started.
    used_until: HashMap<SessionId, Duration>,
    sweep_at: usize,
}

impl Default for RateLimiter {
    fn default() -> Self {
        let (started, hasher) = (Instant::now(), DefaultHashBuilder::default());
        Self { started, hasher, shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl RateLimiter {
    /// Counts a request of this session. If that is more than `per_second` allows, returns how long the session must
    /// wait; such a request is not counted. 0 means no limit.
    pub fn check(&self, session: &SessionId, per_second: u32) -> Result<(), Duration> {
        if per_second == 0 {
            return Ok(());
        }
        let shard = &self.shards[self.hasher.hash_one(session) as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.check(session, BURST / per_second, self.started.elapsed())
    }
}

impl Shard {
    fn check(&mut self, session: &SessionId, share: Duration, now: Duration) -> Result<(), Duration> {
        if self.used_until.len() >= self.sweep_at.max(SWEEP_AT) {
            self.used_until.retain(|_, until| *until > now);
            self.sweep_at = self.used_until.len() * 2;
        }
        match self.used_until.get_mut(session) {
            Some(until) => {
                let next = (*until).max(now) + share;
                match next.checked_sub(now + BURST) {
                    Some(over) if !over.is_zero() => return Err(over),
                    _ => *until = next,
                }
            }
            None => {
                self.used_until.insert(session.clone(), now + share);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(n: usize) -> SessionId {
        SessionId::parse(&format!("sess_{n}")).unwrap()
    }

    #[test]
    fn a_burst_of_one_second_then_the_configured_rate() {
        let (mut shard, ana) = (Shard::default(), session(1));
        let share = Duration::from_millis(100);
        let mut request = |now: u64| shard.check(&ana, share, Duration::from_millis(now));
        assert!((0..10).all(|_| request(5_000).is_ok()), "ten at once");
        assert_eq!(request(5_000), Err(share));
        assert_eq!(request(5_099), Err(Duration::from_millis(1)), "a refusal costs nothing");
        assert_eq!(request(5_100), Ok(()));
        assert_eq!(request(5_150), Err(Duration::from_millis(50)));
        assert!((0..10).all(|_| request(60_000).is_ok()), "an idle minute saves up no more than one second");
        assert!(request(60_000).is_err());
    }

    #[test]
    fn sessions_have_their_own_buckets_and_old_ones_are_dropped() {
        let mut shard = Shard::default();
        let share = Duration::from_millis(600);
        for n in 0..50_000 {
            let now = Duration::from_millis(n as u64);
            assert_eq!(shard.check(&session(n), share, now), Ok(()));
            assert!(shard.used_until.len() <= 2 * SWEEP_AT, "{}", shard.used_until.len());
        }
        assert!(shard.check(&session(49_999), share, Duration::from_millis(50_000)).is_err());
    }

    #[test]
    fn zero_means_no_limit() {
        let limiter = RateLimiter::default();
        assert!((0..10_000).all(|_| limiter.check(&session(1), 0).is_ok()));
        assert!((0..10).any(|_| limiter.check(&session(1), 3).is_err()));
    }
}
