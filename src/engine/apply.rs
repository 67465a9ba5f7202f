//! The only place where recorded state changes: [`Engine::apply`].
//!
//! The engine numbers a record, applies it and then puts it on record; a replay applies the same records again.

use std::collections::{BTreeSet, VecDeque};

use smallvec::SmallVec;
use uuid::Uuid;

use super::command::{Notice, UnlockRequest};
use super::ids::{ReservationId, Seq, SessionId, Text, Timestamp};
use super::index::Standing;
use super::notice::{NOTICES_KEPT, remember};
use super::pause::paused_feature;
use super::record::{Answer, EndState, Event, Owner, Record, Want, Why};
use super::slab::{PlaceSlot, ReservationSlot, SessionSlot};
use super::state::{End, Engine, Reservation, Session, Spot, Stand, UNKNOWN, Waiter, compared};
use super::turn::Turn;
use crate::key::Key;

/// Sessions that are over and still known, so that their tokens stay dead; the oldest is forgotten first.
const ENDED_REMEMBERED: usize = 100_000;

/// Keys nobody holds whose version is still known. A forgotten key starts again above every forgotten version.
const VERSIONS_REMEMBERED: usize = 1_000_000;

/// Unlock requests that are over and still listed.
const ANSWERED_REMEMBERED: usize = 10_000;

/// Keys a session lost to time that it is still told about when it renews them.
const LAPSED_REMEMBERED: usize = 256;

impl Engine {
    /// Makes an event happen: numbers it, applies it and puts it on record.
    pub(super) fn emit(&mut self, turn: &mut Turn, event: Event) -> Seq {
        self.emit_at(turn, |_| event, UNKNOWN);
        self.seq
    }

    /// The same for the two events that happen most, where the caller knows what they are about. Says what a release
    /// freed.
    #[inline]
    pub(super) fn emit_at(&mut self, turn: &mut Turn, event: impl FnOnce(&Engine) -> Event, spot: Spot) -> Option<Key> {
        let seq = self.seq.next();
        // Made right where it will lie; pushing it would move it there.
        turn.records.extend(std::iter::once_with(|| Record { seq, at: turn.now, event: event(self) }));
        self.follow(turn.records.last().expect("just pushed"), spot)
    }

    /// Follows one record. Only the next one fits.
    pub fn apply(&mut self, record: &Record) {
        self.follow(record, UNKNOWN);
    }

