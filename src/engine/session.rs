//! Sessions: who may act for one, how it begins, what keeps it alive, how it ends.

use std::time::Duration;

use super::command::{Actor, Command, Outcome, Refusal, SessionIdentity, SessionName};
use super::ids::{SessionId, Text, Timestamp};
use super::record::{EndState, Event, LeftWhy, Owner, UnlockAnswer};
use super::slab::SessionSlot;
use super::state::{EarlierEnd, Engine};
use super::turn::Turn;

impl Engine {
    /// Refuses an actor that may not send this command. A session's own call opens the session and keeps it alive.
    ///
    /// A session that was lost through silence opens again, as does one that ended before the caller's token was issued.
    pub(super) fn admit(&mut self, turn: &mut Turn, actor: &Actor, command: &Command) -> Result<(), Refusal> {
        // A session can be ended twice: the second time is answered like the first.
        let repeats_end = matches!(command, Command::End { .. });
        match actor {
            Actor::Session(identity) => self.admit_session(turn, identity, repeats_end),
            Actor::Admin(_) => match command.known_session() {
                Some(session) => match self.session_ids.get(session) {
                    Some(slot) => self.refuse_if_ended(*slot, repeats_end),
                    None => Err(Refusal::UnknownSession(session.clone())),
                },
                None => Ok(()),
            },
            Actor::Reader | Actor::Desk => Ok(()),
        }
    }

    fn admit_session(&mut self, turn: &mut Turn, identity: &SessionIdentity, repeats_end: bool) -> Result<(), Refusal> {
        let SessionIdentity { id, name, feature, owner, issued, hears_notices: _ } = identity;
        let opened = || (id.clone(), name.clone(), feature.clone(), Some(owner.clone()));
        let Some(slot) = self.find_session(id) else {
            // A worker cannot end a session that it does not own, and it does not own one that never was.
            if repeats_end && matches!(owner, Owner::Worker { .. }) {
                return Err(Refusal::UnknownSession(id.clone()));
            }
            self.refuse_if_full()?;
            self.refuse_if_worker_full(owner)?;
            let (session, name, feature, owner) = opened();
            self.emit(turn, Event::Opened { session, name, feature, owner });
            return Ok(());
        };
        let session = &self.sessions[slot];
        // A token that was issued before an end stays invalid, also after another one has opened the session again.
        let issued_after = |end: Timestamp| issued.is_some_and(|issued| issued > end);
        if let Some(known) = session.owner.as_ref().filter(|known| *known != owner) {
            // An id that an admin used once is free again after its end, as if no admin had used it.
            let is_free = session.end.as_ref().is_some_and(|end| {
                end.state != EndState::Lost && issued_after(end.at.max(session.spent_token)) && known.is_created()
            });
            if !is_free || *owner != Owner::Itself {
                return Err(Refusal::NotOwner);
            }
        }
        if let Some(EarlierEnd { state, at }) = session.earlier_end
            && !issued_after(at.max(session.earlier_spent_token))
        {
            return Err(Refusal::SessionEnded { session: id.clone(), state });
        }
        match &session.end {
            None if session.owner.is_none() => {
                self.refuse_if_worker_full(owner)?;
                self.emit(turn, Event::Bound { session: id.clone(), owner: owner.clone() });
            }
            None => {}
            Some(_) if repeats_end => {}
            Some(end) if end.state == EndState::Lost || issued_after(end.at.max(session.spent_token)) => {
                self.refuse_if_full()?;
                self.refuse_if_worker_full(owner)?;
                let (session, name, feature, owner) = opened();
                self.emit(turn, Event::Reopened { session, name, feature, owner });
            }
            Some(_) => self.refuse_if_ended(slot, false)?,
        }
        self.note_seen(slot, turn.now);
        let newest = &mut self.sessions[slot].newest_token;
        *newest = issued.unwrap_or_default().max(*newest);
        Ok(())
    }

    fn refuse_if_ended(&self, slot: SessionSlot, repeats_end: bool) -> Result<(), Refusal> {
        match &self.sessions[slot].end {
            Some(end) if !repeats_end => {
                Err(Refusal::SessionEnded { session: self.sessions[slot].id.clone(), state: end.state })
            }
            _ => Ok(()),
        }
    }

    fn refuse_if_full(&self) -> Result<(), Refusal> {
        let limit = self.policy.sessions;
        if self.alive < limit {
            return Ok(());
        }
        Err(Refusal::OverQuota { what: "sessions in this repository", limit })
    }

