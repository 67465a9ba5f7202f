//! Listening time: the clock of deadlines, which stands still while the server does not listen.
//!
//! A holder that renews in time must not lose its reservation because the server did not read the renewal in time. So
//! deadlines do not count the time in which the desk took no messages. Records and replies have real times. The two
//! clocks differ by one number, so a stall costs the same however much is held.

use std::time::Duration;

use super::ids::Timestamp;
use super::state::Engine;

/// A moment in listening time. Only the engine uses it; replies show it as a [`Timestamp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListeningTime(i64);

impl ListeningTime {
    /// Later than every deadline.
    pub const NEVER: ListeningTime = ListeningTime(i64::MAX);

    pub fn after(self, time: Duration) -> ListeningTime {
        ListeningTime(Timestamp(self.0).after(time).0)
    }

    /// How many seconds there are until `later`, rounded up; zero if that is in the past.
    pub fn seconds_until(self, later: ListeningTime) -> u32 {
        let ms = Timestamp(self.0).until(Timestamp(later.0)).as_millis();
        u32::try_from(ms.div_ceil(1000)).unwrap_or(u32::MAX)
    }
}

impl Engine {
    /// The last `time` does not count against any deadline: the server did not listen. Every deadline that clients see
    /// moves by as much.
    pub fn lose_time(&mut self, time: Duration) {
        self.lost_ms = self.lost_ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    }

    /// A real time in listening time. It is right only for times since the server last lost some.
    pub(super) fn listening(&self, now: Timestamp) -> ListeningTime {
        ListeningTime(now.0.saturating_sub(self.lost_ms))
    }

    /// The real time of a deadline, if no more time is lost until then.
    pub(super) fn real(&self, deadline: ListeningTime) -> Timestamp {
        Timestamp(deadline.0.saturating_add(self.lost_ms))
    }
}
