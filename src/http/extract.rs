//! Extractors for body, path and query. Their errors have the envelope of the contract, unlike those of axum.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

use super::app::App;
use super::background::without_blocking;
use super::byte_budget::BytePermit;
use super::error::{ApiError, ApiResult};
use crate::engine::Text;
use crate::wire::limits::PAGE_ITEMS_MAX;
use crate::wire::{self, Code, Time};

/// The largest body of an ordinary call, in bytes.
pub const BODY_MAX: usize = 64 * 1024;

/// The largest body of a call that lists keys to change: 10,000 of them, and long ones.
pub const KEYS_BODY_MAX: usize = 16 * 1024 * 1024;

/// The largest body of a check: 100,000 paths are a normal call. The default of `body-bytes` is lower.
pub const CHECK_BODY_MAX: usize = 64 * 1024 * 1024;

/// Larger bodies count against the budget of bodies in memory.
const UNCOUNTED_BODY_BYTES: usize = 8 * 1024;

/// The memory for large requests at once, of all callers and of one.
pub const BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
pub const BODIES_BYTES_PER_CALLER_MAX: usize = 64 * 1024 * 1024;

/// What a request takes in memory for each byte of its body: the text, the paths in it and the keys made of them.
const MEMORY_PER_BODY_BYTE: usize = 8;

/// How long a large body may wait for room in that budget.
const ROOM_TIME_MAX: Duration = Duration::from_secs(5);

/// Larger bodies and lists are parsed with [`without_blocking`]; parsing this much takes a part of a millisecond.
const LONG_BODY_BYTES: usize = 64 * 1024;
pub const LONG_LIST_KEYS: usize = 1_000;

/// The same for what is written: a reply with more items takes about a millisecond.
pub const LONG_REPLY_ITEMS: usize = 500;

/// After so many bytes of a body, its connection pauses if other requests arrive: their connections have a turn, and what the
/// desk has decided is sent. The pause is as short as a timer can be. One body then arrives with 64 MB/s at most.
const TURN_BYTES: usize = 64 * 1024;
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// A JSON body: of a request, at most [`BODY_MAX`] bytes, or of a reply.
pub struct Json<T>(pub T);

/// The JSON body of a request that may be large, at most `MAX` bytes, and its share of the budget for such bodies. A
/// handler keeps the share as long as the body.
pub struct LargeJson<T, const MAX: usize>(pub T, pub BytePermit);

/// The caller that a large body counts for; an extension of the request.
#[derive(Clone)]
pub struct BodyOwner(pub Text);

