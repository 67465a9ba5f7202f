//! `GET /api/held`: is anything held at all? The cheapest question; a hook asks it before it reads a long history.

use crate::engine::SessionId;
use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::{Json, QueryParams};
use crate::http::openapi::{params, refusals};
use crate::http::outcome;
use crate::http::submit::read_state;
use crate::wire;

/// Find out whether other sessions hold anything.
///
/// Takes the same short time however much is held. If no other session holds anything, no change can be in conflict.
#[utoipa::path(
    get,
    path = "/api/held",
    operation_id = "isAnythingHeld",
    tag = "Files",
    params(params::HeldQuery),
    responses((status = 200, description = "As of now.", body = wire::Held), refusals::CheckQuery),
)]
pub async fn held(caller: Caller, query: QueryParams) -> ApiResult<Json<wire::Held>> {
    let session = match query.one("session") {
        Some(id) => Some(SessionId::parse(id).ok_or_else(|| {
            wire::BadBody::field("session", "is not a session id; use 1 to 128 of A-Z, a-z, 0-9, _, . and -")
        })?),
        None => caller.claims.session.clone(),
    };
    let feature = caller.claims.feature.clone();
    let view = move |engine: &crate::engine::Engine, _| {
        let held = engine.who_holds(session.as_ref());
        let pause = session.and_then(|session| engine.paused(&session, feature.as_ref()));
        (held, pause.is_some())
    };
    let reply = read_state(&caller.repo.desk, caller.look(), view).await?;
    let (held, paused) = reply.value;
    Ok(Json(wire::Held { own: held.own, others: held.others, paused, notices: outcome::notices(reply.notices) }))
}
