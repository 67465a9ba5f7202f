//! What is in the way of a request.

use std::ops::ControlFlow;

use super::command::Conflict;
use super::ids::Seq;
use super::record::{Mode, Want};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{Engine, Spot};
use crate::key::Key;

/// Conflicts one answer lists; with more than this, nobody reads them.
const CONFLICTS_LISTED: usize = 100_000;

/// What stands between a request and one of its keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Blocker {
    /// A reservation, by its slot.
    Holder(ReservationSlot),
    /// An earlier request that waits.
    Waiter(Seq),
}

impl Engine {
    /// Whether anything is in the way of a request that would stand in the queue at `place`.
    pub(super) fn is_blocked(
        &self,
        session: SessionSlot,
        wants: &[Want],
        spots: &[Spot],
        mode: Mode,
        place: Seq,
    ) -> bool {
        wants.iter().zip(spots).any(|(want, spot)| {
            self.blockers(*spot, session, &want.key, mode, place, |_, _| ControlFlow::Break(()))
                == ControlFlow::Break(())
        })
    }

    /// Shows everything in the way of one key: other sessions' reservations, and requests that wait and came before.
    /// `spot` is where the key stands for the session.
    fn blockers<B>(
        &self,
        spot: Spot,
        session: SessionSlot,
        key: &Key,
        mode: Mode,
        before: Seq,
        mut see: impl FnMut(PlaceSlot, Blocker) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let held = self.mode_of(spot);
        if is_enough(held, mode) {
            return ControlFlow::Continue(());
        }
        self.index.meet_at(spot.place(), key, |id| {
            let place = self.index.place(id);
            for slot in place.holders.iter() {
                let reservation = &self.reservations[slot];
                if reservation.session != session && clash(reservation.mode, mode) {
                    see(id, Blocker::Holder(slot))?;
                }
            }
            for waiter in place.waiters.iter().take_while(|waiter| waiter.seq < before) {
                if waiter.session != session && stands_before(waiter.mode, held, mode) {
                    see(id, Blocker::Waiter(waiter.seq))?;
                }
            }
            ControlFlow::Continue(())
        })
    }

    /// Everything in the way, told to a person: holders, and where there are none, whoever waits and came before.
    pub(super) fn conflicts(&self, session: SessionSlot, wants: &[Want], mode: Mode, before: Seq) -> Vec<Conflict> {
        let mut holders = Vec::new();
        let mut waiters = Vec::new();
        for (position, want) in wants.iter().enumerate() {
            let spot = self.spot(session, &want.key);
            let _: ControlFlow<()> = self.blockers(spot, session, &want.key, mode, before, |place, blocker| {
                let list = match blocker {
                    Blocker::Holder(_) => &mut holders,
                    Blocker::Waiter(_) => &mut waiters,
                };
                if list.len() == CONFLICTS_LISTED {
                    return ControlFlow::Break(());
                }
                list.push((position, place, blocker));
                ControlFlow::Continue(())
            });
        }
        let found = if holders.is_empty() { waiters } else { holders };
        let tell = |(position, place, blocker): (usize, PlaceSlot, Blocker)| {
            self.conflict(position, &wants[position].key, place, blocker)
        };
        found.into_iter().map(tell).collect()
    }

    pub(super) fn conflict(&self, position: usize, asked: &Key, place: PlaceSlot, blocker: Blocker) -> Conflict {
        let place = self.index.place(place);
        let example = asked.overlaps(&place.key).and_then(|overlap| overlap.example);
        let (asked, queue_length) = (asked.clone(), place.waiters.len());
        match blocker {
            Blocker::Holder(slot) => {
                let held = &self.reservations[slot];
                Conflict {
                    asked,
                    position,
                    key: held.key.clone(),
                    who: self.person(held.session),
                    mode: held.mode,
                    reason: held.reason.clone(),
                    since: held.since,
                    until: held.expires,
                    example,
                    waiting: false,
                    queue_length,
                }
            }
            Blocker::Waiter(seq) => {
                let waiter = &self.waiters[&seq];
                Conflict {
                    asked,
                    position,
                    key: place.key.clone(),
                    who: self.person(waiter.session),
                    mode: waiter.mode,
                    reason: waiter.reason.clone(),
                    since: waiter.since,
                    until: waiter.until,
                    example,
                    waiting: true,
                    queue_length,
                }
            }
        }
    }
}

/// What one holds can be renewed or downgraded, whoever waits for it.
pub(super) fn is_enough(held: Option<Mode>, wanted: Mode) -> bool {
    held == Some(Mode::Exclusive) || held == Some(wanted)
}

/// Two sessions cannot have this at once.
pub(super) fn clash(one: Mode, other: Mode) -> bool {
    one == Mode::Exclusive || other == Mode::Exclusive
}

/// Whether a wait stands before a request of another session that came later. A holder that wants more than it has does
/// not stand behind those who wait for it anyway.
pub(super) fn stands_before(waiting: Mode, held: Option<Mode>, mode: Mode) -> bool {
    clash(waiting, mode) && !held.is_some_and(|held| clash(held, waiting))
}
