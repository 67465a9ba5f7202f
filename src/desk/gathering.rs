//! Waits a moment for the clients that were just answered, where an append takes long.
//!
//! Many clients send their next request as soon as they have a reply. Without a wait, those that are answered together find the
//! desk busy with the requests that came meanwhile, and the clients take turns in two halves: every append carries half of
//! them. With a short wait all of them share one append. That pays only if the wait is much shorter than the append, as with
//! etcd or a slow disk.

use std::time::{Duration, Instant};

/// Appends that take less are not worth a wait: to be woken takes a part of it.
const LONG_APPEND: Duration = Duration::from_millis(1);

/// The wait is at most this part of the time of an append.
const WAIT_PART: u32 = 4;

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_millis(2);

/// After a wait in vain, so many turns do not wait.
const PAUSE_TURNS: u32 = 16;

#[derive(Default)]
pub(super) struct Gathering {
    /// What the last two appends took.
    appends: [Duration; 2],
    /// How many messages a turn can expect: those that were in the inbox when the last replies left, and those of the clients
    /// that got them.
    expected: u64,
    /// When the wait of this turn is over, if it waits.
    until: Option<Instant>,
    /// How many messages the turn had taken when it began to wait.
    taken_before: u64,
    /// The turns to come that do not wait.
    pause: u32,
}

impl Gathering {
    pub fn note_append(&mut self, time: Duration) {
        self.appends = [self.appends[1], time];
    }

    /// How long a turn that has taken so many messages waits for more of them; none if it does not wait.
    pub fn time_left(&mut self, taken: u64, now: Instant) -> Option<Duration> {
        let append = self.appends[0].min(self.appends[1]);
        if append < LONG_APPEND || taken >= self.expected || self.pause > 0 {
            return None;
        }
        let until = *self.until.get_or_insert_with(|| {
            self.taken_before = taken;
            now + (append / WAIT_PART).min(WAIT_MAX)
        });
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Ends a turn that has taken and answered so many messages, while `waiting` more were in the inbox.
    pub fn end_turn(&mut self, taken: u64, waiting: u64) {
        self.pause = self.pause.saturating_sub(1);
        // Fewer than half of those that were missing.
        if self.until.take().is_some() && (taken - self.taken_before) * 2 < self.expected - self.taken_before {
            self.pause = PAUSE_TURNS;
        }
        self.expected = taken + waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(append: Duration) -> Gathering {
        let mut gathering = Gathering::default();
        gathering.note_append(append);
        gathering.note_append(append);
        gathering
    }

    #[test]
    fn clients_that_come_back_share_an_append() {
        let (mut gathering, now) = (slow(Duration::from_millis(4)), Instant::now());
        assert_eq!(gathering.time_left(1, now), None, "nobody was answered before");
        gathering.end_turn(3, 2);
        assert_eq!(gathering.time_left(2, now), Some(Duration::from_millis(1)));
        let later = now + Duration::from_micros(600);
        assert_eq!(gathering.time_left(4, later), Some(Duration::from_micros(400)));
        assert_eq!(gathering.time_left(5, later), None, "all are here");
        gathering.end_turn(5, 0);
        assert_eq!(gathering.time_left(1, now), Some(Duration::from_millis(1)));
        assert_eq!(gathering.time_left(4, now + Duration::from_millis(1)), None, "the time is over");
        gathering.end_turn(4, 1);
        assert!(gathering.time_left(1, now).is_some(), "most have come");
    }

    #[test]
    fn a_wait_in_vain_is_not_repeated_at_once() {
        let (mut gathering, now) = (slow(Duration::from_millis(100)), Instant::now());
        gathering.end_turn(10, 0);
        assert_eq!(gathering.time_left(1, now), Some(WAIT_MAX));
        for _ in 0..PAUSE_TURNS {
            gathering.end_turn(2, 8);
            assert_eq!(gathering.time_left(1, now), None);
        }
        gathering.end_turn(2, 8);
        assert!(gathering.time_left(1, now).is_some());
    }

    #[test]
    fn quick_appends_and_single_clients_do_not_wait() {
        let mut quick = slow(Duration::from_micros(300));
        quick.note_append(Duration::from_millis(50));
        quick.end_turn(10, 0);
        assert_eq!(quick.time_left(1, Instant::now()), None, "one slow append may be an exception");
        let mut slow = slow(Duration::from_millis(4));
        slow.end_turn(1, 0);
        assert_eq!(slow.time_left(1, Instant::now()), None);
    }
}
