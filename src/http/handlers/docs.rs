//! The published document at `/openapi.json`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;

use crate::http::app::App;
use crate::http::extract::Json;
use crate::http::openapi::{self, refusals};

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getDocument",
    tag = "Documents",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), refusals::NoToken),
    security(()),
)]
pub async fn document(State(app): State<Arc<App>>) -> Response {
    ([(CACHE_CONTROL, "no-cache")], Json(openapi::document(&app))).into_response()
}
