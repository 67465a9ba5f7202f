//! The worker protocol: reserve, release, renew.

use serde_json::{Value, json};

use crate::world::{World, text, time, until};

#[test]
fn a_grant_says_what_was_granted() {
    let world = World::new();
    let ana = world.session("ana");
    let ask = json!({ "filePath": "src/a.ts", "ttlSeconds": 120, "mode": "shared", "reason": "moving things" });
    let granted = ana.reserve(ask).ok();
    assert!(text(&granted["reservationId"]).starts_with("res_"), "{granted}");
    for (field, value) in [
        ("filePath", json!("src/a.ts")),
        ("sessionId", json!("ana")),
        ("mode", json!("shared")),
        ("reason", json!("moving things")),
        ("version", json!(0)),
    ] {
        assert_eq!(granted[field], value, "{field}");
    }
    assert!(granted["fence"].as_u64().unwrap() > 0);
    assert_eq!(time(&granted["expiresAt"]) - time(&granted["reservedAt"]), 120_000);
    assert_eq!(ana.hold("b")["mode"], "exclusive");
}

#[test]
fn a_conflict_says_who_holds_it_until_when_and_why() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    let held = ana.reserve(json!({ "filePath": "src/**", "ttlSeconds": 90, "reason": "moving things" })).ok();
    let answer = bo.reserve(json!({ "filePath": "src/a.ts" }));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=90).contains(&seconds));
    let refusal = answer.refused("RESOURCE_LOCKED");
    assert_eq!(refusal["error"], "File already reserved");
    assert_eq!(refusal["reservedBy"], "ana");
    assert_eq!(refusal["expiresAt"], held["expiresAt"]);
    let conflict = &refusal["conflicts"][0];
    for (field, value) in [
        ("key", &json!("src/**")),
        ("reservedBy", &json!("ana")),
        ("reservedByName", &json!("Ana")),
        ("mode", &json!("exclusive")),
        ("reason", &json!("moving things")),
        ("expiresAt", &held["expiresAt"]),
        ("example", &json!("src/a.ts")),
        ("filePath", &json!("src/a.ts")),
        ("heldBy", &json!({ "sessionId": "ana", "reservedAt": held["reservedAt"] })),
    ] {
        assert_eq!(conflict[field], *value, "{field}");
    }
}

#[test]
fn ttls_have_bounds() {
    let world = World::new();
    let ana = world.session("ana");
    for (key, default, max) in
        [("a", 60, 300), ("src/**", 60, 300), ("db:schema:slot", 1800, 28_800), ("deploy://api-prod", 1800, 28_800)]
    {
        let lasts = |granted: &Value| (time(&granted["expiresAt"]) - time(&granted["reservedAt"])) / 1000;
        assert_eq!(lasts(&ana.hold(key)), default, "{key}");
        ana.release(key);
        for ttl in [1, max] {
            assert_eq!(lasts(&ana.reserve(json!({ "filePath": key, "ttlSeconds": ttl })).ok()), ttl, "{key}");
            ana.release(key);
        }
        for ttl in [0, -1, max + 1, i64::MAX] {
            let refusal = ana.reserve(json!({ "filePath": key, "ttlSeconds": ttl })).refused("TTL_OUT_OF_RANGE");
            assert_eq!((&refusal["min"], &refusal["max"]), (&json!(1), &json!(max)), "{key}");
        }
    }
    // A renewal has the same bounds, and its TTL is the one used from then on.
    ana.hold("a");
    let refusal = ana.post("files/renew", json!({ "filePath": "a", "ttlSeconds": 301 })).refused("TTL_OUT_OF_RANGE");
    assert_eq!(refusal["max"], 300);
    let renewed = ana.post("files/renew", json!({ "filePath": "a", "ttlSeconds": 300 })).ok();
    let listed = ana.get("reserved-files").ok()["reservations"][0].clone();
    assert_eq!(listed["expiresAt"], renewed["expiresAt"]);
    // The bounds of every key of a batch apply.
    let mixed = json!({ "filePaths": ["db:schema:slot", "b"], "ttlSeconds": 600 });
    assert_eq!(ana.reserve(mixed).refused("TTL_OUT_OF_RANGE")["max"], 300);
    assert_eq!(world.held(), ["ana a"]);
}

