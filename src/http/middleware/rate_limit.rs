//! How fast each session may ask: a token bucket each, kept as one number.
//!
//! A bucket that holds a second's worth of requests is the same as a clock that every request sets forward by its
//! share of a second, and that must not run more than a second ahead. A clock that is not ahead means nothing and is
//! forgotten, so memory goes by who asked within the last second.

use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::engine::SessionId;

/// Sessions that ask at the same time seldom meet at the same lock.
const SHARDS: usize = 16;

/// Clocks kept in one shard before those that mean nothing are thrown out.
const SWEEP_AT: usize = 1024;

/// What a bucket holds, in time.
const BURST: Duration = Duration::from_secs(1);

/// Counts what every session of a repository asks.
pub struct Meter {
    since: Instant,
    hasher: DefaultHashBuilder,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// Until when each session has used up its share.
    used_until: HashMap<SessionId, Duration>,
    sweep_at: usize,
}

impl Default for Meter {
    fn default() -> Self {
        let (since, hasher) = (Instant::now(), DefaultHashBuilder::default());
        Self { since, hasher, shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Meter {
    /// Counts a request of this session. Where it asks more than `per_second`, how long until it may ask again.
    pub fn count(&self, session: &SessionId, per_second: u32) -> Result<(), Duration> {
        if per_second == 0 {
            return Ok(());
        }
        let shard = &self.shards[self.hasher.hash_one(session) as usize % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.count(session, BURST / per_second, self.since.elapsed())
    }
}

impl Shard {
    fn count(&mut self, session: &SessionId, share: Duration, now: Duration) -> Result<(), Duration> {
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
    fn a_second_is_saved_up_and_then_it_goes_at_the_rate() {
        let (mut shard, ana) = (Shard::default(), session(1));
        let share = Duration::from_millis(100);
        let mut ask = |now: u64| shard.count(&ana, share, Duration::from_millis(now));
        assert!((0..10).all(|_| ask(5_000).is_ok()), "ten at once");
        assert_eq!(ask(5_000), Err(share));
        assert_eq!(ask(5_099), Err(Duration::from_millis(1)), "a refusal costs nothing");
        assert_eq!(ask(5_100), Ok(()));
        assert_eq!(ask(5_150), Err(Duration::from_millis(50)));
        assert!((0..10).all(|_| ask(60_000).is_ok()), "no more is saved up than a second's worth");
        assert!(ask(60_000).is_err());
    }

    #[test]
    fn sessions_do_not_share_and_are_forgotten() {
        let mut shard = Shard::default();
        let share = Duration::from_millis(600);
        for n in 0..50_000 {
            let now = Duration::from_millis(n as u64);
            assert_eq!(shard.count(&session(n), share, now), Ok(()));
            assert!(shard.used_until.len() <= 2 * SWEEP_AT, "{}", shard.used_until.len());
        }
        assert!(shard.count(&session(49_999), share, Duration::from_millis(50_000)).is_err());
    }

    #[test]
    fn no_limit_is_no_limit() {
        let meter = Meter::default();
        assert!((0..10_000).all(|_| meter.count(&session(1), 0).is_ok()));
        assert!((0..10).any(|_| meter.count(&session(1), 3).is_err()));
    }
}
