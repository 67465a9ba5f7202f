//! Unlock requests: asking a holder to release a key.

use std::thread;

use serde_json::{Value, json};

use crate::world::{Session, World, text, time, until};

#[track_caller]
fn ask(session: &Session<'_>, key: &str) -> Value {
    session.post("unlock-requests", json!({ "filePath": key, "reason": "need it" })).expect(201)
}

#[track_caller]
fn answer(session: &Session<'_>, request: &Value, word: &str, body: Value) -> crate::http::Response {
    session.post(&format!("unlock-requests/{}/{word}", text(&request["id"])), body)
}

#[track_caller]
fn withdraw(session: &Session<'_>, request: &Value) -> crate::http::Response {
    let target = session.url(&format!("unlock-requests/{}", text(&request["id"])));
    session.world.delete(&target, &session.token, json!({}))
}

#[test]
fn a_request_reaches_the_holder_and_the_answer_the_requester() {
    let world = World::new();
    let ana = world.session_with("ana", json!({ "name": "Ana" }));
    let bo = world.session_with("bo", json!({ "name": "Bo" }));
    let held = ana.hold("src/**");
    let request = ask(&bo, "src/a.rs");
    uuid::Uuid::try_parse(text(&request["id"])).unwrap();
    for (field, value) in [
        ("reservationId", &held["reservationId"]),
        ("filePath", &json!("src/**")),
        ("requestedBy", &json!("bo")),
        ("requestedByName", &json!("Bo")),
        ("reason", &json!("need it")),
        ("status", &json!("pending")),
        ("respondedAt", &Value::Null),
        ("respondedBy", &Value::Null),
    ] {
        assert_eq!(request[field], *value, "{field}");
    }
    time(&request["requestedAt"]);
    assert_eq!(ana.get("unlock-requests").ok()["incoming"][0]["id"], request["id"]);
    assert_eq!(ana.get("unlock-requests").ok()["outgoing"], json!([]));
    assert_eq!(bo.get("unlock-requests").ok()["outgoing"][0]["id"], request["id"]);
    // Every response to the holder carries it until it is answered.
    for _ in 0..2 {
        let notice = ana.post("heartbeat", json!({})).ok()["notices"][0].clone();
        assert_eq!((&notice["kind"], &notice["requestId"]), (&json!("unlockRequested"), &request["id"]));
        assert_eq!((&notice["requestedByName"], &notice["reason"]), (&json!("Bo"), &json!("need it")));
    }

    let rejected = answer(&ana, &request, "reject", json!({ "note": "tonight" })).ok();
    assert_eq!((&rejected["status"], &rejected["respondedBy"]), (&json!("rejected"), &json!("ana")));
    assert!(time(&rejected["respondedAt"]) >= time(&request["requestedAt"]));
    assert_eq!(world.held(), ["ana src/**"], "stays held");
    assert_eq!(ana.post("heartbeat", json!({})).ok()["notices"], json!([]));
    let notice = bo.post("heartbeat", json!({})).ok()["notices"][0].clone();
    assert_eq!((&notice["kind"], &notice["status"]), (&json!("unlockAnswered"), &json!("rejected")));
    assert_eq!(notice["note"], "tonight");
    answer(&ana, &request, "approve", json!({})).refused("OPERATION_NOT_PERMITTED");
    withdraw(&bo, &request).refused("OPERATION_NOT_PERMITTED");
    // Another request is independent of it.
    assert_ne!(ask(&bo, "src/a.rs")["id"], request["id"]);
}

#[test]
fn a_request_needs_a_holder_and_a_reason() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    let post = |session: &Session<'_>, body: Value| session.post("unlock-requests", body);
    post(&bo, json!({ "filePath": "b", "reason": "x" })).refused("NOT_FOUND");
    post(&ana, json!({ "filePath": "a", "reason": "x" })).refused("NOT_FOUND");
    for reason in [json!(""), json!("   "), Value::Null, json!("x".repeat(1001))] {
        post(&bo, json!({ "filePath": "a", "reason": reason })).refused("INVALID_REQUEST");
    }
    post(&bo, json!({ "filePath": "../a", "reason": "x" })).refused("INVALID_PATH");
    assert_eq!(ana.get("unlock-requests").ok()["incoming"], json!([]));
}

