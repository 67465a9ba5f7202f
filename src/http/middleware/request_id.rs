//! Gives every request an id, counts it, and checks its `Host` and its connection.
//!
//! The id is the client's own if it sent a usable one, else a new one. Every response carries it, also a refusal, and
//! so do the lines of the decision log.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, COOKIE, HOST};
use http::{HeaderName, HeaderValue, Method};

use super::host_check::HostCheck;
use super::reply_room;
use super::reserved_slot::{self, ReservedSlot};
use crate::desk::logs_decisions;
use crate::http::app::App;
use crate::http::forward::FromLeader;
use crate::http::lfs::protocol::LfsRequest;
use crate::http::{decision_log, ids};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a client, in bytes.
const ID_MAX: usize = 128;

/// The outermost layer: the id, the count, the host check, then the rest of the server.
pub async fn with_request_id(
    State((app, host_check)): State<(Arc<App>, HostCheck)>,
    mut request: Request,
    next: Next,
) -> Response {
    let client_id = request.headers().get(REQUEST_ID).filter(|value| usable(value.to_str().ok()).is_some()).cloned();
    let id = client_id.unwrap_or_else(|| HeaderValue::try_from(new()).expect("hex digits fit a header"));
    let lfs = LfsRequest::begin(&mut request);
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let request_count = app.requests.begin(route, request.method());
    let is_reserved = request.extensions().get::<ReservedSlot>().is_some();
    // A copy of the proof is cheap, and needed only where the reply is large.
    let proof =
        [AUTHORIZATION, COOKIE, HOST].map(|name| request.headers().get(&name).cloned().map(|value| (name, value)));
    let changes_nothing = request.method() == Method::GET
        || request.uri().path().ends_with("/check-conflicts")
        || lfs.is_some_and(LfsRequest::changes_nothing);
    // Another node has checked the host of what it sends.
    let is_from_node = app
        .forwarder
        .as_ref()
        .is_some_and(|forwarder| forwarder.is_from_node(request.method(), request.uri().path(), request.headers()));
    let mut refusal = match is_from_node {
        true => Ok(()),
        false => host_check.check(request.version(), request.uri(), request.headers(), &app.hosts()),
    };
    if is_reserved && refusal.is_ok() {
        refusal = reserved_slot::check(&request, &app);
    }
    let mut response = match refusal {
        Err(refusal) => refusal.into_response(),
        Ok(()) if logs_decisions() => decision_log::REQUEST.scope(id.clone(), next.run(request)).await,
        Ok(()) => next.run(request).await,
    };
    if reply_room::is_large(&response) {
        let caller = proof.into_iter().flatten().collect();
        response = reply_room::count(response, &app, &caller, changes_nothing).await;
    }
    if let Some(lfs) = lfs
        && response.extensions().get::<FromLeader>().is_none()
    {
        response = lfs.finish(response, &id).await;
    }
    request_count.end(response.status());
    response.headers_mut().insert(REQUEST_ID, id);
    if is_reserved {
        reserved_slot::close(&mut response);
    }
    response
}

/// A new id.
pub fn new() -> String {
    ids::new_id().simple().to_string()
}

/// The id of a client, if it is short and has nothing that could break a header or a line of the log.
pub fn usable(id: Option<&str>) -> Option<&str> {
    let is_usable = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte);
    id.filter(|id| (1..=ID_MAX).contains(&id.len()) && id.bytes().all(is_usable))
}
