//! What a stream does in time, with a router in this process and a body that is read only when the test does.

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
use crate::token::{Keyring, KeyringConfig, Mint, Scope};

struct Door {
    router: Router,
    desk: Desk,
    reader: String,
    worker: String,
}

fn door(limits: ServerLimits) -> Door {
    let config = KeyringConfig { secret: Some(vec![b's'; 32]), ..KeyringConfig::default() };
    let keyring = Keyring::new(config).unwrap();
    let mint = |subject: &str, scope| {
        let mint = Mint { subject: subject.into(), scope, issued: 1000, expires: 5000, ..Mint::default() };
        keyring.mint(&mint).unwrap()
    };
    let (reader, worker) = (mint("looker", Scope::Read), mint("ana", Scope::Session));
    let clock = Box::new(ManualClock::new(Timestamp(1_000_000)));
    let failed = |error| panic!("{error}");
    let (desk, _) = Desk::open("test", Box::new(MemoryJournal::new()), clock, Policy::default(), failed).unwrap();
    let repository = Repository::new("test".into(), desk.clone());
    let app = App::new(vec![repository], Arc::new(keyring), || 1000);
    app.set_limits(limits);
    Door { router: router(Arc::new(app), HostCheck::AnyName), desk, reader, worker }
}

impl Door {
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
async fn something_is_sent_where_nothing_happens_and_says_how_far_it_came() {
    let door = door(ServerLimits { event_keep_alive: Duration::from_millis(10), ..ServerLimits::default() });
    let mut body = door.follow("/api/events?prefix=other").await.into_body();
    assert_eq!(block(&mut body).await, ": git-dibs\nid: 0\n\n");
    door.reserve(&["a".to_owned()]).await;
    // The session and its key are two records the follower does not want.
    while block(&mut body).await != ":\nid: 2\n\n" {}
    assert_eq!(block(&mut body).await, ":\n\n");
}

#[tokio::test]
async fn only_so_many_follow_and_whoever_leaves_makes_room() {
    let door = door(ServerLimits { event_readers: 1, ..ServerLimits::default() });
    let first = door.follow("/api/events").await;
    assert_eq!(first.status(), StatusCode::OK);
    let second = door.follow("/api/events").await;
    assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(second.headers().contains_key("retry-after"));
    let refusal: serde_json::Value =
        serde_json::from_slice(&second.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!((&refusal["code"], &refusal["limit"]), (&"QUOTA_EXCEEDED".into(), &1.into()));
    drop(first);
    while door.desk.feed().followers() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(door.follow("/api/events").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_slow_reader_costs_little_and_misses_nothing() {
    let door = door(ServerLimits::default());
    let mut body = door.follow("/api/events?after=0").await.into_body();
    // Far more than is kept at hand, while nobody reads.
    for call in 0..6 {
        let paths: Vec<_> = (0..10_000).map(|n| format!("{call}/{n}")).collect();
        door.reserve(&paths).await;
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
