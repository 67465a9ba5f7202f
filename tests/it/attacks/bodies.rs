//! Request bodies: what one costs, and how many may be in memory at once.

use serde_json::json;

use super::{numbers, peak_memory, reset_peak};
use crate::http::{Connection, request};
use crate::world::{World, text};

const MIB: usize = 1024 * 1024;

fn headers(bearer: &str) -> [(&str, &str); 2] {
    [("authorization", bearer), ("content-type", "application/json")]
}

/// Eight bodies of 64 MB full of empty entries took 6.4 GB.
#[test]
fn a_body_full_of_empty_entries_costs_a_small_factor_of_its_bytes() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("a");
    // Each with a session of its own: of one caller, one such body is read at a time.
    let (clients, size) = numbers((4, 6 * MIB), (8, 31 * MIB));
    let bearers: Vec<String> =
        (0..clients).map(|n| format!("Bearer {}", world.session(&format!("s{n}")).token)).collect();
    let body = format!(r#"{{"paths":[{}""]}}"#, r#""","#.repeat(size / 3));
    let before = reset_peak(&world);
    std::thread::scope(|scope| {
        for (n, bearer) in bearers.iter().enumerate() {
            let (world, body) = (&world, &body);
            scope.spawn(move || {
                let target = format!("/api/sessions/s{n}/files/check-conflicts");
                let refusal = world.send("POST", &target, &headers(bearer), body.as_bytes());
                // With the large numbers there is no room for all of them at once, and some have waited long enough.
                if size > 8 * MIB && refusal.status == 503 {
                    return;
                }
                let refusal = refusal.refused("INVALID_REQUEST");
                assert_eq!(refusal["field"], "paths");
                assert!(text(&refusal["error"]).contains("100000 is the most"), "{refusal}");
            });
        }
    });
    let grown = peak_memory(&world).saturating_sub(before);
    // Two of these bodies are read at the same time, and each entry of them would be eight times its text.
    assert!(grown < 4 * size + 16 * MIB, "{grown} for {clients} bodies of {size}");
    ana.hold("b");
}

/// A check, a claim, a release and a renewal with long lists stop at their limits too.
#[test]
fn every_list_of_a_request_has_an_end() {
    let world = World::new();
    let ana = world.session("ana");
    let keys = vec!["a"; 10_001];
    for call in ["files/reserve", "files/release", "files/renew"] {
        let refusal = ana.post(call, json!({ "filePaths": keys })).refused("INVALID_REQUEST");
        assert_eq!(refusal["field"], "filePaths", "{call}");
    }
    let update = json!({ "ref": "refs/heads/a", "old": "0".repeat(40), "new": "1".repeat(40) });
    let refusal = ana.post("pushes", json!({ "updates": vec![update; 1001] })).refused("INVALID_REQUEST");
    assert_eq!(refusal["field"], "updates");
    let blobs = json!({ "paths": ["a"], "blobs": vec![""; 100_001], "intent": "change" });
    assert_eq!(ana.post("files/check-conflicts", blobs).refused("INVALID_REQUEST")["field"], "blobs");
}

#[test]
fn a_body_that_declares_too_much_is_refused_before_it_is_sent() {
    let world = World::new();
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", ana.token);
    for (call, most) in [("heartbeat", 64 * 1024), ("files/reserve", 16 * MIB), ("files/check-conflicts", 32 * MIB)] {
        let whole = String::from_utf8(request("POST", &ana.url(call), &headers(&bearer), b"")).unwrap();
        let head = whole.replace("content-length: 0", &format!("content-length: {}", most + 1));
        let mut connection = world.connect();
        connection.send(head.as_bytes()).unwrap();
        let refusal = connection.receive(false).unwrap();
        refusal.check_ground_rules();
        assert!(text(&refusal.refused("PAYLOAD_TOO_LARGE")["error"]).contains(&most.to_string()), "{call}");
    }
}

