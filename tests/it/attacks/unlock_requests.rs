//! Unlock requests and sessions in large numbers, and notices for another session.

use serde_json::{Value, json};

use super::numbers;
use crate::http::Response;
use crate::world::{Session, World, text};

fn ask(session: &Session<'_>, key: &str, reason: &str) -> Response {
    session.post("unlock-requests", json!({ "filePath": key, "reason": reason }))
}

/// Ten thousand requests made every answer to the victim 42.6 MB large.
#[test]
fn many_unlock_requests_do_not_make_the_holders_answers_large() {
    let (holders, asked) = (numbers(60, 1_000), numbers(70, 10_000));
    let config = format!("[limits]\nunlock-requests-per-session = 10\nunlock-requests-per-holder = {holders}\n");
    let world = World::configured(&config);
    let ana = world.session("ana");
    let keys: Vec<String> = (0..10).map(|n| format!("{}/{n}", "k".repeat(200))).collect();
    ana.reserve(json!({ "filePaths": keys, "ttlSeconds": 300 })).ok();
    let reason = "\u{1}".repeat(1_000);
    let mut last = String::new();
    let mut pending = 0;
    for n in 0..asked {
        let bo = world.session(&format!("bo{}", n / 10));
        let answer = ask(&bo, &keys[n % 10], &reason);
        if pending < holders {
            last = text(&answer.expect(201)["id"]).to_owned();
            pending += 1;
        } else {
            let refusal = answer.refused("QUOTA_EXCEEDED");
            assert_eq!(refusal["limit"], holders, "{refusal}");
        }
    }
    for _ in 0..3 {
        let answer = ana.post("heartbeat", json!({}));
        assert!(answer.body.len() < 128 << 10, "{} bytes", answer.body.len());
        let notices = answer.ok()["notices"].as_array().unwrap().clone();
        let (more, listed) = notices.split_last().unwrap();
        assert_eq!((&more["kind"], &more["notices"]), (&json!("more"), &json!(0)), "{more}");
        assert_eq!(more["unlockRequests"].as_u64().unwrap() as usize, pending - listed.len());
        assert_eq!(text(&listed.last().unwrap()["requestId"]), last, "the newest are listed");
    }
    // All of them are listed where they are asked for.
    assert_eq!(ana.get("unlock-requests").ok()["incoming"].as_array().unwrap().len(), pending);
}

/// A thousand requests for one entity made every answer about it 6 MB large, also those to its holder.
#[test]
fn many_requests_for_an_entity_do_not_make_the_answers_about_it_large() {
    let asked = numbers(150, 900);
    let world = World::new();
    let worker = world.token(json!({ "sub": "host", "scope": "worker" }));
    let target = |call: &str| format!("/api/entities/job/1/{call}");
    world.post(&target("lock"), &worker, json!({ "agentId": "holder" })).ok();
    let mut ids = Vec::new();
    for n in 0..asked {
        let body = json!({ "requestedBy": format!("s{n}"), "reason": "\u{1}".repeat(1_000) });
        let answer = world.post(&target("unlock-requests"), &worker, body);
        assert!(answer.body.len() < 200 << 10, "{} bytes", answer.body.len());
        ids.push(text(&answer.expect(201)["request"]["id"]).to_owned());
    }
    let again = json!({ "agentId": "holder" });
    let bearer = format!("Bearer {worker}");
    for answer in [
        world.get(&target("lock"), &worker),
        world.connect().call("GET", "/compat/jobs/1/lock", &[("authorization", &bearer)], b"").unwrap(),
        world.post(&target("lock"), &worker, again),
    ] {
        assert!(answer.body.len() < 200 << 10, "{} bytes", answer.body.len());
        let requests = answer.ok()["requests"].as_array().unwrap().clone();
        let listed: Vec<&str> = requests.iter().map(|request| text(&request["id"])).collect();
        assert_eq!(listed, ids[asked - 100..], "the newest, the oldest of them first");
        let chars = |request: &Value| text(&request["reason"]).chars().count();
        assert_eq!((chars(&requests[99]), chars(&requests[0])), (1_000, 101));
    }
    // One that is not listed any more can still be answered.
    let answer = world.post(&target(&format!("unlock-requests/{}/approve", ids[0])), &worker, json!({})).ok();
    assert_eq!((&answer["releaseLock"], &answer["lock"]), (&json!(true), &Value::Null));
}

