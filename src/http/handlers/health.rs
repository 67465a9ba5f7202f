//! `GET /healthz` and `GET /readyz`: for load balancers and service managers.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::desk::SubmitError;
use crate::engine::Actor;
use crate::http::app::App;
use crate::http::error::ApiError;
use crate::http::extract::Json;
use crate::http::openapi::refusals;
use crate::http::submit::read_state;
use crate::wire::{self, Code};

/// Whether the process is running.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "healthz",
    tag = "Monitoring and administration",
    responses((status = 200, description = "It is running.", body = wire::Health), refusals::NoToken),
    security(()),
)]
pub async fn healthz(State(app): State<Arc<App>>) -> Json<wire::Health> {
    Json(health(&app, "ok"))
}

/// Whether the server is ready for requests.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "Monitoring and administration",
    responses((status = 200, description = "Every repository is ready.", body = wire::Health), refusals::NoToken),
    security(()),
)]
pub async fn readyz(State(app): State<Arc<App>>) -> Response {
    if app.is_stopping() {
        return ApiError::from(SubmitError::Stopped).into_response();
    }
    if let Some(reason) = app.unready() {
        return ApiError::new(Code::Unavailable, reason).retry_after(1).into_response();
    }
    let cluster = app.forwarder.as_ref().map(|forwarder| forwarder.view());
    if let Some(sentence) = cluster.as_ref().and_then(|view| view.problem()) {
        return ApiError::new(Code::Unavailable, sentence).retry_after(1).into_response();
    }
    for repo in app.repositories.open() {
        if let Err(error) = read_state(&repo.desk, Actor::Reader, |_, _| ()).await {
            return error.into_response();
        }
    }
    let all = app.repositories.open().filter_map(|repo| repo.history.as_ref()?.ledger());
    let ledger = all.max_by_key(|ledger| (!ledger.ok, ledger.seconds_behind, ledger.records_behind));
    let cluster = cluster.map(|view| view.health(app.repositories.names()));
    Json(wire::Health { ledger, cluster, ..health(&app, "ready") }).into_response()
}

fn health(app: &App, status: &str) -> wire::Health {
    let now = Some(wire::Time((app.wall_clock)() * 1000));
    wire::Health { status: status.into(), version: env!("CARGO_PKG_VERSION").into(), now, ledger: None, cluster: None }
}
