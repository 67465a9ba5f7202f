//! What a connection is doing: the service notes it, the streams below and the table of connections read it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::client_watch::ClientSocket;

/// Times of activity are counted from here.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Whether a request is being answered on a connection, and when bytes were last seen on it.
#[derive(Clone, Default)]
pub struct RequestProgress(Arc<State>);

#[derive(Default)]
struct State {
    /// Counts steps: a request begins, its reply is complete, the next request begins. It is odd while a request is being
    /// answered.
    steps: AtomicU64,
    /// When bytes were last read or written, in milliseconds after [`EPOCH`].
    last_activity_ms: AtomicU64,
    /// A reply is complete and not written yet.
    is_unwritten: AtomicBool,
    /// The request is refused although the client may still be sending it.
    is_still_sent: AtomicBool,
}

impl RequestProgress {
    /// Of a connection that was accepted now. Before its task runs for the first time, it is not the one that was idle longest.
    pub fn accepted_at(now: Instant) -> Self {
        let progress = Self::default();
        progress.note_activity(now);
        progress
    }

    /// The head of a request was read.
    pub fn begin(&self) {
        // The request before it may have had no complete reply; it is over now.
        let steps = self.steps();
        self.0.steps.store(steps + 1 + steps % 2, Ordering::Relaxed);
        self.0.is_still_sent.store(false, Ordering::Relaxed);
    }

    /// The reply to the request is complete; the connection writes it now.
    pub fn end(&self) {
        self.0.is_unwritten.store(true, Ordering::Relaxed);
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything is written so far.
    pub fn note_written(&self) {
        self.0.is_unwritten.store(false, Ordering::Relaxed);
    }

    pub fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Relaxed)
    }

    /// No request is being answered. Its reply may still have to be written.
    pub fn is_between_requests(&self) -> bool {
        self.steps().is_multiple_of(2)
    }

    /// No request is being answered, and every reply is written.
    pub fn is_idle(&self) -> bool {
        self.is_between_requests() && !self.0.is_unwritten.load(Ordering::Relaxed)
    }

    pub fn note_activity(&self, now: Instant) {
        let since = now.saturating_duration_since(*EPOCH).as_millis();
        self.0.last_activity_ms.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn last_activity_ms(&self) -> u64 {
        self.0.last_activity_ms.load(Ordering::Relaxed)
    }

    /// The client may still be sending what is refused.
    pub fn note_still_sent(&self) {
        self.0.is_still_sent.store(true, Ordering::Relaxed);
    }

    pub fn is_still_sent(&self) -> bool {
        self.0.is_still_sent.load(Ordering::Relaxed)
    }
}

/// The body of a request. If it is dropped before its end, the client may still be sending it.
pub struct RequestBody {
    incoming: Incoming,
    progress: RequestProgress,
    is_complete: bool,
}

impl RequestBody {
    pub fn new(incoming: Incoming, progress: RequestProgress) -> Self {
        let is_complete = incoming.is_end_stream();
        Self { incoming, progress, is_complete }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_complete {
            self.progress.note_still_sent();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
        self.is_complete = frame.is_none() || self.incoming.is_end_stream();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// The body of a reply whose length is not known at its beginning, such as a stream of events. It ends early if its client
/// closes the connection. With its end the connection becomes idle.
pub struct StreamedBody {
    body: axum::body::Body,
    progress: RequestProgress,
    client_closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl StreamedBody {
    pub fn new(body: axum::body::Body, progress: RequestProgress, client: ClientSocket) -> Self {
        Self { body, progress, client_closed: Box::pin(client.closed()) }
    }
}

impl Drop for StreamedBody {
    fn drop(&mut self) {
        self.progress.end();
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending if self.client_closed.as_mut().poll(context).is_ready() => Poll::Ready(None),
            frame => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Of many connections that were opened at once, the newest were closed to make room: their tasks had not run yet.
    #[test]
    fn a_new_connection_is_not_the_one_that_was_idle_longest() {
        let now = Instant::now();
        let [first, second] = [now, now + Duration::from_millis(5)].map(RequestProgress::accepted_at);
        assert!(first.last_activity_ms() < second.last_activity_ms());
    }
}
