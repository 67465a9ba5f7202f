//! Operation: health, statistics, and stopping without cutting off requests.

use std::thread;

use serde_json::{Value, json};

use crate::http::request;
use crate::world::{Run, World, text, time, until};

#[test]
fn health_needs_no_token() {
    let world = World::new();
    for (target, status) in [("/healthz", "ok"), ("/readyz", "ready")] {
        let health = world.get(target, "").ok();
        assert_eq!(health["status"], status);
        assert!(!text(&health["version"]).is_empty());
        world.get(target, "not even a token").ok();
    }
    for target in ["/api/stats", "/api/reservations", "/api/sessions"] {
        world.get(target, "").refused("UNAUTHENTICATED");
    }
}

#[test]
fn statistics_add_up() {
    let world = World::new();
    let (ana, bo, reader) = (world.session("ana"), world.session("bo"), world.reader());
    let stats = || world.get("/api/stats", &reader).ok();
    let check = |seen: &Value, expected: [(&str, u64); 6]| {
        for (name, number) in expected {
            assert_eq!(seen[name], number, "{name} in {seen}");
        }
    };
    check(
        &stats(),
        [
            ("totalLocks", 0),
            ("activeLocks", 0),
            ("expiredLocks", 0),
            ("conflictsDetected", 0),
            ("waiters", 0),
            ("sessions", 0),
        ],
    );
    assert_eq!(stats()["averageHoldTime"], 0.0);
    ana.reserve(json!({ "filePaths": ["a", "b", "c"] })).ok();
    ana.hold("a");
    bo.reserve(json!({ "filePaths": ["a", "b"] })).refused("RESOURCE_LOCKED");
    bo.post("files/check-conflicts", json!({ "paths": ["a"] })).ok();
    ana.release("b");
    thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "c", "waitSeconds": 60 }));
        check(
            &stats(),
            [
                ("totalLocks", 3),
                ("activeLocks", 2),
                ("expiredLocks", 0),
                ("conflictsDetected", 1),
                ("waiters", 1),
                ("sessions", 2),
            ],
        );
        ana.end();
        waiting.join().unwrap().ok();
    });
    bo.reserve(json!({ "filePath": "d", "ttlSeconds": 1 })).ok();
    until("it runs out", || (stats()["expiredLocks"] == 1).then_some(()));
    let seen = stats();
    check(
        &seen,
        [
            ("totalLocks", 5),
            ("activeLocks", 1),
            ("expiredLocks", 1),
            ("conflictsDetected", 1),
            ("waiters", 0),
            ("sessions", 1),
        ],
    );
    // Four reservations have ended; one of them was held for a whole second.
    assert!(seen["averageHoldTime"].as_f64().unwrap() >= 0.25, "{seen}");
}

/// The file in which a server says where it listens.
fn written_record(world: &World) -> Value {
    serde_json::from_slice(&std::fs::read(world.path("repo/.git/dibs/server.json")).unwrap()).unwrap()
}

#[test]
fn sigterm_finishes_pending_requests() {
    let mut world = World::new();
    let record = written_record(&world);
    assert_eq!((&record["pid"], &record["url"]), (&world.record()["pid"], &world.record()["url"]));
    assert!(time(&record["startedAt"]) > 0 && record["pid"].is_u64());
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");

    // Two requests are half sent, one connection is idle, one request waits.
    let bearer = format!("Bearer {}", ana.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let late = request("POST", &ana.url("files/reserve"), &headers, br#"{"filePath": "late"}"#);
    let (head, tail) = late.split_at(late.len() - 5);
    let mut half = world.connect();
    half.send(head).unwrap();
    let mut probe = world.connect();
    probe.send(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    let mut idle = world.connect();
    idle.call("GET", "/healthz", &[], b"").unwrap().ok();
    thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "a", "waitSeconds": 60 }));
        world.signal(libc::SIGTERM);
        let answer = waiting.join().unwrap();
        assert_eq!(answer.header("retry-after"), Some("1"));
        let sentence = "the server is stopping, and the wait ended with it; try again in a moment";
        assert_eq!(answer.refused("UNAVAILABLE")["error"], sentence);
    });
    probe.send(b"\r\n").unwrap();
    let answer = probe.receive(false).unwrap();
    answer.check_ground_rules();
    answer.refused("UNAVAILABLE");
    half.send(tail).unwrap();
    let answer = half.receive(false).unwrap();
    answer.check_ground_rules();
    answer.ok();
    assert!(idle.call("GET", "/healthz", &[], b"").is_err(), "an idle connection is closed");
    let ended = world.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!((&*ended.stdout, &*ended.stderr), ("", ""));
    for gone in ["server.json", "dibs.sock"] {
        assert!(!world.path("repo/.git/dibs").join(gone).exists(), "{gone} is left behind");
    }
    // Everything acknowledged is there again; bo got nothing.
    world.start();
    assert_eq!(world.held(), ["ana a", "ana late"]);
    assert_eq!(world.get("/api/stats", &world.reader()).ok()["waiters"], 0);
}

