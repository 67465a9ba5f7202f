//! What blocks a request: reservations of other sessions, and requests that wait and came before it.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::command::Conflict;
use super::ids::WaiterId;
use super::index::{Place, QueueEntry};
use super::record::{Mode, Want};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{Engine, Lookup};
use crate::key::Key;

/// How many conflicts are listed for one key; the others are counted.
pub const HOLDERS_LISTED: usize = 3;

/// What blocks one key of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Blocker {
    Holder(ReservationSlot),
    Waiter(WaiterId),
}

/// The blockers of one key that are listed, of as many sessions as possible.
#[derive(Default)]
pub(super) struct ListedBlockers {
    blockers: SmallVec<[(PlaceSlot, Blocker, SessionSlot); HOLDERS_LISTED]>,
    /// How many more there are.
    more: usize,
}

impl ListedBlockers {
    pub fn is_empty(&self) -> bool {
        self.blockers.is_empty()
    }

    pub fn add(&mut self, place: PlaceSlot, blocker: Blocker, session: SessionSlot) {
        if self.blockers.len() < HOLDERS_LISTED {
            self.blockers.push((place, blocker, session));
            return;
        }
        self.more += 1;
        // A session that is listed twice makes room for one that is not listed.
        let is_listed =
            |session: SessionSlot, up_to: usize| self.blockers[..up_to].iter().any(|(.., listed)| *listed == session);
        let repeated = (1..HOLDERS_LISTED).find(|n| is_listed(self.blockers[*n].2, *n));
        if let Some(n) = repeated.filter(|_| !is_listed(session, HOLDERS_LISTED)) {
            self.blockers[n] = (place, blocker, session);
        }
    }
}

impl Engine {
    /// Whether anything blocks a request at this position in the queue. "No" is certain only if everything was compared;
    /// see [`super::work`].
    pub(super) fn is_blocked(
        &self,
        session: SessionSlot,
        wants: &[Want],
        lookups: &[Lookup],
        mode: Mode,
        position: WaiterId,
    ) -> bool {
        wants.iter().zip(lookups).any(|(want, lookup)| {
            self.blockers(*lookup, session, &want.key, mode, position, |_, _| ControlFlow::Break(()))
                == ControlFlow::Break(())
        })
    }

    /// Calls `visit` with everything that blocks one key, until it breaks. Only waits before `before` count.
    fn blockers<B>(
        &self,
        lookup: Lookup,
        session: SessionSlot,
        key: &Key,
        mode: Mode,
        before: WaiterId,
        mut visit: impl FnMut(PlaceSlot, Blocker) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let held = self.mode_of(lookup);
        if is_enough(held, mode) {
            return ControlFlow::Continue(());
        }
        let holds = |slot: &ReservationSlot| {
            let reservation = &self.reservations[*slot];
            reservation.session != session && clash(reservation.mode, mode)
        };
        let waits = |entry: &&QueueEntry| entry.session != session && is_ahead(entry.mode, held, mode);
        let ahead = |entry: &&QueueEntry| entry.waiter < before;
        let concerns = |place: &Place| {
            place.holders.iter().any(|slot| holds(&slot))
                || place.queue.iter().take_while(ahead).any(|entry| waits(&entry))
        };
        self.index.visit_overlaps_at(lookup.place(), key, concerns, |id| {
            let place = self.index.place(id);
            for slot in place.holders.iter().filter(holds) {
                visit(id, Blocker::Holder(slot))?;
            }
            for entry in place.queue.iter().take_while(ahead).filter(waits) {
                visit(id, Blocker::Waiter(entry.waiter))?;
            }
            ControlFlow::Continue(())
        })
    }

    /// What blocks a request, for the refusal: the holders, or where there are none, the waits ahead of it.
    pub(super) fn conflicts(
        &self,
        session: SessionSlot,
        wants: &[Want],
        mode: Mode,
        before: WaiterId,
    ) -> Vec<Conflict> {
        let (mut holders, mut waiters) = (Vec::new(), Vec::new());
        for (position, want) in wants.iter().enumerate() {
            let (mut of_key, mut ahead) = (ListedBlockers::default(), ListedBlockers::default());
            let lookup = self.lookup(session, &want.key);
            let _: ControlFlow<()> = self.blockers(lookup, session, &want.key, mode, before, |place, blocker| {
                match blocker {
                    Blocker::Holder(slot) => of_key.add(place, blocker, self.reservations[slot].session),
                    Blocker::Waiter(id) => ahead.add(place, blocker, self.waiters[&id].session),
                }
                ControlFlow::Continue(())
            });
            self.list_conflicts(position, &want.key, of_key, &mut holders);
            if holders.is_empty() {
                self.list_conflicts(position, &want.key, ahead, &mut waiters);
            }
        }
        if holders.is_empty() { waiters } else { holders }
    }

    /// Adds the conflicts of one key to a list.
    pub(super) fn list_conflicts(
        &self,
        position: usize,
        asked: &Key,
        listed: ListedBlockers,
        list: &mut Vec<Conflict>,
    ) {
        let before = list.len();
        list.extend(listed.blockers.iter().map(|(place, blocker, _)| self.conflict(position, asked, *place, *blocker)));
        if let Some(last) = list[before..].last_mut() {
            last.more_holders = listed.more;
        }
    }

    fn conflict(&self, position: usize, asked: &Key, place: PlaceSlot, blocker: Blocker) -> Conflict {
        let place = self.index.place(place);
        let example = asked.overlaps(&place.key).and_then(|overlap| overlap.example);
        let (asked, queue_length) = (asked.clone(), place.queue.len());
        match blocker {
            Blocker::Holder(slot) => {
                let held = &self.reservations[slot];
                Conflict {
                    asked,
                    position,
                    key: held.key.clone(),
                    who: self.session_name(held.session),
                    mode: held.mode,
                    reason: held.reason.clone(),
                    since: held.since,
                    until: self.real(self.deadline(held)),
                    example,
                    waiting: false,
                    queue_length,
                    more_holders: 0,
                }
            }
            Blocker::Waiter(id) => {
                let waiter = &self.waiters[&id];
                Conflict {
                    asked,
                    position,
                    key: place.key.clone(),
                    who: self.session_name(waiter.session),
                    mode: waiter.mode,
                    reason: waiter.reason.clone(),
                    since: waiter.since,
                    until: self.real(waiter.until),
                    example,
                    waiting: true,
                    queue_length,
                    more_holders: 0,
                }
            }
        }
    }
}

/// Whether a session that holds a key so needs no other session's consent for `wanted`. A reservation can always be
/// renewed or made shared, even while others wait for it.
pub(super) fn is_enough(held: Option<Mode>, wanted: Mode) -> bool {
    held == Some(Mode::Exclusive) || held == Some(wanted)
}

/// Whether two sessions cannot hold overlapping keys in these modes.
pub(super) fn clash(one: Mode, other: Mode) -> bool {
    one == Mode::Exclusive || other == Mode::Exclusive
}

/// Whether a wait is ahead of a later request of another session. A session that holds the key and wants it exclusively
/// is not blocked by waits that its own reservation blocks: each would wait for the other.
pub(super) fn is_ahead(waiting: Mode, held: Option<Mode>, mode: Mode) -> bool {
    clash(waiting, mode) && !held.is_some_and(|held| clash(held, waiting))
}
