//! Commands in, records and an outcome out; and what concerns a session as a whole.

use super::command::{Actor, Command, Intro, Notice, Outcome, Pause, Person, Refusal};
use super::ids::{SessionId, Text, Timestamp};
use super::record::{Answer, EndState, Event, LeftWhy, Why};
use super::slab::SessionSlot;
use super::state::Engine;
use super::turn::Turn;

impl Engine {
    /// Decides one command. What changes is in `out`, numbered and applied; it counts once it is durable.
    pub fn execute(&mut self, turn: &mut Turn, actor: &Actor, command: Command) -> Result<Outcome, Refusal> {
        self.admit(turn, actor, &command)?;
        let result = self.decide(turn, actor, &command);
        self.seat(turn);
        match &result {
            Err(Refusal::Locked(_)) => self.totals.conflicts += 1,
            Err(Refusal::Deadlock(_)) => self.totals.deadlocks += 1,
            _ => {}
        }
        result
    }

    /// When there is something to end; `Tick` before then does nothing.
    pub fn next_due(&self) -> Option<Timestamp> {
        let patience = self.patience.first().map(|(due, _)| *due);
        [self.expiries.next(), self.silences.next(), patience].into_iter().flatten().min()
    }

    /// After a replay: whatever is alive gets its full time again, because nobody could renew while we were away.
    /// Nobody waits any more either: their connections are gone.
    pub fn resume(&mut self, turn: &mut Turn) {
        self.expiries.clear();
        for (slot, reservation) in self.reservations.iter_mut() {
            reservation.expires = turn.now.after(reservation.ttl.duration());
            self.expiries.set(reservation.expires, reservation.fence, slot);
        }
        self.silences.clear();
        for (slot, session) in self.sessions.iter_mut().filter(|(_, session)| session.end.is_none()) {
            session.last_seen = turn.now;
            self.silences.set(turn.now.after(self.policy.session_timeout), session.opened, slot);
        }
        let waiters: Vec<_> = self.waiters.keys().copied().collect();
        for waiter in waiters {
            self.leave(turn, waiter, LeftWhy::Stopped);
        }
        turn.freed.clear();
        turn.weakened.clear();
        turn.settled.clear();
    }

    /// What the session should know. Early releases and answers are told once; what needs an answer, until it has one.
    pub fn take_notices(&mut self, id: &SessionId) -> Vec<Notice> {
        let Some(slot) = self.session_ids.get(id).copied() else { return Vec::new() };
        let told = std::mem::take(&mut self.sessions[slot].notices);
        let session = &self.sessions[slot];
        let asked = session.incoming.iter().map(|request| Notice::UnlockRequested(self.requests[request].clone()));
        let paused = self.pause_of(slot, None).map(Notice::Paused);
        told.into_iter().chain(asked).chain(paused).collect()
    }

