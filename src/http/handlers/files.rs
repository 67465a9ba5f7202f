//! The worker protocol: reserve, release, renew, check.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;

use crate::desk::Reply;
use crate::engine::{
    Actor, Command, Few, Intent, Mode, Named, Outcome, Refusal, ReservationId, Reserve, SessionId, Text, Ttl, Want,
};
use crate::http::app::{App, Repository};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, CHECK_BODY_MAX, Json, KEYS_BODY_MAX, LONG_LIST_KEYS, QueryParams, without_blocking};
use crate::http::ids::new_id;
use crate::http::key_policy::KeyPolicy;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, blocked, not_done};
use crate::http::submit::{decide, decide_or_wait, look};
use crate::key::{Key, KeyRules, Kind};
use crate::wire::limits::{REASON_CHARS_MAX, TtlBounds, WAIT_SECONDS_MAX};
use crate::wire::{self, Code, Encoding, ErrorBody, OneOrMany};

/// Paths checked in one go. The desk decides nothing meanwhile, so a large check is cut into pieces of about a
/// millisecond; what is reserved in between shows up in later pieces, as it would a moment later anyway.
const CHECK_PIECE: usize = 2_000;

/// Reserve one key, or several, all or nothing.
///
/// Reserving what the session holds already renews it. With `waitSeconds` the request stays open in a fair queue until
/// everything is free.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/reserve",
    operation_id = "reserve",
    tag = "Files",
    params(params::SessionAt),
    request_body = wire::Reserve,
    responses((status = 200, description = "Granted: one reservation for `filePath`, a list for `filePaths`.", body = wire::ReserveReply), refusals::Reserve),
)]
pub async fn reserve(
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::Reserve, KEYS_BODY_MAX>,
) -> ApiResult<Json<wire::ReserveReply>> {
    let (actor, session) = caller.act_for(&id)?;
    let texts = body.one_or_many()?;
    let (mode, percent) = (mode(body.mode), body.encoding == Some(Encoding::Percent));
    let wants = {
        let policy = caller.repo.policy();
        let most = app.limits().keys_per_reserve;
        if texts.len() > most {
            let what = format!("has {} keys, and {most} is the most for one request", texts.len());
            return Err(wire::BadBody::field("filePaths", what).into());
        }
        let want = |text| want(&policy, text, percent, mode, body.ttl_seconds);
        without_blocking(texts.len() > LONG_LIST_KEYS, || texts.iter().map(want).collect::<ApiResult<Few<_>>>())?
    };
    let ask = Reserve {
        session: session.clone(),
        wants,
        mode,
        reason: reason(body.reason.as_ref())?,
        wait: wait(body.wait_seconds)?,
        if_version: version(body.if_version)?,
    };
    let reply = decide_or_wait(&caller.repo, actor, session.clone(), Command::Reserve(ask)).await?;
    let notices = outcome::notices(reply.notices);
    match (reply.outcome, texts) {
        (Ok(Outcome::Granted(grants)), OneOrMany::One(_)) => {
            let grant = grants.first().expect("one key was asked for and granted");
            let reserved = wire::Reserved { notices, ..outcome::reserved(&session, grant) };
            Ok(Json(wire::ReserveReply::One(reserved)))
        }
        (Ok(Outcome::Granted(grants)), OneOrMany::Many(_)) => {
            let reserved = grants.iter().map(|grant| grant.key.shown()).collect();
            let reservations = grants.iter().map(|grant| outcome::reserved(&session, grant)).collect();
            let reply = wire::ReservedMany { reservations, reserved, conflicts: Vec::new(), notices };
            Ok(Json(wire::ReserveReply::Many(reply)))
        }
        (Err(Refusal::Locked(conflicts)), _) => {
            let sentence = "File already reserved";
            let refused = blocked(Code::ResourceLocked, sentence, &conflicts, &[], reply.now);
            Err(refused.with_notices(notices))
        }
        (other, _) => Err(not_done(other, reply.now).with_notices(notices)),
    }
}

/// Let go of one key, or several.
///
/// Letting go of what nobody holds is fine; of what somebody else holds, it is a refusal, and nothing changes.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/release",
    operation_id = "release",
    tag = "Files",
    params(params::SessionAt),
    request_body = wire::Release,
    responses((status = 200, description = "It is not held any more.", body = wire::Released), refusals::Release),
)]
pub async fn release(
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::Release, KEYS_BODY_MAX>,
) -> ApiResult<Json<wire::Released>> {
    let (actor, session) = caller.act_for(&id)?;
    let keys = named_keys(&caller.repo, body.one_or_many()?, body.encoding)?;
    let reply = decide(&caller.repo, actor, Command::Release { session, keys }).await?;
    let (keys, notices) = released(reply)?;
    let released_count = keys.len() as u64;
    Ok(Json(wire::Released { ok: true, released: released_count > 0, released_count, notices }))
}

