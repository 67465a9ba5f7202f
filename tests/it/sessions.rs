//! Sessions: created, listed, kept alive, ended, lost.

use std::thread;

use serde_json::{Value, json};

use crate::mint;
use crate::world::{World, text, time, until};

#[test]
fn an_admin_creates_sessions() {
    let world = World::new();
    let admin = world.admin();
    let made = world.post("/api/sessions", &admin, json!({})).expect(201);
    let (id, token) = (text(&made["sessionId"]), text(&made["token"]));
    assert!(id.starts_with("sess_") && time(&made["expiresAt"]) > mint::now() * 1000, "{made}");
    world.get(&format!("/api/sessions/{id}"), &admin).ok();
    world.post(&format!("/api/sessions/{id}/files/reserve"), token, json!({ "filePath": "a" })).ok();

    let all = json!({ "repo": "repo", "sessionId": "ana", "name": "Ana", "feature": "F-1", "ttlSeconds": 600 });
    let made = world.post("/api/sessions", &admin, all).expect(201);
    assert_eq!(made["sessionId"], "ana");
    let life = time(&made["expiresAt"]) / 1000 - mint::now();
    assert!((500..=600).contains(&life), "a token for ten minutes lives {life} s");
    let seen = world.get("/api/sessions/ana", text(&made["token"])).ok();
    assert_eq!((text(&seen["name"]), text(&seen["feature"]), text(&seen["state"])), ("Ana", "F-1", "active"));

    for (body, code) in [
        (json!({ "sessionId": "not an id" }), "INVALID_REQUEST"),
        (json!({ "sessionId": "x".repeat(129) }), "INVALID_REQUEST"),
        (json!({ "sessionId": "" }), "INVALID_REQUEST"),
        (json!({ "name": "x".repeat(201) }), "INVALID_REQUEST"),
        (json!({ "name": "two\nlines" }), "INVALID_REQUEST"),
        (json!({ "ttlSeconds": 0 }), "TTL_OUT_OF_RANGE"),
        (json!({ "ttlSeconds": 1_u64 << 40 }), "TTL_OUT_OF_RANGE"),
        (json!({ "repo": "other" }), "FORBIDDEN"),
    ] {
        world.post("/api/sessions", &admin, body).refused(code);
    }
    assert_eq!(world.get("/api/sessions", &admin).ok()["sessions"].as_array().unwrap().len(), 2);

    let old = text(&made["token"]).to_owned();
    world.post("/api/sessions/ana/end", &admin, json!({})).ok();
    let made = world.post("/api/sessions", &admin, json!({ "sessionId": "ana" })).expect(201);
    world.get("/api/sessions", &old).refused("SESSION_ENDED");
    world.post("/api/sessions/ana/files/reserve", text(&made["token"]), json!({ "filePath": "b" })).ok();
    world.post("/api/sessions/ana/end", &old, json!({})).refused("SESSION_ENDED");
    assert_eq!(world.held().len(), 2, "an old token cannot end the new session");
}

#[test]
fn anyone_in_the_repository_sees_every_session() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    ana.hold("a");
    ana.hold("b");
    thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePaths": ["a", "c"], "waitSeconds": 60 }));
        let list = world.get("/api/sessions", &world.session("carl").token).ok();
        let by_id = |id: &str| -> Value {
            let mut all = list["sessions"].as_array().unwrap().iter();
            all.find(|session| session["sessionId"] == id).unwrap().clone()
        };
        let (ana_seen, bo_seen, carl_seen) = (by_id("ana"), by_id("bo"), by_id("carl"));
        assert_eq!((&ana_seen["name"], &ana_seen["heldCount"]), (&json!("Ana"), &json!(2)));
        assert_eq!((&bo_seen["waitingFor"], &bo_seen["heldCount"]), (&json!(["a", "c"]), &json!(0)));
        assert_eq!(carl_seen["state"], "active", "looking brings a session to life");
        assert_eq!(world.get("/api/sessions/bo", &ana.token).ok()["waitingFor"], json!(["a", "c"]));
        assert!(time(&ana_seen["startedAt"]) <= time(&ana_seen["lastSeenAt"]));

        // Everything is released in one step, and waiters move up.
        assert_eq!(ana.end()["releasedPaths"], json!(["a", "b"]));
        assert_eq!(waiting.join().unwrap().ok()["reserved"], json!(["a", "c"]));
    });
    let seen = world.get("/api/sessions/ana", &bo.token).ok();
    assert_eq!((&seen["state"], &seen["heldCount"]), (&json!("completed"), &json!(0)));
    assert!(time(&seen["endedAt"]) >= time(&seen["startedAt"]));
    world.get("/api/sessions/nobody", &bo.token).refused("NOT_FOUND");
}

