//! The wall clock jumps by hours while the server runs: nothing expires early or late.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mint;
use crate::preload::preload;
use crate::world::{World, until};

const HOUR: i64 = 3600;

/// A world whose server has a wall clock that can be moved.
fn world() -> Option<World> {
    let mut world = World::not_started();
    world.git_init("repo");
    let clock = world.path("clock");
    world.env("DIBS_CLOCK", clock.to_str().unwrap());
    let can = preload(&mut world, "a wall clock that is moved");
    can.then(|| {
        world.start();
        world
    })
}

fn move_to(world: &World, hours: i64) {
    // Renamed into place, or the server might read half a number.
    fs::write(world.path("clock.new"), (hours * HOUR).to_string()).unwrap();
    fs::rename(world.path("clock.new"), world.path("clock")).unwrap();
}

/// Valid for a month, because the expiry of a token does follow the wall clock.
fn claims() -> Value {
    json!({ "exp": mint::now() + 30 * 24 * HOUR })
}

#[test]
fn a_moved_wall_clock_expires_nothing_early_or_late() {
    let Some(mut world) = world() else { return };
    let mut highest = 0;
    for (round, hours) in [6, -6, 48, -48].into_iter().enumerate() {
        let (ana, bo) = (world.session_with("ana", claims()), world.session_with("bo", claims()));
        let begun = Instant::now();
        let short = ana.reserve(json!({ "filePath": "short", "ttlSeconds": 1 })).ok();
        let long = ana.reserve(json!({ "filePath": "long", "ttlSeconds": 300 })).ok();
        assert!(short["fence"].as_u64().unwrap() > highest, "{short} after {highest}");
        highest = highest.max(short["fence"].as_u64().unwrap());
        std::thread::scope(|scope| {
            let waiting = bo.queue(scope, json!({ "filePath": "long", "waitSeconds": 200 }));
            move_to(&world, hours);
            assert!(clock_was_moved(&world, hours), "the clock was not moved");

            let gone = until("the short one runs out", || {
                let all = world.reservations();
                let held = |key: &str| all.iter().any(|one| one["filePath"] == key && one["sessionId"] == "ana");
                assert!(held("long"), "{hours} hours away, the long one is gone: {all:?}");
                (!held("short")).then(Instant::now)
            });
            assert!(gone - begun >= Duration::from_millis(999), "{hours} hours away, it ran out early");
            ana.reserve(json!({ "filePath": "long", "ttlSeconds": 300 })).ok();
            ana.post("files/renew", json!({ "filePath": "short" })).refused("LOCK_TIMEOUT");
            assert_eq!(ana.post("heartbeat", json!({})).ok()["renewedCount"], 1);

            // A waiting request is not affected, and is granted in its turn.
            ana.release("long");
            let granted = waiting.join().unwrap().ok();
            assert!(granted["fence"].as_u64().unwrap() > long["fence"].as_u64().unwrap());
            highest = highest.max(granted["fence"].as_u64().unwrap());
        });
        bo.release("long");
        ana.post("files/release-all", json!({})).ok();
        // Every second round the server restarts with the clock as it is now.
        if round % 2 == 1 {
            let kept = json!({ "filePath": "kept", "ttlSeconds": 300 });
            let keep = ana.reserve(kept.clone()).ok();
            world.kill();
            world.start();
            let ana = world.session_with("ana", claims());
            let again = ana.reserve(kept).ok();
            ana.release("kept");
            assert_eq!((&again["reservationId"], &again["fence"]), (&keep["reservationId"], &keep["fence"]));
        }
    }
}

/// Whether the server checks the expiry of tokens with the moved clock.
fn clock_was_moved(world: &World, hours: i64) -> bool {
    let ends = mint::now() + hours * HOUR;
    let status = |exp: i64| world.session_with("cy", json!({ "exp": exp })).get("reserved-files").status;
    status(ends - 600) == 401 && status(ends + 600) == 200
}
