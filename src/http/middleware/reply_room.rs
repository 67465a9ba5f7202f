//! Large replies count against a budget until they are sent. So clients that do not read what they asked for cannot fill the
//! memory of the server.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use hyper::body::{Frame, SizeHint};

use crate::engine::Text;
use crate::http::app::App;
use crate::http::byte_budget::BytePermit;
use crate::http::error::{ApiError, CloseWithoutReply};
use crate::http::login::cookie::Proof;
use crate::wire::Code;

/// Larger replies count.
const UNCOUNTED_REPLY_BYTES: usize = 256 * 1024;

/// The bytes of large replies in memory at once, to all callers and to one.
pub const REPLIES_BYTES_MAX: usize = 128 * 1024 * 1024;
pub const REPLIES_BYTES_PER_CALLER_MAX: usize = 64 * 1024 * 1024;

/// How long a reply may wait for room.
const ROOM_TIME_MAX: Duration = Duration::from_secs(5);

/// Whether a reply counts.
pub fn is_large(response: &Response) -> bool {
    hyper::body::Body::size_hint(response.body()).exact().is_some_and(|bytes| bytes > UNCOUNTED_REPLY_BYTES as u64)
}

/// Counts a large reply. If there is no room for it, the client is told to ask again; where the call may have changed
/// something, the connection is closed instead, because an error would say that nothing was done.
pub async fn count(response: Response, app: &App, caller: &HeaderMap, changes_nothing: bool) -> Response {
    let claims = Proof::of(caller, app).ok().and_then(|proof| proof.verify(app).ok());
    let owner: Text = claims.map_or_else(|| "".into(), |claims| claims.subject.clone());
    let bytes = hyper::body::Body::size_hint(response.body()).lower();
    match room_for(app, &owner, usize::try_from(bytes).unwrap_or(usize::MAX)).await {
        Some(permit) => response.map(|body| Body::new(CountedBody { body, _permit: permit })),
        None => {
            drop(response);
            let sentence = "the server is busy with other large replies; read them faster, or try again in a moment";
            let mut refusal = ApiError::new(Code::Unavailable, sentence).retry_after(1).into_response();
            if !changes_nothing {
                refusal.extensions_mut().insert(CloseWithoutReply);
            }
            refusal
        }
    }
}

/// Whether a reply of so many bytes counts.
pub fn counts(bytes: usize) -> bool {
    bytes > UNCOUNTED_REPLY_BYTES
}

/// Waits until there is room for a reply of so many bytes to this caller; none if that takes too long.
pub async fn room_for(app: &App, owner: &Text, bytes: usize) -> Option<BytePermit> {
    if !counts(bytes) {
        return Some(BytePermit::default());
    }
    tokio::time::timeout(ROOM_TIME_MAX, app.replies.acquire(owner, bytes)).await.ok()
}

/// A body with its share of the budget.
struct CountedBody {
    body: Body,
    _permit: BytePermit,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
