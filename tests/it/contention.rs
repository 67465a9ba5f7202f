//! Who is in whose way: refused requests, waits, hot spots, and what changes without a record.

use serde_json::{Value, json};

use crate::support::world::text;
use crate::world::{World, until};

/// The values of this field, in order.
fn each(list: &Value, field: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| text(&one[field]).to_owned()).collect()
}

#[test]
fn refused_requests_of_the_last_hour_are_listed_with_who_was_in_the_way() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("src/**");
    bo.reserve(json!({ "filePath": "src/a.rs" })).refused("RESOURCE_LOCKED");
    bo.hold("b");
    // Ana waits for what bo holds, and bo would wait for ana.
    std::thread::scope(|scope| {
        let waiting = ana.queue(scope, json!({ "filePath": "b", "waitSeconds": 60 }));
        bo.reserve(json!({ "filePath": "src/b.rs", "waitSeconds": 30 })).refused("POSSIBLE_DEADLOCK");
        bo.release_all();
        waiting.join().unwrap().ok();
    });
    let reader = world.reader();
    let list = world.get("/api/refusals", &reader).ok();
    let refusals = &list["refusals"];
    assert_eq!(each(refusals, "code"), ["POSSIBLE_DEADLOCK", "RESOURCE_LOCKED"], "{list}");
    assert_eq!(each(refusals, "sessionId"), ["bo", "bo"]);
    assert_eq!(refusals[1]["keys"], json!(["src/a.rs"]));
    assert_eq!(refusals[1]["blockers"], json!([{ "sessionId": "ana", "sessionName": null, "key": "src/**" }]));
    let mut cycle = each(&refusals[0]["cycle"], "session");
    cycle.sort();
    assert_eq!((cycle, list["dropped"].as_u64()), (vec!["ana".to_owned(), "bo".to_owned()], Some(0)));
    let at = text(&refusals[0]["at"]);
    assert_eq!(each(&world.get(&format!("/api/refusals?since={at}"), &reader).ok()["refusals"], "at"), [at]);
    world.get("/api/refusals?since=yesterday", &reader).refused("INVALID_REQUEST");
}

