//! Unlock requests: a session asks the holder of a key to release it, and the holder answers.

use std::ops::ControlFlow;

use uuid::Uuid;

use super::command::{KeyName, Outcome, Refusal, UnlockRequest};
use super::ids::{ReservationId, Seq, SessionId, Text, WaiterId};
use super::index::Place;
use super::record::{Event, Mode, UnlockAnswer, Want, Why};
use super::reserve::KeyRequest;
use super::slab::{ReservationSlot, SessionSlot};
use super::state::Engine;
use super::turn::Turn;
use crate::key::Key;

/// The bytes of keys and reasons in unlock requests without an answer.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// The most holders of one key that one request asks.
const HOLDERS_ASKED_MAX: usize = 100;

impl Engine {
    /// Sends a request to the session that holds the key, or a key that overlaps it. A key that several sessions share is
    /// free when all of them release it, so each of them gets a request.
    pub(super) fn ask(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        request: Uuid,
        named: &KeyName,
        reason: &Text,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(session);
        // The holder of exactly this key comes before holders of keys that only overlap it.
        let found = [Some(&named.key), named.literal.as_ref()].into_iter().flatten();
        let found = found.filter_map(|key| self.other_holder(slot, key)).min_by_key(|(overlaps, _)| *overlaps);
        self.refuse_if_incomplete()?;
        let Some((_, held)) = found else { return Err(Refusal::NoOtherHolder(named.key.clone())) };
        let mut asked = Vec::with_capacity(1);
        for (number, held) in self.sharing(slot, held).into_iter().enumerate() {
            // Each has an id of its own, and a replay of the command would find the same ones.
            let request = Uuid::from_u128(request.as_u128().wrapping_add((number as u128) << 96));
            match self.ask_holder(turn, session, request, held, reason) {
                Ok(request) => asked.push(request),
                Err(refusal) if asked.is_empty() => return Err(refusal),
                // The limits leave no room for more.
                Err(_) => break,
            }
        }
        Ok(Outcome::Asked(asked))
    }

    /// This reservation and those of other sessions that share its key, the oldest first.
    fn sharing(&self, asker: SessionSlot, held: ReservationSlot) -> Vec<ReservationSlot> {
        let place = self.index.place(self.reservations[held].place);
        let is_asked = |slot: &ReservationSlot| {
            let reservation = &self.reservations[*slot];
            reservation.session != asker && !self.is_over(reservation)
        };
        let mut all: Vec<ReservationSlot> = place.holders.iter().filter(is_asked).collect();
        all.sort_unstable_by_key(|slot| self.reservations[*slot].fence);
        all.truncate(HOLDERS_ASKED_MAX);
        all
    }

    fn ask_holder(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        request: Uuid,
        held: ReservationSlot,
        reason: &Text,
    ) -> Result<UnlockRequest, Refusal> {
        let slot = self.slot(session);
        let reservation = self.reservations[held].id;
        let key = self.reservations[held].key.clone();
        // A second request for the same reservation changes the reason of the pending one.
        let pending = self.pending.get(&reservation).into_iter().flatten();
        let known = pending.copied().find(|id| self.requests[id].by == *session && *id != request);
        if known.is_none() {
            self.refuse_if_too_many_requests(slot, self.reservations[held].session)?;
        }
        let before = known.map_or(0, |id| self.requests[&id].text_bytes());
        if self.pending_bytes + key.text_bytes() + reason.len() > PENDING_BYTES_MAX + before {
            let what = "bytes of unanswered unlock requests in this repository";
            return Err(Refusal::OverQuota { what, limit: PENDING_BYTES_MAX });
        }
        let request = known.unwrap_or(request);
        let (session, reason) = (session.clone(), reason.clone());
        self.emit(turn, Event::UnlockRequested { request, reservation, key, session, reason });
        Ok(self.requests[&request].clone())
    }

    /// A session may ask for many keys, and many sessions may ask for one; a holder must still be able to read what it gets.
    fn refuse_if_too_many_requests(&self, asker: SessionSlot, holder: SessionSlot) -> Result<(), Refusal> {
        let policy = &self.policy;
        let pending = self.requests.len() - self.answered.len();
        let limits = [
            (
                self.sessions[asker].outgoing.len(),
                policy.unlock_requests_per_session,
                "unanswered unlock requests of one session",
            ),
            (
                self.sessions[holder].incoming.len(),
                policy.unlock_requests_per_holder,
                "unanswered unlock requests to one holder",
            ),
            (pending, policy.unlock_requests, "unanswered unlock requests in this repository"),
        ];
        match limits.into_iter().find(|(count, limit, _)| count >= limit) {
            Some((_, limit, what)) => Err(Refusal::OverQuota { what, limit }),
            None => Ok(()),
        }
    }

