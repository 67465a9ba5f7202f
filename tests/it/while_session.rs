//! Reservations that last while their session gives signs of life.

use serde_json::{Value, json};

use crate::world::{World, time, until};

fn lasts(granted: &Value) -> i64 {
    (time(&granted["expiresAt"]) - time(&granted["reservedAt"])) / 1000
}

#[test]
fn the_idle_time_has_a_default_and_bounds() {
    let world = World::with(&["--session-timeout", "900"]);
    let ana = world.session("ana");
    for key in ["a", "src/**", "db:migration-slot", "deploy://api-prod"] {
        let granted = ana.reserve(json!({ "filePath": key, "whileSession": true })).ok();
        assert_eq!((lasts(&granted), &granted["ttlSeconds"]), (900, &json!(900)), "the session timeout: {granted}");
        assert_eq!(granted["whileSession"], true);
        ana.release(key);
        for idle in [1, 28_800] {
            let granted = ana.reserve(json!({ "filePath": key, "whileSession": true, "idleSeconds": idle })).ok();
            assert_eq!(lasts(&granted), idle, "{granted}");
            ana.release(key);
        }
        for idle in [0, -1, 28_801, i64::MAX] {
            let body = json!({ "filePath": key, "whileSession": true, "idleSeconds": idle });
            let refusal = ana.reserve(body).refused("TTL_OUT_OF_RANGE");
            assert_eq!((&refusal["min"], &refusal["max"]), (&json!(1), &json!(28_800)));
            assert_eq!(refusal["field"], "idleSeconds");
        }
    }
    let plain = ana.reserve(json!({ "filePath": "a", "whileSession": false })).ok();
    assert_eq!((&plain["ttlSeconds"], plain.get("whileSession")), (&json!(60), None));
}

#[test]
fn a_hold_has_one_kind_of_time() {
    let world = World::new();
    let ana = world.session("ana");
    let both = json!({ "filePath": "a", "whileSession": true, "ttlSeconds": 60 });
    let refusal = ana.reserve(both.clone()).refused("INVALID_REQUEST");
    assert_eq!(refusal["field"], "ttlSeconds");
    assert_eq!(
        refusal["error"],
        "The field ttlSeconds must not be sent together with whileSession, which has idleSeconds instead."
    );
    for body in [
        json!({ "filePath": "a", "idleSeconds": 60 }),
        json!({ "filePath": "a", "ttlSeconds": 60, "idleSeconds": 60 }),
        json!({ "filePath": "a", "whileSession": false, "idleSeconds": 60 }),
    ] {
        assert_eq!(ana.reserve(body).refused("INVALID_REQUEST")["field"], "idleSeconds");
    }
    let wrong = ana.reserve(json!({ "filePath": "a", "whileSession": "yes" })).refused("INVALID_REQUEST");
    assert_eq!(wrong["field"], "whileSession");
    // A check is refused for what a reservation would be refused for.
    for (body, code) in [
        (json!({ "paths": ["a"], "whileSession": true, "ttlSeconds": 60 }), "INVALID_REQUEST"),
        (json!({ "paths": ["a"], "whileSession": true, "idleSeconds": 28_801 }), "TTL_OUT_OF_RANGE"),
    ] {
        ana.post("files/check-conflicts", body).refused(code);
    }
    ana.post("files/check-conflicts", json!({ "paths": ["a"], "whileSession": true, "idleSeconds": 28_800 })).ok();
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn every_call_of_the_session_moves_the_deadline_and_every_list_shows_it() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let keys = json!({ "filePaths": ["a", "b"], "whileSession": true, "idleSeconds": 600 });
    let granted = ana.reserve(keys).ok();
    let mut last = time(&granted["reservations"][0]["expiresAt"]);
    type Call<'a> = (&'a str, Box<dyn Fn() -> Value + 'a>);
    let listed = || world.reservations().into_iter().find(|one| one["filePath"] == "a").unwrap();
    let calls: [Call; 5] = [
        ("a heartbeat", Box::new(|| ana.post("heartbeat", json!({})).ok()["expiresAt"].clone())),
        ("a look at its own list", Box::new(|| ana.get("reserved-files").ok()["reservations"][0]["expiresAt"].clone())),
        (
            "a check",
            Box::new(|| {
                ana.post("files/check-conflicts", json!({ "paths": ["x"] })).ok();
                listed()["expiresAt"].clone()
            }),
        ),
        (
            "a plain reservation",
            Box::new(|| {
                ana.hold("c");
                bo.reserve(json!({ "filePath": "a" })).refused("RESOURCE_LOCKED")["expiresAt"].clone()
            }),
        ),
        (
            "the history",
            Box::new(|| {
                world.get("/api/history", &ana.token).ok();
                listed()["expiresAt"].clone()
            }),
        ),
    ];
    for (what, call) in &calls {
        // The first call may come in the same millisecond.
        last = until(what, || Some(time(&call())).filter(|shown| *shown > last));
    }
    let list = listed();
    assert_eq!((&list["whileSession"], &list["ttlSeconds"], &list["version"]), (&json!(true), &json!(600), &json!(0)));
}

#[test]
fn it_ends_with_the_silence_of_its_session_and_the_session_is_told() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.reserve(json!({ "filePath": "a", "whileSession": true, "idleSeconds": 1 })).ok();
    let granted = bo.reserve(json!({ "filePath": "a", "waitSeconds": 60 })).ok();
    assert_eq!(granted["filePath"], "a");
    let told = ana.post("heartbeat", json!({})).ok();
    assert_eq!(told["notices"][0]["expiredPaths"], json!(["a"]), "{told}");
}

#[test]
fn it_survives_a_kill_with_its_full_idle_time() {
    let mut world = World::new();
    let before = {
        let ana = world.session("ana");
        ana.reserve(json!({ "filePath": "a", "whileSession": true, "idleSeconds": 3600 })).ok()
    };
    world.kill();
    world.start();
    let after = world.reservations().remove(0);
    assert_eq!((&after["whileSession"], &after["ttlSeconds"]), (&json!(true), &json!(3600)), "{after}");
    assert!(time(&after["expiresAt"]) > time(&before["expiresAt"]), "{after}");
    assert_eq!((&after["fence"], &after["reservationId"]), (&before["fence"], &before["reservationId"]));
}

#[test]
fn it_lasts_as_long_as_the_answer_says_also_where_the_session_timeout_is_shorter() {
    let world = World::with(&["--session-timeout", "1"]);
    let (ana, bo, dee) = (world.session("ana"), world.session("bo"), world.session("dee"));
    let granted = ana.reserve(json!({ "filePath": "a", "whileSession": true, "idleSeconds": 4 })).ok();
    bo.reserve(json!({ "filePath": "b", "ttlSeconds": 4 })).ok();
    let amended = bo.reserve(json!({ "filePath": "b", "whileSession": true })).ok();
    for (key, answer) in [("a", &granted), ("b", &amended)] {
        let taken = dee.reserve(json!({ "filePath": key, "waitSeconds": 60 })).ok();
        assert!(time(&taken["reservedAt"]) >= time(&answer["expiresAt"]), "{answer} and {taken}");
    }
}
