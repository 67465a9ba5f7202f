//! Sockets: accepting connections, serving them, and stopping without cutting anybody off.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tower::ServiceExt;

use super::error::HangUp;
use super::patience::Patient;

/// How long a client may take to send the head of a request; also how long a connection may idle between two.
const HEADER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a client may take nothing of what is on its way to it.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long answers under way may take once the server stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

/// How long to wait after a failed accept; the usual reason is too many open files, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Something clients connect to.
pub enum Listener {
    /// An address.
    Tcp(TcpListener),
    /// A path; the file is removed when the server stops.
    Unix(UnixListener, PathBuf),
}

/// Serves one router on any number of listeners.
pub struct Server {
    router: Router,
    listeners: Vec<Listener>,
}

impl Server {
    /// Ready to run.
    pub fn new(router: Router, listeners: Vec<Listener>) -> Self {
        Self { router, listeners }
    }

    /// Serves until `stop` says so; then accepts nothing new, calls `closing`, and waits for answers under way.
    pub async fn run(self, stop: watch::Receiver<bool>, closing: impl FnOnce()) {
        let graceful = Arc::new(GracefulShutdown::new());
        let accepting = self
            .listeners
            .into_iter()
            .map(|listener| tokio::spawn(accept(listener, self.router.clone(), stop.clone(), graceful.clone())));
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

async fn accept(listener: Listener, router: Router, mut stop: watch::Receiver<bool>, graceful: Arc<GracefulShutdown>) {
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok(Connection::Tcp(stream)) => {
                // Answers are small and complete; waiting to fill a packet would only delay them.
                let _ = stream.set_nodelay(true);
                serve(stream, &router, &graceful);
            }
            Ok(Connection::Unix(stream)) => serve(stream, &router, &graceful),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if let Listener::Unix(_, path) = &listener {
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

fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S, router: &Router, graceful: &GracefulShutdown) {
    let service = router.clone().map_request(|request: http::Request<Incoming>| request.map(Body::new));
    let service = service.map_result(|answer: Result<Response, Infallible>| match answer {
        Ok(answer) if answer.extensions().get::<HangUp>().is_some() => Err(NoAnswer),
        Ok(answer) => Ok(answer),
        Err(never) => match never {},
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream, WRITE_TIME_MAX)), TowerToHyperService::new(service));
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // A client that goes away in the middle is no news.
        let _ = connection.await;
    });
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
