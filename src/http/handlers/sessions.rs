//! Sessions: create, list, look at one, heartbeat, end.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::engine::{Actor, Command, EndState, Engine, Outcome, Owner, Seq, SessionId, SessionView, Text, Timestamp};
use crate::http::app::App;
use crate::http::caller::{Caller, choose_repository};
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json, QueryParams, created, list_reply};
use crate::http::ids::new_id;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::request_fields::out_of_range;
use crate::http::submit::{read_state, submit};
use crate::key::Key;
use crate::token::{Claims, IDENTITY_MAX, NewToken, Scope};
use crate::wire::limits::{
    NAME_CHARS_MAX, PAGE_ITEMS_MAX, RELEASED_PATHS_MAX, TOKEN_SECONDS_DEFAULT, TOKEN_SECONDS_MAX,
};
use crate::wire::{self, Code, Time};

// A name that a session can be created with also fits into its token.
const _: () = assert!(NAME_CHARS_MAX == crate::token::NAME_MAX);

/// Sessions that are described in one visit to the desk.
const SESSIONS_AT_ONCE: usize = 100;

/// Create a session and a token for it.
///
/// Needs scope `admin`. A session also starts with its first authenticated call, so this is for programs that start
/// sessions for others. The session belongs to its token: no worker can act for it. For a session that is already active, the
/// call only creates another token; the session of a worker gets none. A session that has ended starts again, with nothing;
/// its earlier tokens stay invalid.
#[utoipa::path(
    post,
    path = "/api/sessions",
    operation_id = "createSession",
    tag = "Sessions",
    request_body = Option<wire::CreateSession>,
    responses((status = 201, description = "The session and its token.", body = wire::SessionCreated), refusals::Create),
)]
pub async fn create(
    State(app): State<Arc<App>>,
    claims: Claims,
    query: QueryParams,
    Json(body): Json<wire::CreateSession>,
) -> ApiResult<Response> {
    if claims.scope != Scope::Admin {
        return Err(ApiError::new(Code::Forbidden, "this call needs a token with scope admin"));
    }
    let repo = choose_repository(&app, &claims, body.repo.as_deref().or(query.one("repo")))?;
    let caller = Caller { claims, repo, is_browser_read: false, is_browser: false };
    let actor = caller.act_as_admin()?;
    let session = match &body.session_id {
        Some(id) => SessionId::parse(id).ok_or_else(|| {
            let what = format!("is {id:?}; use 1 to 128 of A-Z, a-z, 0-9, _, . and -");
            ApiError::from(wire::BadBody::field("sessionId", what))
        })?,
        None => SessionId::parse(&format!("sess_{}", new_id().simple())).expect("this is a session id"),
    };
    let (name, feature) = (label("name", body.name)?, label("feature", body.feature)?);
    let seconds = body.ttl_seconds.unwrap_or(TOKEN_SECONDS_DEFAULT.into());
    if !(1..=TOKEN_SECONDS_MAX.into()).contains(&seconds) {
        let sentence = format!("ttlSeconds is {seconds}; it must be 1 to {TOKEN_SECONDS_MAX}");
        return Err(out_of_range(Code::TtlOutOfRange, "ttlSeconds", sentence, 1, TOKEN_SECONDS_MAX.into()));
    }
    let url = match body.url {
        Some(url) if !is_address(&url) => {
            let what =
                format!("must begin with http://, https:// or unix:/ and have at most {IDENTITY_MAX} characters");
            return Err(wire::BadBody::field("url", what).into());
        }
        Some(url) => Some(url),
        None => app.public_url(),
    };
    let now = (app.wall_clock)();
    // The subject is not the id of the session, which is in `sid`: so the session does not belong to every token that names it.
    let new = NewToken {
        subject: format!("{}{}", Owner::CREATED, session.as_str()).into(),
        repo: Some(caller.repo.name.clone()),
        name: name.clone(),
        feature: feature.clone(),
        url,
        issued: now,
        expires: now + seconds,
        ..NewToken::default()
    };
    let new = new.owning_session(session.as_str());
    let sign =
        |token: &NewToken| app.keyring.sign(token).map_err(|error| ApiError::new(Code::Unavailable, error.to_string()));
    // A server that cannot make the token creates no session.
    let owner = app.keyring.verify(&sign(&new)?, now)?.owner();
    let command = Command::Create { session: session.clone(), name, feature, owner };
    let reply = submit(&caller.repo, actor, command).await?;
    match reply.outcome {
        Ok(Outcome::Owned(owner)) => {
            let new = match owner {
                // It was open before, and its own token goes on.
                Owner::Itself => {
                    NewToken { subject: session.as_str().into(), session: None, scope: Scope::Session, ..new }
                }
                Owner::Worker { .. } => new,
            };
            // Issued after any earlier end of the session on the desk's clock, which may differ from the wall clock.
            let issued_ms = (now * 1000).max(reply.now.0 + 1);
            let (issued, issued_millis) = (issued_ms.div_euclid(1000), issued_ms.rem_euclid(1000) as u16);
            Ok(created(wire::SessionCreated {
                session_id: session.as_str().into(),
                token: sign(&NewToken { issued, issued_millis, ..new })?,
                expires_at: Time((now + seconds) * 1000),
            }))
        }
        other => Err(not_done(other, reply.now)),
    }
}

