//! Connections beyond the limit serve only health checks and the requests of admins; see `transport::connections`.

use axum::extract::Request;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONNECTION;

use crate::http::app::App;
use crate::http::error::{ApiError, ApiResult};
use crate::http::login::cookie::Proof;
use crate::token::Scope;
use crate::wire::Code;

/// Marks a request on such a connection.
#[derive(Clone, Copy)]
pub struct ReservedSlot;

/// The paths that need no token and tell how the server is doing.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Whether a request on such a connection may be served.
pub fn check(request: &Request, app: &App) -> ApiResult<()> {
    if HEALTH.contains(&request.uri().path()) {
        return Ok(());
    }
    let claims = Proof::of(request.headers(), app).ok().and_then(|proof| proof.verify(app).ok());
    if claims.is_some_and(|claims| claims.scope == Scope::Admin) {
        return Ok(());
    }
    let sentence = "this server has reached its limit of connections; try again in a moment";
    Err(ApiError::new(Code::Unavailable, sentence).retry_after(1))
}

/// Such a connection ends with its first reply, so that the next one can use its slot.
pub fn close(response: &mut Response) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}
