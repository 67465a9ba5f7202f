//! Servers inside the bench's own process, for profiling and for settings without a flag.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use git_dibs::desk::{Desk, SystemClock};
use git_dibs::http::{App, HostCheck, HttpServer, Listener, Repository, ServerLimits, router};
use git_dibs::journal::{Journal, JournalError};
use git_dibs::wire;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::clock::unix_seconds;
use super::commands::roomy;
use super::http::{RELEASED, RESERVED, keyring};

/// The program's runtime.
pub fn runtime() -> Runtime {
    git_dibs::http::runtime().expect("a runtime")
}

/// A desk on this journal, without a limit of reservations per session.
pub fn desk(journal: Box<dyn Journal>) -> Desk {
    let policy = roomy();
    let failed = |error| match error {
        // The bench ends and has removed its directory.
        JournalError::Gone { .. } => {}
        error => panic!("{error}"),
    };
    Desk::open("bench", journal, Box::new(SystemClock::new()), policy, failed).expect("the journal is good").0
}

/// git-dibs on this journal, without a ledger.
pub fn start(runtime: &Runtime, journal: Box<dyn Journal>) -> SocketAddr {
    let repository = Repository::new("bench".into(), desk(journal));
    let app = App::new(vec![repository], Arc::new(keyring()), unix_seconds);
    // One session asks for all, and as fast as it can.
    app.set_limits(ServerLimits { requests_per_second: 0, ..ServerLimits::default() });
    serve(runtime, router(Arc::new(app), HostCheck::Loopback))
}

/// Serves these routes until the process ends.
pub fn serve(runtime: &Runtime, router: Router) -> SocketAddr {
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(async move {
            let stop = watch::Sender::new(false);
            HttpServer::new(router, vec![Listener::Tcp(listener)]).run(stop.subscribe(), || {}).await;
            drop(stop);
        });
        address
    })
}

/// A minimal server: it reads the same bodies, and sends the same bytes.
pub fn bare() -> Router {
    Router::new()
        .route("/api/sessions/{id}/files/reserve", post(reserve))
        .route("/api/sessions/{id}/files/release", post(release))
        .route("/api/check-conflicts", post(check))
}

async fn reserve(body: Bytes) -> impl IntoResponse {
    let ask: wire::Reserve = serde_json::from_slice(&body).expect("a good body");
    assert!(ask.file_path.is_some());
    ([("content-type", "application/json")], RESERVED)
}

async fn release(body: Bytes) -> impl IntoResponse {
    let ask: wire::Release = serde_json::from_slice(&body).expect("a good body");
    assert!(ask.file_path.is_some());
    ([("content-type", "application/json")], RELEASED)
}

/// Everything is free.
async fn check(body: Bytes) -> impl IntoResponse {
    let ask: wire::Check = serde_json::from_slice(&body).expect("a good body");
    let clear = ask.into_paths().expect("paths");
    Json(serde_json::json!({ "conflicts": [], "clear": clear, "held": [] }))
}
