//! What a restart keeps, whether the server was stopped or killed.

use std::thread;

use serde_json::{Value, json};

use crate::mint;
use crate::world::{World, secret_in, text, time, until};

/// The parts of a list that a restart may not change.
fn without(mut list: Vec<Value>, fields: &[&str]) -> Vec<Value> {
    for one in &mut list {
        for field in fields {
            one.as_object_mut().unwrap().remove(*field);
        }
    }
    list
}

#[test]
fn a_restart_keeps_everything_acknowledged() {
    let mut world = World::new();
    let before = {
        let ana = world.session_with("ana", json!({ "name": "Ana", "feature": "F-1" }));
        let (bo, ended) = (world.session("bo"), world.session("ended"));
        for key in
            ["src/a.rs", "lib/**", "caf\u{e9}", "db:schema:slot", "deploy://prod", "file:src/[id].ts", "flag:x/*"]
        {
            ana.reserve(json!({ "filePath": key, "reason": "why", "mode": "shared" })).ok();
        }
        ana.reserve(json!({ "filePath": "file:caf%E9%0A", "encoding": "percent", "ttlSeconds": 300 })).ok();
        bo.hold("feature:F-1:pause");
        bo.hold("b");
        bo.release("b");
        bo.reserve(json!({ "filePath": "lib/x" })).refused("RESOURCE_LOCKED");
        ended.hold("e");
        ended.post("end", json!({ "state": "failed" })).ok();
        bo.post("unlock-requests", json!({ "filePath": "db:schema:slot", "reason": "mine" })).expect(201);
        world.post("/api/sessions/bound/heartbeat", &worker(&world, "w1"), json!({})).ok();
        everything(&world)
    };
    // Once stopped, once killed: counts of refusals are recorded at a stop and from time to time.
    for pull_the_plug in [false, true] {
        match pull_the_plug {
            false => assert_eq!(world.stop().status.code(), Some(0)),
            true => world.kill(),
        }
        world.start();
        assert_eq!(everything(&world), before);
        let ana = world.session_with("ana", json!({ "feature": "F-1" }));
        let notices = ana.post("heartbeat", json!({})).ok()["notices"].clone();
        let kinds: Vec<_> = notices.as_array().unwrap().iter().map(|notice| text(&notice["kind"])).collect();
        assert_eq!(kinds, ["unlockRequested", "paused"]);
        ana.reserve(json!({ "filePath": "new" })).refused("FEATURE_PAUSED");
        let ended = world.session("ended");
        ended.reserve(json!({ "filePath": "z" })).refused("SESSION_ENDED");
        let again = ended.end();
        assert_eq!(again, json!({ "state": "failed", "releasedCount": 1, "releasedPaths": ["e"] }));
        world.post("/api/sessions/bound/heartbeat", &worker(&world, "w2"), json!({})).refused("FORBIDDEN");
        world.post("/api/sessions/bound/heartbeat", &worker(&world, "w1"), json!({})).ok();
    }
}

fn worker(world: &World, sub: &str) -> String {
    world.token(json!({ "sub": sub, "scope": "worker" }))
}

fn everything(world: &World) -> Value {
    let reader = world.reader();
    let list = |target: &str, field: &str| -> Vec<Value> {
        serde_json::from_value(world.get(target, &reader).ok()[field].take()).unwrap()
    };
    json!({
        "reservations": without(world.reservations(), &["expiresAt"]),
        "sessions": without(list("/api/sessions", "sessions"), &["lastSeenAt"]),
        "incoming": list("/api/sessions/ana/unlock-requests", "incoming"),
        "outgoing": list("/api/sessions/bo/unlock-requests", "outgoing"),
        "stats": world.get("/api/stats", &reader).ok(),
    })
}