/// Let go of everything.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/release-all",
    operation_id = "releaseAll",
    tag = "Files",
    params(params::SessionAt),
    request_body = Option<wire::EmptyBody>,
    responses((status = 200, description = "What was released.", body = wire::ReleasedAll), refusals::Act),
)]
pub async fn release_all(
    caller: Caller,
    At(id): At<String>,
    Json(_): Json<wire::EmptyBody>,
) -> ApiResult<Json<wire::ReleasedAll>> {
    let (actor, session) = caller.act_for(&id)?;
    let reply = decide(&caller.repo, actor, Command::ReleaseAll { session }).await?;
    let (keys, notices) = released(reply)?;
    let released_paths = keys.iter().map(Key::shown).collect();
    Ok(Json(wire::ReleasedAll { released_count: keys.len() as u64, released_paths, notices }))
}

/// Let reservations run for another full TTL.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/renew",
    operation_id = "renew",
    tag = "Files",
    params(params::SessionAt),
    request_body = wire::Renew,
    responses((status = 200, description = "Renewed: one reservation for `filePath`, a list for `filePaths`.", body = wire::RenewReply), refusals::Renew),
)]
pub async fn renew(
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::Renew, KEYS_BODY_MAX>,
) -> ApiResult<Json<wire::RenewReply>> {
    let (actor, session) = caller.act_for(&id)?;
    let texts = body.one_or_many()?;
    let keys = named_keys(&caller.repo, texts, body.encoding)?;
    let ttl = match body.ttl_seconds {
        Some(seconds) => {
            let policy = caller.repo.policy();
            let bounds = keys.iter().map(|named| policy.bounds(&named.key));
            bounds.map(|bounds| ttl(Some(seconds), bounds)).collect::<ApiResult<Few<_>>>()?.pop()
        }
        None => None,
    };
    let reply = decide(&caller.repo, actor, Command::Renew { session: session.clone(), keys, ttl }).await?;
    let notices = outcome::notices(reply.notices);
    match (reply.outcome, texts) {
        (Ok(Outcome::Granted(grants)), OneOrMany::One(_)) => {
            let grant = grants.first().expect("one key was asked for and renewed");
            let renewed = wire::Renewed { notices, ..outcome::renewed(&session, grant) };
            Ok(Json(wire::RenewReply::One(renewed)))
        }
        (Ok(Outcome::Granted(grants)), OneOrMany::Many(_)) => {
            let expires = grants.iter().map(|grant| grant.expires).min().expect("at least one key was asked for");
            let reservations = grants.iter().map(|grant| outcome::renewed(&session, grant)).collect();
            let reply = wire::RenewedMany { expires_at: outcome::time(expires), reservations, notices };
            Ok(Json(wire::RenewReply::Many(reply)))
        }
        (other, _) => Err(not_done(other, reply.now).with_notices(notices)),
    }
}

/// Ask who is in the way of a session.
///
/// 100,000 paths are a normal call.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/check-conflicts",
    operation_id = "checkConflicts",
    tag = "Files",
    params(params::SessionAt),
    request_body = wire::Check,
    responses((status = 200, description = "What is in the way, in the order of the request.", body = wire::CheckReply), refusals::Check),
)]
pub async fn check(
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::Check, CHECK_BODY_MAX>,
) -> ApiResult<Json<wire::CheckReply>> {
    let (actor, session) = caller.look_for(&id)?;
    check_paths(&app, &caller, actor, Some(session), body).await
}

