//! The one list of routes, and what is around all of them.
//!
//! Each path is written at its handler, which also describes the call for the published document.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::error::ApiError;
use super::forward::forward;
use super::handlers::{
    check, contention, docs, entities, events, health, held, history, login, mcp, metrics, pages, ports, pushes,
    release, renew, reservation_history, reservations, reserve, sessions, stats, unlock_requests, waits,
};
use super::middleware::host_check::HostCheck;
use super::middleware::request_id::with_request_id;
use super::openapi;
use super::{compat, lfs};
use crate::wire::Code;

/// Every call, with its description.
pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::get))
        .routes(routes!(sessions::heartbeat))
        .routes(routes!(sessions::end))
        .routes(routes!(reserve::reserve))
        .routes(routes!(release::release))
        .routes(routes!(release::release_all))
        .routes(routes!(renew::renew))
        .routes(routes!(check::check, check::check_query))
        .routes(routes!(reservations::reserved_files))
        .routes(routes!(unlock_requests::ask, unlock_requests::list))
        .routes(routes!(unlock_requests::list_all))
        .routes(routes!(unlock_requests::withdraw))
        .routes(routes!(unlock_requests::approve))
        .routes(routes!(unlock_requests::reject))
        .routes(routes!(ports::allocate, ports::list, ports::free))
        .routes(routes!(entities::get, entities::lock))
        .routes(routes!(entities::unlock))
        .routes(routes!(entities::requests, entities::ask))
        .routes(routes!(entities::approve))
        .routes(routes!(entities::reject))
        .routes(routes!(entities::withdraw))
        .routes(routes!(pushes::announce))
        .routes(routes!(check::check_without_session))
        .routes(routes!(held::held))
        .routes(routes!(pushes::claim))
        .routes(routes!(reservations::reservations))
        .routes(routes!(reservations::take_away))
        .routes(routes!(reservation_history::get))
        .routes(routes!(events::follow))
        .routes(routes!(history::list))
        .routes(routes!(stats::stats))
        .routes(routes!(waits::waits))
        .routes(routes!(contention::list_refusals))
        .routes(routes!(contention::hotspots))
        .routes(routes!(login::sign_in, login::get, login::sign_out))
        .routes(routes!(login::create_code))
        .routes(routes!(metrics::metrics))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(pages::dashboard))
        .routes(routes!(docs::document))
        .routes(routes!(pages::docs))
        .routes(routes!(pages::file))
}

/// All calls of the app, for a listener of this kind.
pub fn router(app: Arc<App>, host_check: HostCheck) -> Router {
    let (router, document) = routes().split_for_parts();
    let mcp_path = mcp::MCP_PATH.to_owned();
    app.requests.set_routes(document.paths.paths.keys().chain([&mcp_path]).chain(&lfs::paths()));
    let router = router
        .merge(compat::routes())
        .merge(lfs::routes())
        // Not in the document: it has another protocol, with descriptions of its own.
        .route(mcp::MCP_PATH, axum::routing::post(mcp::post).fallback(mcp::other_method))
        .fallback(async || ApiError::new(Code::NotFound, "no such path; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "this path does not support this method; see the Allow header")
        });
    let router = match &app.forwarder {
        Some(_) => router.layer(from_fn_with_state(app.clone(), forward)),
        None => router,
    };
    router.layer(from_fn_with_state((app.clone(), host_check), with_request_id)).with_state(app)
}
