//! Reservations that are over, although their `released` records are still to come.
//!
//! A session may hold very many keys. When it ends, or releases all of them, one record says so, and from then on every
//! decision treats these keys as free. The record of each release follows in slices, so that no turn does much work.
//! Whatever a session was granted before its newest such record is over.

use super::ids::{Seq, Timestamp};
use super::record::{Event, Why};
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Reservation, Session};
use super::turn::Turn;

/// Keys that the result of an end or of a release of everything lists. It counts all of them.
pub const RELEASED_LISTED: usize = 10_000;

/// What one record ended: everything granted before it that is still there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OverSegment {
    /// The record.
    pub by: Seq,
    pub why: Why,
}

impl Engine {
    /// Whether there are releases to be recorded; [`Command::Sweep`](super::Command::Sweep) records some of them.
    pub fn has_backlog(&self) -> bool {
        self.over_count > 0
    }

    /// How many releases are to be recorded.
    pub fn backlog(&self) -> usize {
        self.over_count
    }

    /// Whether reservations count in the quotas that have ended: because of a record up to `head`, or at a deadline up to
    /// `due`. [`Command::Sweep`](super::Command::Sweep) and [`Command::Tick`](super::Command::Tick) release them in slices.
    pub fn counts_ended(&self, head: Seq, due: Option<Timestamp>) -> bool {
        let is_due = |due: Timestamp| self.next_due().is_some_and(|next| next <= due);
        self.sweeps.first().is_some_and(|(by, _)| *by <= head) || due.is_some_and(is_due)
    }

    /// Whether a reservation is over. Decisions ignore it then.
    pub(super) fn is_over(&self, reservation: &Reservation) -> bool {
        reservation.fence < self.sessions[reservation.session].over_until
    }

    /// The same by its slot.
    pub(super) fn is_live(&self, slot: ReservationSlot) -> bool {
        !self.is_over(&self.reservations[slot])
    }

    /// A record ended everything that a session holds.
    pub(super) fn apply_over(&mut self, by: Seq, slot: SessionSlot, why: Why) {
        self.clear_idle(slot);
        let session = &mut self.sessions[slot];
        session.over_until = by;
        if session.held.is_empty() {
            return;
        }
        self.over_count += session.held.len();
        session.ttls.clear();
        session.over.append(&mut self.reservations, &mut session.held);
        session.segments.push(OverSegment { by, why });
        self.sweeps.insert((by, slot));
    }

    /// A release that was to come is recorded.
    pub(super) fn apply_swept(&mut self, session: SessionSlot) {
        self.over_count -= 1;
        let Session { over, segments, .. } = &mut self.sessions[session];
        let oldest = over.first().map(|slot| self.reservations[slot].fence);
        while let Some(segment) = segments.first()
            && oldest.is_none_or(|oldest| oldest > segment.by)
        {
            self.sweeps.remove(&(segment.by, session));
            segments.remove(0);
        }
    }

    /// Records the next releases, at most `limit`. The record that came first goes first.
    pub(super) fn sweep(&mut self, turn: &mut Turn, limit: usize) {
        for _ in 0..limit {
            let Some((_, session)) = self.sweeps.first().copied() else { return };
            let oldest = self.sessions[session].over.first().expect("a session with a backlog has reservations");
            self.sweep_one(turn, oldest);
        }
    }

    /// Records the release of this reservation, if it is over.
    pub(super) fn sweep_one(&mut self, turn: &mut Turn, slot: ReservationSlot) {
        let Reservation { fence, session, .. } = self.reservations[slot];
        let segment = self.sessions[session].segments.iter().find(|segment| segment.by > fence);
        if let Some(OverSegment { why, .. }) = segment.cloned() {
            self.release_one(turn, slot, &why);
        }
    }

    /// Releases everything that a session holds. Where that is more than one slice, it is recorded as a whole first.
    pub(super) fn release_everything(&mut self, turn: &mut Turn, slot: SessionSlot) -> (Vec<crate::key::Key>, usize) {
        let (keys, count) = (self.listed_keys(slot), self.sessions[slot].held.len());
        if count <= self.policy.records_per_slice {
            let held: Vec<_> = self.sessions[slot].held.iter(&self.reservations).collect();
            held.into_iter().for_each(|held| drop(self.release_one(turn, held, &Why::Released)));
        } else {
            let session = self.sessions[slot].id.clone();
            self.emit(turn, Event::ReleasedAll { session });
            self.sweep(turn, self.policy.records_per_slice);
        }
        (keys, count)
    }

    /// The first keys that a session holds.
    pub(super) fn listed_keys(&self, slot: SessionSlot) -> Vec<crate::key::Key> {
        let held = self.sessions[slot].held.iter(&self.reservations).take(RELEASED_LISTED);
        held.map(|held| self.reservations[held].key.clone()).collect()
    }
}
