//! Event streams over time, with a router in this process and a body that is read only when the test reads it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::desk::{Desk, ManualClock};
use crate::engine::{Policy, Timestamp};
use crate::http::{App, HostCheck, Repository, ServerLimits, router};
use crate::journal::MemoryJournal;
use crate::token::{Keyring, KeyringConfig, NewToken, Scope};

struct TestServer {
    router: Router,
    desk: Desk,
    reader: String,
    worker: String,
}

fn test_server(limits: ServerLimits) -> TestServer {
    let config = KeyringConfig { secret: Some(vec![b's'; 32]), ..KeyringConfig::default() };
    let keyring = Keyring::new(config).unwrap();
    let sign = |subject: &str, scope| {
        let new = NewToken { subject: subject.into(), scope, issued: 1000, expires: 5000, ..NewToken::default() };
        keyring.sign(&new).unwrap()
    };
    let (reader, worker) = (sign("looker", Scope::Read), sign("ana", Scope::Session));
    let clock = Box::new(ManualClock::new(Timestamp(1_000_000)));
    let failed = |error| panic!("{error}");
    let (desk, _) = Desk::open("test", Box::new(MemoryJournal::new()), clock, Policy::default(), failed).unwrap();
    let repository = Repository::new("test".into(), desk.clone());
    let app = App::new(vec![repository], Arc::new(keyring), || 1000);
    app.set_limits(limits);
    TestServer { router: router(Arc::new(app), HostCheck::AnyName), desk, reader, worker }
}

impl TestServer {
    async fn follow(&self, target: &str) -> http::Response<Body> {
        let request =
            Request::get(target).header("host", "localhost").header("authorization", format!("Bearer {}", self.reader));
        self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn reserve(&self, paths: &[String]) {
        let body = serde_json::json!({ "filePaths": paths }).to_string();
        let request = Request::post("/api/sessions/ana/files/reserve")
            .header("authorization", format!("Bearer {}", self.worker))
            .header("host", "localhost")
            .header("content-type", "application/json");
        let answer = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
}

async fn block(body: &mut Body) -> String {
    let frame = body.frame().await.expect("the stream goes on").unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_stream_without_events_sends_comments_with_its_position() {
    let server = test_server(ServerLimits { event_keep_alive: Duration::from_millis(10), ..ServerLimits::default() });
    let mut body = server.follow("/api/events?prefix=other").await.into_body();
    assert_eq!(block(&mut body).await, ": git-dibs\nid: 0\n\n");
    server.reserve(&["a".to_owned()]).await;
    // The session and its key are two records that the filter does not pass.
    while block(&mut body).await != ":\nid: 2\n\n" {}
    assert_eq!(block(&mut body).await, ":\n\n");
}

/// Each block is a write to a socket, and a server may have a hundred streams.
#[tokio::test]
async fn a_busy_stream_sends_many_events_in_few_blocks_and_in_order() {
    const EVENTS: u64 = 400;
    let server = test_server(ServerLimits::default());
    let mut body = server.follow("/api/events?after=0").await.into_body();
    let read = tokio::spawn(async move {
        let (mut blocks, mut last) = (0, 0);
        while last <= EVENTS {
            let text = block(&mut body).await;
            blocks += 1;
            for id in text.lines().filter_map(|line| line.strip_prefix("id: ")) {
                let id: u64 = id.parse().unwrap();
                assert!(id == last + 1 || (last == 0 && id == 0), "#{id} after #{last}");
                last = id;
            }
        }
        blocks
    });
    for n in 0..EVENTS {
        server.reserve(&[format!("f{n}")]).await;
    }
    let blocks = read.await.unwrap();
    assert!(blocks < EVENTS / 4, "{EVENTS} events were {blocks} blocks");
}

#[tokio::test]
async fn the_number_of_streams_is_limited_and_a_closed_one_makes_room() {
    let server = test_server(ServerLimits { event_readers: 1, ..ServerLimits::default() });
    let first = server.follow("/api/events").await;
    assert_eq!(first.status(), StatusCode::OK);
    let second = server.follow("/api/events").await;
    assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(second.headers().contains_key("retry-after"));
    let refusal: serde_json::Value =
        serde_json::from_slice(&second.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!((&refusal["code"], &refusal["limit"]), (&"QUOTA_EXCEEDED".into(), &1.into()));
    drop(first);
    while server.desk.feed().followers() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.follow("/api/events").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_slow_reader_misses_nothing() {
    let server = test_server(ServerLimits::default());
    let mut body = server.follow("/api/events?after=0").await.into_body();
    // Far more records than the feed keeps in memory, while the client reads none.
    for call in 0..6 {
        let paths: Vec<_> = (0..10_000).map(|n| format!("{call}/{n}")).collect();
        server.reserve(&paths).await;
    }
    let (mut next, mut text) = (1, block(&mut body).await);
    while next <= 60_001 {
        text += &block(&mut body).await;
        while let Some((event, rest)) = text.split_once("\n\n") {
            if event.contains("event: ") {
                assert!(event.starts_with(&format!("id: {next}\n")), "#{next} is missing before {event}");
                next += 1;
            }
            text = rest.to_owned();
        }
    }
}
