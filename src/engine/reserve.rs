//! Granting, renewing and releasing keys.

use std::borrow::Cow;
use std::ops::ControlFlow;

use hashbrown::HashSet;

use super::command::{Conflict, Few, Grant, Named, Outcome, Refusal, Reserve};
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp, Ttl};
use super::record::{Event, Mode, Want, Why};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{Engine, Reservation, Spot, paused_feature};
use super::turn::Turn;
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

    /// If that was the beginning of a pause, nobody it stops waits any longer. A pause that only goes on leaves those
    /// alone who came since: they wait for more of what they hold.
    fn stop_line(&mut self, turn: &mut Turn, want: &Want, before: Spot) {
        if before.held().is_none()
            && let Some(feature) = paused_feature(&want.key)
        {
            self.dismiss_paused(turn, &feature);
        }
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

    pub(super) fn release(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        keys: &[Named],
    ) -> Result<Outcome, Refusal> {
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

    pub(super) fn release_everything(
        &mut self,
        turn: &mut Turn,
        session: SessionSlot,
        why: &Why,
    ) -> Vec<Key> {
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

    /// Takes note of the waits that count on this reservation of their own session.
    fn weaken(&self, turn: &mut Turn, slot: ReservationSlot) {
        let reservation = &self.reservations[slot];
        let waiters = self.index.place(reservation.place).waiters.iter();
        let own = waiters.filter(|waiter| waiter.session == reservation.session);
        turn.weakened.extend(own.map(|waiter| waiter.seq));
    }

    /// Whether anything is in the way of a request that would stand in the queue at `place`.
    pub(super) fn is_blocked(&self, session: SessionSlot, wants: &[Want], spots: &[Spot], mode: Mode, place: Seq) -> bool {
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

    /// Refuses if a key is not at the version the request expects.
    pub(super) fn at_version(&self, wants: &[Want], if_version: Option<u64>) -> Result<(), Refusal> {
        let Some(expected) = if_version else { return Ok(()) };
        match wants.iter().find(|want| self.version_of(&want.key) != expected) {
            Some(want) => {
                Err(Refusal::WrongVersion { key: want.key.clone(), version: self.version_of(&want.key) })
            }
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

    /// What the session holds under this name.
    fn own(&self, session: SessionSlot, named: &Named) -> Spot {
        let spot = self.spot(session, &named.key);
        match &named.literal {
            Some(key) if spot.held().is_none() => self.spot(session, key),
            _ => spot,
        }
    }

    /// The session that holds exactly what is named so, or the first of them.
    fn holder_of(&self, named: &Named) -> Option<SessionSlot> {
        let first = |key: &Key| {
            let place = self.index.place(self.index.find(key)?);
            place.holders.iter().next().map(|slot| self.reservations[slot].session)
        };
        first(&named.key).or_else(|| named.literal.as_ref().and_then(first))
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

/// Each key once; the first counts.
fn without_repeats(wants: &[Want]) -> Cow<'_, [Want]> {
    if wants.len() < 2 {
        return Cow::Borrowed(wants);
    }
    let mut seen = HashSet::with_capacity(wants.len());
    wants.iter().filter(|want| seen.insert(&want.key)).cloned().collect()
}
