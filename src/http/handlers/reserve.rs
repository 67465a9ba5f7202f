//! `POST …/files/reserve`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;

use crate::desk::Reply;
use crate::engine::{Actor, Command, Few, Grant, Mode, Outcome, Refusal, ReservationId, Reserve, SessionId, Want};
use crate::http::app::App;
use crate::http::background::without_blocking;
use crate::http::byte_budget::{BytePermit, OverBudget};
use crate::http::caller::Caller;
use crate::http::conflict_list::reason_in_list;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json, KEYS_BODY_MAX, LONG_LIST_KEYS, LONG_REPLY_ITEMS, LargeJson, list_reply};
use crate::http::ids::new_id;
use crate::http::key_policy::KeyPolicy;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::pattern_work::{COMPARE_ROUNDS, PatternWork, read_keys};
use crate::http::request_fields::{HoldTime, few_enough, mode, out_of_range, parse_key, reason};
use crate::http::submit::{begin_reserve, submit_and_wait};
use crate::key::Key;
use crate::wire::limits::WAIT_SECONDS_MAX;
use crate::wire::{self, Code, Encoding, ErrorBody, OneOrMany};

/// The keys of requests that wait at the same time, in bytes: of all sessions, and of one.
pub const WAITS_BYTES_MAX: usize = 64 * 1024 * 1024;
pub const WAITS_BYTES_PER_SESSION_MAX: usize = 16 * 1024 * 1024;

/// Requests with fewer bytes are not counted; their number is limited.
const UNCOUNTED_WAIT_BYTES: usize = 4 * 1024;

/// Reserve one key, or several keys all at once.
///
/// Reserving a key that the session already holds renews it. With `waitSeconds` the request waits in a fair queue until all
/// of its keys are free.
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
    LargeJson(body, permit): LargeJson<wire::Reserve, KEYS_BODY_MAX>,
) -> ApiResult<Response> {
    let reply = reserve_keys(app, caller, &id, body, permit).await?;
    let items = match &reply {
        wire::ReserveReply::One(_) => 1,
        wire::ReserveReply::Many(many) => many.reservations.len(),
    };
    Ok(list_reply(items, || reply).await)
}

/// Reserves for this session. `permit` is the share of the body in the budget for large ones.
pub async fn reserve_keys(
    app: Arc<App>,
    caller: Caller,
    id: &str,
    body: wire::Reserve,
    permit: BytePermit,
) -> ApiResult<wire::ReserveReply> {
    let (actor, session) = caller.act_for(id)?;
    let texts = body.one_or_many()?;
    let (mode, percent) = (mode(body.mode), body.encoding == Some(Encoding::Percent));
    few_enough("filePaths", texts.len(), app.limits().keys_per_reserve)?;
    let hold = HoldTime::read(body.ttl_seconds, body.while_session, body.idle_seconds)?;
    let mut work = PatternWork::of(&caller, texts.iter())?;
    let wants = {
        let policy = caller.repo.policy();
        let want = |text: &str| want(&policy, text, percent, mode, hold);
        read_keys(&app, &mut work, texts.iter(), want, |want| &want.key).await?
    };
    let ask = Reserve {
        session: session.clone(),
        wants,
        mode,
        reason: reason(body.reason.as_ref())?,
        wait: wait(body.wait_seconds)?,
        if_version: version(body.if_version)?,
    };
    let is_one = matches!(texts, OneOrMany::One(_));
    let asked_mode = body.mode.unwrap_or_default();
    // A request may wait for minutes, and the engine has its keys: the body goes before the wait, and the keys count instead.
    let permit = match ask.wait {
        Some(_) => {
            let room = room_to_wait(&app, &session, texts)?;
            drop(permit);
            room
        }
        None => permit,
    };
    let (is_long, wants) = (ask.wants.len() > LONG_LIST_KEYS, &ask.wants);
    let queued_ids = without_blocking(is_long, move || {
        drop(body);
        ask.wait.map(|_| distinct_ids(wants))
    })
    .await;
    let reply = match work {
        None => submit_and_wait(&caller.repo, actor, session.clone(), Command::Reserve(ask)).await?,
        Some(mut work) => submit_patterns(&app, &caller, &mut work, actor, ask).await?,
    };
    drop(permit);
    let notices = outcome::notices(reply.notices);
    match reply.outcome {
        Ok(Outcome::Granted(grants)) if is_one => {
            Ok(wire::ReserveReply::One(one_reserved(&session, &grants, asked_mode, notices)))
        }
        Ok(Outcome::Granted(grants)) => {
            let many = without_blocking(grants.len() > LONG_REPLY_ITEMS, move || {
                let reserved = grants.iter().map(|grant| grant.key.shown()).collect();
                let mut reservations: Vec<_> = grants.iter().map(|grant| outcome::reserved(&session, grant)).collect();
                for (place, reserved) in reservations.iter_mut().enumerate() {
                    reserved.mode = asked_mode;
                    reserved.reason = reason_in_list(place, reserved.reason.take());
                }
                wire::ReservedMany { reservations, reserved, conflicts: Vec::new(), notices }
            });
            Ok(wire::ReserveReply::Many(many.await))
        }
        other => {
            // What waited has a history, although it was not granted.
            let ids = queued_ids.filter(|_| matches!(other, Err(Refusal::WaitOver { .. })));
            let ids = ids.map(|ids| ids.iter().map(ReservationId::to_string).collect());
            Err(not_done(other, reply.now).with_reservation_ids(ids).with_notices(notices))
        }
    }
}

