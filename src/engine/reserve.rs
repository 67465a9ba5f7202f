//! Reserving and renewing keys.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::command::{Few, Grant, KeyName, Outcome, Refusal, Reserve};
use super::ids::{SessionId, Text, Ttl, WaiterId};
use super::record::{Event, Mode, Want};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{Engine, Lookup};
use super::turn::Turn;
use crate::key::Key;

/// A request for keys that can be granted.
pub(super) struct KeyRequest<'a> {
    pub session: SessionSlot,
    pub id: &'a SessionId,
    pub wants: &'a [Want],
    /// For each of these keys: its place, and how the session holds it.
    pub lookups: &'a [Lookup],
    pub mode: Mode,
    pub reason: Option<&'a Text>,
}

impl Engine {
    /// Grants all of these keys or none. `feature` is the one that the caller's token names.
    pub(super) fn reserve(
        &mut self,
        turn: &mut Turn,
        ask: &Reserve,
        feature: Option<&Text>,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(&ask.session);
        let wants = without_repeats(&ask.wants);
        let lookup = |want: &Want| self.lookup(slot, &want.key);
        match &*wants {
            [want] => self.reserve_at(turn, slot, ask, &wants, &[lookup(want)], feature),
            many => {
                let lookups: Vec<Lookup> = many.iter().map(lookup).collect();
                self.reserve_at(turn, slot, ask, many, &lookups, feature)
            }
        }
    }

    fn reserve_at(
        &mut self,
        turn: &mut Turn,
        slot: SessionSlot,
        ask: &Reserve,
        wants: &[Want],
        lookups: &[Lookup],
        feature: Option<&Text>,
    ) -> Result<Outcome, Refusal> {
        let new_keys = lookups.iter().filter(|lookup| lookup.held().is_none()).count();
        self.refuse_if_paused(slot, feature, new_keys)?;
        self.within_quota(slot, wants, lookups, ask.reason.as_ref())?;
        if self.is_blocked(slot, wants, lookups, ask.mode, WaiterId::LAST) {
            return match ask.wait {
                Some(wait) => self.enqueue(turn, slot, ask, wants, feature, wait),
                None => {
                    let conflicts = self.conflicts(slot, wants, ask.mode, WaiterId::LAST);
                    self.refuse_if_incomplete()?;
                    Err(Refusal::Locked(conflicts))
                }
            };
        }
        self.refuse_if_incomplete()?;
        self.at_version(wants, ask.if_version)?;
        let Reserve { session: ref id, mode, ref reason, .. } = *ask;
        let request = KeyRequest { session: slot, id, wants, lookups, mode, reason: reason.as_ref() };
        Ok(Outcome::Granted(self.grant(turn, &request)))
    }

    /// Grants a session all of these keys. The caller has made sure that nothing blocks them.
    pub(super) fn grant(&mut self, turn: &mut Turn, request: &KeyRequest<'_>) -> Few<Grant> {
        let KeyRequest { wants, lookups, .. } = *request;
        if let ([want], [lookup]) = (wants, lookups) {
            let held = self.grant_one(turn, request, want, *lookup);
            self.end_paused_waits(turn, want, *lookup);
            return [self.grant_of(held)].into();
        }
        let mut grants = Few::with_capacity(wants.len());
        for (want, lookup) in wants.iter().zip(lookups) {
            let held = self.grant_one(turn, request, want, *lookup);
            grants.push(self.grant_of(held));
        }
        for (want, lookup) in wants.iter().zip(lookups) {
            self.end_paused_waits(turn, want, *lookup);
        }
        grants
    }

    fn grant_one(&mut self, turn: &mut Turn, request: &KeyRequest<'_>, want: &Want, lookup: Lookup) -> ReservationSlot {
        let KeyRequest { session, id, mode, reason, .. } = *request;
        if let Some(held) = lookup.held() {
            self.amend(turn, held, mode, want.ttl, reason.cloned());
            return held;
        }
        if want.ttl.is_while_session() {
            let now = self.listening(turn.now);
            self.hear(session, now);
        }
        let reserved = |_: &Engine| Event::Reserved {
            id: want.id,
            session: id.clone(),
            key: want.key.clone(),
            mode,
            ttl: want.ttl,
            reason: reason.cloned(),
        };
        self.emit_at(turn, reserved, lookup);
        self.sessions[session].held.last().expect("just granted")
    }

