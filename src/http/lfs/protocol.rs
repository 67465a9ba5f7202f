//! What is true of every request and every reply of Git LFS: how a client proves who it is, and what an error looks like.
//!
//! Three replies have consequences that a client cannot take back. After a 404 or a 501 to a verification, it switches the
//! check off for good. After a 401 to credentials, older clients ask again without end. Without `message`, a person reads
//! nothing. So these are decided here, around everything else, also for requests that no handler sees.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::wire::lfs::{LFS_JSON, LfsError};

/// Asks a Git LFS client for credentials. Browsers do not know it, so no page of another site can use what they remember.
const LFS_AUTHENTICATE: HeaderName = HeaderName::from_static("lfs-authenticate");

/// What every path of a verification ends with, also under an address that is wrong.
const VERIFY_END: &str = "/locks/verify";

/// What every path of the protocol begins with.
const BELOW_LFS: &str = "/lfs/";

/// How many calls in a row on one connection are asked for credentials. A client whose user gives it none sends the same
/// call again, on the same connection; older clients do so without end.
const CREDENTIALS_ASKED_MAX: u32 = 3;

/// The calls in a row without credentials on one connection.
#[derive(Debug, Clone, Default)]
pub struct AnonymousCalls(Arc<AtomicU32>);

impl AnonymousCalls {
    /// Whether a request needs to know of them.
    pub fn count_for(path: &str) -> bool {
        path.starts_with(BELOW_LFS)
    }

    /// Counts a call; returns whether its client was asked for credentials often enough.
    fn count(&self, has_credentials: bool) -> bool {
        if has_credentials {
            self.0.store(0, Ordering::Relaxed);
            return false;
        }
        self.0.fetch_add(1, Ordering::Relaxed) >= CREDENTIALS_ASKED_MAX
    }
}

/// A request of a Git LFS client.
#[derive(Debug, Clone, Copy)]
pub struct LfsRequest {
    is_verify: bool,
    is_below_lfs: bool,
    has_credentials: bool,
    /// The client was asked for credentials, and sends none.
    gives_no_credentials: bool,
}

impl LfsRequest {
    /// Whether this is such a request. Basic credentials become the token that they have as their password, so that
    /// the rest of the server knows only tokens.
    pub fn begin(request: &mut Request) -> Option<LfsRequest> {
        let path = request.uri().path();
        let (is_verify, is_below_lfs) = (path.ends_with(VERIFY_END), path.starts_with(BELOW_LFS));
        if !is_verify && !is_below_lfs {
            return None;
        }
        let has_credentials = request.headers().contains_key(AUTHORIZATION);
        let calls = request.extensions().get::<AnonymousCalls>();
        let gives_no_credentials = calls.is_some_and(|calls| calls.count(has_credentials));
        if is_below_lfs && let Some((user, token)) = basic(request) {
            request.headers_mut().insert(AUTHORIZATION, token);
            request.extensions_mut().insert(BasicUser(Some(user)));
        }
        Some(LfsRequest { is_verify, is_below_lfs, has_credentials, gives_no_credentials })
    }

    /// The call reads, whatever its method.
    pub fn changes_nothing(self) -> bool {
        self.is_verify
    }

    /// The reply as the protocol wants it.
    pub async fn finish(self, response: Response, request_id: &HeaderValue) -> Response {
        let (mut parts, body) = response.into_parts();
        parts.status = self.status(parts.status);
        if parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json") {
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(LFS_JSON));
        }
        if !parts.status.is_client_error() && !parts.status.is_server_error() {
            return Response::from_parts(parts, body);
        }
        parts.headers.remove(WWW_AUTHENTICATE);
        if parts.status == StatusCode::UNAUTHORIZED {
            parts.headers.insert(LFS_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"git-dibs\""));
        }
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let error = self.error(&bytes, parts.status, request_id);
        parts.headers.remove(CONTENT_LENGTH);
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(LFS_JSON));
        Response::from_parts(parts, Body::from(serde_json::to_vec(&error).expect("an error is plain data")))
    }

    fn status(self, status: StatusCode) -> StatusCode {
        match status {
            StatusCode::UNAUTHORIZED if self.has_credentials || self.gives_no_credentials => StatusCode::FORBIDDEN,
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED if self.is_verify && !self.is_below_lfs => {
                StatusCode::FORBIDDEN
            }
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED if self.is_verify => StatusCode::SERVICE_UNAVAILABLE,
            other => other,
        }
    }

    fn error(self, body: &[u8], status: StatusCode, request_id: &HeaderValue) -> LfsError {
        let request_id = request_id.to_str().ok().map(str::to_owned);
        let envelope: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(sentence) = envelope["error"].as_str() {
            let message = match status {
                _ if self.is_verify && !self.is_below_lfs => {
                    "there is no Git LFS server at this address; check lfs.url (git dibs install --lfs sets it)"
                        .to_owned()
                }
                StatusCode::FORBIDDEN if self.gives_no_credentials => {
                    "git-lfs was asked for credentials and sends none; git dibs install --lfs makes it send a token"
                        .to_owned()
                }
                StatusCode::FORBIDDEN if envelope["code"] == "UNAUTHENTICATED" => {
                    format!("{sentence} (git dibs doctor tells which token git-lfs sends)")
                }
                _ => sentence.to_owned(),
            };
            return LfsError { message, request_id, lock: None };
        }
        match serde_json::from_value::<LfsError>(envelope) {
            Ok(error) if !error.message.is_empty() => LfsError { request_id, ..error },
            _ => LfsError { message: format!("the server answered {status}"), request_id, lock: None },
        }
    }
}

/// The user name of Basic credentials, if a request has some. It proves nothing.
#[derive(Debug, Clone, Default)]
pub struct BasicUser(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for BasicUser {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<BasicUser>().cloned().unwrap_or_default())
    }
}

/// The user name of Basic credentials, and their password as a bearer token; none where there are no such credentials. Credentials that
/// cannot be read are left alone, and are refused like any other header that is no token.
fn basic(request: &Request) -> Option<(String, HeaderValue)> {
    let mut values = request.headers().get_all(AUTHORIZATION).iter();
    let (scheme, coded) = values.next()?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") || values.next().is_some() {
        return None;
    }
    let plain = String::from_utf8(STANDARD.decode(coded.trim()).ok()?).ok()?;
    let (user, password) = plain.split_once(':')?;
    Some((user.to_owned(), HeaderValue::from_str(&format!("Bearer {password}")).ok()?))
}
