//! One connection: first the calls that are answered quickly, one by one or those of another node all at once, then everything
//! else with hyper.

use std::convert::Infallible;
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONNECTION, HeaderValue};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tower::ServiceExt;

use super::client_watch::ClientSocket;
use super::envelope::Envelope;
use super::lingering_close::LingeringClose;
use super::pipelined::Pipelined;
use super::progress::{RequestBody, RequestProgress, StreamedBody};
use super::read_timeout::ReadTimeout;
use super::write_timeout::WriteTimeout;
use crate::http::error::CloseWithoutReply;
use crate::http::lfs::protocol::AnonymousCalls;
use crate::http::middleware::reserved_slot::ReservedSlot;
use crate::http::quick::{QUICK_BYTES_MAX, QuickCall, QuickCalls, QuickEnd};

/// How long a client may accept no bytes of its reply.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);

/// The most that is buffered of the head of a request, and about what is buffered of a reply that its client does not read.
/// A URL may have 64 KiB.
const BUFFER_BYTES_MAX: usize = 72 * 1024;

pub struct Connection {
    pub router: Router,
    /// The calls that are answered without hyper, if there are any.
    pub quick: Option<QuickCalls>,
    pub reserved: Option<ReservedSlot>,
    pub client: ClientSocket,
    pub progress: RequestProgress,
    pub header_time: Duration,
    pub idle_time: Duration,
    /// Becomes true when the server stops.
    pub stop: watch::Receiver<bool>,
}

/// What a client has sent.
enum Input {
    Call(QuickCall),
    /// Requests of another node.
    Pipelined(Vec<u8>),
    /// Something else. It was read, and nothing was done with it.
    Other(Vec<u8>),
    End,
}

impl Connection {
    /// Serves until the client or the server ends it. An error means that the client disconnected, which needs no line in the
    /// log.
    pub async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(mut self, stream: S) {
        let stream = WriteTimeout::new(stream, WRITE_TIME_MAX);
        let mut stream = ReadTimeout::new(stream, self.progress.clone(), self.header_time, self.idle_time);
        let received = match self.quick.take() {
            Some(quick) => self.serve_quick(&mut stream, &quick).await,
            None => Some(Vec::new()),
        };
        match received {
            Some(received) => {
                stream.put_back(received);
                self.serve_all(stream).await;
            }
            None => {
                let _ = stream.shutdown().await;
            }
        }
    }

    /// Answers calls until the client sends something else, which is returned; none if the connection is over.
    async fn serve_quick<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut ReadTimeout<S>,
        quick: &QuickCalls,
    ) -> Option<Vec<u8>> {
        let mut stop = self.stop.clone();
        let mut stopped = pin!(stop.wait_for(|stop| *stop));
        loop {
            let input = tokio::select! {
                biased;
                input = poll_fn(|context| poll_input(stream, quick, context)) => input,
                _ = &mut stopped => Input::End,
            };
            let call = match input {
                Input::Call(call) => call,
                Input::Pipelined(received) => {
                    let mut pipelined = Pipelined::new(self.client, self.progress.clone(), received);
                    tokio::select! {
                        received = poll_fn(|context| pipelined.poll_serve(stream, quick, context)) => return received,
                        _ = &mut stopped => pipelined.stop(),
                    }
                    return poll_fn(|context| pipelined.poll_serve(stream, quick, context)).await;
                }
                Input::Other(received) => return Some(received),
                Input::End => return None,
            };
            self.progress.begin();
            let reply = match self.client.serve(call).await {
                QuickEnd::Reply(reply) => reply,
                QuickEnd::HandOver(request) => {
                    self.progress.end();
                    return Some(request);
                }
                QuickEnd::Close => return None,
            };
            self.progress.end();
            stream.write_all(&reply.bytes).await.ok()?;
            stream.flush().await.ok()?;
        }
    }

    /// Serves all requests with hyper.
    async fn serve_all<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S) {
        let Connection { router, reserved, client, progress, mut stop, .. } = self;
        let (on_request, on_reply) = (progress.clone(), progress.clone());
        let anonymous_calls = AnonymousCalls::default();
        let service = router.map_request(move |mut request: http::Request<Incoming>| {
            on_request.begin();
            if AnonymousCalls::count_for(request.uri().path()) {
                request.extensions_mut().insert(anonymous_calls.clone());
            }
            if let Some(reserved) = reserved {
                request.extensions_mut().insert(reserved);
            }
            request.map(|body| Body::new(RequestBody::new(body, on_request.clone())))
        });
        let service = service.map_future(move |handler| client.serve(handler));
        let service = service.map_result(move |reply: Result<Response, Infallible>| match reply {
            Ok(reply) if reply.extensions().get::<CloseWithoutReply>().is_some() => Err(CloseConnection),
            Ok(mut reply) if reply.body().size_hint().exact().is_some() => {
                // Most of such a body is never read, so nothing can follow it on this connection.
                if reply.status() == StatusCode::PAYLOAD_TOO_LARGE && on_reply.is_still_sent() {
                    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                on_reply.end();
                Ok(reply)
            }
            // A stream is over when its body is dropped. Until then the write timeout limits it.
            Ok(reply) => Ok(reply.map(|body| Body::new(StreamedBody::new(body, on_reply.clone(), client)))),
            Err(never) => match never {},
        });
        let stream = LingeringClose::new(stream, progress.clone());
        let stream = Envelope::new(stream, progress);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            // A request that has arrived is carried out and answered; see `client_watch` for those that wait.
            .half_close(true)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            _ = &mut connection => return,
            _ = stop.wait_for(|stop| *stop) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// Reads once. A plain request arrives in one piece; everything else is left to hyper.
fn poll_input<S: AsyncRead + Unpin>(
    stream: &mut ReadTimeout<S>,
    quick: &QuickCalls,
    context: &mut Context<'_>,
) -> Poll<Input> {
    let mut bytes = [MaybeUninit::uninit(); QUICK_BYTES_MAX];
    let mut buffer = ReadBuf::uninit(&mut bytes);
    let read = ready!(Pin::new(stream).poll_read(context, &mut buffer));
    let bytes = buffer.filled();
    if read.is_err() || bytes.is_empty() {
        return Poll::Ready(Input::End);
    }
    Poll::Ready(match quick.begin(bytes) {
        Some(call) => Input::Call(call),
        None if quick.is_from_node(bytes) => Input::Pipelined(bytes.to_vec()),
        None => Input::Other(bytes.to_vec()),
    })
}

/// Makes hyper close the connection without a reply.
#[derive(Debug, thiserror::Error)]
#[error("the outcome of the request is not known")]
struct CloseConnection;

impl From<Infallible> for CloseConnection {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
