//! Granting and renewing keys.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::command::{Few, Grant, Named, Outcome, Refusal, Reserve};
use super::ids::{Seq, SessionId, Text, Ttl};
use super::record::{Event, Mode, Want};
use super::slab::{ReservationSlot, SessionSlot};
use super::state::{Engine, Spot};
use super::turn::Turn;
use crate::key::Key;

/// A request for keys that can be granted.
pub(super) struct KeyRequest<'a> {
    pub session: SessionSlot,
    pub id: &'a SessionId,
    pub wants: &'a [Want],
    /// Where each of these keys stands for the session.
    pub spots: &'a [Spot],
    pub mode: Mode,
    pub reason: Option<&'a Text>,
}

impl Engine {
    pub(super) fn reserve(
        &mut self,
        turn: &mut Turn,
        ask: &Reserve,
        feature: Option<&Text>,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(&ask.session);
        let wants = without_repeats(&ask.wants);
        let spot = |want: &Want| self.spot(slot, &want.key);
        match &*wants {
            [want] => self.reserve_at(turn, slot, ask, &wants, &[spot(want)], feature),
            many => {
                let spots: Vec<Spot> = many.iter().map(spot).collect();
                self.reserve_at(turn, slot, ask, many, &spots, feature)
            }
        }
    }

    fn reserve_at(
        &mut self,
        turn: &mut Turn,
        slot: SessionSlot,
        ask: &Reserve,
        wants: &[Want],
        spots: &[Spot],
        feature: Option<&Text>,
    ) -> Result<Outcome, Refusal> {
        let fresh = spots.iter().filter(|spot| spot.held().is_none()).count();
        if fresh > 0
            && let Some(pause) = self.pause_of(slot, feature)
        {
            return Err(Refusal::Paused(Box::new(pause)));
        }
        self.within_quota(slot, fresh)?;
        if self.is_blocked(slot, wants, spots, ask.mode, Seq(u64::MAX)) {
            return match ask.wait {
                Some(wait) => self.enqueue(turn, slot, ask, wants, feature, turn.now.after(wait)),
                None => Err(Refusal::Locked(self.conflicts(slot, wants, ask.mode, Seq(u64::MAX)))),
            };
        }
        self.at_version(wants, ask.if_version)?;
        let Reserve { session: ref id, mode, ref reason, .. } = *ask;
        let request = KeyRequest { session: slot, id, wants, spots, mode, reason: reason.as_ref() };
        Ok(Outcome::Granted(self.grant(turn, &request)))
    }

    /// Refuses if a session may not have this many more reservations. What it waits for counts as held, because the wait
    /// is granted later without another check.
    pub(super) fn within_quota(&self, slot: SessionSlot, more: usize) -> Result<(), Refusal> {
        let session = &self.sessions[slot];
        let waited_for: usize = session.waits.iter().map(|seq| self.waiters[seq].wants.len()).sum();
        let limit = self.policy.reservations_per_session;
        if more > 0 && session.held.len() + waited_for + more > limit {
            return Err(Refusal::OverQuota { what: "reservations of one session", limit });
        }
        Ok(())
    }

    /// Gives a session all of these keys; nothing may be in the way.
    pub(super) fn grant(&mut self, turn: &mut Turn, request: &KeyRequest<'_>) -> Few<Grant> {
        let KeyRequest { wants, spots, .. } = *request;
        if let ([want], [spot]) = (wants, spots) {
            let held = self.grant_one(turn, request, want, *spot);
            self.stop_line(turn, want, *spot);
            return [self.grant_of(held)].into();
        }
        let mut grants = Few::with_capacity(wants.len());
        for (want, spot) in wants.iter().zip(spots) {
            let held = self.grant_one(turn, request, want, *spot);
            grants.push(self.grant_of(held));
        }
        for (want, spot) in wants.iter().zip(spots) {
            self.stop_line(turn, want, *spot);
        }
        grants
    }

    fn grant_one(&mut self, turn: &mut Turn, request: &KeyRequest<'_>, want: &Want, spot: Spot) -> ReservationSlot {
        let KeyRequest { session, id, mode, reason, .. } = *request;
        if let Some(held) = spot.held() {
            self.amend(turn, held, mode, want.ttl, reason.cloned());
            return held;
        }
        let reserved = |_: &Engine| Event::Reserved {
            id: want.id,
            session: id.clone(),
            key: want.key.clone(),
            mode,
            ttl: want.ttl,
            reason: reason.cloned(),
        };
        self.emit_at(turn, reserved, spot);
        *self.sessions[session].held.last().expect("just granted")
    }

    /// Renews a reservation, and puts on record what else changed.
    fn amend(&mut self, turn: &mut Turn, held: ReservationSlot, mode: Mode, ttl: Ttl, reason: Option<Text>) {
        let reservation = &mut self.reservations[held];
        reservation.expires = reservation.expires.max(turn.now.after(ttl.duration()));
        reservation.renewals = reservation.renewals.wrapping_add(1);
        let reason = reason.or_else(|| reservation.reason.clone());
        if (reservation.mode, reservation.ttl, &reservation.reason) == (mode, ttl, &reason) {
            return;
        }
        if mode == Mode::Shared && reservation.mode == Mode::Exclusive {
            // Others may hold it beside us now.
            turn.freed.push(reservation.key.clone());
            self.weaken(turn, held);
        }
        let reservation = &self.reservations[held];
        let (id, key, session) = (reservation.id, reservation.key.clone(), reservation.session);
        let session = self.sessions[session].id.clone();
        self.emit(turn, Event::Amended { id, session, key, mode, ttl, reason });
    }

    pub(super) fn renew(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        keys: &[Named],
        ttl: Option<Ttl>,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(session);
        let mut held = Vec::with_capacity(keys.len());
        for named in keys {
            match self.own(slot, named).held() {
                Some(reservation) => held.push(reservation),
                None => {
                    let lapsed = &self.sessions[slot].lapsed;
                    if lapsed.contains(&named.key) || named.literal.as_ref().is_some_and(|key| lapsed.contains(key)) {
                        return Err(Refusal::Lapsed { key: named.key.clone() });
                    }
                    let holder = self.holder_of(named).map(|other| self.person(other));
                    return Err(Refusal::NotHeld { key: named.key.clone(), holder });
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
        self.index.find(key).map_or(self.version_floor, |place| self.index.place(place).version)
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
            expires: held.expires,
            fence: held.fence,
            version: self.index.place(held.place).version,
            renewals: held.renewals,
        }
    }
}

/// Each key once; the first counts.
fn without_repeats(wants: &[Want]) -> Cow<'_, [Want]> {
    if wants.len() < 2 {
        return Cow::Borrowed(wants);
    }
    let mut seen = HashSet::with_capacity(wants.len());
    wants.iter().filter(|want| seen.insert(&want.key)).cloned().collect()
}