#[test]
fn several_keys_are_granted_as_a_whole_or_not_at_all() {
    let world = World::new();
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    let granted = ana.reserve(json!({ "filePaths": ["a", "./b", "src/**", "a"], "ttlSeconds": 100 })).ok();
    assert_eq!((&granted["reserved"], &granted["conflicts"]), (&json!(["a", "b", "src/**"]), &json!([])));
    let fences: Vec<_> =
        granted["reservations"].as_array().unwrap().iter().map(|r| r["fence"].as_u64().unwrap()).collect();
    assert!(fences.len() == 3 && fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    for one in granted["reservations"].as_array().unwrap() {
        assert_eq!(time(&one["expiresAt"]) - time(&one["reservedAt"]), 100_000);
        assert!(text(&one["reservationId"]).starts_with("res_") && one["sessionId"] == "ana" && one["version"] == 0);
    }
    carl.hold("c");

    let refusal = bo.reserve(json!({ "filePaths": ["free", "b", "c", "src/x"] })).refused("RESOURCE_LOCKED");
    assert_eq!(refusal["reserved"], json!([]));
    let found: Vec<_> = refusal["conflicts"].as_array().unwrap().iter().collect();
    let seen: Vec<_> = found.iter().map(|c| (text(&c["filePath"]), text(&c["heldBy"]["sessionId"]))).collect();
    assert_eq!(seen, [("b", "ana"), ("c", "carl"), ("src/x", "ana")], "every conflict is listed");
    assert!(found.iter().all(|c| time(&c["heldBy"]["reservedAt"]) > 0 && c["reservedBy"] == c["heldBy"]["sessionId"]));
    assert_eq!(bo.get("reserved-files").ok()["reservations"], json!([]));
    // With one bad key, nothing is granted either.
    bo.reserve(json!({ "filePaths": ["free", "../x"] })).refused("INVALID_PATH");
    bo.reserve(json!({ "filePaths": ["free", "nope:x"] })).refused("OPERATION_NOT_PERMITTED");
    assert_eq!(world.held(), ["ana a", "ana b", "ana src/**", "carl c"]);
}

#[test]
fn a_request_takes_at_most_ten_thousand_keys() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let keys: Vec<String> = (0..10_001).map(|n| format!("dir{}/file{n}.txt", n % 100)).collect();
    ana.reserve(json!({ "filePaths": keys })).refused("INVALID_REQUEST");
    let granted = ana.reserve(json!({ "filePaths": keys[..10_000] })).ok();
    assert_eq!(granted["reserved"].as_array().unwrap().len(), 10_000);
    let refusal = bo.reserve(json!({ "filePaths": keys[..10_000] })).refused("RESOURCE_LOCKED");
    assert_eq!(refusal["conflicts"].as_array().unwrap().len(), 10_000);
    let released = ana.post("files/release", json!({ "filePaths": keys[..10_000] })).ok();
    assert_eq!(released["releasedCount"], 10_000);
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn fences_and_versions_increase() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let mut last = 0;
    let mut grows = |granted: &Value| {
        let fence = granted["fence"].as_u64().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        granted["version"].as_u64().unwrap()
    };
    for version in 0..3 {
        assert_eq!(grows(&ana.hold("a")), version);
        ana.release("a");
    }
    assert_eq!(grows(&ana.hold("b")), 0, "each key has its own");
    // Shared holders count too, each of them.
    let shared = json!({ "filePath": "a", "mode": "shared" });
    assert_eq!(grows(&ana.reserve(shared.clone()).ok()), 3);
    assert_eq!(grows(&bo.reserve(shared.clone()).ok()), 3);
    ana.release("a");
    bo.release("a");
    // However it is released: by the end of the session, by an admin, by expiry.
    assert_eq!(grows(&ana.hold("a")), 5);
    ana.end();
    let held = bo.hold("a");
    assert_eq!(grows(&held), 6);
    let taken = format!("/api/reservations/{}", text(&held["reservationId"]));
    world.delete(&taken, &world.admin(), json!({ "reason": "x" })).ok();
    assert_eq!(grows(&bo.reserve(json!({ "filePath": "a", "ttlSeconds": 1 })).ok()), 7);
    until("its time is up", || world.held().is_empty().then_some(()));

    let mismatch = bo.reserve(json!({ "filePath": "a", "ifVersion": 7 })).refused("VERSION_MISMATCH");
    assert_eq!(mismatch["version"], 8);
    assert_eq!(world.held(), [""; 0]);
    assert_eq!(grows(&bo.reserve(json!({ "filePath": "a", "ifVersion": 8 })).ok()), 8);
    bo.reserve(json!({ "filePaths": ["new", "a"], "ifVersion": 0 })).refused("VERSION_MISMATCH");
    bo.reserve(json!({ "filePath": "new", "ifVersion": 0 })).ok();
}

