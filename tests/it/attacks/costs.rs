//! What one session holds or waits for costs the others nothing. Counted is the work of the desk.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;

use super::{hold_many, metric, numbers, until_waiters};
use crate::http::request;
use crate::world::{Session, World};

/// Work of a turn in which nothing large is decided.
const SMALL_TURN: f64 = 3_000_000.0;

/// A reserve that waits, on a connection of its own.
fn wait_for(session: &Session<'_>, keys: &[String]) -> TcpStream {
    let bearer = format!("Bearer {}", session.token);
    let body = json!({ "filePaths": keys, "waitSeconds": 300 }).to_string();
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let mut stream = TcpStream::connect(session.world.server().tcp()).unwrap();
    stream.write_all(&request("POST", &session.url("files/reserve"), &headers, body.as_bytes())).unwrap();
    stream
}

/// With 300,000 held by a session that waits and gives up, others waited 2 s for their grants.
#[test]
fn a_wait_costs_the_same_however_much_its_session_holds() {
    let world = World::configured("[limits]\nreservations-per-session = 1000000\n");
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    hold_many(&ana, "src", numbers(20_000, 300_000));
    bo.hold("wanted");
    let wanted = ["wanted".to_owned()];
    for _ in 0..numbers(20, 200) {
        let waiting = wait_for(&ana, &wanted);
        until_waiters(&world, 1);
        drop(waiting);
        until_waiters(&world, 0);
    }
    // A heartbeat too.
    assert_eq!(ana.post("heartbeat", json!({})).ok()["renewedCount"], numbers(20_000, 300_000));
    let work = metric(&world, "dibs_desk_turn_work_max");
    assert!(work < SMALL_TURN, "{work}");
}

/// With parked waits for 10,000 keys each, every release took 49 ms.
#[test]
fn a_release_costs_little_however_many_keys_are_waited_for() {
    let world = World::configured("[limits]\nreservations-per-session = 1000000\n");
    let (bo, cy) = (world.session("bo"), world.session("cy"));
    bo.hold("blocked");
    let (waits, keys) = (numbers(5, 50), numbers(2_000, 9_000));
    let mut open = Vec::new();
    for number in 0..waits {
        let ana = world.session(&format!("ana{number}"));
        let mut wanted: Vec<String> = (0..keys).map(|n| format!("w{number}/{n}")).collect();
        wanted.extend(["touched".to_owned(), "blocked".to_owned()]);
        open.push(wait_for(&ana, &wanted));
        until_waiters(&world, number + 1);
    }
    let before = metric(&world, "dibs_desk_turn_work_max");
    for _ in 0..numbers(20, 200) {
        // Every wait is for it, and every one is still blocked by another key.
        cy.reserve(json!({ "filePath": "touched/below", "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
        bo.reserve(json!({ "filePath": "blocked", "mode": "exclusive" })).ok();
    }
    let work = metric(&world, "dibs_desk_turn_work_max").max(before);
    assert!(work < SMALL_TURN, "{work}");
    drop(open);
    until_waiters(&world, 0);
}
