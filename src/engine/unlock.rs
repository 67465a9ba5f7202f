//! Asking a holder to let go, and the answer.

use std::ops::ControlFlow;

use uuid::Uuid;

use super::command::{Named, Outcome, Refusal};
use super::ids::{ReservationId, Seq, SessionId, Text};
use super::record::{Answer, Event, Mode, Want, Why};
use super::reserve::KeyRequest;
use super::slab::{ReservationSlot, SessionSlot};
use super::state::Engine;
use super::turn::Turn;
use crate::key::Key;

impl Engine {
    /// Asks whoever holds the key, or a pattern that covers it.
    pub(super) fn ask(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        request: Uuid,
        named: &Named,
        reason: Text,
    ) -> Result<Outcome, Refusal> {
        let slot = self.slot(session);
        // Whoever holds exactly what is named so comes before those whose patterns only touch it.
        let found = [Some(&named.key), named.literal.as_ref()].into_iter().flatten();
        let found = found.filter_map(|key| self.other_holder(slot, key)).min_by_key(|(touches, _)| *touches);
        let Some((_, held)) = found else { return Err(Refusal::NoOtherHolder(named.key.clone())) };
        let reservation = self.reservations[held].id;
        let key = self.reservations[held].key.clone();
        // Asking again changes the reason of the request that is pending already.
        let pending = self.pending.get(&reservation).into_iter().flatten();
        let request = pending.copied().find(|id| self.requests[id].by == *session && *id != request).unwrap_or(request);
        let session = session.clone();
        self.emit(turn, Event::UnlockRequested { request, reservation, key, session, reason });
        Ok(Outcome::Request(Box::new(self.requests[&request].clone())))
    }

    /// The holder answers, or the asker takes the request back.
    pub(super) fn respond(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        id: Uuid,
        answer: Answer,
        note: Option<Text>,
        hand_over: Option<ReservationId>,
    ) -> Result<Outcome, Refusal> {
        let Some(request) = self.requests.get(&id).cloned() else { return Err(Refusal::UnknownRequest) };
        let expected = if answer == Answer::Withdrawn { &request.by } else { &request.holder };
        if session != expected {
            // Somebody who neither asked nor was asked learns no more than that.
            return if answer == Answer::Withdrawn && *session != request.holder {
                Err(Refusal::UnknownRequest)
            } else {
                Err(Refusal::NotTheHolder(self.person_by_id(expected)))
            };
        }
        match request.answer {
            Some(before) if before == answer => return Ok(Outcome::Request(Box::new(request))),
            Some(_) => return Err(Refusal::AnsweredBefore(Box::new(request))),
            None => {}
        }
        if answer != Answer::Approved {
            self.emit(turn, Event::UnlockAnswered { request: id, answer, by: Some(session.clone()), note });
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
        // Answered first, so that the release finds nothing pending from this asker.
        let by = Some(session.clone());
        self.emit(turn, Event::UnlockAnswered { request: id, answer, by, note });
        self.release_one(turn, held, &Why::Approved { request: id });
        if let Some(id) = hand_over {
            let want = Want { id, key: request.key, ttl };
            let spot = self.spot(asker, &want.key);
            let (id, reason) = (&request.by, Some(&request.reason));
            self.grant(turn, &KeyRequest { session: asker, id, wants: &[want], spots: &[spot], mode, reason });
        }
        Ok(Outcome::Request(Box::new(self.requests[&id].clone())))
    }

    /// Handing over lets the asker pass the queue, but not anybody's reservation nor its own limit, and not into a circle.
    fn can_hand_over(&self, holder: SessionSlot, asker: SessionSlot, want: &Want, mode: Mode) -> Result<(), Refusal> {
        let mut others = self.conflicts(asker, std::slice::from_ref(want), mode, Seq::ZERO);
        let giver = &self.sessions[holder].id;
        others.retain(|conflict| conflict.who.session != *giver || conflict.key != want.key);
        if !others.is_empty() {
            return Err(Refusal::Locked(others));
        }
        // What the asker waits for is counted already.
        let waits = |seq| self.waiters[seq].wants.iter().any(|other| other.key == want.key);
        let counted = self.held_by(asker, &want.key).is_some() || self.sessions[asker].waits.iter().any(waits);
        self.within_quota(asker, usize::from(!counted))?;
        match self.circle_by_holding(asker, &want.key, mode) {
            Some(cycle) => Err(Refusal::Deadlock(cycle)),
            None => Ok(()),
        }
    }

    /// A reservation ended before its holder answered.
    pub(super) fn make_moot(&mut self, turn: &mut Turn, id: &ReservationId, why: &Why) {
        let Some(pending) = self.pending.get(id).cloned() else { return };
        for request in pending {
            if !matches!(why, Why::Approved { request: approved } if *approved == request) {
                self.emit(turn, Event::UnlockAnswered { request, answer: Answer::Moot, by: None, note: None });
            }
        }
    }

    /// The reservation of somebody else that stands in the way of this key: exactly this key first, else the oldest.
    /// And whether it only touches it.
    fn other_holder(&self, session: SessionSlot, key: &Key) -> Option<(bool, ReservationSlot)> {
        let mut best: Option<(bool, Seq, ReservationSlot)> = None;
        let _: ControlFlow<()> = self.index.meet(key, |id| {
            let place = self.index.place(id);
            for slot in place.holders.iter().filter(|slot| self.reservations[*slot].session != session) {
                let rank = (place.key != *key, self.reservations[slot].fence, slot);
                if best.is_none_or(|best| rank < best) {
                    best = Some(rank);
                }
            }
            ControlFlow::Continue(())
        });
        best.map(|(touches, _, slot)| (touches, slot))
    }
}
