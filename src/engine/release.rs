//! Letting go of keys, and taking them away.

use super::command::{Few, Grant, Named, Outcome, Refusal};
use super::ids::{ReservationId, SessionId, Text};
use super::record::{Event, Why};
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Reservation, Spot};
use super::turn::Turn;
use crate::key::Key;

impl Engine {
    pub(super) fn release(&mut self, turn: &mut Turn, session: &SessionId, keys: &[Named]) -> Result<Outcome, Refusal> {
        let slot = self.slot(session);
        if let [named] = keys
            && let Some(held) = self.own(slot, named).held()
        {
            return Ok(Outcome::Released([self.release_one(turn, held, &Why::Released)].into()));
        }
        let spots: Vec<Spot> = keys.iter().map(|named| self.own(slot, named)).collect();
        let holder = |(named, spot): (&Named, &Spot)| match spot.held() {
            Some(_) => None,
            None => self.holder_of(named).map(|other| (named.key.clone(), self.person(other))),
        };
        match keys.iter().zip(&spots).find_map(holder) {
            Some((key, holder)) => Err(Refusal::NotHeld { key, holder: Some(holder) }),
            None => {
                let mut released = Few::with_capacity(keys.len());
                for held in spots.iter().filter_map(|spot| spot.held()) {
                    // The same name twice means the same reservation, and that is over by then.
                    if self.reservations.get(held).is_some() {
                        released.push(self.release_one(turn, held, &Why::Released));
                    }
                }
                Ok(Outcome::Released(released))
            }
        }
    }

    pub(super) fn take_away(
        &mut self,
        turn: &mut Turn,
        id: &ReservationId,
        by: Text,
        reason: Text,
    ) -> Result<Outcome, Refusal> {
        let Some(slot) = self.reservations.iter().find(|(_, r)| r.id == *id).map(|(slot, _)| slot) else {
            return Err(Refusal::UnknownReservation);
        };
        let key = self.release_one(turn, slot, &Why::Overridden { by, reason });
        Ok(Outcome::Released([key].into()))
    }

    /// Releases grants nobody heard of, unless the session has asked for them again since: then it knows.
    pub(super) fn take_back(&mut self, turn: &mut Turn, session: &SessionId, grants: &[Grant]) {
        let Some(session) = self.session_ids.get(session).copied() else { return };
        for grant in grants {
            let Some(slot) = self.held_by(session, &grant.key) else { continue };
            let held = &self.reservations[slot];
            // What was held before and only renewed is not given up either.
            if held.id == grant.id && held.renewals == 0 {
                self.release_one(turn, slot, &Why::Unheard);
            }
        }
    }

    pub(super) fn release_everything(&mut self, turn: &mut Turn, session: SessionSlot, why: &Why) -> Vec<Key> {
        let mut held = self.sessions[session].held.clone();
        held.sort_by_key(|slot| self.reservations[*slot].fence);
        held.into_iter().map(|slot| self.release_one(turn, slot, why)).collect()
    }

    /// Ends one reservation, and says of what. Whoever asked for the key need not wait for an answer any more.
    pub(super) fn release_one(&mut self, turn: &mut Turn, slot: ReservationSlot, why: &Why) -> Key {
        let Reservation { id, place, .. } = self.reservations[slot];
        if !self.waiters.is_empty() {
            turn.freed.push(self.reservations[slot].key.clone());
            self.weaken(turn, slot);
        }
        let released = |engine: &Engine| {
            let held = &engine.reservations[slot];
            let session = engine.sessions[held.session].id.clone();
            Event::Released { id: held.id, session, key: held.key.clone(), why: why.clone() }
        };
        let freed = self.emit_at(turn, released, Spot::new(Some(place), Some(slot)));
        if !self.pending.is_empty() {
            self.make_moot(turn, &id, why);
        }
        freed.expect("a release frees a key")
    }

    /// What the session holds under this name.
    pub(super) fn own(&self, session: SessionSlot, named: &Named) -> Spot {
        let spot = self.spot(session, &named.key);
        match &named.literal {
            Some(key) if spot.held().is_none() => self.spot(session, key),
            _ => spot,
        }
    }

    /// The session that holds exactly what is named so, or the first of them.
    pub(super) fn holder_of(&self, named: &Named) -> Option<SessionSlot> {
        let first = |key: &Key| {
            let place = self.index.place(self.index.find(key)?);
            place.holders.iter().next().map(|slot| self.reservations[slot].session)
        };
        first(&named.key).or_else(|| named.literal.as_ref().and_then(first))
    }
}