    /// Whether this actor may ask for this at all. A session's own call brings it to life and keeps it alive.
    fn admit(
        &mut self,
        turn: &mut Turn,
        actor: &Actor,
        command: &Command,
    ) -> Result<(), Refusal> {
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

    fn greet(
        &mut self,
        turn: &mut Turn,
        intro: &Intro,
        repeats_end: bool,
    ) -> Result<(), Refusal> {
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

    fn decide(&mut self, turn: &mut Turn, actor: &Actor, command: &Command) -> Result<Outcome, Refusal> {
        match command {
            Command::Touch => Ok(Outcome::Done),
            Command::Create { session, name, feature } => {
                self.create(turn, session, name.as_ref(), feature.as_ref())
            }
            Command::Reserve(ask) => {
                let feature = match actor {
                    Actor::Session(intro) => intro.feature.as_ref(),
                    _ => None,
                };
                self.reserve(turn, ask, feature)
            }
            Command::Release { session, keys } => self.release(turn, session, keys),
            Command::ReleaseAll { session } => {
                let slot = self.slot(session);
                Ok(Outcome::Released(self.release_everything(turn, slot, &Why::Released).into()))
            }
            Command::Renew { session, keys, ttl } => self.renew(turn, session, keys, *ttl),
            Command::Heartbeat { session } => Ok(self.heartbeat(turn.now, session)),
            Command::End { session, state } => {
                let slot = self.slot(session);
                if self.sessions[slot].end.is_none() {
                    self.end(turn, slot, *state);
                }
                let end = self.sessions[slot].end.as_ref().expect("it has ended by now");
                Ok(Outcome::Ended { state: end.state, released: end.released.clone() })
            }
            Command::Override { id, reason } => {
                let by = match actor {
                    Actor::Admin(name) => name.clone(),
                    _ => "desk".into(),
                };
                self.take_away(turn, id, by, reason.clone())
            }
            Command::Unheard { session, grants } => {
                self.take_back(turn, session, grants);
                Ok(Outcome::Done)
            }
            Command::Leave { waiter, why } => {
                self.leave(turn, *waiter, *why);
                Ok(Outcome::Done)
            }
            Command::Ask { session, request, key, reason } => {
                self.ask(turn, session, *request, key, reason.clone())
            }
            Command::Respond { session, request, answer, note, hand_over } => {
                self.respond(turn, session, *request, *answer, note.clone(), *hand_over)
            }
            Command::Tick => {
                self.tick(turn);
                Ok(Outcome::Done)
            }
            Command::Count => {
                let counted = (self.totals.conflicts, self.totals.deadlocks);
                if counted != self.totals.counted {
                    self.emit(turn, Event::Counted { conflicts: counted.0, deadlocks: counted.1 });
                }
                Ok(Outcome::Done)
            }
        }
    }

    fn create(
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

    fn heartbeat(&mut self, now: Timestamp, session: &SessionId) -> Outcome {
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
    fn end(&mut self, turn: &mut Turn, slot: SessionSlot, state: EndState) {
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

    fn tick(&mut self, turn: &mut Turn) {
        let now = turn.now;
        while let Some((fence, slot)) = self.expiries.pop_due(now) {
            let Some(reservation) = self.reservations.get(slot).filter(|r| r.fence == fence) else { continue };
            if reservation.expires > now {
                self.expiries.set(reservation.expires, fence, slot);
                continue;
            }
            self.release_one(turn, slot, &Why::Expired);
        }
        while let Some((opened, slot)) = self.silences.pop_due(now) {
            let Some(session) = self.sessions.get(slot).filter(|s| s.opened == opened && s.end.is_none()) else {
                continue;
            };
            // Somebody who waits with an open request is there.
            let seen = if session.waits.is_empty() { session.last_seen } else { now };
            let due = seen.after(self.policy.session_timeout);
            if due > now {
                self.silences.set(due, opened, slot);
                continue;
            }
            self.end(turn, slot, EndState::Lost);
        }
        // A wait whose time is up at the very moment its keys are free is granted, also where they are free because
        // the one before gave up: it stays for the seating that ends every command.
        self.seat(turn);
        while let Some((due, seq)) = self.patience.first().copied().filter(|(due, _)| *due <= now) {
            let waiter = &self.waiters[&seq];
            if self.is_blocked(waiter.session, &waiter.wants, &self.spots_of(waiter), waiter.mode, seq) {
                self.leave(turn, seq, LeftWhy::TimedOut);
            } else {
                self.patience.remove(&(due, seq));
            }
        }
    }

    /// The pause that stops a session, if a feature of its own or of its token has one that is not its own.
    pub(super) fn pause_of(&self, slot: SessionSlot, feature: Option<&Text>) -> Option<Pause> {
        if self.pauses.is_empty() {
            return None;
        }
        let features = [feature, self.sessions[slot].feature.as_ref()];
        features.into_iter().flatten().find_map(|feature| {
            let place = self.index.place(*self.pauses.get(feature)?);
            if place.holders.iter().any(|held| self.reservations[held].session == slot) {
                return None;
            }
            let reservation = &self.reservations[place.holders.iter().next()?];
            Some(Pause {
                feature: feature.clone(),
                by: self.person(reservation.session),
                reason: reservation.reason.clone(),
                until: reservation.expires,
            })
        })
    }

    pub(super) fn person(&self, slot: SessionSlot) -> Person {
        let session = &self.sessions[slot];
        Person { session: session.id.clone(), name: session.name.clone() }
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
