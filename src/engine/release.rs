//! Releasing keys: by their holder, by an admin, or because a grant did not reach its client.

use super::command::{Few, Grant, KeyName, Outcome, Refusal};
use super::ids::{ReservationId, SessionId, Text};
use super::record::{Event, Why};
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Lookup, Reservation, Session};
use super::turn::Turn;
use crate::key::Key;

impl Engine {
    /// Releases all of these keys, or none. A key that no session holds is ignored; the outcome lists those that the session
    /// held until they expired.
    pub(super) fn release(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        keys: &[KeyName],
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(session);
        if let [named] = keys
            && let Some(held) = self.own(slot, named).held()
        {
            let keys = [self.release_one(turn, held, &Why::Released)].into();
            return Ok(Outcome::Released { keys, count: 1 });
        }
        let lookups: Vec<Lookup> = keys.iter().map(|named| self.own(slot, named)).collect();
        let is_late = |(named, lookup): &(&KeyName, &Lookup)| {
            lookup.held().is_none() && self.has_lapsed(slot, named) && self.holder_of(named).is_none()
        };
        let lapsed: Few<Key> = keys.iter().zip(&lookups).filter(is_late).map(|(named, _)| named.key.clone()).collect();
        let refusal = |(named, lookup): (&KeyName, &Lookup)| match lookup.held() {
            Some(_) => None,
            None => self.holder_of(named).map(|other| Refusal::NotHeld {
                key: named.key.clone(),
                holder: Some(self.session_name(other)),
                has_lapsed: self.has_lapsed(slot, named),
            }),
        };
        match keys.iter().zip(&lookups).find_map(refusal) {
            Some(refusal) => Err(refusal),
            None => {
                let mut released = Few::with_capacity(keys.len());
                for held in lookups.iter().filter_map(|lookup| lookup.held()) {
                    // A key that is named twice is already released the second time.
                    if self.reservations.get(held).is_some() {
                        released.push(self.release_one(turn, held, &Why::Released));
                    }
                }
                let count = released.len();
                Ok(match lapsed.is_empty() {
                    true => Outcome::Released { keys: released, count },
                    false => Outcome::ReleasedLate { released, lapsed },
                })
            }
        }
    }

    /// Whether the session held this until it expired.
    pub(super) fn has_lapsed(&self, session: SessionSlot, named: &KeyName) -> bool {
        let lapsed = &self.sessions[session].lapsed;
        lapsed.contains(&named.key) || named.literal.as_ref().is_some_and(|key| lapsed.contains(key))
    }

    /// Releases a reservation for an admin. Its holder gets a notice.
    pub(super) fn override_reservation(
        &mut self,
        turn: &mut Turn,
        id: &ReservationId,
        by: Text,
        reason: Text,
    ) -> Result<Outcome, Refusal> {
        let is_meant = |(_, held): &(_, &Reservation)| held.id == *id && !self.is_over(held);
        let Some((slot, _)) = self.reservations.iter().find(is_meant) else {
            return Err(Refusal::UnknownReservation);
        };
        let key = self.release_one(turn, slot, &Why::Overridden { by, reason });
        Ok(Outcome::Released { keys: [key].into(), count: 1 })
    }

    /// Releases grants that did not reach their client, unless the session has renewed them since: then it knows of them.
    pub(super) fn take_back(&mut self, turn: &mut Turn, session: &SessionId, grants: &[Grant]) {
        let Some(session) = self.session_ids.get(session).copied() else { return };
        for grant in grants {
            let Some(slot) = self.held_by(session, &grant.key) else { continue };
            let held = &self.reservations[slot];
            // A reservation that the session held before the lost reply, and that it only renewed, is kept too.
            if held.id == grant.id && self.renewals(held) == 0 {
                self.release_one(turn, slot, &Why::Unheard);
            }
        }
    }

    /// Ends one reservation and returns its key. Unlock requests for it end too.
    pub(super) fn release_one(&mut self, turn: &mut Turn, slot: ReservationSlot, why: &Why) -> Key {
        let Reservation { id, place, session, .. } = self.reservations[slot];
        if !self.waiters.is_empty() {
            turn.freed.push(self.reservations[slot].key.clone());
            self.note_weakened(turn, slot);
        }
        let released = |engine: &Engine| {
            let held = &engine.reservations[slot];
            let session = engine.sessions[held.session].id.clone();
            Event::Released { id: held.id, session, key: held.key.clone(), why: why.clone() }
        };
        let freed = self.emit_at(turn, released, Lookup::new(Some(place), Some(slot)));
        if !self.pending.is_empty() {
            self.close_pending_requests(turn, &id, why);
        }
        let now = self.listening(turn.now);
        let Session { ref held, ref end, opened, last_heard, .. } = self.sessions[session];
        let was_last = held.is_empty() && end.is_none();
        if was_last && last_heard.after(self.policy.session_timeout) <= now {
            // Only this reservation kept a silent session from being lost.
            self.session_deadlines.set(now, opened, session);
        }
        freed.expect("a release frees a key")
    }

    /// Finds what the session holds under this name.
    pub(super) fn own(&self, session: SessionSlot, named: &KeyName) -> Lookup {
        let lookup = self.lookup(session, &named.key);
        match &named.literal {
            Some(key) if lookup.held().is_none() => self.lookup(session, key),
            _ => lookup,
        }
    }

    /// The session that holds exactly this key; where several hold it shared, the first.
    pub(super) fn holder_of(&self, named: &KeyName) -> Option<SessionSlot> {
        let first = |key: &Key| {
            let place = self.index.place(self.index.find(key)?);
            place.holders.iter().find(|slot| self.is_live(*slot)).map(|slot| self.reservations[slot].session)
        };
        first(&named.key).or_else(|| named.literal.as_ref().and_then(first))
    }
}
