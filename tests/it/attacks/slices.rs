//! One session with very much: it ends, releases or lets everything expire, and the desk does it in slices.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{held_by, hold_many, metric, numbers};
use crate::world::{World, until};

/// How many keys one request of these tests has. It is small, so that a turn with everything in it has many more.
fn keys_of_request() -> usize {
    numbers(500, 10_000)
}

/// The most records of one turn: slices of what expires and of what is over, one request, and what opens and ends sessions.
fn turn_records_max() -> f64 {
    256.0 * 2.0 + keys_of_request() as f64 + 20.0
}

#[track_caller]
fn assert_small_turns(world: &World) {
    let most = metric(world, "dibs_desk_turn_records_max");
    assert!(most <= turn_records_max(), "{most}");
}

/// A row of the journal, in bytes: about a megabyte, and the record that makes it full.
const ROW_BYTES_MAX: i64 = 2 << 20;

fn world() -> World {
    World::configured(
        "[limits]\nreservations-per-session = 1000000\nreservations-per-repository = 1100000\n\
         text-bytes-per-repository = 1000000000\n",
    )
}

fn longest_row(world: &World) -> i64 {
    let db = Connection::open(world.path("repo/.git/dibs/journal.db")).unwrap();
    db.query_row("SELECT max(octet_length(records)) FROM batch", [], |row| row.get(0)).unwrap()
}

