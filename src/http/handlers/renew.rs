//! `POST …/files/renew`.

use std::sync::Arc;

use axum::extract::State;

use crate::engine::{Command, Few, Outcome};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::{At, Json, KEYS_BODY_MAX, LargeJson};
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::request_fields::{named_keys, ttl};
use crate::http::submit::submit;
use crate::wire::{self, OneOrMany};

/// Renew one reservation, or several, for another full TTL.
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
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    LargeJson(body, _permit): LargeJson<wire::Renew, KEYS_BODY_MAX>,
) -> ApiResult<Json<wire::RenewReply>> {
    let (actor, session) = caller.act_for(&id)?;
    let texts = body.one_or_many()?;
    let keys = named_keys(&app, &caller, texts, body.encoding).await?;
    let ttl = match body.ttl_seconds {
        Some(seconds) => {
            let policy = caller.repo.policy();
            let bounds = keys.iter().map(|named| policy.bounds(&named.key));
            bounds.map(|bounds| ttl(Some(seconds), bounds)).collect::<ApiResult<Few<_>>>()?.pop()
        }
        None => None,
    };
    let reply = submit(&caller.repo, actor, Command::Renew { session: session.clone(), keys, ttl }).await?;
    let notices = outcome::notices(reply.notices);
    match (reply.outcome, texts) {
        (Ok(Outcome::Granted(grants)), OneOrMany::One(_)) => {
            let grant = grants.first().expect("a renewal has as many reservations as the request has keys");
            let renewed = wire::Renewed { notices, ..outcome::renewed(&session, grant) };
            Ok(Json(wire::RenewReply::One(renewed)))
        }
        (Ok(Outcome::Granted(grants)), OneOrMany::Many(_)) => {
            let expires = grants.iter().map(|grant| grant.expires).min().expect("a request has at least one key");
            let reservations = grants.iter().map(|grant| outcome::renewed(&session, grant)).collect();
            let reply = wire::RenewedMany { expires_at: outcome::time(expires), reservations, notices };
            Ok(Json(wire::RenewReply::Many(reply)))
        }
        (other, _) => Err(not_done(other, reply.now).with_notices(notices)),
    }
}
