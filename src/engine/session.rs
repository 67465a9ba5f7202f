//! Sessions: who may act for one, how it begins, what keeps it alive, how it ends.

use super::command::{Actor, Command, Intro, Outcome, Person, Refusal};
use super::ids::{SessionId, Text, Timestamp};
use super::record::{Answer, EndState, Event, LeftWhy, Why};
use super::slab::SessionSlot;
use super::state::Engine;
use super::turn::Turn;

impl Engine {
    /// Whether this actor may ask for this at all. A session's own call brings it to life and keeps it alive.
    pub(super) fn admit(&mut self, turn: &mut Turn, actor: &Actor, command: &Command) -> Result<(), Refusal> {
        let repeats_end = matches!(command, Command::End { .. });
        match actor {
            Actor::Session(intro) => self.greet(turn, intro, repeats_end),
            Actor::Admin(_) => match command.session() {
                Some(session) => match self.session_ids.get(session) {
                    Some(slot) => self.still_alive(*slot, repeats_end),
                    None => Err(Refusal::UnknownSession(session.clone())),
                },
                None => Ok(()),
            },
            Actor::Reader | Actor::Desk => Ok(()),
        }
    }

    fn greet(&mut self, turn: &mut Turn, intro: &Intro, repeats_end: bool) -> Result<(), Refusal> {
        let Some(slot) = self.find_session(&intro.id) else {
            if self.alive >= self.policy.sessions {
                return Err(Refusal::OverQuota { what: "sessions in this repository", limit: self.policy.sessions });
            }
            let (session, name, feature) = (intro.id.clone(), intro.name.clone(), intro.feature.clone());
            self.emit(turn, Event::Opened { session, name, feature, owner: Some(intro.owner.clone()) });
            return Ok(());
        };
        match &self.sessions[slot].owner {
            Some(owner) if *owner != intro.owner => return Err(Refusal::NotOwner),
            Some(_) => {}
            None if self.sessions[slot].end.is_none() => {
                self.emit(turn, Event::Bound { session: intro.id.clone(), owner: intro.owner.clone() });
            }
            None => {}
        }
        self.still_alive(slot, repeats_end)?;
        self.sessions[slot].last_seen = turn.now;
        Ok(())
    }

    fn still_alive(&self, slot: SessionSlot, repeats_end: bool) -> Result<(), Refusal> {
        match &self.sessions[slot].end {
            Some(end) if !repeats_end => {
                Err(Refusal::SessionEnded { session: self.sessions[slot].id.clone(), state: end.state })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn create(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        name: Option<&Text>,
        feature: Option<&Text>,
    ) -> Result<Outcome, Refusal> {
        if let Some(slot) = self.session_ids.get(session).copied() {
            self.still_alive(slot, false)?;
            return Ok(Outcome::Done);
        }
        if self.alive >= self.policy.sessions {
            return Err(Refusal::OverQuota { what: "sessions in this repository", limit: self.policy.sessions });
        }
        let (session, name, feature) = (session.clone(), name.cloned(), feature.cloned());
        self.emit(turn, Event::Opened { session, name, feature, owner: None });
        Ok(Outcome::Done)
    }

    pub(super) fn heartbeat(&mut self, now: Timestamp, session: &SessionId) -> Outcome {
        let slot = self.slot(session);
        let mut expires = now.after(self.policy.session_timeout);
        self.sessions[slot].last_seen = now;
        for held in &self.sessions[slot].held {
            let reservation = &mut self.reservations[*held];
            reservation.expires = reservation.expires.max(now.after(reservation.ttl.duration()));
            reservation.renewals = reservation.renewals.wrapping_add(1);
            expires = expires.min(reservation.expires);
        }
        Outcome::Alive { renewed: self.sessions[slot].held.len(), expires }
    }

    /// Everything a session holds, waits for and asks goes with it, in one batch of records.
    pub(super) fn end(&mut self, turn: &mut Turn, slot: SessionSlot, state: EndState) {
        self.release_everything(turn, slot, &Why::Ended);
        let waits: Vec<_> = self.sessions[slot].waits.iter().copied().collect();
        for waiter in waits {
            self.leave(turn, waiter, LeftWhy::Ended);
        }
        let session = self.sessions[slot].id.clone();
        let mut asked: Vec<_> =
            self.pending.values().flatten().filter(|id| self.requests[*id].by == session).copied().collect();
        asked.sort();
        for request in asked {
            let event = Event::UnlockAnswered { request, answer: Answer::Withdrawn, by: None, note: None };
            self.emit(turn, event);
        }
        self.emit(turn, Event::Ended { session, state });
    }

    pub(super) fn person(&self, slot: SessionSlot) -> Person {
        let session = &self.sessions[slot];
        Person { session: session.id.clone(), name: session.name.clone() }
    }

    pub(super) fn person_by_id(&self, id: &SessionId) -> Person {
        match self.session_ids.get(id) {
            Some(slot) => self.person(*slot),
            None => Person { session: id.clone(), name: None },
        }
    }
}

impl Command {
    /// The session a command is about, where it must exist already.
    fn session(&self) -> Option<&SessionId> {
        match self {
            Command::Reserve(ask) => Some(&ask.session),
            Command::Release { session, .. }
            | Command::ReleaseAll { session }
            | Command::Renew { session, .. }
            | Command::Heartbeat { session }
            | Command::End { session, .. }
            | Command::Ask { session, .. }
            | Command::Respond { session, .. } => Some(session),
            Command::Touch
            | Command::Create { .. }
            | Command::Override { .. }
            | Command::Unheard { .. }
            | Command::Leave { .. }
            | Command::Tick
            | Command::Count => None,
        }
    }
}
