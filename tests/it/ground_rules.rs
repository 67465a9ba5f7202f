//! Ground rules. Those for every response are checked on every response; see `check_ground_rules`.

use serde_json::{Value, json};

use crate::http::{Connection, request};
use crate::world::{World, text, time};

#[test]
fn unknown_fields_are_ignored_and_a_wrong_type_names_its_field() {
    let world = World::new();
    let ana = world.session("ana");
    ana.reserve(json!({ "filePath": "a", "colour": "blue", "deep": { "er": [1, [2]] }, "ttlSeconds": null })).ok();

    for (call, body, field) in [
        ("files/reserve", json!({ "filePath": 7 }), "filePath"),
        ("files/reserve", json!({ "filePath": ["b"] }), "filePath"),
        ("files/reserve", json!({ "filePaths": "b" }), "filePaths"),
        ("files/reserve", json!({ "filePaths": ["b", 7] }), "filePaths"),
        ("files/reserve", json!({ "filePath": "b", "ttlSeconds": "60" }), "ttlSeconds"),
        ("files/reserve", json!({ "filePath": "b", "ttlSeconds": 1.5 }), "ttlSeconds"),
        ("files/reserve", json!({ "filePath": "b", "mode": "both" }), "mode"),
        ("files/reserve", json!({ "filePath": "b", "mode": 1 }), "mode"),
        ("files/reserve", json!({ "filePath": "b", "reason": {} }), "reason"),
        ("files/reserve", json!({ "filePath": "b", "waitSeconds": "5" }), "waitSeconds"),
        ("files/reserve", json!({ "filePath": "b", "waitSeconds": 301 }), "waitSeconds"),
        ("files/reserve", json!({ "filePath": "b", "waitSeconds": -1 }), "waitSeconds"),
        ("files/reserve", json!({ "filePath": "b", "ifVersion": "3" }), "ifVersion"),
        ("files/reserve", json!({ "filePath": "b", "ifVersion": -1 }), "ifVersion"),
        ("files/reserve", json!({ "filePath": "b", "encoding": "base64" }), "encoding"),
        ("files/reserve", json!({ "filePath": "b", "filePaths": ["c"] }), "filePaths"),
        ("files/reserve", json!({ "filePaths": [] }), "filePaths"),
        ("files/reserve", json!({}), "filePath"),
        ("files/release", json!({}), "filePath"),
        ("files/release", json!({ "filePath": 7 }), "filePath"),
        ("files/renew", json!({ "filePaths": {} }), "filePaths"),
        ("files/check-conflicts", json!({}), "paths"),
        ("files/check-conflicts", json!({ "paths": "a,b" }), "paths"),
        ("end", json!({ "state": "lost" }), "state"),
        ("unlock-requests", json!({ "filePath": "a" }), "reason"),
        ("unlock-requests", json!({ "reason": "b" }), "filePath"),
    ] {
        let refusal = ana.post(call, body.clone()).refused("INVALID_REQUEST");
        assert!(text(&refusal["field"]).starts_with(field), "{call} {body}: {refusal}");
        assert!(text(&refusal["error"]).contains(field), "{call} {body}: {refusal}");
    }
    assert_eq!(world.held(), ["ana a"]);
}

#[test]
fn times_are_utc_and_ttls_whole_seconds() {
    let world = World::new();
    let ana = world.session("ana");
    let granted = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 120 })).ok();
    assert_eq!(time(&granted["expiresAt"]) - time(&granted["reservedAt"]), 120_000);
    let default = ana.hold("b");
    assert_eq!(time(&default["expiresAt"]) - time(&default["reservedAt"]), 60_000);
    let session = world.get("/api/sessions/ana", &ana.token).ok();
    assert!(time(&session["startedAt"]) <= time(&session["lastSeenAt"]));
    assert!(time(&ana.post("heartbeat", json!({})).ok()["expiresAt"]) >= time(&granted["reservedAt"]) + 60_000);
}

