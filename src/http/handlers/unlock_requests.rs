//! Unlock requests: ask a holder to release a key, and answer such requests.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use uuid::Uuid;

use crate::desk::Reply;
use crate::engine::{Command, Engine, Outcome, Refusal, ReservationId, Text, UnlockAnswer};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json, QueryParams, created};
use crate::http::ids::new_id;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::pattern_work::{COMPARE_ROUNDS, PatternWork};
use crate::http::request_fields::{named_key, reason};
use crate::http::submit::{read_state, submit};
use crate::wire::limits::{PAGE_ITEMS_MAX, REASON_CHARS_MAX};
use crate::wire::{self, Code, Encoding};

/// Ask the holder of a key to release it.
///
/// If several sessions share the key, each of them is asked; `others` has the requests to the others.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/unlock-requests",
    operation_id = "askToUnlock",
    tag = "Unlock requests",
    params(params::SessionAt),
    request_body = wire::UnlockRequest,
    responses((status = 201, description = "The request: a new one, or the one that is already pending.", body = wire::UnlockRequestInfo), refusals::Ask),
)]
pub async fn ask(
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::UnlockRequest>,
) -> ApiResult<Response> {
    let (actor, session) = caller.act_for(&id)?;
    let Some(reason) = reason(Some(&body.reason))? else {
        return Err(wire::BadBody::field("reason", "must not be empty").into());
    };
    let mut work = PatternWork::of(&caller, std::iter::once(&*body.file_path))?;
    let key = named_key(&caller.repo, &body.file_path, body.encoding == Some(Encoding::Percent))?;
    let command = Command::Ask { session, request: Uuid::new_v4(), key, reason };
    let Some(work) = &mut work else { return Ok(created(asked(submit(&caller.repo, actor, command).await?)?)) };
    let mut notices = Vec::new();
    for _ in 1..COMPARE_ROUNDS {
        let mut reply = submit(&caller.repo, actor.clone(), command.clone()).await?;
        notices.append(&mut reply.notices);
        match reply.outcome {
            Err(Refusal::Uncompared(pairs)) => work.compare(&app, pairs).await?,
            outcome => return Ok(created(asked(Reply { outcome, notices, ..reply })?)),
        }
    }
    Ok(created(asked(submit(&caller.repo, actor, command).await?)?))
}

/// List the unlock requests to a session and from it.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/unlock-requests",
    operation_id = "listUnlockRequests",
    tag = "Unlock requests",
    params(params::SessionAt),
    responses((status = 200, description = "The requests.", body = wire::UnlockRequests), refusals::Look),
)]
pub async fn list(caller: Caller, At(id): At<String>) -> ApiResult<Json<wire::UnlockRequests>> {
    let (actor, session) = caller.look_for(&id)?;
    let reply = read_state(&caller.repo.desk, actor, move |engine, _| engine.requests(&session)).await?;
    let (incoming, outgoing) = reply.value;
    let requests = |list: Vec<_>| list.into_iter().map(outcome::unlock_request).collect();
    let notices = outcome::notices(reply.notices);
    Ok(Json(wire::UnlockRequests { incoming: requests(incoming), outgoing: requests(outgoing), notices }))
}

/// List the unlock requests of the repository.
///
/// Every session may see them: the events tell of each of them. Those that wait for an answer come first, then the ones that
/// were answered, the latest first.
#[utoipa::path(
    get,
    path = "/api/unlock-requests",
    operation_id = "listAllUnlockRequests",
    tag = "Unlock requests",
    params(params::LimitQuery),
    responses((status = 200, description = "The requests.", body = wire::UnlockRequestList), refusals::Look),
)]
pub async fn list_all(caller: Caller, query: QueryParams) -> ApiResult<Json<wire::UnlockRequestList>> {
    let limit = query.page_size(PAGE_ITEMS_MAX)?;
    let view = move |engine: &Engine, _| engine.latest_requests(limit);
    let reply = read_state(&caller.repo.desk, caller.look(), view).await?;
    let requests = reply.value.into_iter().map(outcome::unlock_request).collect();
    Ok(Json(wire::UnlockRequestList { requests, notices: outcome::notices(reply.notices) }))
}