impl BodyOwner {
    /// Marks a request whose body may be large enough to count.
    pub fn mark(parts: &mut Parts, owner: &Text) {
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if length.is_none_or(|length| length > UNCOUNTED_BODY_BYTES) && parts.method != Method::GET {
            parts.extensions.insert(BodyOwner(owner.clone()));
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequest<Arc<App>> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> ApiResult<Self> {
        Ok(Json(read_json(request, app, BODY_MAX).await?.0))
    }
}

impl<T: DeserializeOwned + Send, const MAX: usize> FromRequest<Arc<App>> for LargeJson<T, MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> ApiResult<Self> {
        let (body, permit) = read_json(request, app, MAX).await?;
        Ok(LargeJson(body, permit))
    }
}

async fn read_json<T: DeserializeOwned + Send>(request: Request, app: &App, max: usize) -> ApiResult<(T, BytePermit)> {
    let check_paths_max = app.limits().keys_per_check;
    let (bytes, permit) = read_body(request, app, max).await?;
    let body = without_blocking(bytes.len() > LONG_BODY_BYTES, || wire::read_limited(&bytes, check_paths_max)).await?;
    Ok((body, permit))
}

/// Reads a body of at most `max` bytes that is declared as JSON, and its share of the budget for large bodies.
pub async fn read_body(request: Request, app: &App, max: usize) -> ApiResult<(Bytes, BytePermit)> {
    let is_json = is_json(request.headers());
    let (size_max, time_max) = {
        let limits = app.limits();
        (max.min(limits.body_bytes), limits.body_time)
    };
    let (bytes, permit) = match tokio::time::timeout(time_max, read_bytes(request, app, size_max)).await {
        Ok(read) => read?,
        Err(_) => return Err(ApiError::new(Code::InvalidRequest, "the body did not arrive in time")),
    };
    if !bytes.is_empty() && !is_json {
        let sentence = "the body must be JSON; send it with Content-Type: application/json";
        return Err(ApiError::new(Code::UnsupportedMediaType, sentence));
    }
    Ok((bytes, permit))
}

/// Reads a body of at most `size_max` bytes. What is too large by its own account is refused before it is read; the
/// connection then drops what still arrives, see `transport::lingering_close`.
async fn read_bytes(request: Request, app: &App, size_max: usize) -> ApiResult<(Bytes, BytePermit)> {
    let too_large = || {
        let sentence = format!("the body is larger than the {size_max} bytes that this call accepts");
        ApiError::new(Code::PayloadTooLarge, sentence)
    };
    let incomplete = |_| ApiError::new(Code::InvalidRequest, "the body did not arrive completely");
    let declared = request.body().size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if declared.is_some_and(|bytes| bytes > size_max) {
        return Err(too_large());
    }
    if declared.is_some_and(|bytes| bytes <= UNCOUNTED_BODY_BYTES) {
        let bytes = request.into_body().collect().await.map_err(incomplete)?.to_bytes();
        return Ok((bytes, BytePermit::default()));
    }
    let owner = request.extensions().get::<BodyOwner>().map_or_else(|| "".into(), |owner| owner.0.clone());
    let mut body = request.into_body();
    let mut permit = BytePermit::default();
    // The share of one caller is the most that one body takes.
    let counted_max = size_max.min(BODIES_BYTES_PER_CALLER_MAX / MEMORY_PER_BODY_BYTE);
    let (mut counted, mut bytes, mut next_turn) = (0, Vec::new(), TURN_BYTES);
    let others = app.requests.begun();
    if let Some(declared) = declared {
        permit = make_room(app, &owner, declared).await?;
        counted = declared;
        bytes.reserve_exact(declared);
    }
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(incomplete)?;
        let Some(data) = frame.data_ref() else { continue };
        let length = bytes.len() + data.len();
        if length > size_max {
            return Err(too_large());
        }
        // A body that does not say how long it is gets room as it grows.
        while counted < counted_max && length > counted + UNCOUNTED_BODY_BYTES {
            let more = counted.max(LONG_BODY_BYTES).min(counted_max - counted);
            permit.merge(make_room(app, &owner, more).await?);
            counted += more;
        }
        bytes.extend_from_slice(data);
        if bytes.len() >= next_turn {
            next_turn = bytes.len() + TURN_BYTES;
            match app.requests.begun() == others {
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep(TURN_PAUSE).await,
            }
        }
    }
    Ok((bytes.into(), permit))
}

/// Waits until there is room for a request of this caller whose body has so many bytes.
async fn make_room(app: &App, owner: &Text, bytes: usize) -> ApiResult<BytePermit> {
    let memory = bytes.saturating_mul(MEMORY_PER_BODY_BYTE);
    tokio::time::timeout(ROOM_TIME_MAX, app.bodies.acquire(owner, memory)).await.map_err(|_| {
        let sentence = "the server is busy with other large requests; try again in a moment";
        ApiError::new(Code::Unavailable, sentence).retry_after(1)
    })
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let bytes = serde_json::to_vec(&self.0).expect("replies are plain data");
        ([(CONTENT_TYPE, "application/json")], bytes).into_response()
    }
}

/// A reply whose body is a list of so many items, or has one. `body` makes it.
pub async fn list_reply<T: Serialize>(items: usize, body: impl FnOnce() -> T + Send) -> Response {
    without_blocking(items > LONG_REPLY_ITEMS, || Json(body()).into_response()).await
}

/// 201 Created, with a body.
pub fn created<T: Serialize>(body: T) -> Response {
    (StatusCode::CREATED, Json(body)).into_response()
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
    // The reader below replaces what is not UTF-8, and a file of another name would be asked for.
    let text = parts.uri.query().unwrap_or_default();
    if percent_encoding::percent_decode_str(text).decode_utf8().is_err() {
        let sentence =
            "the query of this URL is not valid UTF-8; ask with encoding=percent for a file name that is not";
        return Err(ApiError::new(Code::InvalidRequest, sentence));
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

    /// A parameter that must be a time.
    pub fn time(&self, name: &str) -> ApiResult<Option<Time>> {
        match self.one(name).map(Time::parse) {
            None => Ok(None),
            Some(Some(time)) => Ok(Some(time)),
            Some(None) => Err(wire::BadBody::field(name, "must be a time in RFC 3339").into()),
        }
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
