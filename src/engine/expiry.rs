//! Deadlines: of reservations, of silent sessions, of waits; and what a restart does to them.

use super::ids::Timestamp;
use super::record::{EndState, LeftWhy, Why};
use super::state::Engine;
use super::turn::Turn;

impl Engine {
    /// When there is something to end; `Tick` before then does nothing.
    pub fn next_due(&self) -> Option<Timestamp> {
        let patience = self.patience.first().map(|(due, _)| *due);
        [self.expiries.next(), self.silences.next(), patience].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, turn: &mut Turn) {
        let now = turn.now;
        while let Some((fence, slot)) = self.expiries.pop_due(now) {
            let Some(reservation) = self.reservations.get(slot).filter(|r| r.fence == fence) else { continue };
            if reservation.expires > now {
                self.expiries.set(reservation.expires, fence, slot);
                continue;
            }
            self.release_one(turn, slot, &Why::Expired);
        }
        while let Some((opened, slot)) = self.silences.pop_due(now) {
            let Some(session) = self.sessions.get(slot).filter(|s| s.opened == opened && s.end.is_none()) else {
                continue;
            };
            // Somebody who waits with an open request is there.
            let seen = if session.waits.is_empty() { session.last_seen } else { now };
            let due = seen.after(self.policy.session_timeout);
            if due > now {
                self.silences.set(due, opened, slot);
                continue;
            }
            self.end(turn, slot, EndState::Lost);
        }
        // A wait whose time is up at the very moment its keys are free is granted, also where they are free because
        // the one before gave up: it stays for the seating that ends every command.
        self.seat(turn);
        while let Some((due, seq)) = self.patience.first().copied().filter(|(due, _)| *due <= now) {
            let waiter = &self.waiters[&seq];
            if self.is_blocked(waiter.session, &waiter.wants, &self.spots_of(waiter), waiter.mode, seq) {
                self.leave(turn, seq, LeftWhy::TimedOut);
            } else {
                self.patience.remove(&(due, seq));
            }
        }
    }

    /// After a replay: whatever is alive gets its full time again, because nobody could renew while we were away.
    /// Nobody waits any more either: their connections are gone.
    pub fn resume(&mut self, turn: &mut Turn) {
        self.expiries.clear();
        for (slot, reservation) in self.reservations.iter_mut() {
            reservation.expires = turn.now.after(reservation.ttl.duration());
            self.expiries.set(reservation.expires, reservation.fence, slot);
        }
        self.silences.clear();
        for (slot, session) in self.sessions.iter_mut().filter(|(_, session)| session.end.is_none()) {
            session.last_seen = turn.now;
            self.silences.set(turn.now.after(self.policy.session_timeout), session.opened, slot);
        }
        let waiters: Vec<_> = self.waiters.keys().copied().collect();
        for waiter in waiters {
            self.leave(turn, waiter, LeftWhy::Stopped);
        }
        turn.freed.clear();
        turn.weakened.clear();
        turn.settled.clear();
    }
}