#[test]
fn every_refusal_has_the_envelope() {
    let world = World::new();
    let ana = world.session("ana");
    for target in ["/api", "/api/", "/api/nothing", "/api/sessions/ana/files", "/%00"] {
        world.get(target, "").refused("NOT_FOUND");
        world.get(target, &ana.token).refused("NOT_FOUND");
    }
    for (method, target, allowed) in [
        ("GET", "/api/sessions/ana/files/reserve", "POST"),
        ("PUT", "/api/sessions/ana/files/check-conflicts", "GET,HEAD,POST"),
        ("DELETE", "/api/sessions/ana", "GET,HEAD"),
        ("PATCH", "/healthz", "GET,HEAD"),
        ("OPTIONS", "/api/reservations", "GET,HEAD"),
        ("BREW", "/api/sessions", "GET,HEAD,POST"),
    ] {
        let answer = world.call(method, target, &ana.token, None);
        let mut named: Vec<_> = answer.header("allow").unwrap_or_default().split(',').map(str::trim).collect();
        named.sort_unstable();
        assert_eq!(named.join(","), allowed, "{method} {target}");
        answer.refused("METHOD_NOT_ALLOWED");
    }

    let bearer = format!("Bearer {}", ana.token);
    let reserve = ana.url("files/reserve");
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""] {
        let headers = [("authorization", &*bearer), ("content-type", content_type)];
        world.send("POST", &reserve, &headers, br#"{"filePath": "a"}"#).refused("UNSUPPORTED_MEDIA_TYPE");
    }
    let no_type = [("authorization", &*bearer)];
    world.send("POST", &reserve, &no_type, br#"{"filePath": "a"}"#).refused("UNSUPPORTED_MEDIA_TYPE");
    world.send("POST", &ana.url("heartbeat"), &no_type, b"").ok();
    for content_type in ["application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json"] {
        let headers = [("authorization", &*bearer), ("content-type", content_type)];
        world.send("POST", &reserve, &headers, br#"{"filePath": "a"}"#).ok();
    }

    let large = |bytes: usize| json!({ "reason": "x".repeat(bytes) });
    ana.post("heartbeat", large(60_000)).ok();
    ana.post("heartbeat", large(70_000)).refused("PAYLOAD_TOO_LARGE");
    ana.reserve(large(17 << 20)).refused("PAYLOAD_TOO_LARGE");
    ana.post("files/check-conflicts", large(65 << 20)).refused("PAYLOAD_TOO_LARGE");
    assert_eq!(world.held(), ["ana a"]);
}

#[test]
fn a_body_may_arrive_in_chunks() {
    let world = World::new();
    let ana = world.session("ana");
    let head = |call: &str| {
        let target = ana.url(call);
        let bearer = format!("authorization: Bearer {}\r\ncontent-type: application/json", ana.token);
        format!("POST {target} HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\ntransfer-encoding: chunked\r\n\r\n")
    };
    let mut line = world.connect();
    for piece in [&*head("files/reserve"), "5\r\n{\"fil\r\n", "c\r\nePath\": \"a\"}\r\n", "0\r\n\r\n"] {
        line.send(piece.as_bytes()).unwrap();
    }
    assert_eq!(line.receive(false).unwrap().ok()["filePath"], "a");
    // A chunked body that is too large is refused like one of known length.
    line.send(head("heartbeat").as_bytes()).unwrap();
    let spaces = format!("2000\r\n{}\r\n", " ".repeat(0x2000));
    for _ in 0..9 {
        line.send(spaces.as_bytes()).unwrap();
    }
    line.send(b"0\r\n\r\n").unwrap();
    let answer = line.receive(false).unwrap();
    answer.check_ground_rules();
    answer.refused("PAYLOAD_TOO_LARGE");
}

/// Regression: clients that send the whole body before they read only saw a broken connection.
#[test]
fn a_body_that_is_too_large_is_refused_while_it_is_sent() {
    let world = World::new();
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", ana.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    for address in [world.tcp(), world.unix()] {
        let mut line = Connection::open(&address).unwrap();
        line.send(&request("POST", &ana.url("files/reserve"), &headers, &vec![b' '; 40 << 20])).unwrap();
        let refusal = line.receive(false).unwrap();
        assert_eq!(refusal.header("connection"), Some("close"), "{refusal}");
        refusal.refused("PAYLOAD_TOO_LARGE");
    }
}

#[test]
fn a_valid_request_id_is_kept_and_others_are_replaced() {
    let world = World::new();
    let id = |headers: &[(&str, &str)]| {
        let answer = world.send("GET", "/healthz", headers, b"");
        answer.header("x-request-id").unwrap().to_owned()
    };
    for sane in ["a", "7b0f3c1e-5a5f-4d0c-8a5e-0d8f5f7f9a11", "req_1:2/3.4", &"x".repeat(128)] {
        assert_eq!(id(&[("x-request-id", sane)]), sane);
    }
    for odd in ["", "two words", "<script>", "a;b", "\u{e9}", &"x".repeat(129)] {
        let made = id(&[("x-request-id", odd)]);
        assert!(made != odd && made.len() >= 16, "{odd:?} became {made:?}");
    }
    assert_ne!(id(&[]), id(&[]));
    let refusal = world.send("GET", "/nowhere", &[("x-request-id", "mine")], b"");
    assert_eq!(refusal.header("x-request-id"), Some("mine"));
}

#[test]
fn every_mutating_call_can_be_repeated() {
    let world = World::new();
    let (ana, bo, admin) = (world.session("ana"), world.session("bo"), world.admin());

    let first = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 100 })).ok();
    let again = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 100 })).ok();
    for same in ["reservationId", "fence", "reservedAt", "version", "mode"] {
        assert_eq!(first[same], again[same], "{same}");
    }
    assert!(time(&again["expiresAt"]) >= time(&first["expiresAt"]));
    let many = json!({ "filePaths": ["a", "b", "src/**"] });
    let ids = |answer: &Value| answer["reservations"].as_array().unwrap().iter().map(|r| r["fence"].clone()).collect();
    let (first, again): (Vec<_>, Vec<_>) = (ids(&ana.reserve(many.clone()).ok()), ids(&ana.reserve(many.clone()).ok()));
    assert_eq!(first, again);

    let (ask, all) = (json!({ "filePath": "a", "reason": "mine" }), "unlock-requests");
    let request = bo.post(all, ask.clone()).expect(201);
    assert_eq!(bo.post(all, ask).expect(201)["id"], request["id"]);
    let reject = format!("unlock-requests/{}/reject", text(&request["id"]));
    assert_eq!(ana.post(&reject, json!({})).ok()["status"], "rejected");
    assert_eq!(ana.post(&reject, json!({})).ok()["status"], "rejected");

    let release = json!({ "filePaths": ["a", "b"] });
    let released = ana.post("files/release", release.clone()).ok();
    assert_eq!(released, json!({ "ok": true, "released": true, "releasedCount": 2 }));
    let released = ana.post("files/release", release).ok();
    assert_eq!(released, json!({ "ok": true, "released": false, "releasedCount": 0 }));
    assert_eq!(ana.release("never/held"), json!({ "ok": true, "released": false, "releasedCount": 0 }));

    let all = ana.post("files/release-all", json!({})).ok();
    assert_eq!(all, json!({ "releasedCount": 1, "releasedPaths": ["src/**"] }));
    let all = ana.post("files/release-all", json!({})).ok();
    assert_eq!(all, json!({ "releasedCount": 0, "releasedPaths": [] }));

    ana.hold("c");
    let ended = ana.post("end", json!({ "state": "failed" })).ok();
    assert_eq!(ended, json!({ "state": "failed", "releasedCount": 1, "releasedPaths": ["c"] }));
    assert_eq!(ana.post("end", json!({ "state": "completed" })).ok(), ended);
    assert_eq!(world.post("/api/sessions/ana/end", &admin, json!({})).ok(), ended);

    let create = json!({ "sessionId": "carl" });
    world.post("/api/sessions", &admin, create.clone()).expect(201);
    assert_eq!(world.post("/api/sessions", &admin, create).expect(201)["sessionId"], "carl");
}

