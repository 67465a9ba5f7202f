//! The disk fails under the journal of a server that many clients work with: writes that are cut short, that find no
//! room or an error, syncs that fail.
//!
//! The server ends with one sentence, and the next one has everything that was acknowledged and nothing twice. The
//! clients are those of `kill`. `DIBS_FAULT_POINTS` says how often something fails.

use serde_json::json;

use crate::dice::{Dice, number_from_env};
use crate::kill::{check_exclusive_is_not_shared, work_through_failures};
use crate::preload::preload;
use crate::world::{Ended, World, text};

/// What fails, on which file, at one of how many calls, and how.
const FAULTS: &[(&str, &str, u64, &str)] = &[
    ("write", "journal.db-wal", 300, "ENOSPC"),
    ("write", "journal.db-wal", 300, "EIO"),
    ("write", "journal.db-wal", 300, "torn"),
    ("write", "journal.db-wal", 300, "rotten"),
    ("sync", "journal.db-wal", 60, "EIO"),
    ("sync", "journal.db-wal", 60, "rotten"),
    ("write", "journal.db", 6, "torn"),
    ("sync", "journal.db", 2, "EIO"),
];

#[test]
fn nothing_acknowledged_is_lost_when_the_disk_fails() {
    let (points, seed): (u32, u64) = (number_from_env("DIBS_FAULT_POINTS", 24), number_from_env("DIBS_FAULT_SEED", 11));
    let mut world = World::not_started();
    world.git_init("repo");
    if !preload(&mut world, "a disk that fails") {
        return;
    }
    world.start();
    let (mut dice, mut failed, mut in_vain, mut turn) = (Dice::new(seed), 0, 0, 0);
    work_through_failures(world, points, |world, field| {
        let (call, file, most, how) = FAULTS[turn % FAULTS.len()];
        turn += 1;
        // Often one of the first calls, because a start is a special case.
        let nth = 1 + if dice.below(3) == 0 { dice.below(4) } else { dice.below(most) };
        let fault = format!("{call} {file} {nth} {how}");
        // The running server has no fault; the next one has.
        world.kill();
        world.env("DIBS_FAULT", &fault);
        let ended = match world.try_start() {
            Ok(()) => {
                field.go_to(world);
                // The file itself is only written when the log is copied into it, which happens at the end.
                if file == "journal.db" {
                    let enough = field.acknowledged() + 20;
                    while field.acknowledged() < enough && !field.is_over() {
                        check_exclusive_is_not_shared(&world.reservations());
                    }
                    world.signal(libc::SIGTERM);
                }
                world.wait()
            }
            Err(ended) => {
                in_vain += 1;
                ended
            }
        };
        failed += u32::from(said_why(&ended, &fault, file == "journal.db"));
        world.env("DIBS_FAULT", "");
        world.start();
        check_exclusive_is_not_shared(&world.reservations());
    });
    eprintln!("{points} faults (seed {seed}): {failed} servers ended with a sentence, {in_vain} of them at the start");
    assert!(failed > points / 2, "the faults hit too rarely");
}

/// Whether the server ended because of the fault. It must say so in one sentence, with advice.
fn said_why(ended: &Ended, fault: &str, may_end_well: bool) -> bool {
    let stderr = &ended.stderr;
    assert!(!stderr.contains("panicked"), "{fault}: {stderr}");
    if may_end_well && ended.status.success() {
        return false;
    }
    assert_eq!(ended.status.code(), Some(1), "{fault}: {stderr}");
    let sentence = stderr.lines().last().unwrap_or_default();
    assert!(sentence.starts_with("git-dibs: ") && sentence.contains("journal.db"), "{fault}: {stderr}");
    assert!(sentence.contains("start the server again"), "{fault}: {stderr}");
    assert!(!fault.ends_with("ENOSPC") || sentence.contains("free some space there"), "{fault}: {stderr}");
    true
}

/// A failed sync may have written the record. Regression: such a request got a 503, which promises that nothing was
/// granted, and was granted after the next start.
#[test]
fn a_request_whose_record_may_be_durable_is_not_answered() {
    for nth in 2..6 {
        let mut world = World::not_started();
        world.git_init("repo");
        if !preload(&mut world, "a sync that fails") {
            return;
        }
        world.env("DIBS_FAULT", &format!("sync journal.db-wal {nth} rotten"));
        world.start();
        let bearer = format!("Bearer {}", world.token(json!({ "sub": "ana" })));
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let mut line = world.connect();
        let mut acknowledged = Vec::new();
        let last = loop {
            let key = format!("a{}", acknowledged.len());
            let body = json!({ "filePath": key }).to_string();
            match line.call("POST", "/api/sessions/ana/files/reserve", &headers, body.as_bytes()) {
                Ok(answer) => acknowledged.push(format!("ana {}", text(&answer.ok()["filePath"]))),
                Err(_) => break format!("ana {key}"),
            }
        };
        assert_eq!(world.wait().status.code(), Some(1));
        world.env("DIBS_FAULT", "");
        world.start();
        let held = world.held();
        acknowledged.extend(held.contains(&last).then_some(last));
        assert_eq!(held, acknowledged);
    }
}

/// A short write is no fault: the rest is written after it.
#[test]
fn a_short_write_is_continued() {
    let mut world = World::not_started();
    world.git_init("repo");
    if !preload(&mut world, "a write that is cut short") {
        return;
    }
    for nth in 1..12 {
        world.env("DIBS_FAULT", &format!("write journal.db-wal {nth} short"));
        world.start();
        world.session("ana").hold(&format!("a{nth}"));
        world.session("ana").hold(&format!("b{nth}"));
        world.kill();
    }
    world.env("DIBS_FAULT", "");
    world.start();
    assert_eq!(world.held().len(), 22);
}