    fn follow(&mut self, record: &Record, spot: Spot) -> Option<Key> {
        assert_eq!(record.seq, self.seq.next(), "records are applied in order and without gaps");
        self.seq = record.seq;
        let (seq, at) = (record.seq, record.at);
        match &record.event {
            Event::Opened { session, name, feature, owner } => {
                self.opened(seq, at, session, name.clone(), feature.clone(), owner.clone());
            }
            Event::Bound { session, owner } => {
                let slot = self.slot(session);
                self.sessions[slot].owner = Some(owner.clone());
            }
            Event::Ended { session, state } => self.ended(at, self.slot(session), *state),
            Event::Reserved { id, session, key, mode, ttl, reason } => {
                let fold_case = self.policy.fold_case;
                let place = match spot.place() {
                    Some(place) => place,
                    None => self.index.find_or_make(&compared(key, fold_case), self.version_floor),
                };
                let slot = self.slot(session);
                let position = u32::try_from(self.sessions[slot].held.len()).expect("within the quota");
                let held = self.reservations.insert_with(|| Reservation {
                    id: *id,
                    key: compared(key, fold_case),
                    reason: reason.clone(),
                    since: at,
                    fence: seq,
                    session: slot,
                    place,
                    position,
                    ttl: *ttl,
                    mode: *mode,
                    expires: at.after(ttl.duration()),
                    renewals: 0,
                });
                self.reserved(held);
            }
            Event::Amended { id: _, session, key, mode, ttl, reason } => {
                let slot = self.held_by(self.slot(session), &self.compared(key));
                let reservation = &mut self.reservations[slot.expect("only what is held is amended")];
                (reservation.mode, reservation.ttl, reservation.reason) = (*mode, *ttl, reason.clone());
            }
            Event::Released { id: _, session, key, why } => {
                let slot = spot.held().or_else(|| self.held_by(self.slot(session), &self.compared(key)));
                return Some(self.released(slot.expect("only what is held is released"), at, why));
            }
            Event::Queued { session, wants, mode, reason, if_version } => {
                let fold = |want: &Want| Want { key: self.compared(&want.key), ..want.clone() };
                let waiter = Waiter {
                    session: self.slot(session),
                    wants: wants.iter().map(fold).collect(),
                    places: Vec::new(),
                    mode: *mode,
                    reason: reason.clone(),
                    if_version: *if_version,
                    since: at,
                    until: Timestamp(i64::MAX),
                    feature: None,
                };
                self.queued(seq, waiter);
            }
            Event::Seated { waiter, .. } | Event::Left { waiter, .. } => self.unqueue(*waiter, at),
            Event::Counted { conflicts, deadlocks } => {
                self.totals.counted = (*conflicts, *deadlocks);
                self.totals.conflicts = self.totals.conflicts.max(*conflicts);
                self.totals.deadlocks = self.totals.deadlocks.max(*deadlocks);
            }
            Event::UnlockRequested { request, reservation, key, session, reason } => {
                let key = self.compared(key);
                self.asked(*request, *reservation, key, session, reason.clone(), at);
            }
            Event::UnlockAnswered { request, answer, by, note } => {
                self.answered(*request, *answer, by.clone(), note.clone(), at);
            }
        }
        None
    }

    pub(super) fn opened(
        &mut self,
        seq: Seq,
        at: Timestamp,
        id: &SessionId,
        name: Option<Text>,
        feature: Option<Text>,
        owner: Option<Owner>,
    ) {
        let session = Session {
            id: id.clone(),
            name,
            feature,
            owner,
            opened: seq,
            started: at,
            end: None,
            held: Vec::new(),
            waits: BTreeSet::new(),
            stands: SmallVec::new(),
            lapsed: VecDeque::new(),
            incoming: Vec::new(),
            leaving: Vec::new(),
            last_seen: at,
            notices: VecDeque::new(),
        };
        let slot = self.sessions.insert(session);
        self.session_ids.insert(id.clone(), slot);
        self.alive += 1;
        self.silences.set(at.after(self.policy.session_timeout), seq, slot);
    }

    fn ended(&mut self, at: Timestamp, slot: SessionSlot, state: EndState) {
        let session = &mut self.sessions[slot];
        assert!(session.held.is_empty() && session.waits.is_empty(), "an ending session lets go of everything first");
        let released = std::mem::take(&mut session.leaving);
        session.end = Some(End { state, at, released });
        session.lapsed = VecDeque::new();
        session.notices = VecDeque::new();
        self.alive -= 1;
        self.ended.push_back(slot);
        if self.ended.len() > ENDED_REMEMBERED {
            let oldest = self.ended.pop_front().expect("not empty");
            self.session_ids.remove(&self.sessions[oldest].id);
            self.sessions.remove(oldest);
        }
    }

    /// What lies in this slot is held from now on.
    pub(super) fn reserved(&mut self, slot: ReservationSlot) {
        let Reservation { fence, session, place, expires, ref key, .. } = self.reservations[slot];
        if let Some(feature) = paused_feature(key) {
            self.pauses.insert(feature, place);
        }
        // What is held again is not lost to time any more.
        self.sessions[session].lapsed.retain(|lapsed| lapsed != key);
        self.index.hold(place, slot);
        self.sessions[session].held.push(slot);
        self.grants.push((fence, slot));
        self.expiries.set(expires, fence, slot);
        self.totals.granted += 1;
    }

