//! Entities: locks on jobs and merge requests, with requests to unlock them.

use serde_json::{Value, json};

use crate::http::Response;
use crate::world::{Session, World, text, time};

fn call(session: &Session<'_>, method: &str, path: &str, body: Option<Value>) -> Response {
    session.world.call(method, &format!("/api/entities/{path}"), &session.token, body)
}

fn post(session: &Session<'_>, path: &str, body: Value) -> Response {
    call(session, "POST", path, Some(body))
}

#[test]
fn a_lock_and_its_requests_are_one_answer_for_every_token() {
    let world = World::with(&["--session-timeout", "600"]);
    let ana = world.session_with("ana", json!({ "name": "Ana" }));
    let bo = world.session("bo");
    let empty = json!({ "lock": null, "requests": [] });
    assert_eq!(call(&bo, "GET", "mr/7/lock", None).ok(), empty);
    let locked = post(&ana, "mr/7/lock", json!({ "agentId": "ana", "reason": "a review" })).ok();
    assert_eq!((&locked["lock"]["lockedBy"], &locked["lock"]["lockedByName"]), (&json!("ana"), &json!("Ana")));
    assert_eq!(locked["lock"]["reason"], "a review");
    let lasts = time(&locked["lock"]["expiresAt"]) - time(&locked["lock"]["lockedAt"]);
    assert_eq!(lasts, 600_000, "while its session gives signs of life");
    assert_eq!((&locked["lock"]["ttlSeconds"], &locked["lock"]["version"]), (&json!(600), &json!(0)));
    assert_eq!(world.held(), ["ana mr://7"]);
    let asked = post(&bo, "mr/7/unlock-requests", json!({ "reason": "please" })).expect(201);
    assert_eq!(asked["request"], asked["requests"][0]);
    assert_eq!(asked["request"]["status"], "pending");
    for token in [&ana.token, &bo.token, &world.reader(), &world.admin()] {
        for path in ["lock", "unlock-requests"] {
            let seen = world.get(&format!("/api/entities/mr/7/{path}"), token).ok();
            assert_eq!((&seen["lock"]["lockedBy"], &seen["requests"]), (&json!("ana"), &asked["requests"]));
        }
    }
    assert_eq!(call(&bo, "GET", "job/7/lock", None).ok(), empty, "another kind is another entity");
}

#[test]
fn refusals_are_in_the_words_of_the_job_service() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    post(&ana, "job/1/lock", json!({})).ok();
    let refusal = post(&bo, "job/1/lock", json!({})).refused("RESOURCE_LOCKED");
    assert_eq!((&refusal["error"], &refusal["reservedBy"]), (&json!("Entity is already locked by Ana"), &json!("ana")));
    let refusal = post(&bo, "job/1/unlock", json!({})).refused("LOCK_NOT_HELD");
    assert_eq!(refusal["error"], "Only the lock holder (Ana) can unlock this entity");
    post(&bo, "job/1/lock", json!({ "agentId": "ana" })).refused("FORBIDDEN");
    post(&bo, "job/1/unlock-requests", json!({ "reason": " " })).refused("INVALID_REQUEST");
    post(&bo, "job/2/unlock-requests", json!({ "reason": "please" })).refused("NOT_FOUND");
    world.post("/api/entities/job/1/lock", &world.reader(), json!({ "agentId": "ana" })).refused("FORBIDDEN");
    world.post("/api/entities/job/1/lock", &world.admin(), json!({})).refused("INVALID_REQUEST");
    post(&bo, "job/9/lock", json!({ "ttlSeconds": 28_801 })).refused("TTL_OUT_OF_RANGE");
    let plain = post(&bo, "job/9/lock", json!({ "ttlSeconds": 60 })).ok();
    assert_eq!(time(&plain["lock"]["expiresAt"]) - time(&plain["lock"]["lockedAt"]), 60_000);
    for kind in ["Job", "a%20b", "%2e%2e", "7"] {
        let answer = call(&bo, "GET", &format!("{kind}/1/lock"), None);
        assert!([200, 400, 403, 404].contains(&answer.status), "{kind}: {}", answer.status);
    }
}

#[test]
fn an_approval_releases_the_lock_in_the_same_step() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    post(&ana, "job/1/lock", json!({})).ok();
    let ask = || {
        let asked = post(&bo, "job/1/unlock-requests", json!({ "reason": "please" })).expect(201);
        text(&asked["request"]["id"]).to_owned()
    };
    let id = ask();
    let refusal = post(&bo, &format!("job/1/unlock-requests/{id}/approve"), json!({})).refused("FORBIDDEN");
    assert!(text(&refusal["error"]).contains("(ana)"), "{refusal}");
    post(&ana, &format!("job/2/unlock-requests/{id}/approve"), json!({})).refused("NOT_FOUND");
    let rejected = post(&ana, &format!("job/1/unlock-requests/{id}/reject"), json!({})).ok();
    assert_eq!((&rejected["releaseLock"], &rejected["requests"][0]["status"]), (&json!(false), &json!("rejected")));
    let id = ask();
    let approved = post(&ana, &format!("job/1/unlock-requests/{id}/approve"), json!({ "agentId": "ana" })).ok();
    assert_eq!((&approved["releaseLock"], &approved["lock"]), (&json!(true), &Value::Null));
    assert_eq!(world.held(), [""; 0]);
    post(&bo, "job/1/lock", json!({})).ok();
}

