//! When the desk listened, and when it was away.
//!
//! While a deadline runs, the thread wakes at least every [`WAKE_EVERY`]. If it comes back later than [`STEP_MAX`] (the
//! process was stopped, the disk was slow, a command took long), the time beyond that is lost: it counts against no
//! deadline. Renewals that were sent meanwhile are in the sockets, unread. So before anything expires, everything that
//! has arrived must have been read and decided; see [`Intake`].

use std::time::Duration;

use super::{Clock, Metrics};
use crate::engine::{Engine, Timestamp};

/// The longest sleep while a deadline runs.
pub(super) const WAKE_EVERY: Duration = Duration::from_millis(100);

/// The most that one turn adds to the time that counts against deadlines.
const STEP_MAX: Duration = Duration::from_millis(250);

/// An absence longer than this is logged and counted.
const LATE: Duration = Duration::from_secs(1);

/// While arrived messages are being read, the thread looks this often whether they have been.
pub(super) const READ_POLL: Duration = Duration::from_millis(5);

/// A connection that is not read for this long does not hold up expiry any more. Its client may have sent more than the
/// server takes at once.
const READ_TIME_MAX: Duration = Duration::from_secs(1);

/// Expiry is not held up for longer than this in one go, whatever the connections do.
const HOLD_TIME_MAX: Duration = Duration::from_secs(10);

/// The connections that bring messages to a desk.
pub trait Intake: Send {
    /// What has arrived until now is to be read.
    fn mark(&mut self);

    /// How many connections have not been read since the mark, although something has arrived.
    fn unread(&mut self) -> usize;

    /// Ignores these connections until they are read.
    fn give_up(&mut self);
}

/// Keeps track of the desk's absences.
pub(super) struct Presence {
    /// The time of the last turn.
    last_turn: Timestamp,
    intake: Option<Box<dyn Intake>>,
    state: Hearing,
}

/// How far the desk has heard what had arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hearing {
    /// Everything that had arrived by then is decided.
    Heard { at: Timestamp },
    /// The connections are being read, since `begun`. `progress` is when fewer of them were unread than before.
    Reading { begun: Timestamp, progress: Timestamp, left: usize },
    /// All are read. The message with this number is the last one that came of it.
    Read { last: u64 },
}

impl Presence {
    pub fn new(now: Timestamp) -> Self {
        Self { last_turn: now, intake: None, state: Hearing::Heard { at: now } }
    }

    /// From now on, hears what arrives on these connections before anything expires.
    pub fn set_intake(&mut self, intake: Box<dyn Intake>) {
        self.intake = Some(intake);
    }

    /// Begins a turn and returns its time. `slept` is how long the thread meant to sleep before it, at most.
    pub fn begin_turn(
        &mut self,
        clock: &dyn Clock,
        slept: Duration,
        engine: &mut Engine,
        metrics: &Metrics,
    ) -> Timestamp {
        let now = clock.now();
        let passed = clock.maybe_away(self.last_turn, now);
        self.last_turn = now;
        let lost = passed.saturating_sub(STEP_MAX.max(slept));
        if !lost.is_zero() {
            engine.lose_time(lost);
            self.read_again(now);
        }
        let away = passed.saturating_sub(slept);
        metrics.count_absence(away, lost, away > LATE);
        if away > LATE {
            let seconds = away.as_secs_f64();
            tracing::warn!(seconds, "the desk was away; the time does not count against any reservation");
        }
        now
    }

    /// Whether everything that has arrived is decided, so that deadlines may end things now.
    pub fn may_expire(&mut self, now: Timestamp, metrics: &Metrics) -> bool {
        if self.intake.is_none() {
            return true;
        }
        if let Hearing::Heard { at } = self.state {
            if at.until(now) < WAKE_EVERY {
                return true;
            }
            self.read_again(now);
        }
        self.look(now, metrics);
        false
    }

    /// Whether the thread waits for connections to be read.
    pub fn is_reading(&self) -> bool {
        !matches!(self.state, Hearing::Heard { .. })
    }

    /// Ends a turn. `emptied` says that the inbox was empty at its end, `oldest` is the first message that was taken from the
    /// inbox and is not decided.
    pub fn end_turn(&mut self, emptied: bool, oldest: impl FnOnce() -> Option<u64>, metrics: &Metrics) {
        if let Hearing::Read { last } = self.state
            && (emptied || metrics.taken() >= last)
            && oldest().is_none_or(|number| number > last)
        {
            self.state = Hearing::Heard { at: self.last_turn };
        }
    }

    fn read_again(&mut self, now: Timestamp) {
        if let Some(intake) = &mut self.intake {
            intake.mark();
            self.state = Hearing::Reading { begun: now, progress: now, left: usize::MAX };
        }
    }

    fn look(&mut self, now: Timestamp, metrics: &Metrics) {
        let (Some(intake), Hearing::Reading { begun, progress, left }) = (&mut self.intake, self.state) else { return };
        let unread = intake.unread();
        let progress = if unread < left { now } else { progress };
        let is_stuck = progress.until(now) >= READ_TIME_MAX || begun.until(now) >= HOLD_TIME_MAX;
        if unread > 0 && is_stuck {
            tracing::warn!(connections = unread, "some connections are not read; expiry goes on without them");
            intake.give_up();
        }
        self.state = match unread > 0 && !is_stuck {
            true => Hearing::Reading { begun, progress, left: unread },
            false => Hearing::Read { last: metrics.accepted() },
        };
    }
}