/// Ask who is in the way of a session, in a URL.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/files/check-conflicts",
    operation_id = "checkConflictsByQuery",
    tag = "Files",
    params(params::SessionAt, params::Paths),
    responses((status = 200, description = "What is in the way, in the order of the request.", body = wire::CheckReply), refusals::CheckQuery),
)]
pub async fn check_query(
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    query: QueryParams,
) -> ApiResult<Json<wire::CheckReply>> {
    let (actor, session) = caller.look_for(&id)?;
    let mut paths = Vec::new();
    for (name, value) in &query.0 {
        match &**name {
            "paths" if value.is_empty() => {}
            "paths" => paths.extend(value.split(',').map(str::to_owned)),
            "path" => paths.push(value.clone()),
            _ => {}
        }
    }
    let named = query.0.iter().any(|(name, _)| name == "paths" || name == "path");
    if !named {
        return Err(wire::BadBody::field("paths", "is missing; say ?paths=a,b or repeat ?path=").into());
    }
    let word = |name: &str| query.one(name).map(|text| serde_json::json!({ name: text }));
    let read = |value: Option<serde_json::Value>| -> ApiResult<wire::Check> {
        let value = value.unwrap_or_else(|| serde_json::json!({}));
        Ok(wire::read(&serde_json::to_vec(&value).expect("plain data"))?)
    };
    let (mode, encoding) = (read(word("mode"))?.mode, read(word("encoding"))?.encoding);
    let intent = read(word("intent"))?.intent;
    let body = wire::Check { paths: Some(paths), mode, intent, encoding, ..wire::Check::default() };
    check_paths(&app, &caller, actor, Some(session), body).await
}

/// Ask what is reserved, as somebody who is no session.
#[utoipa::path(
    post,
    path = "/api/check-conflicts",
    operation_id = "checkConflictsAsNobody",
    tag = "Files",
    request_body = wire::Check,
    responses((status = 200, description = "Whatever is reserved is in the way.", body = wire::CheckReply), refusals::Check),
)]
pub async fn check_as_nobody(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(body): Json<wire::Check, CHECK_BODY_MAX>,
) -> ApiResult<Json<wire::CheckReply>> {
    check_paths(&app, &caller, caller.look(), None, body).await
}

async fn check_paths(
    app: &App,
    caller: &Caller,
    actor: Actor,
    session: Option<SessionId>,
    body: wire::Check,
) -> ApiResult<Json<wire::CheckReply>> {
    let (intent, percent) = (intent(&body), body.encoding == Some(Encoding::Percent));
    let feature = caller.claims.feature.clone();
    let paths = body.into_paths()?;
    let most = app.limits().keys_per_check;
    if paths.len() > most {
        let what = format!("names {} paths, and {most} is the most for one check", paths.len());
        return Err(wire::BadBody::field("paths", what).into());
    }
    let read = |text: &String| key(&caller.repo, text, percent);
    let keys =
        without_blocking(paths.len() > LONG_LIST_KEYS, || paths.iter().map(read).collect::<ApiResult<Few<_>>>())?;
    let mut keys = keys.into_iter();
    let paths: Arc<[String]> = paths.into();
    let mut answer = wire::CheckReply::default();
    let mut first = 0;
    loop {
        let piece: Vec<Key> = keys.by_ref().take(CHECK_PIECE).collect();
        let count = piece.len();
        let (session, feature, paths) = (session.clone(), feature.clone(), paths.clone());
        let see = move |engine: &crate::engine::Engine, now| {
            let mut answer = wire::CheckReply::default();
            for (key, position) in piece.iter().zip(first..) {
                let checked = engine.check(session.as_ref(), position, key, intent);
                answer.conflicts.extend(checked.conflicts.iter().map(|found| outcome::conflict(found, &paths)));
                if checked.conflicts.is_empty() {
                    answer.clear.push(paths[position].clone());
                    if checked.held {
                        answer.held.push(paths[position].clone());
                    }
                }
            }
            let pause = session.and_then(|session| engine.paused(&session, feature.as_ref()));
            answer.paused = pause.map(outcome::pause);
            answer.server_time = Some(outcome::time(now));
            answer
        };
        // The session calls once, however many pieces that takes: with the first it is alive and hears its notices.
        let actor = if first == 0 { actor.clone() } else { Actor::Reader };
        let seen = look(&caller.repo.desk, actor, see).await?;
        answer.conflicts.extend(seen.value.conflicts);
        answer.clear.extend(seen.value.clear);
        answer.held.extend(seen.value.held);
        answer.paused = seen.value.paused;
        answer.server_time = seen.value.server_time;
        answer.notices.extend(outcome::notices(seen.notices));
        first += count;
        if keys.len() == 0 {
            return Ok(Json(answer));
        }
    }
}

fn released(reply: Reply) -> ApiResult<(Few<Key>, Vec<wire::Notice>)> {
    let notices = outcome::notices(reply.notices);
    match reply.outcome {
        Ok(Outcome::Released(keys)) => Ok((keys, notices)),
        other => Err(not_done(other, reply.now).with_notices(notices)),
    }
}