#[test]
fn the_unix_socket_and_the_port_serve_the_same_state() {
    let world = World::new();
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", ana.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let mut tcp = Connection::open(&world.tcp()).unwrap();
    let mut unix = Connection::open(&world.unix()).unwrap();
    // Both connections stay open for more than one call.
    for key in ["a", "b", "c"] {
        let body = json!({ "filePath": key }).to_string();
        let granted = unix.call("POST", &ana.url("files/reserve"), &headers, body.as_bytes()).unwrap();
        granted.check_ground_rules();
        let granted = granted.ok();
        let list = tcp.call("GET", &ana.url("reserved-files"), &headers, b"").unwrap().ok();
        assert_eq!(list["reservations"].as_array().unwrap().last().unwrap()["fence"], granted["fence"]);
    }
    unix.call("GET", "/api/reservations", &[], b"").unwrap().refused("UNAUTHENTICATED");
    let head = tcp.call("HEAD", "/healthz", &[], b"").unwrap();
    assert_eq!(head.status, 200);
    tcp.call("GET", "/healthz", &[], b"").unwrap().ok();

    use std::os::unix::fs::PermissionsExt;
    for private in ["dibs.sock", "secret", "read-token", "server.json", "journal.db"] {
        let mode = std::fs::metadata(world.path("repo/.git/dibs").join(private)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{private} is open to others");
    }
}
