//! Other systems' protocols over the same desk, under `/compat`. Their users change the base URL and the credential.
//!
//! Each protocol has its own shapes, for errors too. None of them is in the published document, which describes our own API;
//! `docs/compat.md` describes these. Git LFS, which has more to it, is in `http/lfs`.

mod coordinator;
mod jobs;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use serde_json::Value;

use super::app::App;

/// All protocols.
pub fn routes() -> Router<Arc<App>> {
    Router::new().merge(jobs::routes()).merge(coordinator::routes())
}

/// An error in our envelope, in the shape that a protocol uses. Everything else stays as it is.
async fn reshape_error(response: Response, shape: fn(&Value) -> Value) -> Response {
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if !is_error {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let Ok(envelope) = serde_json::from_slice::<Value>(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    (parts, shape(&envelope).to_string()).into_response()
}
