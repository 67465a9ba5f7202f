//! SIGTERM ends the process, whatever goes on in it, and what was acknowledged stays.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::numbers;
use crate::http::request;
use crate::preload::preload;
use crate::world::{Ended, World};

/// A server ends within 12 s of SIGTERM. The rest is for a machine that is busy.
const STOP_TIME_MAX: Duration = Duration::from_secs(16);

/// Like [`World::stop`], but does not wait for longer than a server may take.
#[track_caller]
fn stop_in_time(world: &mut World) -> Ended {
    let stat = format!("/proc/{}/stat", world.server().pid());
    // It stays in the list of processes, as a zombie, until its status is read.
    let runs = || {
        let stat = fs::read_to_string(&stat).unwrap();
        !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z')
    };
    let limit = Instant::now() + STOP_TIME_MAX;
    world.signal(libc::SIGTERM);
    while runs() {
        assert!(Instant::now() < limit, "the server still runs {} s after SIGTERM", STOP_TIME_MAX.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
    world.wait()
}

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
    let ended = stop_in_time(&mut world);
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
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        stream.write_all(&request("POST", "/api/sessions/ana/files/reserve", &headers, body.as_bytes())).unwrap();
        let mut begin = [0; 15];
        match stream.read_exact(&mut begin) {
            Ok(()) if &begin == b"HTTP/1.1 200 OK" => acknowledged.push(format!("ana {key}")),
            // The sync hangs.
            _ => break (stream, format!("ana {key}")),
        }
        assert!(acknowledged.len() < 100, "the sync never hangs");
    };
    let ended = stop_in_time(&mut world);
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
    let ended = stop_in_time(&mut world);
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
    super::hold_many(&world.session("ana"), "src", count, 10_000);
    let ended = stop_in_time(&mut world);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("did not stop within"), "{}", ended.stderr);
    world.start();
    let last = format!("src/{:07}", count - 1);
    world.session("bo").reserve(json!({ "filePath": last })).refused("RESOURCE_LOCKED");
    let until_limit = Instant::now() + Duration::from_secs(numbers(120, 900));
    while world.get("/readyz", "").ok()["ledger"]["recordsBehind"].as_u64() != Some(0) {
        assert!(Instant::now() < until_limit, "the ledger does not catch up");
        std::thread::sleep(Duration::from_millis(100));
    }
}