    fn refuse_if_worker_full(&self, owner: &Owner) -> Result<(), Refusal> {
        let limit = self.policy.sessions_per_worker;
        if self.worker_sessions.get(owner).is_none_or(|count| *count < limit) {
            return Ok(());
        }
        Err(Refusal::OverQuota { what: "sessions of one worker", limit })
    }

    /// Opens a session for an admin. It belongs to the token that is made for it, and to no other. A session that is open
    /// already keeps its owner.
    pub(super) fn create(
        &mut self,
        turn: &mut Turn,
        session: &SessionId,
        name: Option<&Text>,
        feature: Option<&Text>,
        owner: Owner,
    ) -> Result<Outcome, Refusal> {
        let known = self.session_ids.get(session).map(|slot| &self.sessions[*slot]);
        if let Some(active) = known.filter(|session| session.end.is_none()) {
            return match &active.owner {
                Some(Owner::Itself) => Ok(Outcome::Owned(Owner::Itself)),
                Some(known) if *known == owner => Ok(Outcome::Owned(owner)),
                // A token for it would not be accepted.
                Some(_) => Err(Refusal::NotOwner),
                None => {
                    self.emit(turn, Event::Bound { session: session.clone(), owner: owner.clone() });
                    Ok(Outcome::Owned(owner))
                }
            };
        }
        let is_known = known.is_some();
        self.refuse_if_full()?;
        let created = Outcome::Owned(owner.clone());
        let (session, name, feature, owner) = (session.clone(), name.cloned(), feature.cloned(), Some(owner));
        let event = match is_known {
            false => Event::Opened { session, name, feature, owner },
            true => Event::Reopened { session, name, feature, owner },
        };
        self.emit(turn, event);
        Ok(created)
    }

    /// The session has called: its timeout starts again.
    pub(super) fn note_seen(&mut self, slot: SessionSlot, now: Timestamp) {
        let heard = self.listening(now);
        let session = &mut self.sessions[slot];
        (session.last_seen, session.last_heard) = (now, heard);
    }

    /// Renews everything that a session holds. That is noted once, and not in each reservation, so it costs the same
    /// however many there are.
    pub(super) fn heartbeat(&mut self, now: Timestamp, session: &SessionId) -> Outcome {
        let slot = self.slot(session);
        self.note_seen(slot, now);
        let now = self.listening(now);
        let session = &mut self.sessions[slot];
        session.renewed = now;
        session.heartbeats = session.heartbeats.wrapping_add(1);
        // A session outlives its reservations.
        let shortest = session.ttls.first_key_value().map(|(seconds, _)| Duration::from_secs(u64::from(*seconds)));
        let expires = now.after(shortest.unwrap_or(self.policy.session_timeout));
        Outcome::Alive { renewed: session.held.len(), expires: self.real(expires) }
    }

    /// Ends a session. First its waits and unlock requests end. One record ends all that it holds; see [`super::over`].
    pub(super) fn end(&mut self, turn: &mut Turn, slot: SessionSlot, state: EndState) {
        let waits: Vec<_> = self.sessions[slot].waits.iter().copied().collect();
        for waiter in waits {
            self.leave(turn, waiter, LeftWhy::Ended);
        }
        let session = self.sessions[slot].id.clone();
        let own: Vec<_> = self.sessions[slot].outgoing.iter().copied().collect();
        for request in own {
            self.emit(turn, Event::answered_by_itself(request, UnlockAnswer::Withdrawn));
        }
        self.emit(turn, Event::Ended { session, state });
        self.sweep(turn, self.policy.records_per_slice);
    }

    pub(super) fn session_name(&self, slot: SessionSlot) -> SessionName {
        let session = &self.sessions[slot];
        SessionName { session: session.id.clone(), name: session.name.clone() }
    }

    /// The session with its display name, as far as it is still remembered.
    pub fn session_name_by_id(&self, id: &SessionId) -> SessionName {
        match self.session_ids.get(id) {
            Some(slot) => self.session_name(*slot),
            None => SessionName { session: id.clone(), name: None },
        }
    }
}

impl Command {
    /// The session that it is about, where that session must exist already.
    fn known_session(&self) -> Option<&SessionId> {
        match self {
            Command::Create { .. } | Command::Unheard { .. } => None,
            command => command.session(),
        }
    }
}
