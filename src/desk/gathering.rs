//! Waits a moment for the clients that were just answered, where one append for all of them pays.
//!
//! Many clients send their next request as soon as they have a reply. Without a wait, those that are answered together find the
//! desk busy with the requests that came meanwhile, and the clients take turns: every append carries a part of them. With a wait
//! they share one append. That pays where an append takes long, as with etcd or a slow disk, and where many clients are
//! busy: then appends take the processors from those who serve the clients.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use hashbrown::HashSet;

use crate::engine::SessionId;

/// With such appends even a few clients wait for each other.
const LONG_APPEND: Duration = Duration::from_micros(600);

/// So many sessions wait for each other however quick an append is. Fewer do not: to be woken takes a part of a quick append.
const MANY_SESSIONS: u64 = 16;

/// A wait ends when all but this part of the sessions are here, so that a slow one does not hold up the others.
const LATE_PART: u64 = 8;

/// The wait for many sessions, in appends.
const APPENDS: u32 = 4;

/// The longest wait. Where appends are long it is never longer than one: fewer appends leave etcd more time for each.
const WAIT_MAX: Duration = Duration::from_millis(2);

/// The thread is woken for this part of the messages that a turn expects: it decides the first ones while the last ones
/// are still on their way.
const WAKE_PART: u64 = 4;

/// The most sessions of a turn that are counted.
const SESSIONS_MAX: usize = 4_096;

/// After a wait that brings less than this part of what is missing, so many turns do not wait.
const MISSING_PART: u64 = 4;
const PAUSE_TURNS: u32 = 8;

#[derive(Default)]
pub(super) struct Gathering {
    /// What the last two appends took.
    appends: [Duration; 2],
    /// The sessions of this turn and of the one before, as hashes. Their clients are expected to send more.
    sessions: [HashSet<u64>; 2],
    hasher: RandomState,
    /// How many messages a turn can expect.
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

    /// Notes that the turn has taken a message of this session.
    pub fn note_session(&mut self, session: &SessionId) {
        if self.sessions[0].len() < SESSIONS_MAX {
            self.sessions[0].insert(self.hasher.hash_one(session));
        }
    }

    /// How many messages more a turn that has taken so many waits for, and how long; none if it does not wait.
    pub fn wait(&mut self, taken: u64, now: Instant) -> Option<(usize, Duration)> {
        let append = self.appends[0].min(self.appends[1]);
        let time = if append >= LONG_APPEND {
            append
        } else if self.expected >= MANY_SESSIONS {
            append * APPENDS
        } else {
            return None;
        };
        let wanted = self.expected - self.expected / LATE_PART;
        if taken >= wanted || self.pause > 0 {
            return None;
        }
        let until = *self.until.get_or_insert_with(|| {
            self.taken_before = taken;
            now + time.min(WAIT_MAX)
        });
        let left = until.saturating_duration_since(now);
        let next = (wanted - taken).min(self.expected.div_ceil(WAKE_PART));
        (!left.is_zero()).then(|| (usize::try_from(next).expect("it is small"), left))
    }

    /// Ends a turn that has taken so many messages, one at least.
    pub fn end_turn(&mut self, taken: u64) {
        self.pause = self.pause.saturating_sub(1);
        if self.until.take().is_some() && (taken - self.taken_before) * MISSING_PART < self.expected - self.taken_before
        {
            self.pause = PAUSE_TURNS;
        }
        let [this, last] = &mut self.sessions;
        self.expected = (this.len() + last.iter().filter(|session| !this.contains(*session)).count()) as u64;
        std::mem::swap(this, last);
        this.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPEND: Duration = Duration::from_millis(1);

    fn slow(append: Duration) -> Gathering {
        let mut gathering = Gathering::default();
        gathering.note_append(append);
        gathering.note_append(append);
        gathering
    }

    /// A turn with one message of each of these sessions.
    fn turn(gathering: &mut Gathering, sessions: std::ops::Range<u64>) {
        for number in sessions.clone() {
            gathering.note_session(&SessionId::parse(&format!("s{number}")).unwrap());
        }
        gathering.end_turn(sessions.count() as u64);
    }

    #[test]
    fn clients_that_come_back_share_a_long_append() {
        let (mut gathering, now) = (slow(APPEND), Instant::now());
        assert_eq!(gathering.wait(1, now), None, "no client was answered before");
        turn(&mut gathering, 0..3);
        turn(&mut gathering, 3..5);
        assert_eq!(gathering.wait(2, now), Some((2, APPEND)), "five sessions are active");
        let later = now + Duration::from_micros(600);
        assert_eq!(gathering.wait(4, later), Some((1, Duration::from_micros(400))));
        assert_eq!(gathering.wait(5, later), None, "all are here");
        turn(&mut gathering, 0..5);
        assert_eq!(gathering.wait(1, now), Some((2, APPEND)), "and no more than five");
        assert_eq!(gathering.wait(4, now + APPEND), None, "the time is over");
    }

    #[test]
    fn many_clients_share_a_quick_append() {
        const QUICK: Duration = Duration::from_micros(100);
        let (mut gathering, now) = (slow(QUICK), Instant::now());
        turn(&mut gathering, 0..7);
        turn(&mut gathering, 7..15);
        assert_eq!(gathering.wait(1, now), None, "these are not many");
        turn(&mut gathering, 15..39);
        assert_eq!(gathering.wait(10, now), Some((8, QUICK * APPENDS)), "32 sessions are active");
        assert_eq!(gathering.wait(27, now), Some((1, QUICK * APPENDS)));
        assert_eq!(gathering.wait(28, now), None, "most are here");
    }

    #[test]
    fn a_wait_that_brings_little_is_not_repeated_at_once() {
        let (mut gathering, now) = (slow(Duration::from_millis(100)), Instant::now());
        turn(&mut gathering, 0..10);
        assert_eq!(gathering.wait(1, now), Some((3, WAIT_MAX)));
        for _ in 0..PAUSE_TURNS {
            turn(&mut gathering, 0..2);
            assert_eq!(gathering.wait(1, now), None);
        }
        turn(&mut gathering, 0..2);
        assert!(gathering.wait(1, now).is_some());
    }

    #[test]
    fn few_clients_with_quick_appends_and_single_ones_do_not_wait() {
        let mut quick = slow(Duration::from_micros(300));
        quick.note_append(Duration::from_millis(50));
        turn(&mut quick, 0..10);
        assert_eq!(quick.wait(1, Instant::now()), None, "one slow append may be an exception");
        let mut slow = slow(APPEND);
        turn(&mut slow, 0..1);
        turn(&mut slow, 0..1);
        assert_eq!(slow.wait(1, Instant::now()), None);
    }
}