/// The same for one plain key, without a wait: everything but the reply of the desk is known at once. None if the request is
/// another one or is wrong, and nothing was done.
pub fn reserve_plain_key(
    caller: &Caller,
    id: &str,
    body: &wire::Reserve,
) -> Option<impl Future<Output = ApiResult<Json<wire::Reserved>>> + Send + use<>> {
    let OneOrMany::One(text) = body.one_or_many().ok()? else { return None };
    if Key::is_pattern(text) || body.wait_seconds.is_some() || body.encoding.is_some() {
        return None;
    }
    let (actor, session) = caller.act_for(id).ok()?;
    let (mode, asked_mode) = (mode(body.mode), body.mode.unwrap_or_default());
    let hold = HoldTime::read(body.ttl_seconds, body.while_session, body.idle_seconds).ok()?;
    let ask = Reserve {
        session: session.clone(),
        wants: Few::from_iter([want(&caller.repo.policy(), text, false, mode, hold).ok()?]),
        mode,
        reason: reason(body.reason.as_ref()).ok()?,
        wait: None,
        if_version: version(body.if_version).ok()?,
    };
    let pending = begin_reserve(&caller.repo, actor, session.clone(), Command::Reserve(ask));
    Some(async move {
        let reply = pending?.receive().await?;
        let notices = outcome::notices(reply.notices);
        match reply.outcome {
            Ok(Outcome::Granted(grants)) => Ok(Json(one_reserved(&session, &grants, asked_mode, notices))),
            other => Err(not_done(other, reply.now).with_notices(notices)),
        }
    })
}

fn one_reserved(
    session: &SessionId,
    grants: &[Grant],
    asked_mode: wire::Mode,
    notices: Vec<wire::Notice>,
) -> wire::Reserved {
    let grant = grants.first().expect("a grant has as many reservations as the request has keys");
    wire::Reserved { mode: asked_mode, notices, ..outcome::reserved(session, grant) }
}

/// The ids of these keys. A key that is named twice is wanted once.
fn distinct_ids(wants: &[Want]) -> Vec<ReservationId> {
    let mut seen = HashSet::new();
    wants.iter().filter(|want| seen.insert(&want.key)).map(|want| want.id).collect()
}

/// Submits a request with patterns. Those that are expensive to compare are compared first, beside the desk.
async fn submit_patterns(
    app: &App,
    caller: &Caller,
    work: &mut PatternWork,
    actor: Actor,
    ask: Reserve,
) -> ApiResult<Reply> {
    let mut notices = Vec::new();
    let mut rounds = 1..=COMPARE_ROUNDS;
    loop {
        let round = rounds.next();
        let (session, command) = (ask.session.clone(), Command::Reserve(ask.clone()));
        let mut reply = submit_and_wait(&caller.repo, actor.clone(), session, command).await?;
        notices.append(&mut reply.notices);
        match reply.outcome {
            Err(Refusal::Uncompared(pairs)) if round.is_some() => {
                work.add(reply.work)?;
                work.compare(app, pairs).await?;
            }
            outcome => {
                // What is granted is granted; the next request pays for it.
                let _ = work.add(reply.work);
                return Ok(Reply { outcome, notices, ..reply });
            }
        }
    }
}

/// Counts the keys of a request that may wait.
fn room_to_wait(app: &App, session: &SessionId, texts: OneOrMany<'_>) -> ApiResult<BytePermit> {
    let bytes = texts.iter().map(str::len).sum::<usize>();
    if bytes <= UNCOUNTED_WAIT_BYTES {
        return Ok(BytePermit::default());
    }
    app.waits.try_acquire(&session.as_str().into(), bytes).map_err(|over| match over {
        OverBudget::Owner => {
            let sentence = format!(
                "the waiting requests of one session may name keys of {WAITS_BYTES_PER_SESSION_MAX} bytes; \
                 let one of them end first"
            );
            let mut body = ErrorBody::new(Code::QuotaExceeded, sentence);
            body.more.insert("limit".to_owned(), WAITS_BYTES_PER_SESSION_MAX.into());
            ApiError::from(body).retry_after(1)
        }
        OverBudget::Total => {
            let sentence = "too many long requests are waiting on this server; try again in a moment";
            ApiError::new(Code::Unavailable, sentence).retry_after(1)
        }
    })
}

fn want(policy: &KeyPolicy, text: &str, percent: bool, mode: Mode, hold: HoldTime) -> ApiResult<Want> {
    let key = parse_key(&policy.rules, text, percent)?;
    // Plain text was checked while it was parsed.
    if percent {
        key.check_dot_git()?;
    }
    policy.permit(&key, mode)?;
    let ttl = hold.of(policy, &key)?;
    Ok(Want { id: ReservationId(new_id()), key, ttl })
}

fn wait(seconds: Option<i64>) -> ApiResult<Option<Duration>> {
    match seconds {
        None | Some(0) => Ok(None),
        Some(seconds) => match u32::try_from(seconds) {
            Ok(seconds) if seconds <= WAIT_SECONDS_MAX => Ok(Some(Duration::from_secs(seconds.into()))),
            _ => {
                let sentence = format!("waitSeconds is {seconds}; it must be 0 to {WAIT_SECONDS_MAX}");
                Err(out_of_range(Code::InvalidRequest, "waitSeconds", sentence, 0, WAIT_SECONDS_MAX.into()))
            }
        },
    }
}

fn version(number: Option<i64>) -> ApiResult<Option<u64>> {
    let negative = |_| wire::BadBody::field("ifVersion", "must not be negative").into();
    number.map(|number| u64::try_from(number).map_err(negative)).transpose()
}