#[test]
fn a_second_server_on_the_same_repository_gives_up() {
    let mut world = World::new();
    world.session("ana").hold("a");
    let first = written_record(&world);
    let second = world.dibs(&["serve", "--listen", "127.0.0.1:0", "--json"]).run();
    assert_eq!(second.status.code(), Some(1));
    let talk = String::from_utf8(second.stderr).unwrap();
    assert_eq!(talk.trim_end().lines().count(), 1, "{talk}");
    let owner = format!("is already served at {}, process {};", text(&first["url"]), first["pid"]);
    assert!(talk.contains(&owner), "{talk}");
    assert!(second.stdout.is_empty());
    // The first one is unaffected, and can still be found.
    assert_eq!(written_record(&world), first);
    assert_eq!(world.held(), ["ana a"]);
    let mut unix = crate::http::Connection::open(&world.unix()).unwrap();
    unix.call("GET", "/readyz", &[], b"").unwrap().ok();
    world.stop();
}

#[test]
fn a_server_that_cannot_start_says_why_in_one_sentence() {
    let world = World::not_started();
    world.git_init("repo");
    std::fs::write(world.path("bad.toml"), "lisen = \"x\"").unwrap();
    let bad = world.path("bad.toml");
    for (args, sentence) in [
        (&["--listen", "0.0.0.0:0"][..], "--behind-proxy"),
        (&["--listen", "nowhere"], "not an address"),
        (&["--repo", "/nonexistent"], "there is no directory"),
        (&["--repo", "a=.", "--repo", "b=."], "is given twice"),
        (&["--session-timeout", "0"], "at least one second"),
        (&["--jwks", "/nonexistent"], "JWKS"),
        (&["--config", bad.to_str().unwrap()], "its configuration has errors"),
        (&["--socket", &format!("/tmp/{}", "x".repeat(200))], "too long for a Unix socket"),
    ] {
        let done = world.dibs(&[&["serve", "--json"], args].concat()).run();
        let talk = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{args:?}: {talk}");
        assert!(talk.starts_with("git-dibs: ") && talk.contains(sentence), "{args:?}: {talk}");
        assert!(done.stdout.is_empty());
        assert!(!world.path("repo/.git/dibs/server.json").exists());
    }
}

#[test]
fn a_second_server_with_data_elsewhere_is_refused_too() {
    let mut world = World::new();
    let first = written_record(&world);
    let owner = format!("process {};", first["pid"]);
    let elsewhere = world.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let refused = || {
        let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--data", elsewhere.to_str().unwrap()];
        let second = world.dibs(&args).run();
        let talk = String::from_utf8(second.stderr).unwrap();
        assert_eq!(second.status.code(), Some(1), "{talk}");
        assert!(talk.contains("is already served") && talk.contains(&owner), "{talk}");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing is written");
    };
    refused();
    assert_eq!(written_record(&world), first);
    // The owner is named even if the file with its address is gone.
    std::fs::remove_file(world.path("repo/.git/dibs/server.json")).unwrap();
    refused();
    // A server that was killed has no lock, and its address is not taken for that of a living one.
    world.kill();
    world.start();
    assert_ne!(written_record(&world)["pid"], first["pid"]);
}

#[test]
fn stopping_a_server_leaves_the_address_of_another() {
    let mut world = World::new();
    let file = world.path("repo/.git/dibs/server.json");
    let mut other = written_record(&world);
    other["pid"] = json!(1);
    std::fs::write(&file, other.to_string()).unwrap();
    world.stop();
    assert_eq!(written_record(&world), other);
}

#[test]
fn deleted_files_of_a_running_server_are_noticed() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("a");
    // The ledger may write a file while the directory is removed.
    until("the directory is removed", || std::fs::remove_dir_all(world.path("repo/.git/dibs")).ok());
    let refusal = until("it is not ready", || {
        let health = world.get("/readyz", "");
        (health.status == 503).then(|| text(&health.json()["error"]).to_owned())
    });
    assert!(refusal.contains("journal.db was deleted or replaced while the server was running"), "{refusal}");
    until("the log says it", || world.stderr().contains("was deleted or replaced").then_some(()));
    // What could not be kept is not granted either; the process itself is alive.
    ana.reserve(json!({ "filePath": "b" })).refused("UNAVAILABLE");
    world.get("/healthz", "").ok();
}

#[test]
fn a_deleted_server_json_is_written_again() {
    let mut world = World::new();
    let first = written_record(&world);
    std::fs::remove_file(world.path("repo/.git/dibs/server.json")).unwrap();
    until("it is back", || world.path("repo/.git/dibs/server.json").exists().then_some(()));
    assert_eq!(written_record(&world), first);
    world.get("/readyz", "").ok();
    world.stop();
    assert!(!world.path("repo/.git/dibs/server.json").exists());
}
