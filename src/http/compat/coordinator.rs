//! The coordinator: locks on files and keys, in snake_case. What a lock is refused for is a reply like any other: 200 with
//! `success: false` and a reason.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::reshape_error;
use crate::engine::{
    Actor, Command, Conflict, Few, KeyName, Mode, Outcome, Refusal, ReservationId, Reserve, SessionId, Text, Ttl, Want,
};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json};
use crate::http::handlers::check::check_without_session;
use crate::http::handlers::mcp_calls::{large, read};
use crate::http::ids::new_id;
use crate::http::outcome::{not_done, time};
use crate::http::pattern_work::PatternWork;
use crate::http::request_fields::{named_key, reason};
use crate::http::submit::{read_state, submit};
use crate::key::Key;
use crate::wire::{self, Code, whole};

/// The shortest, the longest and the usual time of a lock, in minutes.
const TTL_MINUTES_MIN: i64 = 1;
const TTL_MINUTES_MAX: i64 = 480;
const TTL_MINUTES_DEFAULT: i64 = 120;

pub fn routes() -> Router<Arc<App>> {
    let detail = |error: &Value| json!({ "detail": error["error"] });
    Router::new()
        .route("/compat/coordinator/locks/acquire", post(acquire))
        .route("/compat/coordinator/locks/release", post(release))
        .route("/compat/coordinator/locks/status/{*path}", get(status))
        .route("/compat/coordinator/locks/{*path}", delete(force_release))
        .layer(map_response(move |response: Response| reshape_error(response, detail)))
}

#[derive(Deserialize)]
struct Acquire {
    file_path: String,
    agent_id: String,
    /// Accepted and not used, like the next field: the holder of a lock is the agent.
    #[serde(default, rename = "agent_type")]
    _agent_type: IgnoredAny,
    #[serde(default, rename = "session_id")]
    _session_id: IgnoredAny,
    #[serde(default)]
    reason: Option<Text>,
    #[serde(default, deserialize_with = "whole")]
    ttl_minutes: Option<i64>,
}

#[derive(Deserialize)]
struct Release {
    file_path: String,
    agent_id: String,
}

#[derive(Deserialize, Default)]
struct ForceRelease {
    #[serde(default)]
    reason: Option<Text>,
}

/// A reply that says no.
fn refused(why: &str, file_path: &str) -> Value {
    json!({ "success": false, "reason": why, "file_path": file_path })
}

async fn acquire(caller: Caller, Json(body): Json<Acquire>) -> ApiResult<Json<Value>> {
    let Acquire { file_path, agent_id, .. } = &body;
    let Some((actor, session)) = agent(&caller, agent_id)? else {
        return Ok(Json(refused("invalid_agent_id", file_path)));
    };
    let minutes = body.ttl_minutes.unwrap_or(TTL_MINUTES_DEFAULT);
    if !(TTL_MINUTES_MIN..=TTL_MINUTES_MAX).contains(&minutes) {
        let mut reply = refused("ttl_out_of_range", file_path);
        (reply["min"], reply["max"]) = (TTL_MINUTES_MIN.into(), TTL_MINUTES_MAX.into());
        return Ok(Json(reply));
    }
    let key = match key(&caller, file_path) {
        Ok(key) => key,
        Err(error) => return Ok(Json(bad_key(&error, file_path)?)),
    };
    let policy = caller.repo.policy().clone();
    if let Err(error) = policy.permit(&key.key, Mode::Exclusive) {
        return Ok(Json(bad_key(&error, file_path)?));
    }
    // The lock lasts for as long as the reply says, whether or not the agent calls meanwhile.
    let ttl = Ttl::Plain(u32::try_from(minutes * 60).expect("within the bounds"));
    let id = ReservationId(new_id());
    let (wants, mode) = ([Want { id, key: key.key, ttl }].into(), Mode::Exclusive);
    let ask = Reserve { session, wants, mode, reason: reason(body.reason.as_ref())?, wait: None, if_version: None };
    let reply = submit(&caller.repo, actor, Command::Reserve(ask)).await?;
    Ok(Json(match reply.outcome {
        Ok(Outcome::Granted(grants)) => {
            let grant = grants.first().expect("one key, one grant");
            let action = if grant.id == id { "acquired" } else { "refreshed" };
            json!({ "success": true, "action": action, "file_path": file_path, "expires_at": time(grant.expires) })
        }
        Err(Refusal::Locked(conflicts)) => locked(&conflicts, file_path),
        Err(Refusal::Paused(pause)) => {
            let mut reply = refused("feature_paused", file_path);
            (reply["locked_by"], reply["lock_reason"]) = (pause.by.session.as_str().into(), json!(pause.reason));
            reply["expires_at"] = json!(time(pause.until));
            reply
        }
        other => return Err(not_done(other, reply.now)),
    }))
}

