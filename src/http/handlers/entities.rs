//! `/api/entities/…`: locks on things of another system, such as jobs and merge requests.

use axum::response::Response;

use crate::engine::UnlockAnswer;
use crate::http::caller::Caller;
use crate::http::entity::EntityCall;
use crate::http::error::ApiResult;
use crate::http::extract::{At, Json, created};
use crate::http::openapi::{params, refusals};
use crate::wire;

/// Look at the lock of an entity and at the requests to unlock it.
#[utoipa::path(
    get,
    path = "/api/entities/{kind}/{id}/lock",
    operation_id = "getEntity",
    tag = "Entities",
    params(params::EntityAt),
    responses((status = 200, description = "The entity.", body = wire::Entity), refusals::LookAtEntity),
)]
pub async fn get(caller: Caller, At((kind, id)): At<(String, String)>) -> ApiResult<Json<wire::Entity>> {
    Ok(Json(EntityCall::new(&caller, &kind, &id)?.look().await?))
}

/// Lock an entity.
///
/// Without `ttlSeconds`, the lock lasts while its session gives signs of life.
#[utoipa::path(
    post,
    path = "/api/entities/{kind}/{id}/lock",
    operation_id = "lockEntity",
    tag = "Entities",
    params(params::EntityAt),
    request_body = Option<wire::LockEntity>,
    responses((status = 200, description = "Locked.", body = wire::Entity), refusals::LockEntity),
)]
pub async fn lock(
    caller: Caller,
    At((kind, id)): At<(String, String)>,
    Json(body): Json<wire::LockEntity>,
) -> ApiResult<Json<wire::Entity>> {
    Ok(Json(EntityCall::new(&caller, &kind, &id)?.lock(&body).await?))
}

/// Unlock an entity. Unlocking one that is free is no error.
#[utoipa::path(
    post,
    path = "/api/entities/{kind}/{id}/unlock",
    operation_id = "unlockEntity",
    tag = "Entities",
    params(params::EntityAt),
    request_body = Option<wire::EntityAgent>,
    responses((status = 200, description = "The session does not hold the lock any more.", body = wire::Entity), refusals::UnlockEntity),
)]
pub async fn unlock(
    caller: Caller,
    At((kind, id)): At<(String, String)>,
    Json(body): Json<wire::EntityAgent>,
) -> ApiResult<Json<wire::Entity>> {
    Ok(Json(EntityCall::new(&caller, &kind, &id)?.unlock(&body).await?))
}

/// List the requests to unlock an entity.
#[utoipa::path(
    get,
    path = "/api/entities/{kind}/{id}/unlock-requests",
    operation_id = "listEntityRequests",
    tag = "Entities",
    params(params::EntityAt),
    responses((status = 200, description = "The entity.", body = wire::Entity), refusals::LookAtEntity),
)]
pub async fn requests(caller: Caller, At((kind, id)): At<(String, String)>) -> ApiResult<Json<wire::Entity>> {
    Ok(Json(EntityCall::new(&caller, &kind, &id)?.look().await?))
}

/// Ask the holder to unlock an entity.
#[utoipa::path(
    post,
    path = "/api/entities/{kind}/{id}/unlock-requests",
    operation_id = "askToUnlockEntity",
    tag = "Entities",
    params(params::EntityAt),
    request_body = wire::RequestEntity,
    responses((status = 201, description = "The entity, with the request.", body = wire::Entity), refusals::AskEntity),
)]
pub async fn ask(
    caller: Caller,
    At((kind, id)): At<(String, String)>,
    Json(body): Json<wire::RequestEntity>,
) -> ApiResult<Response> {
    Ok(created(EntityCall::new(&caller, &kind, &id)?.request(&body).await?))
}

/// Approve a request: the lock is released in the same step.
#[utoipa::path(
    post,
    path = "/api/entities/{kind}/{id}/unlock-requests/{reqId}/approve",
    operation_id = "approveEntityRequest",
    tag = "Entities",
    params(params::EntityAt, params::RequestAt),
    request_body = Option<wire::EntityAgent>,
    responses((status = 200, description = "The entity; `releaseLock` is true.", body = wire::Entity), refusals::AnswerEntity),
)]
pub async fn approve(
    caller: Caller,
    At((kind, id, request)): At<(String, String, String)>,
    Json(body): Json<wire::EntityAgent>,
) -> ApiResult<Json<wire::Entity>> {
    let call = EntityCall::new(&caller, &kind, &id)?;
    Ok(Json(call.answer(&request, body.agent_id.as_ref(), UnlockAnswer::Approved).await?))
}

/// Reject a request: the lock stays.
#[utoipa::path(
    post,
    path = "/api/entities/{kind}/{id}/unlock-requests/{reqId}/reject",
    operation_id = "rejectEntityRequest",
    tag = "Entities",
    params(params::EntityAt, params::RequestAt),
    request_body = Option<wire::EntityAgent>,
    responses((status = 200, description = "The entity; `releaseLock` is false.", body = wire::Entity), refusals::AnswerEntity),
)]
pub async fn reject(
    caller: Caller,
    At((kind, id, request)): At<(String, String, String)>,
    Json(body): Json<wire::EntityAgent>,
) -> ApiResult<Json<wire::Entity>> {
    let call = EntityCall::new(&caller, &kind, &id)?;
    Ok(Json(call.answer(&request, body.agent_id.as_ref(), UnlockAnswer::Rejected).await?))
}

/// Withdraw a request, as the session that asked.
#[utoipa::path(
    delete,
    path = "/api/entities/{kind}/{id}/unlock-requests/{reqId}",
    operation_id = "withdrawEntityRequest",
    tag = "Entities",
    params(params::EntityAt, params::RequestAt),
    responses((status = 200, description = "The entity.", body = wire::Entity), refusals::WithdrawEntity),
)]
pub async fn withdraw(
    caller: Caller,
    At((kind, id, request)): At<(String, String, String)>,
) -> ApiResult<Json<wire::Entity>> {
    Ok(Json(EntityCall::new(&caller, &kind, &id)?.answer(&request, None, UnlockAnswer::Withdrawn).await?))
}