    fn released(&mut self, slot: ReservationSlot, at: Timestamp, why: &Why) -> Key {
        let Reservation { id, session, place, position, since, ref key, .. } = self.reservations[slot];
        let key = key.clone();
        self.reservations.remove(slot);
        self.index.let_go(place, slot);
        let session = &mut self.sessions[session];
        session.held.swap_remove(position as usize);
        if let Some(moved) = session.held.get(position as usize) {
            self.reservations[*moved].position = position;
        }
        self.totals.over += 1;
        self.totals.held_ms += u64::try_from(at.0 - since.0).unwrap_or(0);
        match why {
            Why::Expired => {
                self.totals.expired += 1;
                remember(&mut session.lapsed, LAPSED_REMEMBERED, key.clone());
            }
            Why::Ended => session.leaving.push(key.clone()),
            _ => {}
        }
        if matches!(why, Why::Overridden { .. }) {
            let notice = Notice::ReleasedEarly { id, key: key.clone(), at, why: why.clone() };
            remember(&mut session.notices, NOTICES_KEPT, notice);
        }
        let free = self.index.place(place).holders.is_empty();
        if free && let Some(feature) = paused_feature(&key) {
            self.pauses.remove(&feature);
        }
        if !self.index.place(place).is_live() {
            self.rest(place);
        }
        self.compact();
        key
    }

    /// Remembers the version of a key nobody holds, and forgets the oldest such.
    fn rest(&mut self, place: PlaceSlot) {
        self.index.rest(place, self.seq);
        self.resting.push_back((place, self.seq));
        while self.index.remembered() > VERSIONS_REMEMBERED {
            let (place, since) = self.resting.pop_front().expect("every place that is only remembered rests");
            if self.index.is_resting(place, since) {
                self.version_floor = self.version_floor.max(self.index.place(place).version + 1);
                self.index.forget(place);
            }
        }
    }

    pub(super) fn queued(&mut self, seq: Seq, mut waiter: Waiter) {
        self.sessions[waiter.session].waits.insert(seq);
        let standing = Standing { seq, session: waiter.session, mode: waiter.mode };
        for want in &waiter.wants {
            let place = self.index.find_or_make(&want.key, self.version_floor);
            self.index.queue(place, standing);
            waiter.places.push(place);
            self.sessions[waiter.session].stands.push(Stand { waiter: seq, place, mode: waiter.mode });
        }
        self.waiters.insert(seq, waiter);
    }

    fn unqueue(&mut self, seq: Seq, at: Timestamp) {
        let waiter = self.waiters.remove(&seq).expect("only who waits stops waiting");
        let session = &mut self.sessions[waiter.session];
        session.waits.remove(&seq);
        let first = session.stands.partition_point(|stand| stand.waiter < seq);
        let last = session.stands.partition_point(|stand| stand.waiter <= seq);
        session.stands.drain(first..last);
        // Whoever waits is there, so silence begins with the end of the wait.
        session.last_seen = session.last_seen.max(at);
        self.patience.remove(&(waiter.until, seq));
        for place in waiter.places {
            self.index.leave(place, seq);
            let known = self.index.place(place);
            match (known.is_live(), known.was_held) {
                (true, _) => {}
                (false, true) => {
                    self.rest(place);
                    self.compact();
                }
                // There is no version to remember.
                (false, false) => self.index.forget(place),
            }
        }
    }