async fn release(caller: Caller, Json(body): Json<Release>) -> ApiResult<Json<Value>> {
    let Release { file_path, agent_id } = &body;
    let Some((actor, session)) = agent(&caller, agent_id)? else {
        return Ok(Json(refused("invalid_agent_id", file_path)));
    };
    let keys: Few<KeyName> = match key(&caller, file_path) {
        Ok(key) => [key].into(),
        Err(error) => return Ok(Json(bad_key(&error, file_path)?)),
    };
    let reply = submit(&caller.repo, actor, Command::Release { session, keys }).await?;
    Ok(Json(match reply.outcome {
        Ok(Outcome::Released { keys, .. }) if !keys.is_empty() => {
            json!({ "success": true, "action": "released", "file_path": file_path })
        }
        Ok(Outcome::Released { .. } | Outcome::ReleasedLate { .. }) => refused("lock_not_found", file_path),
        Err(Refusal::NotHeld { holder, .. }) => {
            let mut reply = refused("locked_by_other", file_path);
            reply["locked_by"] = json!(holder.map(|holder| holder.session.as_str().to_owned()));
            reply
        }
        other => return Err(not_done(other, reply.now)),
    }))
}

async fn status(State(app): State<Arc<App>>, caller: Caller, At(path): At<String>) -> ApiResult<Json<Value>> {
    let key = match key(&caller, &path) {
        Ok(key) => key.key,
        Err(error) => return Ok(Json(bad_key(&error, &path)?)),
    };
    let lock = match holder(&caller, key).await? {
        (Some(lock), _) => Some(lock),
        (None, _) => covering_lock(app, caller, &path).await?,
    };
    let mut status = json!({ "success": true, "file_path": path, "locked": lock.is_some() });
    if let (Some(lock), Value::Object(status)) = (lock, &mut status) {
        status.extend(lock.as_object().cloned().unwrap_or_default());
    }
    Ok(Json(status))
}

/// Releases a lock without its holder. Only for an admin, whose name and reason the history keeps.
async fn force_release(caller: Caller, At(path): At<String>, Json(body): Json<ForceRelease>) -> ApiResult<Json<Value>> {
    let actor = caller.act_as_admin()?;
    let key = match key(&caller, &path) {
        Ok(key) => key.key,
        Err(error) => return Ok(Json(bad_key(&error, &path)?)),
    };
    let (Some(lock), Some(id)) = holder(&caller, key).await? else {
        return Ok(Json(refused("lock_not_found", &path)));
    };
    let reason = reason(body.reason.as_ref())?.unwrap_or_else(|| "released by force".into());
    let reply = submit(&caller.repo, actor, Command::Override { id, reason }).await?;
    match reply.outcome {
        Ok(Outcome::Released { .. }) => {
            let reply =
                json!({ "success": true, "action": "released", "file_path": path, "locked_by": lock["locked_by"] });
            Ok(Json(reply))
        }
        Err(Refusal::UnknownReservation) => Ok(Json(refused("lock_not_found", &path))),
        other => Err(not_done(other, reply.now)),
    }
}

/// A lock on another key that is in the way of this one, such as that of a directory above it.
async fn covering_lock(app: Arc<App>, caller: Caller, path: &str) -> ApiResult<Option<Value>> {
    let body = wire::Check { paths: Some(vec![path.to_owned()]), ..wire::Check::default() };
    let reply: wire::CheckReply = read(check_without_session(State(app), caller, large(body)).await?).await?;
    Ok(reply.conflicts.into_iter().next().map(|lock| {
        json!({
            "locked_by": lock.reserved_by, "locked_by_name": lock.reserved_by_name, "lock_reason": lock.reason,
            "locked_at": lock.held_by.reserved_at, "expires_at": lock.expires_at, "locked_path": lock.key,
        })
    }))
}

/// The lock on exactly this key, and its id.
async fn holder(caller: &Caller, key: Key) -> ApiResult<(Option<Value>, Option<ReservationId>)> {
    let state = read_state(&caller.repo.desk, caller.look(), move |engine, _| engine.entity(&key)).await?;
    let Some((holder, grant)) = state.value.lock else { return Ok((None, None)) };
    let lock = json!({
        "locked_by": holder.session.as_str(), "locked_by_name": holder.name, "lock_reason": grant.reason,
        "locked_at": time(grant.since), "expires_at": time(grant.expires),
    });
    Ok((Some(lock), Some(grant.id)))
}

/// The agent as a session; none if its id cannot be one.
fn agent(caller: &Caller, id: &str) -> ApiResult<Option<(Actor, SessionId)>> {
    if SessionId::parse(id).is_none() {
        return Ok(None);
    }
    caller.act_for(id).map(Some)
}

fn key(caller: &Caller, text: &str) -> ApiResult<KeyName> {
    // A pattern costs work, which is counted like anywhere else.
    let _work = PatternWork::of(caller, std::iter::once(text))?;
    named_key(&caller.repo, text, false)
}

/// The reply for a key that cannot be locked; other errors stay errors.
fn bad_key(error: &ApiError, file_path: &str) -> ApiResult<Value> {
    let why = match error.code() {
        Code::InvalidPath | Code::InvalidKey => "invalid_file_path",
        Code::OperationNotPermitted => "operation_not_permitted",
        code => return Err(ApiError::new(code, error.sentence().to_owned())),
    };
    let mut reply = refused(why, file_path);
    reply["detail"] = error.sentence().into();
    Ok(reply)
}

fn locked(conflicts: &[Conflict], file_path: &str) -> Value {
    let mut reply = refused("locked_by_other", file_path);
    if let Some(first) = conflicts.first() {
        (reply["locked_by"], reply["lock_reason"]) = (first.who.session.as_str().into(), json!(first.reason));
        reply["expires_at"] = json!(time(first.until));
    }
    reply
}