/// List the sessions of the repository.
#[utoipa::path(
    get,
    path = "/api/sessions",
    operation_id = "listSessions",
    tag = "Sessions",
    params(params::SessionQuery, params::PageParams),
    responses((status = 200, description = "One page of sessions, the oldest first.", body = wire::SessionList), refusals::Look),
)]
pub async fn list(caller: Caller, query: QueryParams) -> ApiResult<Response> {
    let limit = query.page_size(PAGE_ITEMS_MAX)?;
    let after = Seq(query.number("cursor", 0, u64::MAX)?.unwrap_or(0));
    let state = query.word("state", wire::SessionState::WORDS)?;
    let ended_since = query.time("endedSince")?.map(|Time(ms)| Timestamp(ms));
    // The desk is visited once for each slice of the table, and decides other requests in between.
    let (mut found, mut slice, mut actor, mut notices) = (BTreeMap::new(), Some(0), caller.look(), Vec::new());
    while let Some(from) = slice {
        let view = move |engine: &Engine, _| {
            let wanted = |end: Option<(EndState, Timestamp)>| {
                state.is_none_or(|state| session_state(end.map(|(state, _)| state)) == state)
                    && ended_since.is_none_or(|since| end.is_some_and(|(_, at)| at >= since))
            };
            let next = engine.scan_sessions(from, after, limit + 1, wanted, &mut found);
            (next, found)
        };
        let reply = read_state(&caller.repo.desk, actor, view).await?;
        (slice, found) = reply.value;
        actor = Actor::Reader;
        notices.extend(outcome::notices(reply.notices));
    }
    let more = found.len() > limit;
    if more {
        found.pop_last();
    }
    let next_cursor = found.keys().next_back().filter(|_| more).map(|last| last.0.to_string());
    let ids: Vec<SessionId> = found.into_values().collect();
    let mut sessions = Vec::with_capacity(ids.len());
    for some in ids.chunks(SESSIONS_AT_ONCE) {
        let some = some.to_vec();
        let view = move |engine: &Engine, _| some.iter().filter_map(|id| engine.session(id)).collect::<Vec<_>>();
        let views = read_state(&caller.repo.desk, Actor::Reader, view).await?.value;
        sessions.extend(views.into_iter().map(info));
    }
    let items = sessions.len();
    Ok(list_reply(items, || wire::SessionList { sessions, next_cursor, notices }).await)
}

/// Get one session.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}",
    operation_id = "getSession",
    tag = "Sessions",
    params(params::SessionAt),
    responses((status = 200, description = "The session.", body = wire::SessionInfo), refusals::LookAtOne),
)]
pub async fn get(caller: Caller, At(id): At<String>) -> ApiResult<Json<wire::SessionInfo>> {
    let missing = || ApiError::new(Code::NotFound, format!("there is no session {id:?} in this repository"));
    let session = SessionId::parse(&id).ok_or_else(missing)?;
    let reply = read_state(&caller.repo.desk, caller.look(), move |engine, _| engine.session(&session)).await?;
    let notices = outcome::notices(reply.notices);
    match reply.value {
        Some(view) => Ok(Json(wire::SessionInfo { notices, ..info(view) })),
        None => Err(missing().with_notices(notices)),
    }
}

