//! Reservations without a TTL of their own: they last while their session gives signs of life.
//!
//! Such a reservation ends once its session was silent for the reservation's idle time. Its deadline is not stored: it
//! follows from the moment at which the session was last heard, so a sign of life costs the same however much the session
//! holds. The reservations of a session with the same idle time end together, and have one timer. If the session was heard
//! since that was set, it is set again.
//!
//! A silent session is lost after its own timeout, but not before the last of its reservations: each of them lasts as long
//! as its holder was told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ids::{Seq, Ttl};
use super::listening::ListeningTime;
use super::record::Why;
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Reservation};
use super::turn::Turn;

/// The reservations of one session that last while it gives signs of life.
#[derive(Default)]
pub(super) struct IdleGroups {
    /// By idle time, in seconds. No group is empty.
    groups: BTreeMap<u32, IdleGroup>,
}

struct IdleGroup {
    /// Its entry in the timers, never later than the deadline.
    due: ListeningTime,
    /// In the order of the grants.
    members: BTreeSet<(Seq, ReservationSlot)>,
}

impl Engine {
    /// When a reservation ends, if nothing more is heard from its holder.
    pub(super) fn deadline(&self, held: &Reservation) -> ListeningTime {
        match held.ttl {
            // A heartbeat renews everything without touching it.
            Ttl::Plain(_) => held.expires.max(self.sessions[held.session].renewed.after(held.ttl.duration())),
            Ttl::WhileSession(_) => self.sessions[held.session].last_heard.after(held.ttl.duration()),
        }
    }

    /// The session is there: it called, or it was given something. Its silence starts again.
    pub(super) fn hear(&mut self, session: SessionSlot, now: ListeningTime) {
        let session = &mut self.sessions[session];
        session.last_heard = session.last_heard.max(now);
    }

    /// Sets the timer of a reservation that is new, or whose TTL has changed.
    pub(super) fn set_deadline(&mut self, slot: ReservationSlot) {
        let held = &mut self.reservations[slot];
        let Reservation { fence, session, ttl, expires, is_timed, .. } = *held;
        let Ttl::WhileSession(seconds) = ttl else {
            // An entry from before a change of the TTL is not too late, because no change brings a deadline forward.
            if !is_timed {
                held.is_timed = true;
                self.reservation_deadlines.set(expires, fence, slot);
            }
            return;
        };
        let due = self.sessions[session].last_heard.after(ttl.duration());
        let idle = &mut self.sessions[session].idle;
        let group = idle.groups.entry(seconds).or_insert_with(|| {
            self.idle_deadlines.insert((due, session, seconds));
            IdleGroup { due, members: BTreeSet::new() }
        });
        group.members.insert((fence, slot));
    }

    /// Takes the timer of a reservation back that ends, or whose TTL changes. That of a plain TTL finds out by itself.
    pub(super) fn clear_deadline(&mut self, slot: ReservationSlot) {
        let Reservation { fence, session, ttl, .. } = self.reservations[slot];
        let Ttl::WhileSession(seconds) = ttl else { return };
        let idle = &mut self.sessions[session].idle;
        let group = idle.groups.get_mut(&seconds).expect("it has a group");
        group.members.remove(&(fence, slot));
        if group.members.is_empty() {
            self.idle_deadlines.remove(&(group.due, session, seconds));
            idle.groups.remove(&seconds);
        }
    }

    /// A TTL that a reservation can change to without ending earlier than it would have.
    pub(super) fn not_shorter(&self, held: &Reservation, ttl: Ttl, now: ListeningTime) -> Ttl {
        match ttl {
            Ttl::Plain(_) => ttl,
            Ttl::WhileSession(seconds) => Ttl::WhileSession(seconds.max(now.seconds_until(self.deadline(held)))),
        }
    }

    /// Ends reservations of sessions that were silent for too long: at most `limit`, after a look at `looks` timers.
    pub(super) fn expire_idle(&mut self, turn: &mut Turn, now: ListeningTime, limit: usize, looks: usize) {
        let due = self.idle_deadlines.iter().take_while(|(due, ..)| *due <= now).take(looks);
        let due: Vec<_> = due.map(|(_, slot, seconds)| (*slot, *seconds)).collect();
        let mut left = limit;
        for (slot, seconds) in due {
            if !self.is_silent(slot, seconds, now) || left == 0 {
                continue;
            }
            let members = self.sessions[slot].idle.groups[&seconds].members.iter().take(left);
            let members: Vec<_> = members.map(|(_, slot)| *slot).collect();
            left -= members.len();
            for member in members {
                self.release_one(turn, member, &Why::Expired);
            }
        }
    }

    /// Whether a session was silent for this long. Otherwise sets the timer of its reservations again.
    fn is_silent(&mut self, slot: SessionSlot, seconds: u32, now: ListeningTime) -> bool {
        let idle_time = Duration::from_secs(seconds.into());
        let session = &mut self.sessions[slot];
        // A session with a waiting request has an open connection, so it is there.
        if session.last_heard.after(idle_time) <= now && !session.waits.is_empty() {
            session.last_heard = now;
        }
        let end = session.last_heard.after(idle_time);
        if end <= now {
            return true;
        }
        let group = session.idle.groups.get_mut(&seconds).expect("a timer has a group");
        self.idle_deadlines.remove(&(group.due, slot, seconds));
        group.due = end;
        self.idle_deadlines.insert((end, slot, seconds));
        false
    }

    /// Takes the timers of a session back whose reservations are all over.
    pub(super) fn clear_idle(&mut self, slot: SessionSlot) {
        for (seconds, group) in std::mem::take(&mut self.sessions[slot].idle).groups {
            self.idle_deadlines.remove(&(group.due, slot, seconds));
        }
    }

    /// Sets the timers of a session again that was heard now.
    pub(super) fn restart_idle(&mut self) {
        self.idle_deadlines.clear();
        for (slot, session) in self.sessions.iter_mut() {
            for (seconds, group) in &mut session.idle.groups {
                group.due = session.last_heard.after(Duration::from_secs(u64::from(*seconds)));
                self.idle_deadlines.insert((group.due, slot, *seconds));
            }
        }
    }
}