    /// Answers a request as its holder, or withdraws it as its sender. An admin may do both in their place; it is recorded
    /// as the admin's act.
    pub(super) fn respond(
        &mut self,
        turn: &mut Turn,
        (session, admin): (&SessionId, Option<&Text>),
        id: Uuid,
        answer: UnlockAnswer,
        note: Option<Text>,
        hand_over: Option<ReservationId>,
    ) -> Result<Outcome, Refusal> {
        let Some(request) = self.requests.get(&id).cloned() else { return Err(Refusal::UnknownRequest) };
        let expected = if answer == UnlockAnswer::Withdrawn { &request.by } else { &request.holder };
        if session != expected {
            let expected = self.session_name_by_id(expected);
            return Err(match answer {
                UnlockAnswer::Withdrawn => Refusal::NotTheSender(expected),
                _ => Refusal::NotTheHolder(expected),
            });
        }
        let request = self.without_over(turn, request);
        match request.answer {
            Some(before) if before == answer => return Ok(Outcome::Request(Box::new(request))),
            Some(_) => return Err(Refusal::AnsweredBefore(Box::new(request))),
            None => {}
        }
        let by = admin.is_none().then(|| session.clone());
        let handed_over = answer == UnlockAnswer::Approved && hand_over.is_some();
        let event = Event::UnlockAnswered { request: id, answer, by, admin: admin.cloned(), note, handed_over };
        if answer != UnlockAnswer::Approved {
            self.emit(turn, event);
            return Ok(Outcome::Request(Box::new(self.requests[&id].clone())));
        }
        let slot = self.slot(session);
        let held = self.held_by(slot, &request.key).expect("a pending request asks for something held");
        let asker = self.slot(&request.by);
        let (mode, ttl) = (self.reservations[held].mode, self.reservations[held].ttl);
        if let Some(id) = hand_over {
            let want = Want { id, key: request.key.clone(), ttl };
            self.can_hand_over(slot, asker, &want, mode)?;
        }
        // The answer comes first, so that the release does not find this request pending.
        self.emit(turn, event);
        let why = match admin {
            // The holder did not let go, so it is told.
            Some(by) => Why::Overridden { by: by.clone(), reason: request.reason.clone() },
            None => Why::Approved { request: id },
        };
        self.release_one(turn, held, &why);
        if let Some(id) = hand_over {
            let want = Want { id, key: request.key, ttl };
            let lookup = self.lookup(asker, &want.key);
            let (id, reason) = (&request.by, Some(&request.reason));
            self.grant(turn, &KeyRequest { session: asker, id, wants: &[want], lookups: &[lookup], mode, reason });
        }
        Ok(Outcome::Request(Box::new(self.requests[&id].clone())))
    }

    /// The request as it is once the release of its reservation is recorded, if that is still to come.
    fn without_over(&mut self, turn: &mut Turn, request: UnlockRequest) -> UnlockRequest {
        if !self.has_backlog() || request.answer.is_some() {
            return request;
        }
        let place = self.index.find(&request.key).map(|place| self.index.place(place));
        let is_meant = |slot: &ReservationSlot| self.reservations[*slot].id == request.reservation;
        if let Some(slot) = place.and_then(|place| place.holders.iter().find(is_meant)) {
            self.sweep_one(turn, slot);
        }
        self.requests[&request.id].clone()
    }

    /// Refuses to hand a key over where the receiver cannot hold it. A hand-over overtakes the queue, but other reservations,
    /// the receiver's quota and deadlocks still count.
    fn can_hand_over(&self, holder: SessionSlot, asker: SessionSlot, want: &Want, mode: Mode) -> Result<(), Refusal> {
        let mut others = self.conflicts(asker, std::slice::from_ref(want), mode, WaiterId::FIRST);
        self.refuse_if_incomplete()?;
        let giver = &self.sessions[holder].id;
        let more = others.last().map_or(0, |last| last.more_holders);
        others.retain(|conflict| conflict.who.session != *giver || conflict.key != want.key);
        if let Some(last) = others.last_mut() {
            last.more_holders = more;
        }
        if !others.is_empty() {
            return Err(Refusal::Locked(others));
        }
        // Keys that the receiver waits for already count towards its quota.
        let waits = |id| self.waiters[id].wants.iter().any(|other| other.key == want.key);
        let counted = self.held_by(asker, &want.key).is_some() || self.sessions[asker].waits.iter().any(waits);
        self.within_numbers(asker, usize::from(!counted))?;
        match self.find_cycle_by_holding(asker, &want.key, mode) {
            Some(cycle) => Err(Refusal::Deadlock(cycle)),
            None => Ok(()),
        }
    }

    /// A reservation ended: closes the requests for it that have no answer.
    pub(super) fn close_pending_requests(&mut self, turn: &mut Turn, id: &ReservationId, why: &Why) {
        let Some(pending) = self.pending.get(id).cloned() else { return };
        for request in pending {
            if !matches!(why, Why::Approved { request: approved } if *approved == request) {
                self.emit(turn, Event::answered_by_itself(request, UnlockAnswer::Moot));
            }
        }
    }

    /// The reservation of another session that overlaps this key: of exactly this key if there is one, else the oldest.
    /// Also returns whether it only overlaps.
    fn other_holder(&self, session: SessionSlot, key: &Key) -> Option<(bool, ReservationSlot)> {
        let mut best: Option<(bool, Seq, ReservationSlot)> = None;
        let is_other = |slot: &ReservationSlot| {
            let reservation = &self.reservations[*slot];
            reservation.session != session && !self.is_over(reservation)
        };
        let concerns = |place: &Place| place.holders.iter().any(|slot| is_other(&slot));
        let _: ControlFlow<()> = self.index.visit_overlaps(key, concerns, |id| {
            let place = self.index.place(id);
            for slot in place.holders.iter().filter(is_other) {
                let rank = (place.key != *key, self.reservations[slot].fence, slot);
                if best.is_none_or(|best| rank < best) {
                    best = Some(rank);
                }
            }
            ControlFlow::Continue(())
        });
        best.map(|(overlaps, _, slot)| (overlaps, slot))
    }
}
