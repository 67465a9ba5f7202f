//! The job service: locks on jobs, and requests to unlock them.

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde_json::{Value, json};

use super::reshape_error;
use crate::engine::UnlockAnswer;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::entity::EntityCall;
use crate::http::error::ApiResult;
use crate::http::extract::{At, Json, created};
use crate::wire::{self, UnlockStatus};

/// The scheme of the keys of jobs.
const KIND: &str = "job";

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/compat/jobs/{id}/lock", post(lock).get(look))
        .route("/compat/jobs/{id}/unlock", post(unlock))
        .route("/compat/jobs/{id}/unlock-requests", get(look).post(request))
        .route("/compat/jobs/{id}/unlock-requests/{request}/approve", post(approve))
        .route("/compat/jobs/{id}/unlock-requests/{request}/reject", post(reject))
        .route("/compat/jobs/{id}/unlock-requests/{request}", delete(withdraw))
        .layer(map_response(|response: Response| reshape_error(response, |error| json!({ "error": error["error"] }))))
}

async fn lock(caller: Caller, At(id): At<String>, Json(body): Json<wire::LockEntity>) -> ApiResult<Json<Value>> {
    Ok(Json(job(&EntityCall::new(&caller, KIND, &id)?.lock(&body).await?)))
}

async fn look(caller: Caller, At(id): At<String>) -> ApiResult<Json<Value>> {
    Ok(Json(job(&EntityCall::new(&caller, KIND, &id)?.look().await?)))
}

async fn unlock(caller: Caller, At(id): At<String>, Json(body): Json<wire::EntityAgent>) -> ApiResult<Json<Value>> {
    Ok(Json(job(&EntityCall::new(&caller, KIND, &id)?.unlock(&body).await?)))
}

async fn request(caller: Caller, At(id): At<String>, Json(body): Json<wire::RequestEntity>) -> ApiResult<Response> {
    Ok(created(job(&EntityCall::new(&caller, KIND, &id)?.request(&body).await?)))
}

async fn approve(
    caller: Caller,
    At((id, request)): At<(String, String)>,
    Json(body): Json<wire::EntityAgent>,
) -> ApiResult<Json<Value>> {
    let call = EntityCall::new(&caller, KIND, &id)?;
    Ok(Json(job(&call.answer(&request, body.agent_id.as_ref(), UnlockAnswer::Approved).await?)))
}

async fn reject(
    caller: Caller,
    At((id, request)): At<(String, String)>,
    Json(body): Json<wire::EntityAgent>,
) -> ApiResult<Json<Value>> {
    let call = EntityCall::new(&caller, KIND, &id)?;
    Ok(Json(job(&call.answer(&request, body.agent_id.as_ref(), UnlockAnswer::Rejected).await?)))
}

async fn withdraw(caller: Caller, At((id, request)): At<(String, String)>) -> ApiResult<Json<Value>> {
    let call = EntityCall::new(&caller, KIND, &id)?;
    Ok(Json(job(&call.answer(&request, None, UnlockAnswer::Withdrawn).await?)))
}

/// A job as that service shows it: the fields of the lock, which are null while it is free, and the requests. A request
/// disappears only when it is withdrawn. It has no word for one whose lock ended first: that is shown as rejected, with no
/// one who did it.
fn job(entity: &wire::Entity) -> Value {
    let lock = entity.lock.as_ref();
    let shown = |request: &wire::EntityRequest| match request.status {
        UnlockStatus::Withdrawn => None,
        UnlockStatus::Moot => Some(wire::EntityRequest { status: UnlockStatus::Rejected, ..request.clone() }),
        UnlockStatus::Pending | UnlockStatus::Approved | UnlockStatus::Rejected => Some(request.clone()),
    };
    let requests: Vec<_> = entity.requests.iter().filter_map(shown).collect();
    let mut job = json!({
        "lockedBy": lock.map(|lock| &lock.locked_by),
        "lockedByName": lock.and_then(|lock| lock.locked_by_name.as_ref()),
        "lockedAt": lock.map(|lock| lock.locked_at),
        "lock": lock.map(|lock| json!({
            "lockedBy": lock.locked_by, "lockedByName": lock.locked_by_name, "lockedAt": lock.locked_at,
        })),
        "requests": requests,
    });
    if let Some(released) = entity.release_lock {
        job["releaseLock"] = released.into();
    }
    if let (Some(request), Value::Object(job)) = (&entity.request, &mut job) {
        let fields = serde_json::to_value(request).expect("plain data");
        job.extend(fields.as_object().cloned().unwrap_or_default());
    }
    job
}
