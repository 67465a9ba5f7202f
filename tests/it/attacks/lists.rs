//! Long lists come in pages, and a page is found in several visits to the desk.

use serde_json::{Value, json};

use super::{metric, numbers};
use crate::world::{Session, World, text};

/// All pages of a list.
fn pages(world: &World, target: &str, token: &str, list: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = world.get(&format!("{target}{cursor}"), token).ok();
        all.extend(serde_json::from_value::<Vec<Value>>(page[list].take()).unwrap());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn paths(list: &[Value]) -> Vec<&str> {
    list.iter().map(|one| text(&one["filePath"])).collect()
}

fn hold_many(session: &Session<'_>, names: &[String]) {
    for some in names.chunks(10_000) {
        session.reserve(json!({ "filePaths": some, "ttlSeconds": 300 })).ok();
        // A million of them takes minutes.
        session.post("heartbeat", json!({})).ok();
    }
}

#[test]
fn every_reservation_of_a_long_list_appears_once_and_in_order() {
    let world = World::configured(
        "[limits]\nreservations-per-session = 1000000\nreservations-per-repository = 1100000\n\
         text-bytes-per-repository = 1000000000\n",
    );
    let (ana, bo, reader) = (world.session("ana"), world.session("bo"), world.reader());
    // More than one visit to the desk looks at.
    let count: usize = numbers(9_000, 1_000_000);
    let names: Vec<String> =
        (0..count).map(|n| format!("{}/{n}", if n % 1000 == 0 { "rare" } else { "src" })).collect();
    hold_many(&bo, &["first".to_owned()]);
    hold_many(&ana, &names);
    hold_many(&bo, &["last".to_owned()]);
    let all = pages(&world, "/api/reservations?limit=1000", &reader, "reservations");
    let expected: Vec<&str> = ["first"].into_iter().chain(names.iter().map(String::as_str)).chain(["last"]).collect();
    assert_eq!(paths(&all), expected);

    let rare = pages(&world, "/api/reservations?limit=4&prefix=rare/", &reader, "reservations");
    assert_eq!(paths(&rare).len(), count.div_ceil(1000));
    let few = pages(&world, "/api/reservations?limit=1&session=bo", &reader, "reservations");
    assert_eq!(paths(&few), ["first", "last"]);
    let many = pages(&world, "/api/reservations?limit=1000&session=ana", &reader, "reservations");
    assert_eq!(many.len(), count);
    assert_eq!(pages(&world, "/api/reservations?limit=9&session=nobody", &reader, "reservations"), [Value::Null; 0]);
    assert_eq!(pages(&world, "/api/reservations?limit=9&session=%20", &reader, "reservations"), [Value::Null; 0]);

    let own = pages(&world, "/api/sessions/ana/reserved-files?limit=1000", &ana.token, "reservations");
    assert_eq!(paths(&own), names.iter().map(String::as_str).collect::<Vec<_>>());
    let first = ana.get("reserved-files").ok();
    assert_eq!(first["reservations"].as_array().unwrap().len(), count.min(10_000));
    assert_eq!(first["nextCursor"].is_string(), count > 10_000);

    // Without a page that is only full by chance.
    let exact = world.get("/api/reservations?limit=2&session=bo", &reader).ok();
    assert_eq!((exact["reservations"].as_array().unwrap().len(), &exact["nextCursor"]), (2, &Value::Null));
    let head = exact["seq"].as_u64().unwrap();
    assert_eq!(head, 2 + count as u64 + 2, "two sessions, and every reservation");
    // No visit looks at all of it; the largest turns are the requests of 10,000 keys.
    let work = metric(&world, "dibs_desk_turn_work_max");
    assert!(work < 4_000_000.0, "{work}");
}

#[test]
fn a_long_list_of_what_was_released_is_cut_and_counted() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let names: Vec<String> = (0..10_500).map(|n| format!("a/{n}")).collect();
    hold_many(&ana, &names);
    let released = ana.post("files/release-all", json!({})).ok();
    assert_eq!(released["releasedCount"], 10_500);
    assert_eq!(released["releasedPaths"].as_array().unwrap().len(), 10_000);
    hold_many(&bo, &names);
    let ended = bo.end();
    assert_eq!(ended["releasedCount"], 10_500);
    assert_eq!(ended["releasedPaths"].as_array().unwrap().len(), 10_000);
}

#[test]
fn every_session_of_a_long_list_appears_once_and_in_order() {
    let world = World::new();
    let count = numbers(120, 1_200);
    let worker = world.token(json!({ "sub": "pool", "scope": "worker" }));
    for n in 0..count {
        world.post(&format!("/api/sessions/s{n}/heartbeat"), &worker, json!({})).ok();
        if n % 3 == 0 {
            world.post(&format!("/api/sessions/s{n}/end"), &worker, json!({})).ok();
        }
    }
    let reader = world.reader();
    let ids = |query: &str| -> Vec<String> {
        let all = pages(&world, &format!("/api/sessions?{query}"), &reader, "sessions");
        all.iter().map(|one| text(&one["sessionId"]).to_owned()).collect()
    };
    let all: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    assert_eq!(ids("limit=7"), all);
    assert_eq!(ids("limit=1000"), all);
    let active: Vec<String> = (0..count).filter(|n| n % 3 != 0).map(|n| format!("s{n}")).collect();
    assert_eq!(ids("limit=10&state=active"), active);
    assert_eq!(ids("limit=10&state=failed"), [""; 0]);
}

#[test]
fn a_session_that_waits_for_much_lists_a_part_and_the_number() {
    let world = World::new();
    let (ana, bo, reader) = (world.session("ana"), world.session("bo"), world.reader());
    ana.hold("k0");
    let keys: Vec<String> = (0..250).map(|n| format!("k{n}")).collect();
    std::thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePaths": keys, "waitSeconds": 60 }));
        let bo_now = world.get("/api/sessions/bo", &reader).ok();
        assert_eq!(bo_now["waitingFor"].as_array().unwrap().len(), 100);
        assert_eq!(bo_now["moreWaitingFor"], 150);
        ana.release("k0");
        waiting.join().unwrap().ok();
    });
    assert_eq!(world.get("/api/sessions/bo", &reader).ok()["moreWaitingFor"], Value::Null);
}
