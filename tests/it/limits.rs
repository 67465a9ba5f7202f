//! Every limit has a name, and a clear response when it is reached.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::http::{Connection, Response, request};
use crate::support::process::LIMIT;
use crate::world::{Session, World, text, until};

/// A request of this session on a connection that stays open.
fn ask(connection: &mut Connection, session: &Session<'_>, call: &str, body: &str) -> std::io::Result<Response> {
    let bearer = format!("Bearer {}", session.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    connection.call("POST", &session.url(call), &headers, body.as_bytes())
}

fn raw(world: &World) -> TcpStream {
    let stream = TcpStream::connect(world.server().tcp()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Whether the server closes the connection without sending anything.
fn hangs_up(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    // A reset counts as a close.
    !matches!(stream.read_to_end(&mut rest), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        && rest.is_empty()
}

#[test]
fn the_size_of_a_body_is_limited() {
    let world = World::configured("[limits]\nbody-bytes = 2048\n");
    let ana = world.session("ana");
    ana.hold("a");
    let long = json!({ "filePath": "a", "reason": "x".repeat(900), "more": "x".repeat(900) });
    ana.reserve(long).ok();
    let longer = json!({ "filePath": "a", "more": "x".repeat(2048) });
    let refusal = ana.reserve(longer).refused("PAYLOAD_TOO_LARGE");
    assert!(text(&refusal["error"]).contains("2048"), "{refusal}");
}

#[test]
fn keys_per_call_are_limited() {
    let world = World::configured("[limits]\nkeys-per-check = 3\nkeys-per-reserve = 2\n");
    let ana = world.session("ana");
    let check = |paths: &[&str]| ana.post("files/check-conflicts", json!({ "paths": paths }));
    check(&["a", "b", "c"]).ok();
    assert_eq!(check(&["a", "b", "c", "d"]).refused("INVALID_REQUEST")["field"], "paths");
    ana.get("files/check-conflicts?paths=a,b,c,d").refused("INVALID_REQUEST");
    ana.reserve(json!({ "filePaths": ["a", "b"] })).ok();
    let refusal = ana.reserve(json!({ "filePaths": ["a", "b", "c"] })).refused("INVALID_REQUEST");
    assert_eq!(refusal["field"], "filePaths");
    assert!(text(&refusal["error"]).contains("2 is the most"), "{refusal}");
}

#[test]
fn by_default_a_check_takes_a_hundred_thousand_paths_and_a_reserve_ten_thousand() {
    let world = World::new();
    let ana = world.session("ana");
    let names = |count: usize| (0..count).map(|n| format!("src/{n}.rs")).collect::<Vec<_>>();
    let checked = ana.post("files/check-conflicts", json!({ "paths": names(100_000) })).ok();
    assert_eq!(checked["clear"].as_array().unwrap().len(), 100_000);
    ana.post("files/check-conflicts", json!({ "paths": names(100_001) })).refused("INVALID_REQUEST");
    ana.reserve(json!({ "filePaths": names(10_000) })).ok();
    ana.reserve(json!({ "filePaths": names(10_001) })).refused("INVALID_REQUEST");
}

#[test]
fn reservations_per_session_are_limited() {
    let world = World::configured("[limits]\nreservations-per-session = 2\n");
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    ana.hold("b");
    ana.hold("b");
    let refusal = ana.reserve(json!({ "filePath": "c" })).refused("QUOTA_EXCEEDED");
    assert!(text(&refusal["error"]).contains('2'), "{refusal}");
    bo.hold("c");
    ana.release("a");
    ana.hold("d");
}

#[test]
fn waiters_per_session_are_limited() {
    let world = World::configured("[limits]\nwaiters-per-session = 1\n");
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    ana.hold("b");
    std::thread::scope(|scope| {
        let first = bo.queue(scope, json!({ "filePath": "a", "waitSeconds": 60 }));
        bo.reserve(json!({ "filePath": "b", "waitSeconds": 60 })).refused("QUOTA_EXCEEDED");
        ana.release("a");
        first.join().unwrap().ok();
    });
}

#[test]
fn sessions_per_repository_are_limited() {
    let world = World::configured("[limits]\nsessions-per-repository = 1\n");
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    bo.reserve(json!({ "filePath": "b" })).refused("QUOTA_EXCEEDED");
    world.post("/api/sessions", &world.admin(), json!({ "sessionId": "cy" })).refused("QUOTA_EXCEEDED");
    ana.end();
    bo.hold("b");
}

#[test]
fn requests_per_second_are_limited() {
    let world = World::configured("[limits]\nrequests-per-second = 5\n");
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let bearer = format!("Bearer {}", ana.token);
    let one = request("POST", &ana.url("heartbeat"), &[("authorization", &bearer)], b"");
    let mut connection = world.connect();
    connection.send(&one.repeat(100)).unwrap();
    let answers: Vec<_> = (0..100).map(|_| connection.receive(false).unwrap()).collect();
    answers.iter().for_each(Response::check_ground_rules);
    assert!(answers[..5].iter().all(|answer| answer.status == 200), "a second's worth is saved up");
    let refused = answers.iter().find(|answer| answer.status == 429).expect("a hundred at once are too many");
    assert_eq!(refused.json()["code"], "QUOTA_EXCEEDED");
    assert_eq!(refused.header("retry-after"), Some("1"));
    bo.hold("b");
    world.get("/api/reservations", &world.reader()).ok();
    until("it may ask again", || (ana.post("heartbeat", json!({})).status == 200).then_some(()));
}

#[test]
fn requests_of_a_worker_are_counted_per_session() {
    let world = World::configured("[limits]\nrequests-per-second = 1\n");
    let worker = world.token(json!({ "sub": "pool", "scope": "worker" }));
    for n in 0..20 {
        world.post(&format!("/api/sessions/s{n}/heartbeat"), &worker, json!({})).ok();
    }
}

#[test]
fn connections_per_listener_are_limited() {
    let world = World::configured("[limits]\nconnections = 2\n");
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", world.reader());
    let follow = request("GET", "/api/events", &[("authorization", &bearer)], b"");
    let busy = || {
        use std::io::Write;
        let mut stream = raw(&world);
        stream.write_all(&follow).unwrap();
        stream.read_exact(&mut [0; 15]).unwrap();
        stream
    };
    let (_first, second) = (busy(), busy());

    let third = ana.post("heartbeat", json!({}));
    assert_eq!((third.status, third.header("connection")), (503, Some("close")), "{third}");
    let mut local = Connection::open(&world.unix()).unwrap();
    ask(&mut local, &ana, "heartbeat", "").unwrap().ok();

    drop(second);
    until("there is room again", || (ana.post("heartbeat", json!({})).status == 200).then_some(()));
}

#[test]
fn a_slow_request_head_times_out() {
    let world = World::configured("[limits]\nheader-seconds = 1\nidle-seconds = 3600\nconnections = 100\n");
    let mut slow: Vec<_> = (0..8).map(|_| raw(&world)).collect();
    // One byte at a time, as long as the server accepts them: the head never ends.
    std::thread::scope(|scope| {
        for stream in &mut slow {
            scope.spawn(|| {
                use std::io::Write;
                stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                let bytes = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nx: ".iter().chain(std::iter::repeat(&b'y'));
                let sent = bytes.take(600).take_while(|byte| {
                    let gone = stream.write_all(&[**byte]).is_err();
                    // A server that still waits sends nothing.
                    !gone && matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
                });
                assert!(sent.count() < 600, "the server never gave up");
            });
        }
    });
    world.get("/readyz", "").ok();
}

#[test]
fn an_idle_connection_is_closed() {
    let world = World::configured("[limits]\nheader-seconds = 1\nidle-seconds = 3600\n");
    assert!(hangs_up(&mut raw(&world)), "from the beginning");

    let world = World::configured("[limits]\nheader-seconds = 3600\nidle-seconds = 1\n");
    let mut stream = raw(&world);
    {
        use std::io::Write;
        stream.write_all(&request("GET", "/readyz", &[], b"")).unwrap();
    }
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&all));
}

#[test]
fn a_connection_with_a_pending_response_is_not_idle() {
    let world = World::configured(
        "[limits]\nheader-seconds = 1\nidle-seconds = 1\nbody-seconds = 1\nevent-keep-alive-seconds = 3\n",
    );
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.reserve(json!({ "filePath": "a", "ttlSeconds": 4 })).ok();
    let mut stream = raw(&world);
    {
        use std::io::Write;
        let bearer = format!("Bearer {}", world.reader());
        stream.write_all(&request("GET", "/api/events", &[("authorization", &bearer)], b"")).unwrap();
    }
    // Its response comes when the other reservation expires, seconds after every timeout.
    let mut connection = world.connect();
    ask(&mut connection, &bo, "files/reserve", r#"{"filePath": "a", "waitSeconds": 60}"#).unwrap().ok();
    let mut seen = String::new();
    until("the grant shows up in the stream", || {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "the stream ended after {seen}");
        seen += &String::from_utf8_lossy(&some[..count]);
        (seen.matches("event: reserved").count() == 1 && seen.contains("\"bo\"")).then_some(())
    });
}

#[test]
fn a_slow_body_times_out() {
    let world = World::configured("[limits]\nbody-seconds = 1\n");
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", ana.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let whole = request("POST", &ana.url("files/reserve"), &headers, br#"{"filePath": "a"}"#);
    let mut connection = world.connect();
    connection.send(&whole[..whole.len() - 3]).unwrap();
    let refusal = connection.receive(false).unwrap().refused("INVALID_REQUEST");
    assert!(text(&refusal["error"]).contains("in time"), "{refusal}");
}

#[test]
fn event_readers_per_repository_are_limited() {
    let world = World::configured("[limits]\nevent-readers = 1\n");
    let bearer = format!("Bearer {}", world.reader());
    let follow = request("GET", "/api/events", &[("authorization", &bearer)], b"");
    let mut first = raw(&world);
    {
        use std::io::Write;
        first.write_all(&follow).unwrap();
    }
    let mut head = [0; 15];
    first.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    let refusal = world.get("/api/events", &world.reader()).refused("QUOTA_EXCEEDED");
    assert_eq!(refusal["limit"], 1);
    drop(first);
    until("there is room again", || {
        let mut stream = raw(&world);
        use std::io::Write;
        stream.write_all(&follow).unwrap();
        stream.read_exact(&mut head).unwrap();
        (&head == b"HTTP/1.1 200 OK").then_some(())
    });
}