#[test]
fn releasing_what_another_session_holds_changes_nothing() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    ana.hold("a");
    ana.hold("file:src/[id].ts");
    bo.hold("b");
    let refusal = bo.post("files/release", json!({ "filePath": "a" })).refused("LOCK_NOT_HELD");
    assert_eq!((&refusal["reservedBy"], &refusal["reservedByName"]), (&json!("ana"), &json!("Ana")));
    bo.post("files/release", json!({ "filePaths": ["b", "a"] })).refused("LOCK_NOT_HELD");
    bo.post("files/renew", json!({ "filePath": "a" })).refused("LOCK_NOT_HELD");
    bo.post("files/renew", json!({ "filePath": "nobody's" })).refused("LOCK_NOT_HELD");
    assert_eq!(world.held(), ["ana a", "ana file:src/[id].ts", "bo b"]);
    // The holder may name the file without its prefix: it means what the session holds.
    assert_eq!(ana.release("src/[id].ts")["released"], true);
    assert_eq!(world.held(), ["ana a", "bo b"]);
}

#[test]
fn a_reservation_can_be_renewed_until_it_expires() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let first = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 100 })).ok();
    let renewed = until("renewing moves the time", || {
        let renewed = ana.post("files/renew", json!({ "filePath": "a" })).ok();
        (time(&renewed["expiresAt"]) > time(&first["expiresAt"])).then_some(renewed)
    });
    assert_eq!((&renewed["reservationId"], &renewed["fence"]), (&first["reservationId"], &first["fence"]));
    ana.hold("b");
    let both = ana.post("files/renew", json!({ "filePaths": ["a", "b"], "ttlSeconds": 200 })).ok();
    assert_eq!(both["reservations"].as_array().unwrap().len(), 2);
    assert_eq!(both["expiresAt"], both["reservations"][0]["expiresAt"]);
    ana.post("files/renew", json!({ "filePaths": ["a", "c"], "ttlSeconds": 1 })).refused("LOCK_NOT_HELD");

    ana.reserve(json!({ "filePath": "short", "ttlSeconds": 1 })).ok();
    until("it is over", || (!world.held().contains(&"ana short".to_owned())).then_some(()));
    ana.post("files/renew", json!({ "filePath": "short" })).refused("LOCK_TIMEOUT");
    ana.post("files/renew", json!({ "filePaths": ["a", "short"] })).refused("LOCK_TIMEOUT");
    assert_eq!(ana.release("short")["released"], false);
    bo.hold("short");
    ana.post("files/renew", json!({ "filePath": "short" })).refused("LOCK_TIMEOUT");
    ana.post("files/release", json!({ "filePath": "short" })).refused("LOCK_NOT_HELD");
    let mut held = world.held();
    held.sort();
    assert_eq!(held, ["ana a", "ana b", "bo short"]);
}

#[test]
fn a_shorter_ttl_does_not_shorten_a_reservation() {
    let world = World::new();
    let ana = world.session("ana");
    let long = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 300 })).ok();
    let short = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 1 })).ok();
    assert_eq!(short["expiresAt"], long["expiresAt"], "nothing ends before the time it was promised");
}

