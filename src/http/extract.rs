//! Extractors for body, path and query. Their errors have the envelope of the contract, unlike those of axum.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::app::App;
use super::error::{ApiError, ApiResult};
use crate::wire::limits::PAGE_ITEMS_MAX;
use crate::wire::{self, Code};

/// The largest body of an ordinary call, in bytes.
pub const BODY_MAX: usize = 64 * 1024;

/// The largest body of a call that lists keys to change: 10,000 of them, and long ones.
pub const KEYS_BODY_MAX: usize = 16 * 1024 * 1024;

/// The largest body of a check: 100,000 paths are a normal call.
pub const CHECK_BODY_MAX: usize = 64 * 1024 * 1024;

/// How much of a too large body is still read and dropped, and for how long.
const SKIP_BYTES_MAX: usize = 64 * 1024 * 1024;
const SKIP_TIME_MAX: Duration = Duration::from_secs(5);

/// Larger bodies and lists are parsed with [`without_blocking`]; parsing this much takes about a millisecond.
const LONG_BODY_BYTES: usize = 256 * 1024;
pub const LONG_LIST_KEYS: usize = 1_000;

/// A JSON body: of a request, at most `MAX` bytes, or of a reply.
pub struct Json<T, const MAX: usize = BODY_MAX>(pub T);

impl<T: DeserializeOwned, const MAX: usize> FromRequest<Arc<App>> for Json<T, MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> ApiResult<Self> {
        let is_json = is_json(request.headers());
        let (size_max, time_max) = {
            let limits = app.limits();
            (MAX.min(limits.body_bytes), limits.body_time)
        };
        let too_large = || {
            let sentence = format!("the body is larger than the {size_max} bytes that this call accepts");
            ApiError::new(Code::PayloadTooLarge, sentence)
        };
        let mut body = request.into_body();
        let collect = Limited::new(&mut body, size_max).collect();
        let bytes = match tokio::time::timeout(time_max, collect).await {
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let _ = tokio::time::timeout(SKIP_TIME_MAX, skip(body)).await;
                return Err(too_large());
            }
            Ok(Err(_)) => return Err(ApiError::new(Code::InvalidRequest, "the body did not arrive completely")),
            Err(_) => return Err(ApiError::new(Code::InvalidRequest, "the body did not arrive in time")),
        };
        if !bytes.is_empty() && !is_json {
            let sentence = "the body must be JSON; send it with Content-Type: application/json";
            return Err(ApiError::new(Code::UnsupportedMediaType, sentence));
        }
        Ok(Json(without_blocking(bytes.len() > LONG_BODY_BYTES, || wire::read(&bytes))?))
    }
}

/// Runs `work`. If it is long, the other tasks of this thread move to another thread meanwhile.
pub fn without_blocking<T>(long: bool, work: impl FnOnce() -> T) -> T {
    // A runtime of one thread has no other thread.
    let can = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if long && can() { tokio::task::block_in_place(work) } else { work() }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let bytes = serde_json::to_vec(&self.0).expect("replies are plain data");
        ([(CONTENT_TYPE, "application/json")], bytes).into_response()
    }
}

/// 201 Created, with a body.
pub fn created<T: Serialize>(body: T) -> Response {
    (StatusCode::CREATED, Json(body)).into_response()
}

/// Reads the rest of a body and drops it. Many clients read the reply only after they have sent everything; if the
/// server stopped reading, they would see a closed connection instead of the error.
async fn skip(mut body: Body) {
    let mut bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        bytes += frame.data_ref().map_or(0, |data| data.len());
        if bytes > SKIP_BYTES_MAX {
            return;
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.len() > 17
            && essence.is_char_boundary(12)
            && essence[..12].eq_ignore_ascii_case("application/")
            && essence.to_ascii_lowercase().ends_with("+json"))
}

/// The parameters in the path of a URL.
pub struct At<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(At(value)),
            Err(_) => Err(ApiError::new(Code::InvalidRequest, "the path of this URL is not valid UTF-8")),
        }
    }
}

/// The names and values of the query, in order and with repetitions.
pub fn query(parts: &Parts) -> ApiResult<Vec<(String, String)>> {
    if parts.uri.query().is_none_or(str::is_empty) {
        return Ok(Vec::new());
    }
    match Query::try_from_uri(&parts.uri) {
        Ok(Query(pairs)) => Ok(pairs),
        Err(_) => Err(ApiError::new(Code::InvalidRequest, "the query of this URL cannot be read")),
    }
}

/// All values of one parameter of the query.
pub fn query_values(parts: &Parts, name: &str) -> ApiResult<Vec<String>> {
    let pairs = query(parts)?;
    Ok(pairs.into_iter().filter(|(key, _)| key == name).map(|(_, value)| value).collect())
}

/// The query of a URL.
pub struct QueryParams(pub Vec<(String, String)>);

impl QueryParams {
    /// The last value of this parameter.
    pub fn one(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// A parameter that must be one of these words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> ApiResult<Option<T>> {
        let Some(text) = self.one(name) else { return Ok(None) };
        let unknown = || {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            wire::BadBody::field(name, format!("must be one of {}", words.join(", "))).into()
        };
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| Some(*value)).ok_or_else(unknown)
    }

    /// How many items a page of a list may have: `limit`, or `default` if the query does not say.
    pub fn page_size(&self, default: u32) -> ApiResult<usize> {
        let limit = self.number("limit", 1, PAGE_ITEMS_MAX.into())?.unwrap_or(default.into());
        Ok(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// A parameter that must be a whole number from `min` to `max`.
    pub fn number(&self, name: &str, min: u64, max: u64) -> ApiResult<Option<u64>> {
        let Some(text) = self.one(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => {
                let what = format!("must be a whole number from {min} to {max}");
                Err(wire::BadBody::field(name, what).into())
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> ApiResult<Self> {
        query(parts).map(QueryParams)
    }
}