#[test]
fn approving_releases_in_the_same_step() {
    let world = World::new();
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    ana.hold("a");
    let request = ask(&bo, "a");
    thread::scope(|scope| {
        let waiting = carl.queue(scope, json!({ "filePath": "a", "waitSeconds": 60 }));
        let approved = answer(&ana, &request, "approve", json!({})).ok();
        assert_eq!((&approved["status"], &approved["respondedBy"]), (&json!("approved"), &json!("ana")));
        waiting.join().unwrap().ok();
    });
    assert_eq!(world.held(), ["carl a"], "without handOver whoever is next gets it");
    assert_eq!(bo.post("heartbeat", json!({})).ok()["notices"][0]["status"], "approved");
    assert_eq!(answer(&ana, &request, "approve", json!({})).ok()["status"], "approved", "repeating changes nothing");
    assert_eq!(world.held(), ["carl a"]);
}

#[test]
fn handing_over_gives_the_key_to_the_requester() {
    let world = World::new();
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    let held = ana.hold("a");
    let request = ask(&bo, "a");
    thread::scope(|scope| {
        let waiting = carl.queue(scope, json!({ "filePath": "a", "waitSeconds": 60 }));
        answer(&ana, &request, "approve", json!({ "handOver": true })).ok();
        let now = world.reservations();
        assert_eq!((now.len(), &now[0]["sessionId"]), (1, &json!("bo")));
        assert!(now[0]["reservationId"] != held["reservationId"] && now[0]["fence"].as_u64() > held["fence"].as_u64());
        assert!(!waiting.is_finished(), "past the queue, which goes on behind");
        bo.release("a");
        waiting.join().unwrap().ok();
    });
    assert_eq!(world.held(), ["carl a"]);
}

#[test]
fn only_the_holder_answers() {
    let world = World::new();
    let ana = world.session_with("ana", json!({ "name": "Ana" }));
    let (bo, carl) = (world.session("bo"), world.session("carl"));
    ana.hold("a");
    let request = ask(&bo, "a");
    for session in [&bo, &carl] {
        for word in ["approve", "reject"] {
            let refusal = answer(session, &request, word, json!({})).refused("FORBIDDEN");
            assert_eq!(refusal["reservedBy"], "ana");
            assert!(text(&refusal["error"]).contains("Ana"), "{refusal}");
        }
    }
    withdraw(&ana, &request).refused("FORBIDDEN");
    withdraw(&carl, &request).refused("FORBIDDEN");
    for unknown in ["00000000-0000-4000-8000-000000000000", "x", "%20"] {
        ana.post(&format!("unlock-requests/{unknown}/approve"), json!({})).refused("NOT_FOUND");
    }
    assert_eq!(world.held(), ["ana a"]);
    // An admin may answer for the holder.
    let target = format!("/api/sessions/ana/unlock-requests/{}/approve", text(&request["id"]));
    world.post(&target, &world.admin(), json!({})).ok();
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn a_request_ends_with_its_session_or_its_reservation() {
    let world = World::new();
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    ana.hold("a");
    let request = ask(&bo, "a");
    assert_eq!(withdraw(&bo, &request).ok()["status"], "withdrawn");
    assert_eq!(withdraw(&bo, &request).ok()["status"], "withdrawn");
    answer(&ana, &request, "approve", json!({})).refused("OPERATION_NOT_PERMITTED");
    assert_eq!(ana.post("heartbeat", json!({})).ok()["notices"], json!([]));

    let status = |n: usize| bo.get("unlock-requests").ok()["outgoing"][n]["status"].clone();
    ask(&bo, "a");
    ana.release("a");
    assert_eq!((status(0), status(1)), (json!("withdrawn"), json!("moot")));

    ana.reserve(json!({ "filePath": "b", "ttlSeconds": 1 })).ok();
    ask(&bo, "b");
    until("the reservation runs out", || (status(2) == "moot").then_some(()));

    ana.hold("c");
    let pending = ask(&carl, "c");
    carl.end();
    let incoming = ana.get("unlock-requests").ok()["incoming"].clone();
    let last = incoming.as_array().unwrap().last().unwrap();
    assert_eq!((&last["id"], &last["status"]), (&pending["id"], &json!("withdrawn")));
}