/// A session that is refused again and again has one entry, and a refused cycle stays in the list.
#[test]
fn a_noisy_session_has_one_entry_with_a_count() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    for _ in 0..5 {
        bo.reserve(json!({ "filePath": "a" })).refused("RESOURCE_LOCKED");
    }
    bo.reserve(json!({ "filePath": "a", "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
    let reader = world.reader();
    let list = world.get("/api/refusals", &reader).ok();
    assert_eq!(each(&list["refusals"], "code"), ["LOCK_ACQUISITION_FAILED", "RESOURCE_LOCKED"], "{list}");
    let entry = &list["refusals"][1];
    assert_eq!(entry["count"], 5);
    assert!(text(&entry["firstAt"]) <= text(&entry["at"]));
    // The request that waited in vain counts once, in the rows as in the total.
    let spots = world.get("/api/hotspots", &reader).ok();
    let path = &spots["paths"][0];
    assert_eq!((&path["conflicts"], &path["waits"], &spots["totalConflicts"]), (&json!(6), &json!(1), &json!(6)));
    assert_eq!(spots["directories"], json!([{ "directory": ".", "conflicts": 6 }]));
}

#[test]
fn waits_are_listed_with_what_blocks_them_and_the_roots_of_it() {
    let world = World::new();
    let sessions = ["ana", "bo", "cy"].map(|id| world.session(id));
    let [ana, bo, cy] = &sessions;
    ana.hold("a");
    let wait = || json!({ "filePath": "a", "waitSeconds": 60 });
    let reply = std::thread::scope(|scope| {
        let first = bo.queue(scope, wait());
        let second = cy.queue(scope, wait());
        let reply = world.get("/api/waits", &world.reader()).ok();
        ana.release_all();
        first.join().unwrap().ok();
        bo.release_all();
        second.join().unwrap().ok();
        reply
    });
    assert_eq!(each(&reply["waits"], "sessionId"), ["bo", "cy"], "{reply}");
    let blocker = json!([{ "sessionId": "ana", "sessionName": null, "key": "a", "kind": "holder" }]);
    assert_eq!(reply["waits"][0]["blockedBy"], blocker);
    assert!(text(&reply["waits"][0]["givesUpAt"]) > text(&reply["waits"][0]["since"]));
    assert_eq!((&reply["roots"][0]["sessionId"], &reply["roots"][0]["blocks"]), (&json!("ana"), &json!(2)));
    assert_eq!((reply["roots"].as_array().unwrap().len(), &reply["moreWaits"]), (1, &json!(0)));
}

#[test]
fn hot_spots_count_conflicts_and_survive_a_restart() {
    let mut world = World::new();
    let ids = |world: &World| ["ana", "bo"].map(|id| world.session(id).token);
    let [ana, bo] = ids(&world);
    let reserve = |world: &World, id: &str, token: &str, body: Value| {
        world.post(&format!("/api/sessions/{id}/files/reserve"), token, body)
    };
    for name in ["src/a.rs", "src/b.rs", "top"] {
        reserve(&world, "ana", &ana, json!({ "filePath": name, "ttlSeconds": 300 })).ok();
    }
    for name in ["src/a.rs", "src/a.rs", "src/b.rs", "top"] {
        reserve(&world, "bo", &bo, json!({ "filePath": name })).refused("RESOURCE_LOCKED");
    }
    reserve(&world, "bo", &bo, json!({ "filePath": "short", "ttlSeconds": 1 })).ok();
    let expired = |world: &World| world.get("/api/hotspots", &world.reader()).ok()["sessions"].clone();
    until("an expired reservation", || (!expired(&world).as_array().unwrap().is_empty()).then_some(()));
    for _ in 0..2 {
        let reader = world.reader();
        let spots = world.get("/api/hotspots?window=day", &reader).ok();
        assert_eq!(each(&spots["paths"], "key"), ["src/a.rs", "src/b.rs", "top"], "{spots}");
        assert_eq!(spots["paths"][0]["conflicts"], 2);
        let by_step: Vec<u64> =
            spots["paths"][0]["byStep"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!((by_step.len(), by_step.iter().sum::<u64>(), &spots["stepSeconds"]), (25, 2, &json!(3600)));
        assert_eq!(each(&spots["paths"][0]["between"], "sessionId"), ["ana", "bo"]);
        let directories = json!([{ "directory": "src", "conflicts": 3 }, { "directory": ".", "conflicts": 1 }]);
        assert_eq!((&spots["directories"], &spots["totalConflicts"]), (&directories, &json!(4)));
        assert_eq!(spots["sessions"], json!([{ "sessionId": "bo", "sessionName": null, "expired": 1 }]));
        world.get("/api/hotspots?window=year", &reader).refused("INVALID_REQUEST");
        world.stop();
        world.start();
    }
}

/// Also those that only waited, and did not collide with a refusal.
#[test]
fn hot_spots_name_the_sessions_that_compete_for_a_key() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session_with("bo", json!({ "name": "Bo" })));
    ana.hold("src/**");
    std::thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "src/a.rs", "waitSeconds": 60 }));
        ana.release_all();
        waiting.join().unwrap().ok();
    });
    let spots = world.get("/api/hotspots", &world.reader()).ok();
    let between = json!([{ "sessionId": "ana", "sessionName": null }, { "sessionId": "bo", "sessionName": "Bo" }]);
    assert_eq!(spots["paths"][0]["between"], between, "{spots}");
}

#[test]
fn an_admin_answers_an_unlock_request_for_its_holder() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    let request = bo.post("unlock-requests", json!({ "filePath": "a", "reason": "hotfix" })).expect(201);
    let target = format!("/api/sessions/ana/unlock-requests/{}/approve", text(&request["id"]));
    world.post(&target, &bo.token, json!({})).refused("FORBIDDEN");
    let admin = world.token(json!({ "sub": "root", "name": "Boss", "scope": "admin" }));
    let answer = world.post(&target, &admin, json!({ "handOver": true })).ok();
    assert_eq!((&answer["status"], &answer["respondedBy"]), (&json!("approved"), &json!("Boss")));
    // A page that is loaded later says the same as one that saw it happen.
    assert_eq!(answer["handedOver"], true);
    assert_eq!(world.get("/api/unlock-requests", &world.reader()).ok()["requests"][0]["handedOver"], true);
    assert_eq!(world.held(), ["bo a"]);
    let notices = ana.post("heartbeat", json!({})).ok()["notices"].clone();
    assert_eq!((&notices[0]["kind"], &notices[0]["by"]), (&json!("released"), &json!("Boss")), "{notices}");
}
