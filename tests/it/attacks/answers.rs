//! Answers about conflicts: every key in conflict appears, and the answer stays small.

use serde_json::{Value, json};

use super::{numbers, peak_memory, reset_peak};
use crate::world::{World, text};

const MIB: usize = 1024 * 1024;

/// Patterns that all match `src/f…`, held by one session with a long reason.
fn hold_patterns(world: &World, count: usize) {
    let ana = world.session("ana");
    let patterns: Vec<String> = (0..count).map(|n| format!("src/{{f,g{n}}}*")).collect();
    let reason = "\u{1}".repeat(1000);
    ana.reserve(json!({ "filePaths": patterns, "reason": reason, "ttlSeconds": 300 })).ok();
}

/// How many holders a list has for each path: listed, and counted.
fn holders<'a>(conflicts: &'a Value, path: &str) -> (Vec<&'a Value>, u64) {
    let of_path: Vec<&Value> =
        conflicts.as_array().unwrap().iter().filter(|conflict| conflict["filePath"] == path).collect();
    let more = of_path.last().and_then(|last| last["moreHolders"].as_u64()).unwrap_or(0);
    (of_path, more)
}

/// A check of 1,000 paths against 1,000 patterns answered 1.29 GB and took 2.7 GB.
#[test]
fn many_holders_of_many_paths_make_a_short_answer() {
    let world = World::new();
    let bo = world.session("bo");
    let (patterns, count) = numbers((60, 300), (2_000, 2_000));
    hold_patterns(&world, patterns);
    let paths: Vec<String> = (0..count).map(|n| format!("src/f{n}")).collect();
    let before = reset_peak(&world);
    let check = bo.post("files/check-conflicts", json!({ "paths": paths }));
    assert!(check.body.len() < 4 * MIB, "{} bytes", check.body.len());
    let check = check.ok();
    // A reserve is decided in one turn, so it compares less than a check.
    let reserved = &paths[..count.min(500)];
    let refusal = bo.reserve(json!({ "filePaths": reserved }));
    assert!(refusal.body.len() < 4 * MIB, "{} bytes", refusal.body.len());
    let refusal = refusal.refused("RESOURCE_LOCKED");
    for (answer, paths) in [(&check, &paths[..]), (&refusal, reserved)] {
        for path in [&paths[0], &paths[paths.len() / 2], &paths[paths.len() - 1]] {
            let (listed, more) = holders(&answer["conflicts"], path);
            assert!(!listed.is_empty() && listed.len() <= 3, "{path}");
            assert_eq!(listed.len() as u64 + more, patterns as u64, "{path}");
        }
        let conflicts = answer["conflicts"].as_array().unwrap();
        let mut named: Vec<&str> = conflicts.iter().map(|conflict| text(&conflict["filePath"])).collect();
        named.dedup();
        assert_eq!(named, paths, "every path appears, in order");
        assert_eq!(text(&conflicts[0]["reason"]).chars().count(), 1000, "the first ones are complete");
        let last = conflicts.last().unwrap()["reason"].as_str().unwrap_or_default();
        assert!(last.chars().count() <= 101, "the last ones are short");
    }
    let grown = peak_memory(&world).saturating_sub(before);
    assert!(grown < 64 * MIB, "{grown}");
}

/// The first three are of three sessions, if there are as many.
#[test]
fn different_holders_are_listed_before_one_holder_twice() {
    let world = World::new();
    for n in 0..5 {
        let session = world.session(&format!("s{n}"));
        for mode_of in ["src/f*", "src/*", "src/**"] {
            session.reserve(json!({ "filePath": mode_of, "mode": "shared" })).ok();
        }
    }
    let check = world.session("bo").post("files/check-conflicts", json!({ "paths": ["src/f1", "other"] })).ok();
    let (listed, more) = holders(&check["conflicts"], "src/f1");
    let mut sessions: Vec<&str> = listed.iter().map(|one| text(&one["reservedBy"])).collect();
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!((sessions.len(), more), (3, 12), "{check}");
    assert_eq!(check["clear"], json!(["other"]));
}

/// Clients that ask for much and read nothing.
#[test]
fn answers_that_are_not_read_do_not_add_up() {
    let world = World::new();
    let (ana, reader) = (world.session("ana"), world.reader());
    let (clients, count) = numbers((24, 40_000), (200, 100_000));
    ana.hold("held");
    let paths: Vec<String> = (0..count).map(|n| format!("src/some/where/{n:0>80}")).collect();
    let body = json!({ "paths": paths }).to_string();
    let bearer = format!("Bearer {reader}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let request = crate::http::request("POST", "/api/check-conflicts", &headers, body.as_bytes());
    let before = reset_peak(&world);
    let unread: Vec<_> = std::thread::scope(|scope| {
        let ask = || {
            let mut connection = world.connect();
            // A server without room for the answer may close first.
            let _ = connection.send(&request);
            connection
        };
        let asking: Vec<_> = (0..clients).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let whole = world.get("/api/reservations", &reader).ok();
    assert_eq!(text(&whole["reservations"][0]["filePath"]), "held", "others are served meanwhile");
    let grown = peak_memory(&world).saturating_sub(before);
    // 32 MiB of bodies and what they become, and 64 MiB of answers.
    assert!(grown < 400 * MIB, "{grown} for {clients} answers of about {}", body.len());
    drop(unread);
}