/// A key as the request wrote it; what is wrong with it is said of that text.
pub fn key(repo: &Repository, text: &str, percent: bool) -> ApiResult<Key> {
    read(&repo.policy().rules, text, percent)
}

fn read(rules: &KeyRules, text: &str, percent: bool) -> ApiResult<Key> {
    Ok(if percent { Key::parse_percent(text, rules)? } else { Key::parse(text, rules)? })
}

/// A key as a holder names what they hold: `src/[id].ts` may be a file's name as well as a pattern.
pub fn named_key(repo: &Repository, text: &str, percent: bool) -> ApiResult<Named> {
    let key = key(repo, text, percent)?;
    let literal = match key.kind() {
        Kind::Glob => Key::literal(text.as_bytes(), &repo.policy().rules).ok(),
        _ => None,
    };
    Ok(Named { key, literal })
}

fn named_keys(repo: &Repository, texts: OneOrMany<'_>, encoding: Option<Encoding>) -> ApiResult<Few<Named>> {
    let read = |text| named_key(repo, text, encoding == Some(Encoding::Percent));
    without_blocking(texts.len() > LONG_LIST_KEYS, || texts.iter().map(read).collect())
}

fn want(policy: &KeyPolicy, text: &str, percent: bool, mode: Mode, ttl_seconds: Option<i64>) -> ApiResult<Want> {
    let key = read(&policy.rules, text, percent)?;
    policy.permit(&key, mode)?;
    let ttl = ttl(ttl_seconds, policy.bounds(&key))?;
    Ok(Want { id: ReservationId(new_id()), key, ttl })
}

fn ttl(seconds: Option<i64>, bounds: TtlBounds) -> ApiResult<Ttl> {
    let Some(seconds) = seconds else { return Ok(Ttl(bounds.default)) };
    match u32::try_from(seconds) {
        Ok(seconds) if (bounds.min..=bounds.max).contains(&seconds) => Ok(Ttl(seconds)),
        _ => {
            let sentence = format!("ttlSeconds is {seconds}, and must be {} to {}", bounds.min, bounds.max);
            Err(out_of_range(Code::TtlOutOfRange, "ttlSeconds", sentence, bounds.min.into(), bounds.max.into()))
        }
    }
}

/// A number is too small or too large.
pub fn out_of_range(code: Code, field: &str, sentence: String, min: i64, max: i64) -> ApiError {
    let body = ErrorBody::new(code, sentence);
    ApiError::from(ErrorBody { field: Some(field.to_owned()), min: Some(min), max: Some(max), ..body })
}

fn wait(seconds: Option<i64>) -> ApiResult<Option<Duration>> {
    match seconds {
        None | Some(0) => Ok(None),
        Some(seconds) => match u32::try_from(seconds) {
            Ok(seconds) if seconds <= WAIT_SECONDS_MAX => Ok(Some(Duration::from_secs(seconds.into()))),
            _ => {
                let sentence = format!("waitSeconds is {seconds}, and must be 0 to {WAIT_SECONDS_MAX}");
                Err(out_of_range(Code::InvalidRequest, "waitSeconds", sentence, 0, WAIT_SECONDS_MAX.into()))
            }
        },
    }
}

fn version(number: Option<i64>) -> ApiResult<Option<u64>> {
    let negative = |_| wire::BadBody::field("ifVersion", "must not be negative").into();
    number.map(|number| u64::try_from(number).map_err(negative)).transpose()
}

/// What somebody gave as a reason, if it is not a novel.
pub fn reason(text: Option<&Text>) -> ApiResult<Option<Text>> {
    match text {
        Some(text) if text.chars().count() > REASON_CHARS_MAX => {
            let what = format!("is longer than {REASON_CHARS_MAX} characters");
            Err(wire::BadBody::field("reason", what).into())
        }
        Some(text) if text.trim().is_empty() => Ok(None),
        other => Ok(other.cloned()),
    }
}

fn intent(check: &wire::Check) -> Intent {
    match check.intent {
        None => Intent::Reserve(mode(check.mode)),
        Some(wire::Intent::Change) => Intent::Change,
        Some(wire::Intent::Look) => Intent::Look,
    }
}

fn mode(mode: Option<wire::Mode>) -> Mode {
    match mode.unwrap_or_default() {
        wire::Mode::Exclusive => Mode::Exclusive,
        wire::Mode::Shared => Mode::Shared,
    }
}