/// How many events there are of each kind, in the order of their first ones.
fn kinds(world: &World) -> Vec<(String, usize)> {
    let db = Connection::open(world.path("repo/.git/dibs/journal.db")).unwrap();
    let mut query = db.prepare("SELECT event, count(*) FROM record GROUP BY event ORDER BY min(seq)").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn released(world: &World, count: usize) {
    patiently("every release is recorded", || {
        let kinds = kinds(world);
        kinds.iter().any(|(kind, number)| kind == "released" && *number == count).then_some(())
    });
}

/// Waits for what takes minutes with large numbers.
fn patiently(what: &str, mut condition: impl FnMut() -> Option<()>) {
    let limit = Instant::now() + Duration::from_secs(numbers(60, 900));
    while condition().is_none() {
        assert!(Instant::now() < limit, "this did not happen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A million reservations of one session that ended together stopped the desk for seconds.
#[test]
fn the_end_of_a_session_with_very_much_is_one_record_and_many_slices() {
    let mut world = world();
    let count = numbers(3_000, 1_000_000);
    {
        let (ana, bo) = (world.session("ana"), world.session("bo"));
        hold_many(&ana, "src", count, keys_of_request());
        let last = format!("src/{:07}", count - 1);
        bo.reserve(json!({ "filePath": last })).refused("RESOURCE_LOCKED");
        let ended = ana.end();
        assert_eq!(ended["releasedCount"], count);
        assert_eq!(ended["releasedPaths"].as_array().unwrap().len(), count.min(10_000));
        // From this moment on everything is free, whether or not the releases are recorded.
        let granted = bo.reserve(json!({ "filePath": last })).ok();
        assert_eq!(granted["version"], 1);
        bo.reserve(json!({ "filePaths": ["src/0000000", "src/0000001"] })).ok();
        assert_eq!(held_by(&world, "ana"), 0);
        assert_eq!(held_by(&world, "bo"), 3);
        let again = ana.end();
        assert_eq!(again["releasedCount"], count);
        assert_small_turns(&world);
    }
    // In the middle of it the server is killed.
    world.kill();
    world.start();
    assert_eq!((held_by(&world, "ana"), held_by(&world, "bo")), (0, 3));
    released(&world, count);
    let kinds = kinds(&world);
    // The journal does not keep a million records, and so perhaps not the one that opened the session.
    let order: Vec<&str> = kinds.iter().map(|(kind, _)| kind.as_str()).collect();
    let order: Vec<&str> = order.into_iter().filter(|kind| !["counted", "opened"].contains(kind)).collect();
    assert_eq!(order, ["reserved", "ended", "released"]);
    assert_small_turns(&world);
    assert!(longest_row(&world) < ROW_BYTES_MAX, "{}", longest_row(&world));
}

#[test]
fn a_session_that_releases_very_much_can_reserve_it_again_at_once() {
    let world = world();
    let (ana, count) = (world.session("ana"), numbers(3_000, 300_000));
    hold_many(&ana, "src", count, keys_of_request());
    let answer = ana.post("files/release-all", json!({})).ok();
    assert_eq!(answer["releasedCount"], count);
    let again = ana.hold("src/0000000");
    assert_eq!(again["version"], 1);
    assert_eq!(held_by(&world, "ana"), 1);
    released(&world, count);
    assert_eq!(world.held(), ["ana src/0000000"]);
    assert_small_turns(&world);
}

/// A million keys that expired in one tick were more than SQLite takes in one row: the server ended, and again after
/// every restart.
#[test]
fn very_much_that_expires_together_expires_in_slices() {
    let mut world = world();
    let (count, ttl) = numbers((3_000, 2), (1_000_000, 30));
    {
        let ana = world.session("ana");
        let keys: Vec<String> = (0..count).map(|n| format!("src/{n:07}")).collect();
        for part in keys.chunks(keys_of_request()) {
            ana.reserve(json!({ "filePaths": part, "ttlSeconds": ttl })).ok();
            // With the last one, all of it gets the same deadline.
            ana.post("heartbeat", json!({})).ok();
        }
    }
    let all = held_by(&world, "ana");
    assert_eq!(all, count);
    patiently("it begins to expire", || (held_by(&world, "ana") < count).then_some(()));
    world.kill();
    world.start();
    // What was not recorded runs for its full TTL again, and then expires together.
    patiently("all of it expires", || (held_by(&world, "ana") == 0).then_some(()));
    released(&world, count);
    assert_small_turns(&world);
    assert!(longest_row(&world) < ROW_BYTES_MAX, "{}", longest_row(&world));
    world.session("bo").hold("src/0000000");
}

/// 17 requests of 10,000 keys with a reason of a thousand control characters, each of which is six bytes in a record, put
/// the server into a loop of crashes.
#[test]
fn large_requests_at_the_same_time_are_no_row_that_cannot_be_stored() {
    let mut world = world();
    let (requests, keys) = (numbers(6, 17), numbers(2_000, 10_000));
    std::thread::scope(|scope| {
        for number in 0..requests {
            let world = &world;
            scope.spawn(move || {
                let session = world.session(&format!("s{number}"));
                let paths: Vec<String> = (0..keys).map(|n| format!("{number}/{n}")).collect();
                let reason = "\u{1}".repeat(1_000);
                let answer = session.reserve(json!({ "filePaths": paths, "reason": reason, "ttlSeconds": 300 }));
                match keys {
                    // More than sixteen megabytes for one request.
                    10_000 => drop(answer.refused("PAYLOAD_TOO_LARGE")),
                    _ => drop(answer.ok()),
                }
                let paths = &paths[..paths.len().min(2_500)];
                session.reserve(json!({ "filePaths": paths, "reason": reason, "ttlSeconds": 300 })).ok();
            });
        }
    });
    assert!(longest_row(&world) < ROW_BYTES_MAX, "{}", longest_row(&world));
    world.kill();
    world.start();
    assert_eq!(held_by(&world, "s0"), keys.min(2_500));
    world.session("s0").release_all();
}

/// Expiry is paused while the server may not have heard everything, so this waits for real deadlines.
#[test]
fn a_request_for_something_overdue_is_granted_although_expiry_lags() {
    let world = world();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let keys: Vec<String> = (0..numbers(5_000, 10_000)).map(|n| format!("src/{n:07}")).collect();
    ana.reserve(json!({ "filePaths": keys, "ttlSeconds": 1 })).ok();
    let granted = until("the last one is free", || {
        let answer = bo.reserve(json!({ "filePath": keys[keys.len() - 1] }));
        (answer.status == 200).then(|| answer.ok())
    });
    assert_eq!(granted["version"], 1);
    until("everything expires", || (held_by(&world, "ana") == 0).then_some(()));
    let notices = ana.post("heartbeat", json!({})).ok()["notices"].clone();
    assert_eq!((&notices[0]["kind"], &notices[0]["expiredCount"]), (&json!("expired"), &Value::from(keys.len())));
}