    fn asked(&mut self, id: Uuid, reservation: ReservationId, key: Key, by: &SessionId, reason: Text, at: Timestamp) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.reason = reason;
            return;
        }
        let place = self.index.find(&key).expect("only what is held is asked for");
        let held = self.index.place(place).holders.iter().find(|slot| self.reservations[*slot].id == reservation);
        let holder = self.reservations[held.expect("only what is held is asked for")].session;
        let by_name = self.sessions[self.slot(by)].name.clone();
        let request = UnlockRequest {
            id,
            reservation,
            key,
            holder: self.sessions[holder].id.clone(),
            by: by.clone(),
            by_name,
            reason,
            at,
            answer: None,
            answered_at: None,
            answered_by: None,
            note: None,
        };
        self.sessions[holder].incoming.push(id);
        self.pending.entry(reservation).or_default().push(id);
        self.requests.insert(id, request);
    }

    fn answered(&mut self, id: Uuid, answer: Answer, by: Option<SessionId>, note: Option<Text>, at: Timestamp) {
        let request = self.requests.get_mut(&id).expect("only what was asked is answered");
        (request.answer, request.answered_at, request.answered_by, request.note) = (Some(answer), Some(at), by, note);
        let request = request.clone();
        if let Some(list) = self.pending.get_mut(&request.reservation) {
            list.retain(|other| *other != id);
            if list.is_empty() {
                self.pending.remove(&request.reservation);
            }
        }
        if let Some(slot) = self.session_ids.get(&request.holder) {
            self.sessions[*slot].incoming.retain(|other| *other != id);
        }
        if answer != Answer::Withdrawn
            && let Some(slot) = self.session_ids.get(&request.by)
        {
            remember(&mut self.sessions[*slot].notices, NOTICES_KEPT, Notice::UnlockAnswered(request));
        }
        self.answered.push_back(id);
        if self.answered.len() > ANSWERED_REMEMBERED {
            let oldest = self.answered.pop_front().expect("not empty");
            self.requests.remove(&oldest);
        }
    }

    /// Drops what lies in lists only because taking it out at once would cost too much. Each such entry is paid for
    /// by the release that left it behind.
    fn compact(&mut self) {
        let live = self.reservations.len();
        if self.grants.len() > 2 * live + 1024 {
            let reservations = &self.reservations;
            self.grants.retain(|(fence, slot)| reservations.get(*slot).is_some_and(|r| r.fence == *fence));
        }
        if self.resting.len() > 2 * self.index.len() + 1024 {
            let index = &self.index;
            self.resting.retain(|(place, since)| index.is_resting(*place, *since));
        }
        if self.expiries.len() > 2 * live + 1024 {
            let reservations = &self.reservations;
            self.expiries.retain(|fence, slot| reservations.get(slot).is_some_and(|r| r.fence == fence));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{Actor, Command, LeftWhy, Mode, Outcome, Policy, Reserve, Ttl};

    #[test]
    fn waiting_for_a_key_that_rests_leaves_nothing_behind() {
        let mut engine = Engine::new(Policy::default());
        let keys = ["a", "b"].map(|text| Key::recall(text, false).unwrap());
        let [ana, bo] = ["ana", "bo"].map(|id| SessionId::parse(id).unwrap());
        let mut turn = Turn::at(Timestamp(0));
        let mut ask =
            |engine: &mut Engine, command| engine.execute(&mut turn, &Actor::Admin("test".into()), command).unwrap();
        let reserve = |session: &SessionId| {
            let want = |key: &Key| Want { id: ReservationId(Uuid::nil()), key: key.clone(), ttl: Ttl(60) };
            Command::Reserve(Reserve {
                session: session.clone(),
                wants: keys.iter().map(want).collect(),
                mode: Mode::Exclusive,
                reason: None,
                wait: Some(Duration::from_secs(60)),
                if_version: None,
            })
        };
        for session in [&ana, &bo] {
            ask(&mut engine, Command::Create { session: session.clone(), name: None, feature: None });
        }
        ask(&mut engine, reserve(&ana));
        ask(&mut engine, Command::Release { session: ana.clone(), keys: [keys[0].clone().into()].into() });
        for _ in 0..10_000 {
            let Outcome::Queued(waiter) = ask(&mut engine, reserve(&bo)) else { panic!("b is held") };
            ask(&mut engine, Command::Leave { waiter, why: LeftWhy::Gone });
        }
        assert!(engine.resting.len() < 2_000, "{} entries for one key", engine.resting.len());
    }
}
