//! SIGTERM ends the process, whatever goes on in it, and what was acknowledged stays.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::numbers;
use crate::http::request;
use crate::preload::preload;
use crate::world::World;

#[test]
fn a_server_with_readers_that_read_nothing_stops() {
    let mut world = World::new();
    let reader = world.reader();
    let bearer = format!("Bearer {reader}");
    let mut streams = Vec::new();
    {
        let ana = world.session("ana");
        let keys: Vec<String> = (0..2_000).map(|n| format!("src/{n}")).collect();
        for round in 0..5 {
            ana.reserve(json!({ "filePaths": keys, "reason": format!("{round}{}", "r".repeat(900)) })).ok();
            ana.release_all();
        }
        for target in ["/api/events?after=0", "/api/events", "/openapi.json"] {
            let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
            stream.write_all(&request("GET", target, &[("authorization", &bearer)], b"")).unwrap();
            stream.read_exact(&mut [0; 15]).unwrap();
            streams.push(stream);
        }
        ana.hold("kept");
    }
    let ended = world.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    drop(streams);
    world.start();
    assert_eq!(world.held(), ["ana kept"]);
}

/// The disk stops answering in the middle of a sync, and a client waits for its grant.
#[test]
fn a_server_whose_journal_hangs_is_ended_and_keeps_what_it_acknowledged() {
    let mut world = World::not_started();
    world.git_init("repo");
    if !preload(&mut world, "a sync that hangs") {
        return;
    }
    world.env("DIBS_FAULT", "sync journal.db-wal 12 hang");
    world.start();
    let token = world.token(json!({ "sub": "ana" }));
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let mut acknowledged = Vec::new();
    let pending = loop {
        let key = format!("a{}", acknowledged.len());
        let body = json!({ "filePath": key }).to_string();
        let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(3))).unwrap();
        stream.write_all(&request("POST", "/api/sessions/ana/files/reserve", &headers, body.as_bytes())).unwrap();
        let mut begin = [0; 15];
        match stream.read_exact(&mut begin) {
            Ok(()) if &begin == b"HTTP/1.1 200 OK" => acknowledged.push(format!("ana {key}")),
            // The sync hangs.
            _ => break (stream, format!("ana {key}")),
        }
        assert!(acknowledged.len() < 100, "the sync never hangs");
    };
    let ended = world.stop();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("did not stop within"), "{}", ended.stderr);
    world.env("DIBS_FAULT", "");
    world.start();
    let held = world.held();
    let (_, last) = pending;
    acknowledged.extend(held.contains(&last).then_some(last));
    assert_eq!(held, acknowledged);
}

/// The ledger's own files hang; the journal is fine.
#[test]
fn a_server_whose_ledger_hangs_stops() {
    let mut world = World::not_started();
    world.git_init("repo");
    if !preload(&mut world, "a ledger that hangs") {
        return;
    }
    world.env("DIBS_FAULT", "write .pack 1 hang");
    world.start();
    for n in 0..50 {
        world.session("ana").hold(&format!("a{n}"));
    }
    let ended = world.stop();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    world.env("DIBS_FAULT", "");
    world.start();
    assert_eq!(world.held().len(), 50);
}

/// It wrote on until the watchdog ended it after eleven seconds, with an error.
#[test]
fn a_server_whose_ledger_is_far_behind_stops_in_order_and_the_next_start_goes_on() {
    let mut world = World::configured("[limits]\nreservations-per-session = 1000000\n");
    let count = numbers(20_000, 200_000);
    super::hold_many(&world.session("ana"), "src", count);
    let ended = world.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("did not stop within"), "{}", ended.stderr);
    world.start();
    let last = format!("src/{:07}", count - 1);
    world.session("bo").reserve(json!({ "filePath": last })).refused("RESOURCE_LOCKED");
    let until_limit = std::time::Instant::now() + std::time::Duration::from_secs(numbers(120, 900));
    while world.get("/readyz", "").ok()["ledger"]["recordsBehind"].as_u64() != Some(0) {
        assert!(std::time::Instant::now() < until_limit, "the ledger does not catch up");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