/// Clients of other systems send these. Ignored, they would change what is granted.
#[test]
fn a_field_of_another_system_is_refused_with_our_own_name() {
    let world = World::new();
    let ana = world.session("ana");
    for (call, body, field, right) in [
        ("files/reserve", json!({ "filePath": "a", "ttl_minutes": 5 }), "ttl_minutes", "ttlSeconds"),
        ("files/reserve", json!({ "filePaths": ["a"], "file_path": "b" }), "file_path", "filePath"),
        ("files/reserve", json!({ "filePath": "a", "maxRetries": 3 }), "maxRetries", "waitSeconds"),
        ("files/renew", json!({ "filePath": "a", "ttl_minutes": 5 }), "ttl_minutes", "ttlSeconds"),
        ("files/release", json!({ "file_path": "a" }), "file_path", "filePath"),
        ("files/check-conflicts", json!({ "paths": ["a"], "ttl_minutes": 5 }), "ttl_minutes", "ttlSeconds"),
        ("files/reserve", json!({ "filePath": "a", "ttl_seconds": 5 }), "ttl_seconds", "ttlSeconds"),
        ("files/reserve", json!({ "filePath": "a", "if_version": 0 }), "if_version", "ifVersion"),
        ("files/reserve", json!({ "filePath": "a", "while_session": true }), "while_session", "whileSession"),
        ("files/reserve", json!({ "filePath": "a", "wait_seconds": 1 }), "wait_seconds", "waitSeconds"),
        ("ports", json!({ "ttl_minutes": 5 }), "ttl_minutes", "ttlSeconds"),
    ] {
        let refusal = ana.post(call, body.clone()).refused("INVALID_REQUEST");
        assert_eq!(refusal["field"], field, "{body}");
        assert!(text(&refusal["error"]).contains(right), "{refusal}");
    }
    assert_eq!(world.held(), [""; 0]);
    for (call, token) in [("/api/entities/job/5/lock", &ana.token), ("/api/sessions", &world.admin())] {
        let refusal = world.post(call, token, json!({ "ttl_minutes": 5 })).refused("INVALID_REQUEST");
        assert_eq!(refusal["field"], "ttl_minutes", "{call}");
    }
    ana.reserve(json!({ "filePath": "a", "colour": "blue" })).ok();
}

#[test]
fn the_mode_is_repeated_as_it_was_asked() {
    let world = World::new();
    let ana = world.session("ana");
    for mode in ["exclusive", "shared", "collaborative"] {
        let one = ana.reserve(json!({ "filePath": "a", "mode": mode })).ok();
        assert_eq!(one["mode"], mode);
        let many = ana.reserve(json!({ "filePaths": ["b", "c"], "mode": mode })).ok();
        assert_eq!(many["reservations"][1]["mode"], mode);
        ana.release_all();
    }
    ana.reserve(json!({ "filePath": "a", "mode": "collaborative" })).ok();
    assert_eq!(world.reservations()[0]["mode"], "shared");
}

#[test]
fn releasing_what_has_expired_says_so_without_failing() {
    let world = World::new();
    let ana = world.session("ana");
    ana.reserve(json!({ "filePath": "a", "ttlSeconds": 1 })).ok();
    ana.hold("b");
    until("it expires", || (world.held() == ["ana b"]).then_some(()));
    let reply = ana.post("files/release", json!({ "filePaths": ["a", "b"] })).ok();
    for (field, value) in [
        ("ok", json!(true)),
        ("released", json!(true)),
        ("releasedCount", json!(1)),
        ("code", json!("LOCK_TIMEOUT")),
        ("expired", json!(["a"])),
    ] {
        assert_eq!(reply[field], value, "{reply}");
    }
}

#[test]
fn the_states_of_a_reservation_can_be_asked_by_its_id() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let first = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 2 })).ok();
    let states = |id: &Value| {
        let history = world.get(&format!("/api/reservations/{}/history", text(id)), &world.reader()).ok();
        let states: Vec<String> =
            history["states"].as_array().unwrap().iter().map(|one| text(&one["state"]).to_owned()).collect();
        (history, states)
    };
    assert_eq!(states(&first["reservationId"]).1, ["Acquired"]);
    bo.reserve(json!({ "filePath": "a", "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
    let second = bo.reserve(json!({ "filePath": "a", "waitSeconds": 60 })).ok();
    bo.release("a");
    let (history, expired) = states(&first["reservationId"]);
    assert_eq!((expired, &history["filePath"]), (vec!["Acquired".to_owned(), "Expired".to_owned()], &json!("a")));
    let (history, granted) = states(&second["reservationId"]);
    assert_eq!(granted, ["Waiting", "Acquired", "Released"], "{history}");
    assert_eq!((&history["sessionId"], &history["states"][2]["why"]), (&json!("bo"), &json!("released")));
    let times: Vec<i64> = history["states"].as_array().unwrap().iter().map(|one| time(&one["at"])).collect();
    assert!(times.is_sorted(), "{times:?}");
    for id in ["res_00000000000000000000000000000000", "nonsense"] {
        world.get(&format!("/api/reservations/{id}/history"), &world.reader()).refused("NOT_FOUND");
    }
}