/// A body without a length counts as it grows.
#[test]
fn a_chunked_body_is_limited_like_any_other() {
    let world = World::configured("[limits]\nbody-bytes = 1000000\n");
    let ana = world.session("ana");
    let send = |size: usize| {
        let body = format!(r#"{{"paths":["a"],"more":"{}"}}"#, "x".repeat(size));
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             transfer-encoding: chunked\r\n\r\n",
            ana.url("files/check-conflicts"),
            ana.token,
        );
        let mut connection = world.connect();
        let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
        let chunks: Vec<u8> = body.as_bytes().chunks(30_000).flat_map(chunk).chain(*b"0\r\n\r\n").collect();
        let sent = connection.send(&[head.as_bytes(), &chunks].concat());
        connection.receive(false).or_else(|error| sent.and(Err(error))).unwrap()
    };
    for size in [10, 9_000, 300_000, 990_000] {
        assert_eq!(send(size).ok()["clear"], json!(["a"]), "{size}");
    }
    send(1_000_001).refused("PAYLOAD_TOO_LARGE");
    send(9_000_000).refused("PAYLOAD_TOO_LARGE");
}

/// Sixty waiting requests kept 3.7 GB.
#[test]
fn a_waiting_request_keeps_no_body_and_a_session_cannot_wait_with_much() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("held");
    // One more than `most` of them is more than one session may wait with.
    let (sessions, count, length) = numbers((1, 1_000, 4_000), (3, 1_000, 4_000));
    let keys = |n: usize| -> Vec<String> {
        let deep = "d".repeat(200) + "/";
        let name = |k: usize| format!("w{n}/{}{}{k}", deep.repeat(length / 201 - 1), "f".repeat(30));
        std::iter::once("held".to_owned()).chain((1..count).map(name)).collect()
    };
    let most = 16 * MIB / (count * length);
    let waiters: Vec<_> = (0..sessions).map(|n| world.session(&format!("bo{n}"))).collect();
    let before = reset_peak(&world);
    std::thread::scope(|scope| {
        let body = |n: usize| json!({ "filePaths": keys(n), "waitSeconds": 300, "mode": "shared" });
        let mut waiting = Vec::new();
        for (number, bo) in waiters.iter().enumerate() {
            waiting.extend((0..most).map(|n| bo.queue(scope, body(number * most + n))));
            let refusal = bo.reserve(body(sessions * most)).refused("QUOTA_EXCEEDED");
            assert_eq!(refusal["limit"], 16 * MIB);
            // A short one may still wait.
            waiting.push(bo.queue(scope, json!({ "filePath": "held", "waitSeconds": 300, "mode": "shared" })));
        }
        // What the bodies were made of is gone when they wait.
        let (waits, text) = (reset_peak(&world).saturating_sub(before), sessions * most * count * length);
        assert!(waits < 4 * text + 32 * MIB, "{waits} for {text} bytes of keys");
        ana.release("held");
        waiting.into_iter().for_each(|waiting| drop(waiting.join().unwrap().ok()));
    });
}

/// Large requests that arrive together wait for each other, and all of them are answered.
#[test]
fn large_requests_take_turns() {
    let world = World::new();
    let ana = world.session("ana");
    let (clients, size) = numbers((6, 12 * MIB), (24, 30 * MIB));
    let body = format!(r#"{{"paths":["a"],"more":"{}"}}"#, "x".repeat(size));
    let before = reset_peak(&world);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let bearer = format!("Bearer {}", ana.token);
                let call = ana.url("files/check-conflicts");
                let mut connection = Connection::open(&world.tcp()).unwrap();
                let answer = connection.call("POST", &call, &headers(&bearer), body.as_bytes()).unwrap();
                assert!(matches!(answer.status, 200 | 503), "{answer}");
            });
        }
    });
    // Of one caller, one such body is read at a time.
    let grown = peak_memory(&world).saturating_sub(before);
    assert!(grown < 32 * MIB + 48 * MIB, "{grown} for {clients} bodies of {size}");
}