#[test]
fn a_restart_renews_live_reservations() {
    let mut world = World::with(&["--session-timeout", "100"]);
    let ana = world.session("ana");
    ana.reserve(json!({ "filePaths": ["a", "db:schema:slot"], "ttlSeconds": 200 })).ok();
    ana.reserve(json!({ "filePath": "short", "ttlSeconds": 1 })).ok();
    let before = world.reservations();
    world.kill();
    // Longer than the shortest TTL among them.
    until("a second has passed", || {
        (jiff::Timestamp::now().as_millisecond() > time(&before[2]["expiresAt"])).then_some(())
    });
    world.start();
    let started = time(&world.record()["startedAt"]);
    let after = world.reservations();
    for (one, seconds) in after.iter().zip([200, 200, 1]) {
        assert!(time(&one["expiresAt"]) >= started + seconds * 1000, "{one}");
    }
    assert!(time(&after[0]["expiresAt"]) > time(&before[0]["expiresAt"]));
    let beat = world.session("ana").post("heartbeat", json!({})).ok();
    assert!(beat["renewedCount"].as_u64().unwrap() >= 2);
    assert!(time(&world.get("/api/sessions/ana", &world.reader()).ok()["lastSeenAt"]) >= started);
    until("the short one runs out, late but surely", || (world.reservations().len() == 2).then_some(()));
    world.session("ana").post("files/renew", json!({ "filePath": "short" })).refused("LOCK_TIMEOUT");
}

#[test]
fn a_restart_continues_fences_and_versions() {
    let mut world = World::new();
    let mut last = 0;
    for version in 0..4 {
        let ana = world.session("ana");
        let granted = ana.hold("a");
        assert_eq!(granted["version"], version);
        let fence = granted["fence"].as_u64().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        ana.release("a");
        match version % 2 {
            0 => world.kill(),
            _ => assert_eq!(world.stop().status.code(), Some(0)),
        }
        world.start();
    }
    world.session("ana").reserve(json!({ "filePath": "a", "ifVersion": 3 })).refused("VERSION_MISMATCH");
    world.session("ana").reserve(json!({ "filePath": "a", "ifVersion": 4 })).ok();
}

#[test]
fn a_restart_empties_the_queues() {
    let mut world = World::new();
    world.session("ana").hold("a");
    thread::scope(|scope| {
        let bo = world.session("bo");
        let mut line = world.connect();
        let bearer = format!("Bearer {}", bo.token);
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let ask = json!({ "filePath": "a", "waitSeconds": 60 }).to_string();
        line.send(&crate::http::request("POST", &bo.url("files/reserve"), &headers, ask.as_bytes())).unwrap();
        until("bo waits", || (world.get("/api/stats", &world.reader()).ok()["waiters"] == 1).then_some(()));
        let cut_off = scope.spawn(move || line.receive(false));
        world.signal(libc::SIGKILL);
        assert!(cut_off.join().unwrap().is_err());
    });
    world.wait();
    world.start();
    assert_eq!(world.get("/api/stats", &world.reader()).ok()["waiters"], 0);
    world.session("ana").release("a");
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn a_second_repository_does_not_start_an_empty_journal() {
    let mut world = World::not_started();
    ["repo", "two"].iter().for_each(|name| world.git_init(name));
    let (data, one, two) = (world.path("data"), world.path("repo"), world.path("two"));
    world.args(&["--data", data.to_str().unwrap(), "--repo", &format!("one={}", one.display())]);
    world.start();
    let token = |repo: &str| mint::hs256(&mint::claims(json!({ "sub": "ana", "repo": repo })), &secret_in(&data));
    let reserve = json!({ "filePath": "a", "ttlSeconds": 300 });
    world.post("/api/sessions/ana/files/reserve", &token("one"), reserve).ok();
    world.stop();
    world.args(&["--repo", &format!("two={}", two.display())]);
    let refused = world.start_and_fail();
    assert!(refused.stderr.contains("has the journal of a server with one repository; move"), "{}", refused.stderr);
    assert!(!data.join("one/journal.db").exists());
    std::fs::create_dir(data.join("one")).unwrap();
    for name in ["journal.db", "ledger.git"] {
        std::fs::rename(data.join(name), data.join("one").join(name)).unwrap();
    }
    world.start();
    let held = world.get("/api/sessions/ana/reserved-files", &token("one")).ok();
    assert_eq!(held["reservations"][0]["filePath"], "a");
}
