//! Locks on entities: what the calls of `/api/entities` and `/compat/jobs` have in common.
//!
//! An entity is the resource URI `KIND://ID`. Its lock is a reservation, its requests are unlock requests.

use uuid::Uuid;

use super::caller::Caller;
use super::conflict_list::short_reason;
use super::error::{ApiError, ApiResult};
use super::ids::new_id;
use super::outcome::{self, not_done, time};
use super::request_fields::{HoldTime, reason};
use super::submit::{read_state, submit};
use crate::desk::Reply;
use crate::engine::{
    Actor, Command, Engine, EntityView, Grant, KeyName, Mode, Outcome, Refusal, ReservationId, Reserve, SessionId,
    SessionName, Text, UnlockAnswer, UnlockRequest, Want,
};
use crate::key::Key;
use crate::wire::limits::NAME_CHARS_MAX;
use crate::wire::{self, Code};

/// The longest kind of an entity.
const KIND_BYTES_MAX: usize = 32;

/// The requests of an entity whose reasons are complete. Those of the older ones are shortened.
const COMPLETE_REQUESTS: usize = 10;

/// One entity, and the caller of the call about it.
pub struct EntityCall<'a> {
    caller: &'a Caller,
    key: Key,
}

impl<'a> EntityCall<'a> {
    pub fn new(caller: &'a Caller, kind: &str, id: &str) -> ApiResult<Self> {
        let is_word = kind.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !is_word || !(2..=KIND_BYTES_MAX).contains(&kind.len()) || kind.as_bytes()[0].is_ascii_digit() {
            let sentence = format!("{kind:?} is not a kind of entity; use a word such as job or mr");
            return Err(ApiError::new(Code::InvalidKey, sentence));
        }
        // Ids of entities are written like those of sessions.
        if SessionId::parse(id).is_none() {
            let sentence = format!("{id:?} is not the id of an entity; use 1 to 128 of A-Z, a-z, 0-9, _, . and -");
            return Err(ApiError::new(Code::InvalidKey, sentence));
        }
        let key = Key::parse(&format!("{kind}://{id}"), &caller.repo.policy().rules)?;
        Ok(EntityCall { caller, key })
    }

    /// The lock and the requests, for every token of the repository.
    pub async fn look(&self) -> ApiResult<wire::Entity> {
        let key = self.key.clone();
        let reply =
            read_state(&self.caller.repo.desk, self.caller.look(), move |engine, _| engine.entity(&key)).await?;
        Ok(wire::Entity { notices: outcome::notices(reply.notices), ..entity(reply.value) })
    }

    pub async fn lock(&self, body: &wire::LockEntity) -> ApiResult<wire::Entity> {
        let (actor, session) = self.agent(body.agent_id.as_ref(), body.agent_name.as_ref())?;
        let policy = self.caller.repo.policy().clone();
        policy.permit(&self.key, Mode::Exclusive)?;
        let while_session = body.ttl_seconds.is_none().then_some(true);
        let ttl = HoldTime::read(body.ttl_seconds, while_session, None)?.of(&policy, &self.key)?;
        let want = Want { id: ReservationId(new_id()), key: self.key.clone(), ttl };
        let (wants, mode, reason) = ([want].into(), Mode::Exclusive, reason(body.reason.as_ref())?);
        let ask = Reserve { session, wants, mode, reason, wait: None, if_version: None };
        let reply = submit(&self.caller.repo, actor, Command::Reserve(ask)).await?;
        match &reply.outcome {
            Ok(Outcome::Granted(_)) => self.after(reply).await,
            Err(Refusal::Locked(conflicts)) => {
                let holder = conflicts.first().map(|conflict| name(&conflict.who)).unwrap_or_default();
                Err(refused(reply).with_sentence(format!("Entity is already locked by {holder}")))
            }
            _ => Err(refused(reply)),
        }
    }

    pub async fn unlock(&self, body: &wire::EntityAgent) -> ApiResult<wire::Entity> {
        let (actor, session) = self.agent(body.agent_id.as_ref(), None)?;
        let keys = [KeyName::from(self.key.clone())].into();
        let reply = submit(&self.caller.repo, actor, Command::Release { session, keys }).await?;
        match &reply.outcome {
            Ok(Outcome::Released { .. }) => self.after(reply).await,
            Ok(Outcome::ReleasedLate { .. }) => {
                let code = Some(Code::LockTimeout);
                Ok(wire::Entity { code, ..self.after(reply).await? })
            }
            Err(Refusal::NotHeld { holder: Some(holder), .. }) => {
                let sentence = format!("Only the lock holder ({}) can unlock this entity", name(holder));
                Err(refused(reply).with_sentence(sentence))
            }
            _ => Err(refused(reply)),
        }
    }