/// Send a sign of life, which renews everything that the session holds.
///
/// Each of its reservations is renewed for another full TTL. Every authenticated call counts as a sign of life, but only a
/// heartbeat and a renewal renew reservations.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/heartbeat",
    operation_id = "heartbeat",
    tag = "Sessions",
    params(params::SessionAt),
    request_body = Option<wire::EmptyBody>,
    responses((status = 200, description = "When the first reservation expires, and what the session should know.", body = wire::Heartbeat), refusals::Act),
)]
pub async fn heartbeat(
    caller: Caller,
    At(id): At<String>,
    Json(_): Json<wire::EmptyBody>,
) -> ApiResult<Json<wire::Heartbeat>> {
    let (actor, session) = caller.act_for(&id)?;
    let reply = submit(&caller.repo, actor, Command::Heartbeat { session }).await?;
    let notices = outcome::notices(reply.notices);
    match reply.outcome {
        Ok(Outcome::Alive { renewed, expires }) => {
            let renewed_count = renewed as u64;
            Ok(Json(wire::Heartbeat { renewed_count, expires_at: outcome::time(expires), notices }))
        }
        other => Err(not_done(other, reply.now).with_notices(notices)),
    }
}

/// End the session.
///
/// Everything it holds is released in one step, and waiting requests move up. Its token is no longer valid.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/end",
    operation_id = "endSession",
    tag = "Sessions",
    params(params::SessionAt),
    request_body = Option<wire::EndSession>,
    responses((status = 200, description = "What was released. A repeated call gets the same answer.", body = wire::Ended), refusals::End),
)]
pub async fn end(
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::EndSession>,
) -> ApiResult<Json<wire::Ended>> {
    let (actor, session) = caller.act_for(&id)?;
    let state = match body.state.unwrap_or_default() {
        wire::EndState::Completed => EndState::Completed,
        wire::EndState::Failed => EndState::Failed,
        wire::EndState::Stopped => EndState::Stopped,
    };
    let reply = submit(&caller.repo, actor, Command::End { session, state }).await?;
    match reply.outcome {
        Ok(Outcome::Ended { state, released, count }) => Ok(Json(wire::Ended {
            state: outcome::end_state(state),
            released_count: count,
            released_paths: released.iter().take(RELEASED_PATHS_MAX).map(Key::shown).collect(),
        })),
        other => Err(not_done(other, reply.now)),
    }
}

fn info(view: SessionView) -> wire::SessionInfo {
    let waiting_for: Vec<String> = view.waits.iter().flat_map(|wait| &wait.keys).map(Key::shown).collect();
    let more = view.waited_keys.saturating_sub(waiting_for.len()) as u64;
    wire::SessionInfo {
        session_id: view.id.as_str().into(),
        state: session_state(view.state),
        name: view.name,
        feature: view.feature,
        started_at: outcome::time(view.started),
        last_seen_at: outcome::time(view.last_seen),
        ended_at: view.ended.map(outcome::time),
        held_count: view.held as u64,
        waiting_for,
        more_waiting_for: (more > 0).then_some(more),
        notices: Vec::new(),
    }
}

fn session_state(end: Option<EndState>) -> wire::SessionState {
    end.map_or(wire::SessionState::Active, outcome::end_state)
}

/// Whether text looks like the address of a server. Clients check the details.
fn is_address(text: &str) -> bool {
    let rest = ["http://", "https://", "unix:/"].into_iter().find_map(|scheme| text.strip_prefix(scheme));
    text.len() <= IDENTITY_MAX
        && rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic()))
}

/// A display name or feature, with the same limits as in a token.
fn label(field: &str, text: Option<Text>) -> ApiResult<Option<Text>> {
    match text {
        Some(text) if text.chars().count() > NAME_CHARS_MAX || text.chars().any(char::is_control) => {
            let what = format!("must be at most {NAME_CHARS_MAX} characters, none of them a control character");
            Err(wire::BadBody::field(field, what).into())
        }
        Some(text) if text.is_empty() => Ok(None),
        other => Ok(other),
    }
}
