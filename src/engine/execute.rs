//! Commands in, records and a result out. This file passes each command to its rule.

use std::borrow::Borrow;

use super::command::{Actor, Command, Outcome, Refusal};
use super::ids::Text;
use super::record::{Event, Owner};
use super::state::{Engine, ReleasedKeys};
use super::turn::Turn;
use super::work::{COMMAND_WORK, SMALL_WORK};

impl Engine {
    /// Decides one command. What changes is in `turn.records` afterwards, numbered and applied. It counts once it is
    /// durable.
    pub fn execute(
        &mut self,
        turn: &mut Turn,
        actor: &Actor,
        command: impl Borrow<Command>,
    ) -> Result<Outcome, Refusal> {
        self.execute_within(turn, actor, command.borrow(), COMMAND_WORK)
    }

    /// The same with little work for what a client chooses. After [`Refusal::TooMuchWork`], [`Engine::execute`] may still do
    /// it.
    pub fn execute_small(&mut self, turn: &mut Turn, actor: &Actor, command: &Command) -> Result<Outcome, Refusal> {
        self.execute_within(turn, actor, command, SMALL_WORK)
    }

    fn execute_within(
        &mut self,
        turn: &mut Turn,
        actor: &Actor,
        command: &Command,
        work: u64,
    ) -> Result<Outcome, Refusal> {
        self.admit(turn, actor, command)?;
        match command {
            Command::Reserve(_) | Command::Ask { .. } => self.index.meter.begin(work, true),
            // What cannot be refused is limited by what was granted before.
            _ => self.index.meter.begin(COMMAND_WORK, false),
        }
        let result = self.decide(turn, actor, command);
        self.grant_waiters(turn);
        self.index.meter.end();
        match &result {
            Err(Refusal::Locked(_)) => self.totals.conflicts += 1,
            Err(Refusal::Deadlock(_)) => self.totals.deadlocks += 1,
            _ => {}
        }
        result
    }

    fn decide(&mut self, turn: &mut Turn, actor: &Actor, command: &Command) -> Result<Outcome, Refusal> {
        match command {
            Command::Touch => Ok(Outcome::Done),
            Command::Create { session, name, feature, owner } => {
                let owner = owner.clone().unwrap_or(Owner::Itself);
                self.create(turn, session, name.as_ref(), feature.as_ref(), owner)
            }
            Command::Reserve(ask) => self.reserve(turn, ask, feature_of(actor)),
            Command::AllocatePorts(ask) => self.allocate_ports(turn, ask, feature_of(actor)),
            Command::Release { session, keys } => self.release(turn, session, keys),
            Command::ReleaseAll { session } => {
                let slot = self.slot(session);
                let (keys, count) = self.release_everything(turn, slot);
                Ok(Outcome::Released { keys: keys.into(), count })
            }
            Command::Renew { session, keys, ttl } => self.renew(turn, session, keys, *ttl),
            Command::Heartbeat { session } => Ok(self.heartbeat(turn.now, session)),
            Command::End { session, state } => {
                let slot = self.slot(session);
                if self.sessions[slot].end.is_none() {
                    self.end(turn, slot, *state);
                }
                let end = self.sessions[slot].end.as_ref().expect("it has ended by now");
                let ReleasedKeys { keys, count } = end.released.clone();
                Ok(Outcome::Ended { state: end.state, released: keys, count })
            }
            Command::Override { id, reason } => {
                let by = match actor {
                    Actor::Admin(name) => name.clone(),
                    _ => "desk".into(),
                };
                self.override_reservation(turn, id, by, reason.clone())
            }
            Command::Unheard { session, grants } => {
                self.take_back(turn, session, grants);
                Ok(Outcome::Done)
            }
            Command::Leave { waiter, why } => {
                self.leave(turn, *waiter, *why);
                Ok(Outcome::Done)
            }
            Command::Ask { session, request, key, reason } => self.ask(turn, session, *request, key, reason),
            Command::Respond { session, request, answer, note, hand_over } => {
                let admin = match actor {
                    Actor::Admin(name) => Some(name),
                    _ => None,
                };
                self.respond(turn, (session, admin), *request, *answer, note.clone(), *hand_over)
            }
            Command::RecordCommit { session, contents } => Ok(self.record_commit(turn, session, contents)),
            Command::AnnouncePush { session, updates } => self.announce_push(turn.now, session, updates),
            Command::ClaimPush { updates } => Ok(self.claim_push(turn.now, updates)),
            Command::Tick => {
                self.tick(turn);
                Ok(Outcome::Done)
            }
            Command::Sweep => {
                self.sweep(turn, self.policy.records_per_slice);
                Ok(Outcome::Done)
            }
            Command::Count => {
                let counted = (self.totals.conflicts, self.totals.deadlocks);
                if counted != self.totals.recorded_refusals {
                    self.emit(turn, Event::Counted { conflicts: counted.0, deadlocks: counted.1 });
                }
                Ok(Outcome::Done)
            }
        }
    }
}

/// The feature that the token of the caller names.
fn feature_of(actor: &Actor) -> Option<&Text> {
    match actor {
        Actor::Session(identity) => identity.feature.as_ref(),
        _ => None,
    }
}
