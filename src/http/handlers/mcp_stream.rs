//! The reply to a tool call that waits: a stream with one event at its end, and comments that keep the connection open.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::body::Frame;
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often a comment is sent while the call waits: more often than proxies close a silent connection.
const COMMENT_EVERY: Duration = Duration::from_secs(10);

/// A call that ends with a message, or with none.
pub type Waiting = Pin<Box<dyn Future<Output = Option<Value>> + Send>>;

/// Sends the message when it is there. Dropping the response, because the client left, drops the call.
pub fn response(waiting: Waiting) -> Response {
    let mut comments = interval(COMMENT_EVERY);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // Tells nginx not to buffer the stream.
        (http::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::new(WaitingBody { waiting: Some(waiting), comments })).into_response()
}

struct WaitingBody {
    /// None once it has ended.
    waiting: Option<Waiting>,
    comments: Interval,
}

impl hyper::body::Body for WaitingBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(waiting) = &mut self.waiting else { return Poll::Ready(None) };
        if let Poll::Ready(message) = waiting.as_mut().poll(cx) {
            self.waiting = None;
            let event = message.map(|message| format!("event: message\ndata: {message}\n\n"));
            return Poll::Ready(event.map(|event| Ok(Frame::data(event.into()))));
        }
        match self.comments.poll_tick(cx) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": waiting\n\n"))))),
            Poll::Pending => Poll::Pending,
        }
    }
}
