//! Pause: stopping all sessions of a feature.

use std::thread;

use serde_json::json;

use crate::world::{World, time};

#[test]
fn a_paused_feature_gets_nothing_new() {
    let world = World::new();
    let (ops, outsider) = (world.session_with("ops", json!({ "name": "Ops" })), world.session("outsider"));
    let by_token = world.session_with("by-token", json!({ "feature": "F-1" }));
    let other = world.session_with("other", json!({ "feature": "F-2" }));
    // The feature may be the session's while its token says nothing.
    world.post("/api/sessions", &world.admin(), json!({ "sessionId": "by-field", "feature": "F-1" })).expect(201);
    let mut by_field = world.session("by-field");
    by_field.token = world.token(json!({ "sub": "created:by-field", "sid": "by-field", "scope": "worker" }));
    // Or it comes from the token, for a session that began without one.
    world.session("late").hold("late");
    let late = world.session_with("late", json!({ "feature": "F-1" }));
    by_token.hold("mine");

    let pause = json!({ "filePath": "feature:F-1:pause", "reason": "broken main" });
    let held = ops.reserve(pause).ok();
    for session in [&by_token, &by_field, &late] {
        let refusal = session.reserve(json!({ "filePath": "new" })).refused("FEATURE_PAUSED");
        assert_eq!((&refusal["reservedBy"], &refusal["reason"]), (&json!("ops"), &json!("broken main")));
        session.reserve(json!({ "filePath": "new", "waitSeconds": 5 })).refused("FEATURE_PAUSED");
        let check = session.post("files/check-conflicts", json!({ "paths": ["new"] })).ok();
        assert_eq!(check["clear"], json!(["new"]));
        assert_eq!((&check["paused"]["feature"], &check["paused"]["reservedBy"]), (&json!("F-1"), &json!("ops")));
        assert_eq!(check["paused"]["reason"], "broken main");
        assert_eq!(check["paused"]["expiresAt"], held["expiresAt"]);
    }
    let notices = by_token.post("heartbeat", json!({})).ok()["notices"].clone();
    assert_eq!((&notices[0]["kind"], &notices[0]["feature"]), (&json!("paused"), &json!("F-1")));

    // Renewals keep working, by either name, and so does a release.
    by_token.post("files/renew", json!({ "filePath": "mine" })).ok();
    by_token.hold("mine");
    by_token.release("mine");
    // All other sessions continue.
    for session in [&ops, &outsider, &other] {
        session.hold(&format!("of/{}", session.id));
        assert!(session.post("files/check-conflicts", json!({ "paths": ["x"] })).ok().get("paused").is_none());
    }
    ops.release("feature:F-1:pause");
    by_token.hold("new");
    assert!(by_field.post("files/check-conflicts", json!({ "paths": ["x"] })).ok().get("paused").is_none());
}

#[test]
fn the_holder_of_a_pause_continues() {
    let world = World::new();
    let (ana, bo) =
        (world.session_with("ana", json!({ "feature": "F-1" })), world.session_with("bo", json!({ "feature": "F-1" })));
    ana.hold("feature:F-1:pause");
    ana.hold("a");
    bo.reserve(json!({ "filePath": "b" })).refused("FEATURE_PAUSED");
    assert!(ana.post("files/check-conflicts", json!({ "paths": ["a"] })).ok().get("paused").is_none());
    ana.end();
    bo.hold("b");
}

#[test]
fn a_pause_ends_the_waits_of_its_feature() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session_with("bo", json!({ "feature": "F-1" })));
    ana.hold("a");
    thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "a", "waitSeconds": 60 }));
        let pause = ana.hold("feature:F-1:pause");
        let refusal = waiting.join().unwrap().refused("FEATURE_PAUSED");
        assert_eq!(time(&refusal["expiresAt"]), time(&pause["expiresAt"]));
    });
    ana.release("a");
    assert_eq!(world.held(), ["ana feature:F-1:pause"]);
}
