//! Memory and files of a server in which nothing is held at the end.

use serde_json::json;

use super::{held_by, metric, numbers, peak_memory};
use crate::world::{World, until};

fn size(world: &World, suffix: &str) -> u64 {
    let path = world.path(&format!("repo/.git/dibs/journal.db{suffix}"));
    path.metadata().map_or(0, |file| file.len())
}

/// A path of this many bytes, which no other number has.
fn long_path(round: usize, number: usize, bytes: usize) -> String {
    let start = format!("{round}-{number}");
    let mut path = start;
    while path.len() < bytes {
        path.push_str("/directory-of-some-length");
    }
    path.truncate(bytes);
    path.trim_end_matches(['/', ' ']).to_owned()
}

/// 1.05 GB of memory and a journal of 1.5 GB were left of keys that nobody held, and 2.9 GB after a restart.
#[test]
fn keys_that_nobody_holds_are_remembered_in_a_bounded_number_of_bytes() {
    // The ledger is a part of it: it must not keep in memory what it has written, nor what it has still to write.
    let mut world = World::new();
    let (rounds, keys, bytes) = numbers((12, 1_000, 2_000), (200, 5_000, 3_000));
    {
        let ana = world.session("ana");
        for round in 0..rounds {
            let paths: Vec<String> = (0..keys).map(|n| long_path(round, n, bytes)).collect();
            // What is released and not recorded yet still counts, and the answer says to come back.
            let body = json!({ "filePaths": paths, "ttlSeconds": 300 });
            until("there is room", || {
                let answer = ana.reserve(body.clone());
                let is_full = answer.status == 429;
                if !is_full {
                    answer.ok();
                }
                (!is_full).then_some(())
            });
            ana.release_all();
        }
        until("it is all released", || (held_by(&world, "ana") == 0).then_some(()));
    }
    let peak = peak_memory(&world) >> 20;
    // The long form writes 3 GB of names, and the whole server may take one.
    assert!(peak < numbers(300, 1_000), "{peak} MB");
    world.stop();
    world.start();
    let peak = peak_memory(&world) >> 20;
    assert!(peak < numbers(200, 500), "{peak} MB after a restart");
    let journal = (size(&world, "") + size(&world, "-wal")) >> 20;
    assert!(journal < numbers(250, 900), "the journal has {journal} MB");
}

/// A path of a hundred directories takes a hundred times the memory of its name.
#[test]
fn deep_directories_count_as_text() {
    let world = World::configured("[limits]\ntext-bytes-per-repository = 2000000\n");
    let ana = world.session("ana");
    let deep = |number: usize| format!("{number}/{}x", "d/".repeat(100));
    let paths: Vec<String> = (0..50).map(deep).collect();
    ana.reserve(json!({ "filePaths": paths })).ok();
    let more: Vec<String> = (50..150).map(deep).collect();
    let refusal = ana.reserve(json!({ "filePaths": more })).refused("QUOTA_EXCEEDED");
    assert_eq!(refusal["limit"], 2_000_000, "{refusal}");
    // Where the directories are in use already, a file more costs little.
    let beside: Vec<String> = (0..100).map(|n| format!("0/{}y{n}", "d/".repeat(100))).collect();
    ana.reserve(json!({ "filePaths": beside })).ok();
    ana.release_all();
    ana.reserve(json!({ "filePaths": more })).refused("QUOTA_EXCEEDED");
    ana.reserve(json!({ "filePaths": more[..60] })).ok();
}

/// A reason is recorded with each key, also where it is changed later.
#[test]
fn reasons_count_as_text() {
    let world = World::configured("[limits]\ntext-bytes-per-repository = 1000000\n");
    let ana = world.session("ana");
    let paths: Vec<String> = (0..1_000).map(|n| format!("p{n}")).collect();
    let long = "r".repeat(900);
    ana.reserve(json!({ "filePaths": paths, "reason": long })).refused("QUOTA_EXCEEDED");
    ana.reserve(json!({ "filePaths": paths, "reason": "short" })).ok();
    ana.reserve(json!({ "filePaths": paths, "reason": long })).refused("QUOTA_EXCEEDED");
    ana.reserve(json!({ "filePaths": paths, "reason": "short" })).ok();
    assert_eq!(metric(&world, "dibs_reservations"), 1_000.0);
}

/// One token cannot hold everything that the repository may hold.
#[test]
fn a_session_and_a_repository_can_hold_only_so_much() {
    let world = World::configured("[limits]\nreservations-per-session = 30\nreservations-per-repository = 50\n");
    let (ana, bo, cy) = (world.session("ana"), world.session("bo"), world.session("cy"));
    let keys = |name: &str, count: usize| -> Vec<String> { (0..count).map(|n| format!("{name}/{n}")).collect() };
    let refusal = ana.reserve(json!({ "filePaths": keys("a", 31) })).refused("QUOTA_EXCEEDED");
    assert_eq!(refusal["limit"], 30);
    ana.reserve(json!({ "filePaths": keys("a", 30) })).ok();
    bo.reserve(json!({ "filePaths": keys("b", 20) })).ok();
    let refusal = cy.reserve(json!({ "filePath": "c" })).refused("QUOTA_EXCEEDED");
    assert_eq!(refusal["limit"], 50);
    ana.release_all();
    cy.hold("c");
}
