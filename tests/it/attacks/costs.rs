//! What one session holds or waits for costs the others nothing. Counted is the work of the desk.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;

use super::{hold_many, metric, numbers, until_waiters};
use crate::http::request;
use crate::world::{Session, World};

/// More work than any one request of these tests has, and much less than a look at all that is held or waited for.
fn small_turn() -> f64 {
    numbers(200_000.0, 3_000_000.0)
}

#[track_caller]
fn assert_small_turns(world: &World) {
    let work = metric(world, "dibs_desk_turn_work_max");
    assert!(work < small_turn(), "{work}");
}

/// A reserve that waits, on a connection of its own.
fn wait_for(session: &Session<'_>, keys: &[String]) -> TcpStream {
    let bearer = format!("Bearer {}", session.token);
    let body = json!({ "filePaths": keys, "waitSeconds": 300, "mode": "shared" }).to_string();
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
    let held = numbers(40_000, 300_000);
    hold_many(&ana, "src", held, numbers(500, 10_000));
    bo.hold("wanted");
    let wanted = ["wanted".to_owned()];
    for _ in 0..numbers(20, 200) {
        let waiting = wait_for(&ana, &wanted);
        until_waiters(&world, 1);
        drop(waiting);
        until_waiters(&world, 0);
    }
    // A heartbeat too.
    assert_eq!(ana.post("heartbeat", json!({})).ok()["renewedCount"], held);
    assert_small_turns(&world);
}

/// With parked waits for 10,000 keys each, every release took 49 ms.
#[test]
fn a_release_costs_little_however_many_keys_are_waited_for() {
    let world = World::configured("[limits]\nreservations-per-session = 1000000\n");
    let (bo, releases) = (world.session("bo"), numbers(20, 200));
    bo.hold("blocked");
    for n in 0..releases {
        bo.hold(&format!("touched/{n}"));
    }
    let (waits, keys) = (numbers(20, 50), numbers(500, 9_000));
    let mut open = Vec::new();
    for number in 0..waits {
        let ana = world.session(&format!("ana{number}"));
        // What blocks it comes first, so that it is found at once.
        let mut wanted = vec!["touched/".to_owned(), "blocked".to_owned()];
        wanted.extend((0..keys).map(|n| format!("w{number}/{n}")));
        open.push(wait_for(&ana, &wanted));
        until_waiters(&world, number + 1);
    }
    for n in 0..releases {
        // Every wait is for it, and every one is still blocked by another key.
        bo.release(&format!("touched/{n}"));
    }
    assert_small_turns(&world);
    drop(open);
    until_waiters(&world, 0);
}