#[test]
fn one_session_can_ask_only_so_often() {
    let world = World::configured("[limits]\nunlock-requests-per-session = 2\nunlock-requests-per-repository = 3\n");
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    ana.reserve(json!({ "filePaths": ["a", "b", "c"] })).ok();
    let first = ask(&bo, "a", "x").expect(201);
    ask(&bo, "b", "x").expect(201);
    let refusal = ask(&bo, "c", "x").refused("QUOTA_EXCEEDED");
    assert!(text(&refusal["error"]).contains("2 unanswered unlock requests of one session"), "{refusal}");
    // Asking again for the same key is the same request.
    assert_eq!(ask(&bo, "a", "please").expect(201)["id"], first["id"]);
    ask(&carl, "c", "x").expect(201);
    let refusal = ask(&carl, "a", "x").refused("QUOTA_EXCEEDED");
    assert!(text(&refusal["error"]).contains("in this repository"), "{refusal}");
    // An answered request does not count any more, also after a restart.
    ana.post(&format!("unlock-requests/{}/reject", text(&first["id"])), json!({})).ok();
    ask(&bo, "c", "x").expect(201);
    ask(&bo, "a", "x").refused("QUOTA_EXCEEDED");
    let mut world = world;
    world.kill();
    world.start();
    ask(&world.session("bo"), "a", "x").refused("QUOTA_EXCEEDED");
    world.session("bo").end();
    ask(&world.session("carl"), "a", "x").expect(201);
}

/// Notices that are sent once are not lost where there are many of them.
#[test]
fn notices_that_do_not_fit_come_with_the_next_answers() {
    let world = World::new();
    let (ana, admin) = (world.session("ana"), world.admin());
    let keys: Vec<String> = (0..25).map(|n| format!("k{n}")).collect();
    let held = ana.reserve(json!({ "filePaths": keys })).ok();
    for one in held["reservations"].as_array().unwrap() {
        let target = format!("/api/reservations/{}", text(&one["reservationId"]));
        world.delete(&target, &admin, json!({ "reason": "needed" })).ok();
    }
    let mut paths = Vec::new();
    for more in [15, 5, 0] {
        let notices = ana.post("heartbeat", json!({})).ok()["notices"].as_array().unwrap().clone();
        let released = notices.iter().filter(|notice| notice["kind"] == "released");
        paths.extend(released.map(|notice| text(&notice["filePath"]).to_owned()));
        let last = notices.iter().find(|notice| notice["kind"] == "more");
        assert_eq!(last.map_or(0, |last| last["notices"].as_u64().unwrap()), more);
    }
    paths.sort();
    let mut keys = keys;
    keys.sort();
    assert_eq!(paths, keys);
    assert_eq!(ana.post("heartbeat", json!({})).ok()["notices"], json!([]));
}

/// The refused call of a foreign token got another session's notices, and nobody got them again.
#[test]
fn a_refused_call_does_not_take_the_notices_of_another_session() {
    let world = World::new();
    let worker = |sub: &str| world.token(json!({ "sub": sub, "scope": "worker" }));
    let (own, foreign) = (worker("w1"), worker("w2"));
    let call = |token: &str, call: &str, body: Value| world.post(&format!("/api/sessions/s1/{call}"), token, body);
    let held = call(&own, "files/reserve", json!({ "filePath": "a" })).ok();
    ask(&world.session("bo"), "a", "a secret reason").expect(201);
    let target = format!("/api/reservations/{}", text(&held["reservationId"]));
    world.delete(&target, &world.admin(), json!({ "reason": "another secret" })).ok();
    for stranger in [&foreign, &world.session("s1").token] {
        for (what, body) in [
            ("heartbeat", json!({})),
            ("files/reserve", json!({ "filePath": "b" })),
            ("files/check-conflicts", json!({ "paths": ["a"] })),
            ("end", json!({})),
        ] {
            let answer = call(stranger, what, body);
            assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{answer}");
            answer.refused("FORBIDDEN");
        }
        let looked = world.get("/api/sessions/s1/reserved-files", stranger);
        assert!(!String::from_utf8_lossy(&looked.body).contains("secret"), "{looked}");
    }
    let notices = call(&own, "heartbeat", json!({})).ok()["notices"].clone();
    assert_eq!((&notices[0]["kind"], &notices[0]["reason"]), (&json!("released"), &json!("another secret")));
}

/// One token opened all 50,000 sessions, and no other could open one.
#[test]
fn one_worker_can_have_only_so_many_sessions() {
    let limit = numbers(20, 1_000);
    let mut world = World::configured(&format!("[limits]\nsessions-per-worker = {limit}\n"));
    let worker = |world: &World, iss: &str| world.token(json!({ "sub": "pool", "iss": iss, "scope": "worker" }));
    let beat =
        |world: &World, token: &str, id: &str| world.post(&format!("/api/sessions/{id}/heartbeat"), token, json!({}));
    let token = worker(&world, "one");
    for n in 0..limit {
        beat(&world, &token, &format!("s{n}")).ok();
    }
    let refusal = beat(&world, &token, "one-more").refused("QUOTA_EXCEEDED");
    assert!(text(&refusal["error"]).contains("sessions of one worker"), "{refusal}");
    // Others are not concerned, and its own sessions go on.
    beat(&world, &worker(&world, "two"), "other").ok();
    world.session("ana").hold("a");
    beat(&world, &token, "s0").ok();
    world.post("/api/sessions/s0/end", &token, json!({})).ok();
    beat(&world, &token, "one-more").ok();
    beat(&world, &token, "yet-another").refused("QUOTA_EXCEEDED");
    world.kill();
    world.start();
    let token = worker(&world, "one");
    beat(&world, &token, "yet-another").refused("QUOTA_EXCEEDED");
    beat(&world, &token, "s1").ok();
}