    /// Renews a reservation. A new mode, TTL or reason is recorded. It never ends earlier than before.
    fn amend(&mut self, turn: &mut Turn, held: ReservationSlot, mode: Mode, ttl: Ttl, reason: Option<Text>) {
        let now = self.listening(turn.now);
        let ttl = self.not_shorter(&self.reservations[held], ttl, now);
        let expires = self.deadline(&self.reservations[held]).max(now.after(ttl.duration()));
        if ttl.is_while_session() {
            self.hear(self.reservations[held].session, now);
        }
        let reservation = &mut self.reservations[held];
        reservation.expires = expires;
        reservation.renewals = reservation.renewals.wrapping_add(1);
        let reason = reason.or_else(|| reservation.reason.clone());
        if (reservation.mode, reservation.ttl, &reservation.reason) == (mode, ttl, &reason) {
            return;
        }
        if mode == Mode::Shared && reservation.mode == Mode::Exclusive {
            // Other sessions may now hold it shared too.
            turn.freed.push(reservation.key.clone());
            self.note_weakened(turn, held);
        }
        let reservation = &self.reservations[held];
        let (id, key, session) = (reservation.id, reservation.key.clone(), reservation.session);
        let session = self.sessions[session].id.clone();
        self.emit(turn, Event::Amended { id, session, key, mode, ttl, reason });
    }

    /// Renews all of these reservations, or none.
    pub(super) fn renew(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        keys: &[KeyName],
        ttl: Option<Ttl>,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(session);
        let mut held = Vec::with_capacity(keys.len());
        for named in keys {
            match self.own(slot, named).held() {
                Some(reservation) => held.push(reservation),
                None => {
                    if self.has_lapsed(slot, named) {
                        return Err(Refusal::Lapsed { key: named.key.clone() });
                    }
                    let holder = self.holder_of(named).map(|other| self.session_name(other));
                    return Err(Refusal::NotHeld { key: named.key.clone(), holder, has_lapsed: false });
                }
            }
        }
        for reservation in &held {
            let (mode, before) = (self.reservations[*reservation].mode, self.reservations[*reservation].ttl);
            self.amend(turn, *reservation, mode, ttl.unwrap_or(before), None);
        }
        Ok(Outcome::Granted(held.into_iter().map(|reservation| self.grant_of(reservation)).collect()))
    }

    /// Refuses if a key is not at the version the request expects.
    pub(super) fn at_version(&self, wants: &[Want], if_version: Option<u64>) -> Result<(), Refusal> {
        let Some(expected) = if_version else { return Ok(()) };
        match wants.iter().find(|want| self.version_of(&want.key) != expected) {
            Some(want) => Err(Refusal::WrongVersion { key: want.key.clone(), version: self.version_of(&want.key) }),
            None => Ok(()),
        }
    }

    fn version_of(&self, key: &Key) -> u64 {
        self.index.find(key).map_or(self.version_floor, |place| self.version_at(place))
    }

    /// How often the key of this place was released. Releases that are still to be recorded count.
    fn version_at(&self, place: PlaceSlot) -> u64 {
        let place = self.index.place(place);
        let is_over = |slot: &ReservationSlot| !self.is_live(*slot);
        let over = if self.over_count == 0 { 0 } else { place.holders.iter().filter(is_over).count() };
        place.version + over as u64
    }

    pub(super) fn grant_of(&self, slot: ReservationSlot) -> Grant {
        let held = &self.reservations[slot];
        Grant {
            id: held.id,
            key: held.key.clone(),
            mode: held.mode,
            ttl: held.ttl,
            reason: held.reason.clone(),
            since: held.since,
            expires: self.real(self.deadline(held)),
            fence: held.fence,
            version: self.version_at(held.place),
            renewals: self.renewals(held),
        }
    }
}

/// Drops keys that are named more than once; the first one counts.
fn without_repeats(wants: &[Want]) -> Cow<'_, [Want]> {
    if wants.len() < 2 {
        return Cow::Borrowed(wants);
    }
    let mut seen = HashSet::with_capacity(wants.len());
    wants.iter().filter(|want| seen.insert(&want.key)).cloned().collect()
}
