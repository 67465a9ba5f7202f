//! Sockets: accepting connections, serving them, and stopping without cutting anybody off.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::http::app::App;
use crate::http::error::HangUp;
use crate::http::ids::new_id;
use crate::http::limits::Limits;
use crate::http::middleware::host_check::Gate;
use crate::http::router::router;
use crate::http::transport::read_timeout::{Paced, Progress};
use crate::http::transport::write_timeout::Patient;

/// How long a client may take nothing of what is on its way to it.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long answers under way may take once the server stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

/// How long to wait after a failed accept; the usual reason is too many open files, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Clients over the limit that are told so at once; the rest only hears the connection close.
const TOLD_MAX: usize = 64;

/// How long telling them may take.
const TOLD_TIME_MAX: Duration = Duration::from_secs(1);

/// What they are told.
const FULL: &str =
    r#"{"error":"this server has as many connections as it takes; try again in a moment","code":"UNAVAILABLE"}"#;

/// The threads that serve connections: half as many as there are processors, because the desk, the ledger, git and
/// often enough those who ask need some as well, and because one thread alone answers more than one desk can decide.
pub fn runtime() -> io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(2, |count| count.get());
    Builder::new_multi_thread().worker_threads(processors.div_ceil(2)).enable_all().build()
}

/// Something clients connect to.
pub enum Listener {
    /// An address.
    Tcp(TcpListener),
    /// A socket, and its file if that is to be removed when the server stops.
    Unix(UnixListener, Option<PathBuf>),
}

/// Serves routers on listeners.
pub struct Server {
    doors: Vec<(Listener, Router)>,
    limits: Arc<ArcSwap<Limits>>,
}

/// What the connections of one listener share.
struct Door {
    router: Router,
    limits: Arc<ArcSwap<Limits>>,
    graceful: Arc<GracefulShutdown>,
    /// Held by every connection that is served, so their number is known.
    connections: Arc<()>,
    /// Held by every connection that is told that there are too many.
    told: Arc<()>,
}

impl Server {
    /// One router for all of them, with the usual limits.
    pub fn new(router: Router, listeners: Vec<Listener>) -> Self {
        let doors = listeners.into_iter().map(|listener| (listener, router.clone())).collect();
        Self { doors, limits: Arc::default() }
    }

    /// Everything the app does, with its limits, on listeners with their gates.
    pub fn of(app: &Arc<App>, listeners: Vec<(Listener, Gate)>) -> Self {
        let door = |(listener, gate)| (listener, router(app.clone(), gate));
        Self { doors: listeners.into_iter().map(door).collect(), limits: app.shared_limits() }
    }

    /// Serves until `stop` says so; then accepts nothing new, calls `closing`, and waits for answers under way.
    pub async fn run(self, stop: watch::Receiver<bool>, closing: impl FnOnce()) {
        let graceful = Arc::new(GracefulShutdown::new());
        let accepting = self.doors.into_iter().map(|(listener, router)| {
            let (limits, graceful) = (self.limits.clone(), graceful.clone());
            let door = Door { router, limits, graceful, connections: Arc::default(), told: Arc::default() };
            tokio::spawn(accept(listener, door, stop.clone()))
        });
        for task in accepting.collect::<Vec<_>>() {
            let _ = task.await;
        }
        closing();
        let Some(graceful) = Arc::into_inner(graceful) else { return };
        tokio::select! {
            () = graceful.shutdown() => {}
            () = tokio::time::sleep(STOP_TIME_MAX) => {
                tracing::warn!("some clients did not finish in time and were cut off");
            }
        }
    }
}

async fn accept(listener: Listener, door: Door, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok(Connection::Tcp(stream)) => {
                // Answers are small and complete; waiting to fill a packet would only delay them.
                let _ = stream.set_nodelay(true);
                door.serve(stream);
            }
            Ok(Connection::Unix(stream)) => door.serve(stream),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if let Listener::Unix(_, Some(path)) = &listener {
        let _ = std::fs::remove_file(path);
    }
}

enum Connection {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn next(listener: &Listener) -> io::Result<Connection> {
    match listener {
        Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Connection::Tcp(stream)),
        Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Connection::Unix(stream)),
    }
}

impl Door {
    fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(&self, stream: S) {
        let limits = self.limits.load();
        if Arc::strong_count(&self.connections) > limits.connections {
            return self.refuse(stream);
        }
        let held = self.connections.clone();
        let progress = Progress::default();
        let (begun, answered) = (progress.clone(), progress.clone());
        let service = self.router.clone().map_request(move |request: http::Request<Incoming>| {
            begun.begin();
            request.map(Body::new)
        });
        let service = service.map_result(move |answer: Result<Response, Infallible>| match answer {
            Ok(answer) if answer.extensions().get::<HangUp>().is_some() => Err(NoAnswer),
            Ok(answer) => {
                // A stream takes as long as it takes; what it writes is watched elsewhere.
                if answer.body().size_hint().exact().is_some() {
                    answered.end();
                }
                Ok(answer)
            }
            Err(never) => match never {},
        });
        let stream = Patient::new(stream, WRITE_TIME_MAX);
        let stream = Paced::new(stream, progress, limits.header_time, limits.idle_time);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            // A client that goes away in the middle is no news.
            let _ = connection.await;
            drop(held);
        });
    }

    /// Says that there are too many, to as many as that can be said without becoming too many itself.
    fn refuse<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(&self, mut stream: S) {
        if Arc::strong_count(&self.told) > TOLD_MAX {
            return;
        }
        let held = self.told.clone();
        tokio::spawn(async move {
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
                 connection: close\r\ncontent-length: {}\r\nx-request-id: {}\r\n\r\n{FULL}",
                FULL.len(),
                new_id().simple(),
            );
            let tell = async {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await?;
                // Closing with something unread would take the answer back from a client that has not read it yet.
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(TOLD_TIME_MAX, tell).await;
            drop(held);
        });
    }
}

/// What ends a connection in the middle of a request.
#[derive(Debug, thiserror::Error)]
#[error("nobody knows the answer")]
struct NoAnswer;

impl From<Infallible> for NoAnswer {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