/// Approve an unlock request.
///
/// The reservation is released in the same step or, with `handOver`, passes to the session that asked.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/unlock-requests/{reqId}/approve",
    operation_id = "approveUnlockRequest",
    tag = "Unlock requests",
    params(params::SessionAt, params::RequestAt),
    request_body = Option<wire::Approve>,
    responses((status = 200, description = "The request, answered.", body = wire::UnlockRequestInfo), refusals::Approve),
)]
pub async fn approve(
    caller: Caller,
    At((id, request)): At<(String, String)>,
    Json(body): Json<wire::Approve>,
) -> ApiResult<Json<wire::UnlockRequestInfo>> {
    let hand_over = (body.hand_over == Some(true)).then(|| ReservationId(new_id()));
    respond(&caller, &id, &request, UnlockAnswer::Approved, None, hand_over).await
}

/// Reject an unlock request.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/unlock-requests/{reqId}/reject",
    operation_id = "rejectUnlockRequest",
    tag = "Unlock requests",
    params(params::SessionAt, params::RequestAt),
    request_body = Option<wire::Reject>,
    responses((status = 200, description = "The request, answered.", body = wire::UnlockRequestInfo), refusals::Reject),
)]
pub async fn reject(
    caller: Caller,
    At((id, request)): At<(String, String)>,
    Json(body): Json<wire::Reject>,
) -> ApiResult<Json<wire::UnlockRequestInfo>> {
    let note = match &body.note {
        Some(note) if note.chars().count() > REASON_CHARS_MAX => {
            let what = format!("is longer than {} characters", REASON_CHARS_MAX);
            return Err(wire::BadBody::field("note", what).into());
        }
        note => note.clone(),
    };
    respond(&caller, &id, &request, UnlockAnswer::Rejected, note, None).await
}

/// Withdraw an unlock request.
#[utoipa::path(
    delete,
    path = "/api/sessions/{id}/unlock-requests/{reqId}",
    operation_id = "withdrawUnlockRequest",
    tag = "Unlock requests",
    params(params::SessionAt, params::RequestAt),
    responses((status = 200, description = "The request, withdrawn.", body = wire::UnlockRequestInfo), refusals::Withdraw),
)]
pub async fn withdraw(
    caller: Caller,
    At((id, request)): At<(String, String)>,
) -> ApiResult<Json<wire::UnlockRequestInfo>> {
    respond(&caller, &id, &request, UnlockAnswer::Withdrawn, None, None).await
}

async fn respond(
    caller: &Caller,
    id: &str,
    request: &str,
    answer: UnlockAnswer,
    note: Option<Text>,
    hand_over: Option<ReservationId>,
) -> ApiResult<Json<wire::UnlockRequestInfo>> {
    let (actor, session) = caller.act_for(id)?;
    let missing = |_| ApiError::new(Code::NotFound, "there is no such unlock request");
    let request = Uuid::try_parse(request).map_err(missing)?;
    let command = Command::Respond { session, request, answer, note, hand_over };
    Ok(Json(self::request(submit(&caller.repo, actor, command).await?)?))
}

fn asked(reply: Reply) -> ApiResult<wire::UnlockRequestInfo> {
    let notices = outcome::notices(reply.notices);
    match reply.outcome {
        Ok(Outcome::Asked(mut requests)) if !requests.is_empty() => {
            let first = outcome::unlock_request(requests.remove(0));
            let others = requests.into_iter().map(outcome::unlock_request).collect();
            Ok(wire::UnlockRequestInfo { others, notices, ..first })
        }
        other => Err(not_done(other, reply.now).with_notices(notices)),
    }
}

fn request(reply: Reply) -> ApiResult<wire::UnlockRequestInfo> {
    let notices = outcome::notices(reply.notices);
    match reply.outcome {
        Ok(Outcome::Request(request)) => Ok(wire::UnlockRequestInfo { notices, ..outcome::unlock_request(*request) }),
        other => Err(not_done(other, reply.now).with_notices(notices)),
    }
}
