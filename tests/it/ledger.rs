//! The ledger: written to git in the background, and read over HTTP.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::world::{Run, World, text, until};

fn ledger(world: &World) -> PathBuf {
    world.path("repo/.git/dibs/ledger.git")
}

fn git(world: &World, args: &[&str]) -> Option<String> {
    let output = world.command("git", "").arg("--git-dir").arg(ledger(world)).args(args).run();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// How far the ledger is behind, according to the server.
fn health(world: &World) -> Value {
    world.get("/readyz", "").ok()["ledger"].take()
}

fn caught_up(world: &World) {
    until("the ledger has caught up", || {
        let health = health(world);
        // The ledger's thread reads the journal from time to time, so its figure may be older than the last grant.
        let tip = git(world, &["log", "-1", "--format=%(trailers:key=Dibs-Seq,valueonly)", "ledger"])?;
        let tip: u64 = tip.trim().parse().unwrap();
        let latest = world.get("/api/history?limit=1", &world.reader()).ok()["events"][0]["seq"].as_u64()?;
        (health["ok"] == true && health["recordsBehind"] == 0 && tip >= latest).then_some(())
    });
}

/// The tree and the server must agree on what is held.
#[track_caller]
fn tree_is_right(world: &World) {
    let lines =
        git(world, &["grep", "-h", "-e", "", "ledger", "--", ".", ":(exclude).dibs/events"]).unwrap_or_default();
    let told = |one: &Value, path: &str, id: &str, session: &str, name: &str| {
        let fields = [&one[path], &one[session], &one[id], &one["mode"], &one["reason"], &one["fence"], &one[name]];
        fields.map(Value::to_string).join(" ")
    };
    let tree: BTreeSet<String> =
        lines.lines().map(|line| told(&serde_json::from_str(line).unwrap(), "key", "id", "session", "name")).collect();
    let held: BTreeSet<String> = world
        .reservations()
        .iter()
        .map(|one| told(one, "filePath", "reservationId", "sessionId", "sessionName"))
        .collect();
    assert_eq!(tree, held);
}

fn verify(world: &World) -> String {
    let output = world.dibs(&["ledger", "verify"]).run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn plain_git_shows_who_holds_a_file() {
    let mut world = World::new();
    let ana = world.session_with("ana", json!({ "name": "Ana" }));
    ana.reserve(json!({ "filePaths": ["src/a.rs", "src/b.rs"], "reason": "splitting it" })).ok();
    caught_up(&world);
    let held: Value = serde_json::from_str(&git(&world, &["show", "ledger:src/a.rs"]).unwrap()).unwrap();
    assert_eq!((text(&held["session"]), text(&held["name"]), text(&held["reason"])), ("ana", "Ana", "splitting it"));
    assert_eq!(text(&held["mode"]), "exclusive");
    tree_is_right(&world);
    // A server writes the rest of the ledger before it stops.
    world.session("ana").release("src/a.rs");
    world.stop();
    assert_eq!(git(&world, &["log", "--format=%s", "ledger", "--", "src/a.rs"]).unwrap().lines().count(), 2);
    assert_eq!(git(&world, &["show", "ledger:src/a.rs"]), None);
}

#[test]
fn after_a_kill_the_tree_shows_what_is_held() {
    let mut world = World::new();
    let keys = ["a", "a/b", "src/x.rs", "src/**", "db:schema:slot", "deploy://prod", ".gitmodules", "file:[z]", "é"];
    let mut dice = 11_u64;
    let mut roll = move |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    for cycle in 0..8 {
        for n in 0..30 + roll(120) {
            let session = world.session(&format!("s{}-{}", roll(3), cycle / 3));
            let key = keys[roll(keys.len() as u64) as usize];
            match roll(5) {
                0..=2 => {
                    let mode = if roll(2) == 0 { "shared" } else { "exclusive" };
                    session.reserve(json!({ "filePath": key, "mode": mode, "ttlSeconds": 300 }));
                }
                3 => {
                    session.post("files/release", json!({ "filePath": key }));
                }
                _ if n % 10 == 0 => {
                    session.post("files/release-all", json!({}));
                }
                _ => {}
            }
        }
        if roll(2) == 0 {
            // So that some kills hit a flush, at a random point of it.
            std::thread::sleep(std::time::Duration::from_millis(400 + roll(200)));
        }
        world.kill();
        match cycle {
            3 => std::fs::remove_dir_all(ledger(&world)).unwrap_or_default(),
            5 if ledger(&world).exists() => {
                std::fs::write(ledger(&world).join("refs/heads/ledger.lock"), "half").unwrap();
                std::fs::write(ledger(&world).join("objects/pack/tmp_dibs_pack"), "half").unwrap();
            }
            _ => {}
        }
        world.start();
        caught_up(&world);
        tree_is_right(&world);
        verify(&world);
    }
    assert!(git(&world, &["fsck", "--strict", "--no-dangling"]).is_some());
}

#[test]
fn grants_continue_when_git_fails_and_the_ledger_catches_up() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("a");
    caught_up(&world);
    let packs = ledger(&world).join("objects/pack");
    let away = ledger(&world).join("objects/away");
    std::fs::rename(&packs, &away).unwrap();
    std::fs::write(&packs, "in the way").unwrap();
    ana.hold("b");
    ana.hold("c");
    let health = until("it says so", || Some(health(&world)).filter(|health| health["ok"] == false));
    assert!(health["recordsBehind"].as_u64().unwrap() > 0, "{health}");
    ana.hold("d");
    until("the log says so too", || world.stderr().contains("the ledger cannot be written").then_some(()));
    std::fs::remove_file(&packs).unwrap();
    std::fs::rename(&away, &packs).unwrap();
    caught_up(&world);
    tree_is_right(&world);
    verify(&world);
}

#[test]
fn a_repository_that_is_not_a_ledger_is_left_alone() {
    let mut world = World::not_started();
    world.git_init("repo");
    std::fs::create_dir_all(ledger(&world)).unwrap();
    std::fs::write(ledger(&world).join("diary"), "Dear diary").unwrap();
    world.start();
    world.session("ana").hold("a");
    until("the log says so", || world.stderr().contains("is not a git-dibs ledger").then_some(()));
    assert_eq!(std::fs::read_dir(ledger(&world)).unwrap().count(), 1);
    assert_eq!(health(&world)["ok"], false);
    std::fs::rename(ledger(&world), world.path("diary")).unwrap();
    caught_up(&world);
    tree_is_right(&world);
}

#[test]
fn no_ledger_is_written_when_it_is_off() {
    let world = World::with(&["--no-ledger"]);
    world.session("ana").hold("a");
    assert_eq!(health(&world), Value::Null);
    assert_eq!(world.get("/api/history", &world.reader()).ok()["events"].as_array().unwrap().len(), 2);
    assert!(!ledger(&world).exists());
}

/// Regression, found by schemathesis: a cursor that names an unknown commit was reported as a damaged ledger.
#[test]
fn a_cursor_whose_commit_is_gone_still_works() {
    let world = World::new();
    let ana = world.session("ana");
    for key in ["a", "b", "c"] {
        ana.hold(key);
    }
    caught_up(&world);
    let seen = |cursor: &str| -> Vec<u64> {
        let page = world.get(&format!("/api/history?cursor={cursor}"), &world.reader()).ok();
        page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seen(&format!("4-{}", "c0ffee42".repeat(5))), seen("4"));
    assert_eq!(seen("4"), [3, 2, 1]);
    assert_eq!(health(&world)["ok"], true);
}

#[test]
fn the_history_of_a_path_includes_keys_that_covered_it() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    ana.reserve(json!({ "filePath": "src/**", "reason": "all of it" })).ok();
    ana.release("src/**");
    bo.hold("src/a.rs");
    bo.hold("docs/a.md");
    bo.end();
    let history = |query: &str| world.get(&format!("/api/history?{query}"), &world.reader()).ok();
    let told = |list: &Value| -> Vec<String> {
        let one = |one: &Value| {
            let path = one["filePath"].as_str().unwrap_or("-");
            let why = one["why"].as_str().or(one["state"].as_str()).unwrap_or("-");
            format!("{} {} {path} {why}", text(&one["event"]), text(&one["sessionId"]))
        };
        list["events"].as_array().unwrap().iter().map(one).collect()
    };
    let path = history("path=src/a.rs");
    let expected = [
        "released bo src/a.rs ended",
        "reserved bo src/a.rs -",
        "released ana src/** released",
        "reserved ana src/** -",
    ];
    assert_eq!(told(&path), expected);
    let grant = &path["events"][3];
    assert_eq!((text(&grant["sessionName"]), text(&grant["reason"])), ("Ana", "all of it"));
    assert_eq!((text(&grant["mode"]), &grant["ttlSeconds"]), ("exclusive", &json!(60)));
    let ended = told(&history("session=bo"));
    assert_eq!(ended[..3], ["released bo docs/a.md ended", "released bo src/a.rs ended", "ended bo - completed"]);
    assert_eq!(told(&history("session=bo&path=docs/")).len(), 2);
    assert_eq!(told(&history("since=2999-01-01T00:00:00Z")), [""; 0]);

    // All pages together give the same list, also for a session's token.
    let whole = told(&history(""));
    assert_eq!(whole.len(), 9);
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/api/history?limit=2{cursor}"), &ana.token).ok();
        pages.extend(told(&page));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(pages, whole);
    for bad in ["cursor=x", "cursor=0", "cursor=5-12", "limit=0", "since=yesterday", "session=%20", "encoding=x"] {
        world.get(&format!("/api/history?{bad}"), &world.reader()).refused("INVALID_REQUEST");
    }
    world.get("/api/history?path=/etc", &world.reader()).refused("INVALID_PATH");
    world.get("/api/history", "").refused("UNAUTHENTICATED");
    world.get("/api/history", &bo.token).refused("SESSION_ENDED");
}