    /// Files a request to unlock the entity.
    pub async fn request(&self, body: &wire::RequestEntity) -> ApiResult<wire::Entity> {
        let (actor, session) = self.agent(body.requested_by.as_ref(), body.requested_by_name.as_ref())?;
        let Some(reason) = reason(Some(&body.reason))? else {
            return Err(wire::BadBody::field("reason", "must not be empty").into());
        };
        let (request, key) = (Uuid::new_v4(), KeyName::from(self.key.clone()));
        let reply = submit(&self.caller.repo, actor, Command::Ask { session, request, key, reason }).await?;
        match &reply.outcome {
            Ok(Outcome::Asked(filed)) => {
                // An entity is locked by one session.
                let request = filed.first().cloned().map(entity_request);
                Ok(wire::Entity { request, ..self.after(reply).await? })
            }
            Err(Refusal::NoOtherHolder(_)) => {
                Err(refused(reply).with_sentence("Entity is not locked by another session; lock it".to_owned()))
            }
            _ => Err(refused(reply)),
        }
    }

    /// Answers or withdraws a request.
    pub async fn answer(&self, id: &str, agent: Option<&Text>, answer: UnlockAnswer) -> ApiResult<wire::Entity> {
        let missing = || ApiError::new(Code::NotFound, "there is no such unlock request");
        let id = Uuid::try_parse(id).map_err(|_| missing())?;
        let key = self.key.clone();
        let read = move |engine: &Engine, _| engine.request_for(&key, id).cloned();
        let state = read_state(&self.caller.repo.desk, self.caller.look(), read).await?;
        let request = state.value.ok_or_else(missing)?;
        let is_withdrawal = answer == UnlockAnswer::Withdrawn;
        // A worker, or an admin, acts for the session that may.
        let right = if is_withdrawal { &request.by } else { &request.holder };
        let right: Text = right.as_str().into();
        let may = SessionId::parse(&right).is_some_and(|session| self.caller.claims.may_act_for(&session));
        let (actor, session) = self.agent(agent.or(may.then_some(&right)), None)?;
        let command = Command::Respond { session, request: id, answer, note: None, hand_over: None };
        let reply = submit(&self.caller.repo, actor, command).await?;
        match &reply.outcome {
            Ok(Outcome::Request(_)) => {
                let release_lock = (!is_withdrawal).then_some(answer == UnlockAnswer::Approved);
                Ok(wire::Entity { release_lock, ..self.after(reply).await? })
            }
            Err(Refusal::NotTheHolder(holder)) => {
                let sentence = format!("Only the lock holder ({}) can answer this request", name(holder));
                Err(refused(reply).with_sentence(sentence))
            }
            _ => Err(refused(reply)),
        }
    }

    /// The entity after a command, with the notices of its reply.
    async fn after(&self, reply: Reply) -> ApiResult<wire::Entity> {
        let key = self.key.clone();
        let state = read_state(&self.caller.repo.desk, Actor::Reader, move |engine, _| engine.entity(&key)).await?;
        Ok(wire::Entity { notices: outcome::notices(reply.notices), ..entity(state.value) })
    }

    /// The session that acts: the one that is named, or else that of the token.
    fn agent(&self, id: Option<&Text>, name: Option<&Text>) -> ApiResult<(Actor, SessionId)> {
        let own = self.caller.claims.session.as_ref().map(|session| session.as_str());
        let Some(id) = id.map(|id| &**id).or(own) else {
            self.caller.refuse_reader()?;
            return Err(wire::BadBody::field("agentId", "is missing; this token acts for several sessions").into());
        };
        let (mut actor, session) = self.caller.act_for(id)?;
        if let (Actor::Session(identity), Some(name)) = (&mut actor, name)
            && identity.name.is_none()
        {
            identity.name = Some(name.chars().take(NAME_CHARS_MAX).collect::<String>().into());
        }
        Ok((actor, session))
    }
}

fn refused(reply: Reply) -> ApiError {
    not_done(reply.outcome, reply.now).with_notices(outcome::notices(reply.notices))
}

fn name(session: &SessionName) -> String {
    session.name.as_deref().unwrap_or(session.session.as_str()).to_owned()
}

fn entity(view: EntityView) -> wire::Entity {
    let lock = view.lock.map(|(holder, grant)| entity_lock(holder, &grant));
    // The newest come last.
    let short = view.requests.len().saturating_sub(COMPLETE_REQUESTS);
    let mut requests: Vec<_> = view.requests.into_iter().map(entity_request).collect();
    for request in &mut requests[..short] {
        request.reason = short_reason(std::mem::take(&mut request.reason));
    }
    wire::Entity { lock, requests, ..wire::Entity::default() }
}

fn entity_lock(holder: SessionName, grant: &Grant) -> wire::EntityLock {
    wire::EntityLock {
        locked_by: holder.session.as_str().into(),
        locked_by_name: holder.name,
        locked_at: time(grant.since),
        reason: grant.reason.clone(),
        expires_at: time(grant.expires),
        ttl_seconds: grant.ttl.seconds().into(),
        version: grant.version,
        reservation_id: grant.id.to_string(),
        fence: grant.fence.0,
    }
}

fn entity_request(request: UnlockRequest) -> wire::EntityRequest {
    let info = outcome::unlock_request(request);
    wire::EntityRequest {
        id: info.id,
        requested_by: info.requested_by,
        requested_by_name: info.requested_by_name,
        reason: info.reason,
        requested_at: info.requested_at,
        status: info.status,
        responded_at: info.responded_at,
        responded_by: info.responded_by,
    }
}
