//! The door for programs: routes in one list; a handler takes apart, submits, answers.
//!
//! No rules live here. What a request means is decided by the engine behind the [`Desk`](crate::desk::Desk); what it
//! looks like on the wire is in [`wire`](crate::wire). Start at [`router`]; [`Server`] puts it on sockets.

mod app;
mod caller;
mod decision_log;
mod error;
mod event_json;
mod extract;
mod handlers;
mod ids;
mod key_policy;
mod limits;
mod middleware;
mod openapi;
mod outcome;
mod reply_channel;
mod submit;
mod transport;

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use app::{App, Repository};
pub use error::{ApiError, ApiResult};
pub use handlers::history::{Past, PastPage, PastQuery, PastTrouble, told};
pub use handlers::metrics::Gauge;
pub use key_policy::{KeyPolicy, Only, TtlBounds};
pub use limits::Limits;
pub use middleware::host_check::Gate;
pub use reply_channel::Courier;
pub use transport::server::{Listener, Server, runtime};

use handlers::{events, files, history, metrics, reservations, sessions, unlock_requests};

use crate::desk::logs_decisions;
use crate::wire::Code;

/// Every call there is. Each path is written at its handler, which also describes it for the published document.
fn calls() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::get))
        .routes(routes!(sessions::heartbeat))
        .routes(routes!(sessions::end))
        .routes(routes!(files::reserve))
        .routes(routes!(files::release))
        .routes(routes!(files::release_all))
        .routes(routes!(files::renew))
        .routes(routes!(files::check, files::check_query))
        .routes(routes!(reservations::reserved_files))
        .routes(routes!(unlock_requests::ask, unlock_requests::list))
        .routes(routes!(unlock_requests::withdraw))
        .routes(routes!(unlock_requests::approve))
        .routes(routes!(unlock_requests::reject))
        .routes(routes!(files::check_as_nobody))
        .routes(routes!(reservations::reservations))
        .routes(routes!(reservations::take_away))
        .routes(routes!(events::follow))
        .routes(routes!(history::list))
        .routes(routes!(reservations::stats))
        .routes(routes!(metrics::metrics))
        .routes(routes!(reservations::healthz))
        .routes(routes!(reservations::readyz))
        .routes(routes!(openapi::front_door))
        .routes(routes!(openapi::document))
        .routes(routes!(openapi::page))
        .routes(routes!(openapi::part))
}

/// The calls for whoever gets through the gate, and what holds for all of them.
pub fn router(app: Arc<App>, gate: Gate) -> Router {
    let (router, _) = calls().split_for_parts();
    router
        .fallback(async || ApiError::new(Code::NotFound, "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "this path does not take this method; see the Allow header")
        })
        .layer(from_fn_with_state((app.clone(), gate), enter))
        .with_state(app)
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Every request is counted, and every answer carries the request's id: the client's if it is a sane one, else a new
/// one. Lines of the log carry it too. All of that goes also for what does not get through the gate.
async fn enter(State((app, gate)): State<(Arc<App>, Gate)>, request: Request, next: Next) -> Response {
    let own = request.headers().get(REQUEST_ID).filter(|value| is_sane(value.as_bytes())).cloned();
    let id = own.unwrap_or_else(|| {
        let mut text = [0; uuid::fmt::Simple::LENGTH];
        HeaderValue::from_str(ids::new_id().simple().encode_lower(&mut text)).expect("hex digits fit a header")
    });
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let mark = app.requests.mark(route, request.method());
    let passed = gate.check(request.version(), request.uri(), request.headers(), &app.hosts());
    let mut response = match passed {
        Err(refused) => refused.into_response(),
        Ok(()) if logs_decisions() => decision_log::REQUEST.scope(id.clone(), next.run(request)).await,
        Ok(()) => next.run(request).await,
    };
    app.requests.count(mark, response.status());
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn is_sane(id: &[u8]) -> bool {
    (1..=128).contains(&id.len()) && id.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.:/+=".contains(b))
}
