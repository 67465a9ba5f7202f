//! Deadlines: the TTL of reservations, the timeout of sessions that do not call, the time limit of waits. After a restart
//! they start again.
//!
//! Very much may reach its deadline at the same moment. One step ends a part of it; the rest is still held until the next
//! steps, which follow at once. What is in the way of a request ends before it; see [`Engine::expire_in_the_way`].

use std::ops::ControlFlow;
use std::time::Duration;

use super::command::Command;
use super::conflict::Blocker;
use super::ids::{Timestamp, WaiterId};
use super::record::{EndState, LeftWhy, Why};
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Reservation};
use super::turn::Turn;
use super::work::{SMALL_WORK, TICK_WORK, WAIT_WORK};

/// How many deadlines a step looks at for each reservation that it may end.
const LOOKS_PER_RECORD: usize = 16;

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

    /// How often a reservation was renewed, with the heartbeats since its grant.
    pub(super) fn renewals(&self, reservation: &Reservation) -> u32 {
        reservation.renewals.wrapping_add(self.sessions[reservation.session].heartbeats)
    }

    /// Ends what has reached its deadline, as much as one step may do. [`Engine::next_due`] tells whether there is more.
    pub(super) fn tick(&mut self, turn: &mut Turn) {
        let slice = self.policy.records_per_slice;
        self.expire_reservations(turn, slice);
        self.lose_sessions(turn, slice);
        if self.undecided_until <= turn.now {
            turn.look_again = std::mem::take(&mut self.undecided);
        }
        // A wait whose deadline is reached at the same moment as its keys become free is granted. That also holds where
        // the wait ahead of it ends now: this one is then no longer blocked, and `execute` grants it afterwards.
        self.grant_waiters(turn);
        self.time_out_waits(turn, slice);
    }

    fn expire_reservations(&mut self, turn: &mut Turn, slice: usize) {
        let now = self.listening(turn.now);
        // An entry that was renewed since is put back. That is much less work than a record.
        let (mut left, mut looks_left) = (slice, slice.saturating_mul(LOOKS_PER_RECORD));
        while left > 0 && looks_left > 0 {
            let Some((fence, slot)) = self.reservation_deadlines.pop_due(now) else { break };
            looks_left -= 1;
            let Some(reservation) = self.reservations.get(slot).filter(|r| r.fence == fence) else { continue };
            if self.is_over(reservation) {
                continue;
            }
            if reservation.ttl.is_while_session() {
                self.reservations[slot].is_timed = false;
                continue;
            }
            let deadline = self.deadline(reservation);
            if deadline > now {
                self.reservation_deadlines.set(deadline, fence, slot);
                continue;
            }
            self.release_one(turn, slot, &Why::Expired);
            left -= 1;
        }
        self.expire_idle(turn, now, left, looks_left);
    }

    /// Ends sessions that have not called for too long.
    fn lose_sessions(&mut self, turn: &mut Turn, slice: usize) {
        let now = self.listening(turn.now);
        for _ in 0..slice.saturating_mul(LOOKS_PER_RECORD) {
            let Some((opened, slot)) = self.session_deadlines.pop_due(now) else { return };
            let Some(session) = self.sessions.get(slot).filter(|s| s.opened == opened && s.end.is_none()) else {
                continue;
            };
            // A session with a waiting request has an open connection, so it is there.
            let heard = if session.waits.is_empty() { session.last_heard } else { now };
            let mut due = heard.after(self.policy.session_timeout);
            // Silence does not end a session before the last of its reservations; see `release_one`.
            if due <= now && !session.held.is_empty() {
                due = now.after(self.policy.session_timeout.max(Duration::from_millis(1)));
            }
            if due > now {
                self.session_deadlines.set(due, opened, slot);
                continue;
            }
            self.end(turn, slot, EndState::Lost);
        }
    }

    fn time_out_waits(&mut self, turn: &mut Turn, slice: usize) {
        let (now, work_before) = (self.listening(turn.now), self.index.meter.spent());
        for _ in 0..slice {
            let Some((due, id)) = self.wait_deadlines.first().copied().filter(|(due, _)| *due <= now) else { return };
            let waiter = &self.waiters[&id];
            self.index.meter.begin(WAIT_WORK, false);
            // A wait that takes too much work for one look would take it again and again.
            if self.is_waiter_blocked(id, waiter) || self.index.meter.is_exhausted() {
                self.leave(turn, id, LeftWhy::TimedOut);
            } else {
                self.wait_deadlines.remove(&(due, id));
                turn.look_again.insert(id);
            }
            if self.index.meter.spent().wrapping_sub(work_before) > TICK_WORK {
                return;
            }
        }
    }

    /// Ends reservations that are in the way of a request and have reached their deadline, as many as one step may end.
    /// Returns whether these were all; otherwise the request should be decided after another step.
    pub fn expire_in_the_way(&mut self, turn: &mut Turn, command: &Command) -> bool {
        let Command::Reserve(ask) = command else { return true };
        let session = self.find_session(&ask.session).unwrap_or(SessionSlot::NONE);
        let (now, slice, mut overdue) = (self.listening(turn.now), self.policy.records_per_slice, Vec::new());
        let mut is_complete = true;
        // What is not found with this work is found by the command itself, or refused there.
        self.index.meter.begin(SMALL_WORK, true);
        for want in &ask.wants {
            let lookup = self.lookup(session, &want.key);
            let before = WaiterId::FIRST;
            let found = self.blockers(lookup, session, &want.key, ask.mode, before, |_, blocker| match blocker {
                // What blocks the request in any case can be found without another step.
                Blocker::Holder(slot) if self.deadline(&self.reservations[slot]) > now => ControlFlow::Break(true),
                Blocker::Holder(slot) => {
                    if !overdue.contains(&slot) {
                        overdue.push(slot);
                    }
                    if overdue.len() < slice { ControlFlow::Continue(()) } else { ControlFlow::Break(false) }
                }
                Blocker::Waiter(_) => ControlFlow::Continue(()),
            });
            if let ControlFlow::Break(is_blocked) = found {
                is_complete = is_blocked;
                break;
            }
        }
        overdue.into_iter().for_each(|slot: ReservationSlot| drop(self.release_one(turn, slot, &Why::Expired)));
        self.grant_waiters(turn);
        self.index.meter.end();
        is_complete
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
            // What is over has no deadline any more.
            if reservation.is_timed && reservation.fence > self.sessions[reservation.session].over_until {
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
