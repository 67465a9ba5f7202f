//! Deadlines: the TTL of reservations, the timeout of sessions that do not call, the time limit of waits. After a restart
//! they start again.

use std::time::Duration;

use super::ids::Timestamp;
use super::record::{EndState, LeftWhy, Why};
use super::state::Engine;
use super::turn::Turn;

impl Engine {
    /// The next deadline, if the server listens until then. `Tick` before then does nothing.
    pub fn next_due(&self) -> Option<Timestamp> {
        let waits = self.wait_deadlines.first().map(|(due, _)| *due);
        let idle = self.idle_deadlines.first().map(|(due, ..)| *due);
        let due = [self.reservation_deadlines.next(), self.session_deadlines.next(), idle, waits];
        let due = due.into_iter().flatten().min();
        let undecided = (!self.undecided.is_empty()).then_some(self.undecided_until);
        [due.map(|due| self.real(due)), undecided].into_iter().flatten().min()
    }

    /// Ends everything whose deadline is reached.
    pub(super) fn tick(&mut self, turn: &mut Turn) {
        let now = self.listening(turn.now);
        while let Some((fence, slot)) = self.reservation_deadlines.pop_due(now) {
            let Some(reservation) = self.reservations.get(slot).filter(|r| r.fence == fence) else { continue };
            if reservation.ttl.is_while_session() {
                self.reservations[slot].is_timed = false;
                continue;
            }
            if reservation.expires > now {
                self.reservation_deadlines.set(reservation.expires, fence, slot);
                continue;
            }
            self.release_one(turn, slot, &Why::Expired);
        }
        self.expire_idle(turn, now);
        while let Some((opened, slot)) = self.session_deadlines.pop_due(now) {
            let Some(session) = self.sessions.get(slot).filter(|s| s.opened == opened && s.end.is_none()) else {
                continue;
            };
            // A session with a waiting request has an open connection, so it is there.
            let heard = if session.waits.is_empty() { session.last_heard } else { now };
            let mut due = heard.after(self.policy.session_timeout);
            // Silence does not end a session before the last plain TTL of its reservations. If it calls meanwhile and
            // releases them, its timeout runs from then on, so it is not looked at later than that.
            let plain =
                || session.held.iter().map(|held| &self.reservations[*held]).filter(|r| !r.ttl.is_while_session());
            if due <= now
                && let Some(last) = plain().map(|reservation| reservation.expires).max()
            {
                due = last.min(now.after(self.policy.session_timeout.max(Duration::from_millis(1))));
            }
            if due > now {
                self.session_deadlines.set(due, opened, slot);
                continue;
            }
            self.end(turn, slot, EndState::Lost);
        }
        if self.undecided_until <= turn.now {
            turn.look_again = std::mem::take(&mut self.undecided);
        }
        // A wait whose deadline is reached at the same moment as its keys become free is granted. That also holds where
        // the wait ahead of it ends now: this one is then no longer blocked, and `execute` grants it afterwards.
        self.grant_waiters(turn);
        while let Some((due, id)) = self.wait_deadlines.first().copied().filter(|(due, _)| *due <= now) {
            let waiter = &self.waiters[&id];
            if self.is_blocked(waiter.session, &waiter.wants, &self.lookups_of(waiter), waiter.mode, id) {
                self.leave(turn, id, LeftWhy::TimedOut);
            } else {
                self.wait_deadlines.remove(&(due, id));
            }
        }
    }

    /// Prepares a replayed or restored engine for commands.
    ///
    /// Every reservation and every live session gets its full time again, because no client could renew while the server
    /// was down. Every wait ends, because its connection is gone; no client is left to receive its result. Notices stay
    /// as the replay left them: a replay of records makes them again, also those that were delivered before; an image
    /// does not keep them.
    pub fn resume(&mut self, turn: &mut Turn) {
        let now = self.listening(turn.now);
        self.reservation_deadlines.clear();
        for (slot, reservation) in self.reservations.iter_mut() {
            reservation.expires = now.after(reservation.ttl.duration());
            reservation.is_timed = !reservation.ttl.is_while_session();
            if reservation.is_timed {
                self.reservation_deadlines.set(reservation.expires, reservation.fence, slot);
            }
        }
        self.session_deadlines.clear();
        for (slot, session) in self.sessions.iter_mut().filter(|(_, session)| session.end.is_none()) {
            (session.last_seen, session.last_heard) = (turn.now, now);
            self.session_deadlines.set(now.after(self.policy.session_timeout), session.opened, slot);
        }
        self.restart_idle();
        let waiters: Vec<_> = self.waiters.keys().copied().collect();
        for waiter in waiters {
            self.leave(turn, waiter, LeftWhy::Stopped);
        }
        turn.freed.clear();
        turn.weakened.clear();
        turn.settled.clear();
    }
}
