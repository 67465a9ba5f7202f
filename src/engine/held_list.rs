//! The reservations of one session in the order of their grants. The links of the list are in the reservations, so that
//! any of them can be removed, and a whole list moved, at the same cost however many there are.

use super::slab::{ReservationSlot, Slab, Slot};
use super::state::Reservation;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldList {
    first: ReservationSlot,
    last: ReservationSlot,
    len: usize,
}

/// The neighbours of a reservation in its list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    before: ReservationSlot,
    after: ReservationSlot,
}

impl Links {
    pub const NONE: Links = Links { before: ReservationSlot::NONE, after: ReservationSlot::NONE };
}

impl Default for HeldList {
    fn default() -> Self {
        Self { first: ReservationSlot::NONE, last: ReservationSlot::NONE, len: 0 }
    }
}

type Reservations = Slab<ReservationSlot, Reservation>;

impl HeldList {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The oldest.
    pub fn first(&self) -> Option<ReservationSlot> {
        self.first.some()
    }

    /// The newest.
    pub fn last(&self) -> Option<ReservationSlot> {
        self.last.some()
    }

    /// Adds the newest reservation.
    pub fn push(&mut self, all: &mut Reservations, slot: ReservationSlot) {
        all[slot].links = Links { before: self.last, after: ReservationSlot::NONE };
        match self.last.some() {
            Some(last) => all[last].links.after = slot,
            None => self.first = slot,
        }
        self.last = slot;
        self.len += 1;
    }

    pub fn remove(&mut self, all: &mut Reservations, slot: ReservationSlot) {
        let Links { before, after } = all[slot].links;
        match before.some() {
            Some(before) => all[before].links.after = after,
            None => self.first = after,
        }
        match after.some() {
            Some(after) => all[after].links.before = before,
            None => self.last = before,
        }
        self.len -= 1;
    }

    /// Moves everything to the end of this list. All of it must be newer than what is in this list.
    pub fn append(&mut self, all: &mut Reservations, newer: &mut HeldList) {
        let newer = std::mem::take(newer);
        let Some(first) = newer.first.some() else { return };
        match self.last.some() {
            Some(last) => {
                all[last].links.after = first;
                all[first].links.before = last;
            }
            None => self.first = first,
        }
        self.last = newer.last;
        self.len += newer.len;
    }

    /// The oldest first.
    pub fn iter<'a>(&self, all: &'a Reservations) -> impl Iterator<Item = ReservationSlot> + 'a {
        std::iter::successors(self.first.some(), |slot| all[*slot].links.after.some())
    }
}
