//! Announced pushes: which session a push on a git server comes from.

use serde_json::{Value, json};

use crate::world::{World, text, time};

const ZERO: &str = "0000000000000000000000000000000000000000";

fn oid(number: usize) -> String {
    format!("{number:040x}")
}

fn update(name: &str, old: usize, new: usize) -> Value {
    json!({ "ref": name, "old": oid(old), "new": oid(new) })
}

#[test]
fn the_holders_push_is_checked_as_the_holders() {
    let world = World::new();
    let (ana, reader) = (world.session_with("ana", json!({ "name": "Ana" })), world.reader());
    let reserved = ana.hold("src/a.rs");
    let push = json!({ "updates": [update("refs/heads/main", 0, 1), update("refs/tags/v1", 0, 2)] });
    let announced = ana.post("pushes", push.clone()).ok();
    let valid_ms = time(&announced["expiresAt"]) - time(&reserved["reservedAt"]);
    assert!(valid_ms >= 60_000, "{announced}");

    let claim = |push: &Value| {
        let mut body = push.clone();
        body["check"] = json!({ "paths": ["src/a.rs", "src/b.rs"], "intent": "change" });
        world.post("/api/pushes/claim", &reader, body).ok()
    };
    let other = claim(&json!({ "updates": [update("refs/heads/main", 0, 3)] }));
    assert!(other.get("sessionId").is_none(), "{other}");
    assert_eq!(other["check"]["conflicts"][0]["reservedBy"], "ana", "as for a caller without a session");
    let first = claim(&push);
    assert_eq!((text(&first["sessionId"]), text(&first["name"])), ("ana", "Ana"));
    assert_eq!(first["check"]["conflicts"], json!([]));
    assert_eq!(first["check"]["held"], json!(["src/a.rs"]));
    assert_eq!(first["check"]["clear"], json!(["src/a.rs", "src/b.rs"]));
    let second = claim(&push);
    assert!(second.get("sessionId").is_none(), "an announcement is claimed once: {second}");
    assert_eq!(second["check"]["conflicts"][0]["reservedBy"], "ana");

    ana.post("pushes", push.clone()).ok();
    let without_check = world.post("/api/pushes/claim", &world.session("bo").token, push).ok();
    assert_eq!(without_check, json!({ "sessionId": "ana", "name": "Ana" }));
}

#[test]
fn a_paused_feature_pauses_the_push_that_its_session_announced() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "feature": "F-1" })), world.session("bo"));
    bo.hold("feature:F-1:pause");
    let push = json!({ "updates": [update("refs/heads/main", 0, 1)] });
    ana.post("pushes", push.clone()).ok();
    let mut body = push;
    body["check"] = json!({ "paths": ["a"], "intent": "change" });
    let claimed = world.post("/api/pushes/claim", &world.reader(), body).ok();
    assert_eq!((text(&claimed["feature"]), text(&claimed["check"]["paused"]["reservedBy"])), ("F-1", "bo"));
}

#[test]
fn a_push_is_announced_by_its_own_session_only() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    bo.hold("b");
    let push = json!({ "updates": [update("refs/heads/main", 0, 1)] });
    for token in [&world.reader(), &ana.token] {
        world.post(&bo.url("pushes"), token, push.clone()).refused("FORBIDDEN");
    }
    world.post(&bo.url("pushes"), "nonsense", push.clone()).refused("UNAUTHENTICATED");
    world.post("/api/pushes/claim", "nonsense", push.clone()).refused("UNAUTHENTICATED");
    world.post("/api/sessions/nobody/pushes", &world.admin(), push.clone()).refused("NOT_FOUND");
    ana.end();
    ana.post("pushes", push).refused("SESSION_ENDED");
}

#[test]
fn a_bad_update_is_refused_and_a_bad_check_uses_up_nothing() {
    let world = World::new();
    let (ana, reader) = (world.session("ana"), world.reader());
    for (updates, field) in [
        (json!([{ "ref": "", "old": ZERO, "new": ZERO }]), "updates[0].ref"),
        (json!([{ "ref": "r".repeat(1025), "old": ZERO, "new": ZERO }]), "updates[0].ref"),
        (json!([update("r", 0, 1), { "ref": "r", "old": "abc", "new": ZERO }]), "updates[1].old"),
        (json!([{ "ref": "r", "old": ZERO, "new": "x".repeat(40) }]), "updates[0].new"),
        (json!([{ "ref": "r", "old": ZERO, "new": "ä".repeat(20) }]), "updates[0].new"),
        (json!(vec![update("r", 0, 1); 1001]), "updates"),
    ] {
        let refused = ana.post("pushes", json!({ "updates": updates })).refused("INVALID_REQUEST");
        assert_eq!(refused["field"], field, "{refused}");
    }
    ana.post("pushes", json!({})).refused("INVALID_REQUEST");
    world.post("/api/pushes/claim", &reader, json!({ "updates": [] })).refused("INVALID_REQUEST");
    let many = json!({ "updates": vec![update("r", 0, 1); 10_001] });
    world.post("/api/pushes/claim", &reader, many).refused("INVALID_REQUEST");

    let push = json!({ "updates": [update("refs/heads/main", 0, 1)] });
    ana.post("pushes", push.clone()).ok();
    let mut bad = push.clone();
    bad["check"] = json!({ "paths": ["../a"] });
    world.post("/api/pushes/claim", &reader, bad).refused("INVALID_PATH");
    assert_eq!(world.post("/api/pushes/claim", &reader, push).ok()["sessionId"], "ana");
}

/// A push of every ref of a large repository is announced in pieces and claimed at once.
#[test]
fn announcements_are_limited_per_session() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let updates: Vec<Value> = (0..10_000).map(|n| update(&format!("refs/heads/{n}"), 0, 1)).collect();
    for piece in updates.chunks(1_000) {
        ana.post("pushes", json!({ "updates": piece })).ok();
    }
    let refused = ana.post("pushes", json!({ "updates": [update("refs/heads/more", 0, 1)] }));
    assert_eq!(refused.refused("QUOTA_EXCEEDED")["limit"], 10_000);
    bo.post("pushes", json!({ "updates": [update("refs/heads/more", 0, 1)] })).ok();
    let claimed = world.post("/api/pushes/claim", &world.reader(), json!({ "updates": updates })).ok();
    assert_eq!(claimed["sessionId"], "ana");
}