#[test]
fn the_service_of_jobs_lost_the_other_requests_at_an_approval() {
    let world = World::new();
    let (ana, bo, cy) = (world.session("ana"), world.session("bo"), world.session("cy"));
    // These calls are not in the document.
    let post = |session: &Session<'_>, path: &str, body: Value| {
        let headers = [("authorization", &*format!("Bearer {}", session.token)), ("content-type", "application/json")];
        let body = body.to_string().into_bytes();
        world.connect().call("POST", &format!("/compat/jobs/1/{path}"), &headers, &body).unwrap()
    };
    post(&ana, "lock", json!({ "agentId": "ana" })).ok();
    let ask = |session: &Session<'_>| {
        let asked = post(session, "unlock-requests", json!({ "requestedBy": session.id, "reason": "x" })).expect(201);
        text(&asked["id"]).to_owned()
    };
    let (first, _) = (ask(&bo), ask(&cy));
    let approved = post(&ana, &format!("unlock-requests/{first}/approve"), json!({ "agentId": "ana" })).ok();
    let of = |asker: &str| {
        let requests = approved["requests"].as_array().unwrap();
        requests.iter().find(|request| request["requestedBy"] == asker).unwrap_or_else(|| panic!("{approved}"))
    };
    assert_eq!((&of("bo")["status"], &of("bo")["respondedBy"]), (&json!("approved"), &json!("ana")), "{approved}");
    assert_eq!((&of("cy")["status"], &of("cy")["respondedBy"]), (&json!("rejected"), &Value::Null), "{approved}");
}

#[test]
fn unlocking_after_expiry_did_not_say_that_the_lock_had_expired() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    post(&ana, "job/1/lock", json!({ "ttlSeconds": 1 })).ok();
    // A waiting request is granted the moment the lock expires.
    bo.reserve(json!({ "filePath": "job://1", "waitSeconds": 50 })).ok();
    let refusal = post(&ana, "job/1/unlock", json!({})).refused("LOCK_NOT_HELD");
    assert_eq!(refusal["expired"], json!(["job://1"]), "{refusal}");
    let refusal = ana.post("files/release", json!({ "filePath": "job://1" })).refused("LOCK_NOT_HELD");
    assert_eq!(refusal["expired"], json!(["job://1"]), "{refusal}");
    let unlocked = post(&bo, "job/1/unlock", json!({})).ok();
    assert_eq!(unlocked.get("code"), None, "{unlocked}");
    let unlocked = post(&ana, "job/1/unlock", json!({})).ok();
    assert_eq!((&unlocked["lock"], &unlocked["code"]), (&Value::Null, &json!("LOCK_TIMEOUT")), "{unlocked}");
}

#[test]
fn only_the_session_that_asked_withdraws_its_request() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session_with("bo", json!({ "name": "Bo" })));
    post(&ana, "job/1/lock", json!({})).ok();
    let asked = post(&bo, "job/1/unlock-requests", json!({ "reason": "please" })).expect(201);
    let path = format!("job/1/unlock-requests/{}", text(&asked["request"]["id"]));
    let refusal = call(&ana, "DELETE", &path, None).refused("FORBIDDEN");
    assert!(text(&refusal["error"]).contains("only Bo (bo) can withdraw"), "{refusal}");
    let own = format!("/api/sessions/ana/unlock-requests/{}", text(&asked["request"]["id"]));
    let refusal = world.delete(&own, &ana.token, json!({})).refused("FORBIDDEN");
    assert!(text(&refusal["error"]).contains("only Bo (bo) can withdraw"), "{refusal}");
    let withdrawn = call(&bo, "DELETE", &path, None).ok();
    assert_eq!(withdrawn["requests"][0]["status"], "withdrawn");
}

#[test]
fn a_worker_acts_for_the_session_that_may() {
    let world = World::new();
    let worker = |sub: &str| world.token(json!({ "sub": sub, "scope": "worker", "repo": "repo" }));
    let (one, other) = (worker("w1"), worker("w2"));
    world.post("/api/entities/job/1/lock", &one, json!({ "agentId": "s1", "agentName": "Sam" })).ok();
    world.post("/api/entities/job/1/lock", &one, json!({})).refused("INVALID_REQUEST");
    let asked = world
        .post("/api/entities/job/1/unlock-requests", &other, json!({ "requestedBy": "s2", "reason": "x" }))
        .expect(201);
    assert_eq!(asked["lock"]["lockedByName"], "Sam");
    let path = format!("/api/entities/job/1/unlock-requests/{}", text(&asked["request"]["id"]));
    world.post(&format!("{path}/approve"), &other, json!({ "agentId": "s1" })).refused("FORBIDDEN");
    let approved = world.post(&format!("{path}/approve"), &one, json!({})).ok();
    assert_eq!(approved["releaseLock"], true);
}