#[test]
fn the_token_of_an_ended_session_is_refused() {
    let world = World::new();
    let admin = world.admin();
    for (id, state) in [("ana", "completed"), ("bo", "failed"), ("carl", "stopped")] {
        let session = world.session(id);
        session.hold(id);
        assert_eq!(session.post("end", json!({ "state": state })).ok()["state"], state);
        for (call, body) in [
            ("heartbeat", json!({})),
            ("files/reserve", json!({ "filePath": "z" })),
            ("files/release", json!({ "filePath": "z" })),
            ("files/release-all", json!({})),
            ("files/renew", json!({ "filePath": "z" })),
            ("files/check-conflicts", json!({ "paths": ["z"] })),
            ("unlock-requests", json!({ "filePath": "z", "reason": "x" })),
        ] {
            let refusal = session.post(call, body.clone()).refused("SESSION_ENDED");
            assert!(text(&refusal["error"]).contains(state), "{refusal}");
            if call != "files/check-conflicts" {
                world.post(&session.url(call), &admin, body).refused("SESSION_ENDED");
            }
        }
        for target in ["/api/sessions", "/api/reservations", "/api/stats", &session.url("reserved-files")] {
            world.get(target, &session.token).refused("SESSION_ENDED");
        }
        world.post("/api/check-conflicts", &session.token, json!({ "paths": [] })).refused("SESSION_ENDED");
    }
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn a_heartbeat_renews_every_reservation() {
    let world = World::new();
    let ana = world.session("ana");
    let none = ana.post("heartbeat", json!({})).ok();
    assert_eq!((&none["renewedCount"], &none["notices"]), (&json!(0), &json!([])));
    // The half hour after which a silent session is lost.
    let seen = world.get("/api/sessions/ana", &ana.token).ok();
    assert!(time(&none["expiresAt"]) - time(&seen["startedAt"]) >= 1_800_000);

    let (short, long) = (ana.reserve(json!({ "filePath": "a", "ttlSeconds": 100 })).ok(), ana.hold("db:schema:slot"));
    let beat = until("a heartbeat moves the time", || {
        let beat = ana.post("heartbeat", json!({})).ok();
        (time(&beat["expiresAt"]) > time(&short["expiresAt"])).then_some(beat)
    });
    assert_eq!(beat["renewedCount"], 2);
    let list = ana.get("reserved-files").ok();
    let expiry = |n: usize| time(&list["reservations"][n]["expiresAt"]);
    assert!(expiry(0) >= time(&beat["expiresAt"]) && expiry(1) >= time(&long["expiresAt"]));
    assert_eq!(expiry(1) - expiry(0), 1_700_000, "100 s and half an hour from the same moment");
}

#[test]
fn a_silent_session_is_lost_once_its_longest_ttl_has_run_out() {
    let world = World::with(&["--session-timeout", "1"]);
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    ana.reserve(json!({ "filePath": "a", "ttlSeconds": 2 })).ok();
    ana.reserve(json!({ "filePath": "db:schema:slot", "ttlSeconds": 4 })).ok();
    world.post("/api/sessions", &world.admin(), json!({ "sessionId": "never-came" })).expect(201);
    let reader = world.reader();
    let state = |id: &str| text(&world.get(&format!("/api/sessions/{id}"), &reader).ok()["state"]).to_owned();
    thread::scope(|scope| {
        // A waiting session is alive, and gets what expired.
        let waiting = bo.queue(scope, json!({ "filePath": "a", "waitSeconds": 60, "ttlSeconds": 300 }));
        until("the first reservation expires", || {
            // Any authenticated call keeps a session alive, also one that only reads.
            world.get("/api/stats", &carl.token).ok();
            waiting.is_finished().then_some(())
        });
        waiting.join().unwrap().ok();
    });
    assert_eq!(state("ana"), "active", "silent for longer than the timeout, but it still holds something");
    until("the silent session is lost", || {
        world.get("/api/stats", &carl.token).ok();
        (state("ana") == "lost" && state("never-came") == "lost").then_some(())
    });
    assert_eq!(state("carl"), "active");
    assert_eq!(
        ana.end(),
        json!({ "state": "lost", "releasedCount": 0, "releasedPaths": [] }),
        "an end does not open it"
    );
    let back = ana.reserve(json!({ "filePath": "z" })).ok();
    let notice = &back["notices"][0];
    assert_eq!((&notice["kind"], &notice["releasedCount"]), (&json!("lost"), &json!(2)), "{back}");
    assert_eq!(notice["releasedPaths"], json!(["a", "db:schema:slot"]));
    time(&notice["lostAt"]);
    assert_eq!(ana.post("heartbeat", json!({})).ok()["notices"], json!([]), "it is told once");
    let held = ana.get("reserved-files").ok();
    assert_eq!(held["reservations"].as_array().unwrap().len(), 1, "empty-handed but for what it reserved since");
}

#[test]
fn an_ended_session_is_opened_again_by_a_later_token_only() {
    let mut world = World::new();
    let token = |world: &World, iat: Value| world.token(json!({ "sub": "ana", "iat": iat, "name": "Ana" }));
    let now = mint::now();
    let first = token(&world, json!(now - 100));
    let call = |world: &World, token: &str| world.post("/api/sessions/ana/heartbeat", token, json!({}));
    call(&world, &first).ok();
    world.post("/api/sessions/ana/files/reserve", &first, json!({ "filePath": "a" })).ok();
    world.post("/api/sessions/ana/end", &first, json!({})).ok();
    let older = [token(&world, json!(now - 50)), token(&world, Value::Null), first];
    let later = token(&world, json!(mint::now() as f64 + 1.5));
    for old in &older {
        let refusal = call(&world, old).refused("SESSION_ENDED");
        assert!(text(&refusal["error"]).contains("issued after the end"), "{refusal}");
    }
    assert_eq!(call(&world, &later).ok()["renewedCount"], 0, "empty-handed");
    world.post("/api/sessions/ana/files/reserve", &later, json!({ "filePath": "b" })).ok();
    for kill in [false, true] {
        if kill {
            world.kill();
            world.start();
        }
        for old in &older {
            call(&world, old).refused("SESSION_ENDED");
            world.post("/api/sessions/ana/end", old, json!({})).refused("SESSION_ENDED");
        }
        assert_eq!(call(&world, &later).ok()["renewedCount"], 1);
    }
    let seen = world.get("/api/sessions/ana", &world.reader()).ok();
    assert_eq!((&seen["state"], &seen["name"]), (&json!("active"), &json!("Ana")));
    let events = world.get("/api/history?session=ana", &world.reader()).ok();
    let verbs: Vec<_> = events["events"].as_array().unwrap().iter().map(|event| text(&event["event"])).collect();
    assert_eq!(verbs, ["reserved", "reopened", "released", "ended", "reserved", "opened"]);
}

/// Regression: calls that only read took notices from the session without delivering them.
#[test]
fn every_response_to_a_session_carries_its_notices() {
    let world = World::new();
    let (ana, bo, admin) = (world.session("ana"), world.session("bo"), world.admin());
    bo.post("heartbeat", json!({})).ok();
    let calls: [(&str, &str, Option<Value>); 15] = [
        ("GET", "/api/sessions", None),
        ("GET", "/api/sessions/ana", None),
        ("GET", "/api/sessions/bo", None),
        ("GET", "/api/sessions/nobody", None),
        ("GET", "/api/reservations", None),
        ("GET", "/api/stats", None),
        ("POST", "/api/check-conflicts", Some(json!({ "paths": ["a"] }))),
        ("GET", "/api/sessions/ana/reserved-files", None),
        ("GET", "/api/sessions/ana/unlock-requests", None),
        ("GET", "/api/sessions/ana/files/check-conflicts?paths=a", None),
        ("POST", "/api/sessions/ana/files/reserve", Some(json!({ "filePath": "other" }))),
        ("POST", "/api/sessions/ana/files/release", Some(json!({ "filePath": "other" }))),
        ("POST", "/api/sessions/ana/files/renew", Some(json!({ "filePath": "never" }))),
        ("POST", "/api/sessions/ana/files/release-all", Some(json!({}))),
        ("POST", "/api/sessions/ana/heartbeat", Some(json!({}))),
    ];
    for (method, target, body) in calls {
        let id = ana.hold("taken")["reservationId"].clone();
        let taken = format!("/api/reservations/{}", text(&id));
        world.delete(&taken, &admin, json!({ "reason": "release night" })).ok();
        let answer = world.call(method, target, &ana.token, body).json();
        let notice = &answer["notices"][0];
        assert_eq!(notice["kind"], "released", "{method} {target}: {answer}");
        assert_eq!((&notice["reservationId"], &notice["filePath"]), (&id, &json!("taken")));
        assert_eq!((&notice["why"], &notice["by"]), (&json!("overridden"), &json!("Ops")));
        assert_eq!(notice["reason"], "release night");
        time(&notice["at"]);
        assert_eq!(ana.post("heartbeat", json!({})).ok()["notices"], json!([]), "it is told once");
    }
    assert_eq!(bo.post("heartbeat", json!({})).ok()["notices"], json!([]), "and to nobody else");
}
