//! Unlock requests.

use super::*;

impl Model {
    pub(super) fn request(
        &mut self,
        session: usize,
        id: Uuid,
        key: usize,
        reason: &Text,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        let names: Vec<usize> = [Some(key), self.keyset.literal[key]].into_iter().flatten().collect();
        let others = || self.held.iter().filter(|held| held.session != session);
        let exactly = names.iter().find_map(|name| others().find(|held| held.key == *name));
        let touched = || names.iter().find_map(|name| others().find(|held| self.keyset.meet(held.key, *name)));
        let Some(held) = exactly.or_else(touched).cloned() else {
            return Err(Refusal::NoOtherHolder(self.keyset.key(key).clone()));
        };
        let sharing = others().filter(|other| other.key == held.key && other.id != held.id).cloned();
        let all: Vec<Held> = std::iter::once(held.clone()).chain(sharing).collect();
        let requests = all.iter().enumerate().map(|(number, held)| {
            let id = Uuid::from_u128(id.as_u128().wrapping_add((number as u128) << 96));
            self.request_to(session, id, held, reason, now)
        });
        Ok(Outcome::Asked(requests.collect()))
    }

    fn request_to(&mut self, session: usize, id: Uuid, held: &Held, reason: &Text, now: Timestamp) -> UnlockRequest {
        let by = self.sessions[session].id.clone();
        let again = |request: &&mut UnlockRequest| {
            request.by == by && request.reservation == held.id && request.answer.is_none()
        };
        if let Some(request) = self.requests.iter_mut().find(again) {
            request.reason = reason.clone();
            return request.clone();
        }
        let request = UnlockRequest {
            id,
            reservation: held.id,
            key: self.keyset.key(held.key).clone(),
            holder: self.sessions[held.session].id.clone(),
            holder_name: None,
            by,
            by_name: None,
            reason: reason.clone(),
            at: now,
            answer: None,
            answered_at: None,
            answered_by: None,
            answered_by_admin: None,
            note: None,
            handed_over: false,
        };
        self.requests.push(request.clone());
        request
    }

    pub(super) fn respond(
        &mut self,
        (session, is_admin): (usize, bool),
        id: Uuid,
        answer: UnlockAnswer,
        hand_over: Option<ReservationId>,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        let Some(at) = self.requests.iter().position(|request| request.id == id) else {
            return Err(Refusal::UnknownRequest);
        };
        let request = self.requests[at].clone();
        let me = &self.sessions[session].id.clone();
        let expected = if answer == UnlockAnswer::Withdrawn { &request.by } else { &request.holder };
        if me != expected {
            let expected = SessionName { session: expected.clone(), name: None };
            return Err(match answer {
                UnlockAnswer::Withdrawn => Refusal::NotTheSender(expected),
                _ => Refusal::NotTheHolder(expected),
            });
        }
        // The release of what is over is recorded before the answer.
        if let Some(at) = self.over.iter().position(|(held, _)| held.id == request.reservation)
            && request.answer.is_none()
        {
            self.sweep_at(at, now);
        }
        let request = self.requests[at].clone();
        if request.answer.is_some() {
            let same = request.answer == Some(answer);
            return if same {
                Ok(Outcome::Request(Box::new(request)))
            } else {
                Err(Refusal::AnsweredBefore(Box::new(request)))
            };
        }
        let by = if is_admin { None } else { Some(me.clone()) };
        if answer == UnlockAnswer::Approved {
            let held = self.held.iter().position(|held| held.id == request.reservation).unwrap();
            let asker = self.sessions.iter().position(|session| session.id == request.by).unwrap();
            let given = self.held[held].clone();
            if let Some(new) = hand_over {
                self.can_hand_over(&given, asker, new)?;
            }
            self.requests[at].handed_over = hand_over.is_some();
            self.answer_as(at, answer, by, is_admin, now);
            let why = match is_admin {
                true => Why::Overridden { by: "admin".into(), reason: request.reason.clone() },
                false => Why::Approved { request: id },
            };
            self.let_go(held, &why, now);
            if let Some(new) = hand_over {
                let ask = self.hand(&given, asker, new, Some(request.reason.clone()));
                self.grant(&ask, now);
            }
        } else {
            self.answer_as(at, answer, by, is_admin, now);
        }
        Ok(Outcome::Request(Box::new(self.requests[at].clone())))
    }

    /// A hand-over as a request of its receiver, ahead of every wait.
    pub(super) fn hand(&self, given: &Held, asker: usize, new: ReservationId, reason: Option<Text>) -> Wait {
        Wait {
            seq: WaiterId::FIRST,
            session: asker,
            wants: vec![(new, given.key, given.ttl)],
            mode: given.mode,
            reason,
            if_version: None,
            since: Timestamp(0),
            until: Timestamp(0),
            feature: None,
        }
    }

    pub(super) fn can_hand_over(&mut self, given: &Held, asker: usize, new: ReservationId) -> Result<(), Refusal> {
        let ask = self.hand(given, asker, new, None);
        let mut others = self.conflicts(&ask);
        let giver = &self.sessions[given.session].id;
        others.retain(|conflict| conflict.who.session != *giver || conflict.key != *self.keyset.key(given.key));
        if !others.is_empty() {
            return Err(Refusal::Locked(others));
        }
        let counted = self.held_at(asker, given.key).is_some()
            || self.waits_of(asker).any(|wait| wait.wants.iter().any(|want| want.1 == given.key));
        self.within_quota(asker, usize::from(!counted))?;
        // The state after the hand-over, except that the giver keeps the key: its own waits are not checked here.
        let had_it = self.held_at(asker, given.key).is_some();
        if !had_it {
            self.held.push(Held { session: asker, id: new, ..given.clone() });
        }
        let cycle = self.is_in_a_cycle(asker);
        if !had_it {
            self.held.pop();
        }
        if cycle { Err(Refusal::Deadlock(Vec::new())) } else { Ok(()) }
    }

    pub(super) fn answer(&mut self, at: usize, answer: UnlockAnswer, by: Option<SessionId>, now: Timestamp) {
        self.answer_as(at, answer, by, false, now);
    }

    fn answer_as(&mut self, at: usize, answer: UnlockAnswer, by: Option<SessionId>, is_admin: bool, now: Timestamp) {
        let request = &mut self.requests[at];
        request.answered_by_admin = is_admin.then(|| "admin".into());
        (request.answer, request.answered_at, request.answered_by) = (Some(answer), Some(now), by);
        let request = request.clone();
        if answer != UnlockAnswer::Withdrawn {
            let asker = self.sessions.iter_mut().find(|session| session.id == request.by).unwrap();
            asker.notices.push(Notice::UnlockAnswered(request));
        }
    }
}
