//! The server stands still for longer than a TTL (SIGSTOP, as a suspended laptop or a stuck disk would do it). That takes
//! nothing away from a holder.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::numbers;
use crate::http::{Connection, request};
use crate::world::{Session, World, until};

/// Stops the server, and returns when it has stopped.
fn stop(world: &World) {
    world.signal(libc::SIGSTOP);
    let stat = format!("/proc/{}/stat", world.server().pid());
    until("the server is stopped", || {
        let stat = fs::read_to_string(&stat).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('T').then_some(())
    });
}

fn pass(start: Instant, time: Duration) {
    until("time has passed", || (start.elapsed() >= time).then_some(()));
}

/// A request of a session as it goes over the wire.
fn call_of(session: &Session<'_>, call: &str, body: Value) -> Vec<u8> {
    let bearer = format!("Bearer {}", session.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    request("POST", &session.url(call), &headers, body.to_string().as_bytes())
}

/// The holders' heartbeats were in the sockets, in time, but the server looked at the clock first.
#[test]
fn a_heartbeat_that_lies_in_its_socket_during_a_stall_is_heard_before_anything_expires() {
    let world = World::new();
    let holders: Vec<Session<'_>> = (0..numbers(12, 300)).map(|n| world.session(&format!("ana{n}"))).collect();
    let (bo, rounds) = (world.session("bo"), numbers(3, 20));
    let mut in_time = 0;
    for round in 0..rounds {
        let mut connections: Vec<Connection> = holders.iter().map(|_| world.connect()).collect();
        let begun = Instant::now();
        for (n, ana) in holders.iter().enumerate() {
            ana.reserve(json!({ "filePath": format!("{n}"), "ttlSeconds": 2 })).ok();
        }
        // In every second round the server stops so late that what a stall may add reaches the deadline.
        if round % 2 == 1 {
            pass(begun, Duration::from_millis(1_800));
        }
        stop(&world);
        if begun.elapsed() >= Duration::from_secs(2) {
            // On a busy machine it was stopped so late that something may have expired before.
            world.signal(libc::SIGCONT);
            holders.iter().for_each(Session::release_all);
            continue;
        }
        in_time += 1;
        // The other session asks first.
        let mut other = world.connect();
        other.send(&call_of(&bo, "files/reserve", json!({ "filePath": "0" }))).unwrap();
        for (n, (ana, open)) in holders.iter().zip(&mut connections).enumerate() {
            if n % 3 == 0 {
                // It waits to be accepted.
                *open = if n % 2 == 0 { world.connect() } else { Connection::open(&world.unix()).unwrap() };
            }
            open.send(&call_of(ana, "heartbeat", json!({}))).unwrap();
        }
        pass(begun, Duration::from_millis(4_500));
        world.signal(libc::SIGCONT);
        for open in &mut connections {
            assert_eq!(open.receive(false).unwrap().ok()["renewedCount"], 1, "in round {round}");
        }
        other.receive(false).unwrap().refused("RESOURCE_LOCKED");
        assert_eq!(world.reservations().len(), holders.len());
        holders.iter().for_each(Session::release_all);
    }
    assert!(2 * in_time >= rounds, "stopped in time in {in_time} of {rounds} rounds");
}

#[test]
fn a_stall_longer_than_the_ttl_expires_nothing_and_is_reported_once() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let before = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 4 })).ok();
    stop(&world);
    let begun = Instant::now();
    let mut other = world.connect();
    other.send(&call_of(&bo, "files/reserve", json!({ "filePath": "a" }))).unwrap();
    pass(begun, Duration::from_secs(5));
    world.signal(libc::SIGCONT);
    let refused = other.receive(false).unwrap().refused("RESOURCE_LOCKED");
    let [moved, shown] = [&refused["expiresAt"], &before["expiresAt"]].map(crate::world::time);
    assert!(moved - shown >= 4_500, "the deadline that others see moves by the stall: {moved} after {shown}");
    assert_eq!(world.held(), ["ana a"]);

    // Nobody renews it, so it does expire when the server has listened for its TTL.
    until("it expires", || world.held().is_empty().then_some(()));
    let told = ana.post("heartbeat", json!({})).ok();
    assert_eq!(told["renewedCount"], 0);
    assert_eq!(told["notices"], json!([{ "kind": "expired", "expiredCount": 1, "expiredPaths": ["a"] }]));
    assert_eq!(ana.post("heartbeat", json!({})).ok()["notices"], json!([]), "told once");

    let text = String::from_utf8(world.connect().call("GET", "/metrics", &[], b"").unwrap().body).unwrap();
    let number = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(number("dibs_desk_late_turns_total") >= 1.0);
    assert!(number("dibs_desk_away_max_seconds") >= 4.5);
    assert!(number("dibs_desk_lost_seconds_total") >= 4.5);
    let lines = |log: String| log.lines().filter(|line| line.contains("the desk was away")).count();
    assert_eq!(lines(world.stderr()) as f64, number("dibs_desk_late_turns_total"), "{}", world.stderr());
}

/// A client that sends more than the server reads must not keep reservations of others alive.
#[test]
fn a_connection_that_is_never_read_does_not_switch_expiry_off() {
    let world = World::new();
    let (ana, bo, cy) = (world.session("ana"), world.session("bo"), world.session("cy"));
    cy.hold("taken");
    let mut stuffed = Vec::new();
    for _ in 0..5 {
        let mut open = world.connect();
        open.send(&call_of(&bo, "files/reserve", json!({ "filePath": "taken", "waitSeconds": 60 }))).unwrap();
        stuffed.push(open);
    }
    until("they wait", || {
        let waiting = world.get("/api/sessions/bo", &world.reader()).json()["waitingFor"].as_array().map(Vec::len);
        (waiting == Some(5)).then_some(())
    });
    for open in &mut stuffed {
        // More than the server takes while a request waits, less than the buffers of the system.
        open.send(&call_of(&bo, "heartbeat", json!({})).repeat(100)).unwrap();
    }
    ana.reserve(json!({ "filePath": "a", "ttlSeconds": 1 })).ok();
    until("it expires", || (!world.held().contains(&"ana a".to_owned())).then_some(()));
    ana.reserve(json!({ "filePath": "a", "ttlSeconds": 1 })).ok();
    stop(&world);
    pass(Instant::now(), Duration::from_millis(1_500));
    world.signal(libc::SIGCONT);
    until("it expires", || (!world.held().contains(&"ana a".to_owned())).then_some(()));
}
