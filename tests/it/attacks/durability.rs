//! Files that are deleted, replaced, restored, damaged or without room, while the server runs and between two runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::world::{Run, World, skip, text, until};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

fn journal(world: &World, suffix: &str) -> PathBuf {
    world.path(&format!("repo/.git/dibs/journal.db{suffix}"))
}

fn ledger(world: &World) -> PathBuf {
    world.path("repo/.git/dibs/ledger.git")
}

/// What `/readyz` says about the ledger.
fn ledger_health(world: &World) -> Value {
    world.get("/readyz", "").ok()["ledger"].take()
}

/// Waits until everything that has happened is in the ledger.
fn caught_up(world: &World) {
    let latest = world.get("/api/history?limit=1", &world.reader()).ok()["events"][0]["seq"].as_u64().unwrap();
    until("the ledger has caught up", || {
        let args = ["log", "-1", "--format=%(trailers:key=Dibs-Seq,valueonly)", "ledger"];
        let tip = world.command("git", "").arg("--git-dir").arg(ledger(world)).args(args).run();
        let tip: u64 = String::from_utf8_lossy(&tip.stdout).trim().parse().unwrap_or(0);
        (tip >= latest && ledger_health(world)["ok"] == true).then_some(())
    });
}

#[track_caller]
fn verify_ledger(world: &World) -> String {
    let output = world.dibs(&["ledger", "verify"]).run();
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

#[track_caller]
fn db(world: &World, args: &[&str]) -> String {
    let output = world.dibs(&[&["db"], args].concat()).run();
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

fn fence(granted: &Value) -> u64 {
    granted["fence"].as_u64().unwrap()
}

/// A server wrote on into a deleted file, and acknowledged everything. Later it noticed, but only after up to 200 ms.
#[test]
fn nothing_is_granted_once_a_file_of_the_journal_is_gone() {
    for (suffix, replaced) in [("", false), ("", true), ("-wal", false), ("-wal", true), ("-shm", false)] {
        let world = World::new();
        let ana = world.session("ana");
        ana.hold("a");
        let file = journal(&world, suffix);
        if replaced {
            fs::copy(&file, world.path("other")).unwrap();
            fs::rename(world.path("other"), &file).unwrap();
        } else {
            fs::remove_file(&file).unwrap();
        }
        let (bearer, target) = (format!("Bearer {}", ana.token), ana.url("files/reserve"));
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let refusal = until("it is refused", || {
            // A request during which it is noticed gets no answer: it is not known what is in the file.
            let answer = world.connect().call("POST", &target, &headers, br#"{"filePath":"b"}"#).ok()?;
            assert_ne!(answer.status, 200, "granted in a deleted file");
            Some(answer.refused("UNAVAILABLE"))
        });
        assert!(refusal["error"].is_string());
        let refusal = until("it is not ready", || {
            let answer = world.get("/readyz", "");
            (answer.status != 200).then(|| answer.refused("UNAVAILABLE"))
        });
        let sentence = text(&refusal["error"]);
        assert!(sentence.contains(&format!("journal.db{suffix} was deleted or replaced")), "{sentence}");
        assert!(sentence.contains("restore a backup"), "{sentence}");
        // It stays so, and the process itself is alive.
        let refusal = ana.reserve(json!({ "filePath": "c" })).refused("UNAVAILABLE");
        assert_eq!(refusal["error"], sentence, "every client learns why");
        world.get("/healthz", "").ok();
        until("the log says it", || world.stderr().contains("was deleted or replaced").then_some(()));
    }
}

/// A restored backup gave out 15,000 fences a second time. This is the procedure of docs/operations.md.
#[test]
fn fences_never_go_back_after_a_restore() {
    let mut world = World::new();
    let copy = world.path("copy.db");
    let copy = copy.to_str().unwrap();
    world.session("ana").hold("a");
    db(&world, &["backup", copy]);
    let mut last = fence(&world.session("ana").hold("b"));
    world.session("ana").release("a");
    caught_up(&world);

    let refused = world.dibs(&["db", "restore", copy]).run();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("is in use by process"), "{}", said(&refused));
    for generation in 1..=3 {
        world.stop();
        let printed = db(&world, &["restore", copy]);
        let replaced = format!("journal.db.replaced-{generation}");
        assert!(printed.contains("as it was after record 2") && printed.contains(&replaced), "{printed}");
        assert!(journal(&world, &format!(".replaced-{generation}")).exists());
        world.start();
        assert_eq!(world.held(), ["ana a"]);
        let next = fence(&world.session("ana").hold("b"));
        assert!(next > last && next >> 40 == generation, "{next} after {last}");
        assert!(next < 1 << 53, "exact in JavaScript");
        last = next;
        caught_up(&world);
        assert_eq!(ledger_health(&world)["ok"], true);
    }
    let ledger = verify_ledger(&world);
    assert!(ledger.contains("2 reservations held"), "{ledger}");
    assert!(db(&world, &["check"]).contains("is undamaged"));

    // The history has everything, also what was undone, in the order of the numbers.
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/api/history?limit=2{cursor}"), &world.reader()).ok();
        assert!(page.get("missing").is_none_or(|missing| *missing == json!([])), "{page}");
        events.extend(page["events"].as_array().unwrap().clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|a, b| a > b), "{seqs:?}");
    let verbs: Vec<&str> = events.iter().rev().map(|event| text(&event["event"])).collect();
    assert_eq!(verbs[..4], ["opened", "reserved", "reserved", "released"]);
    assert_eq!(verbs[4..], ["restored", "reserved"].repeat(3));
    let restored = events.iter().find(|event| event["event"] == "restored").unwrap();
    assert_eq!((&restored["generation"], &restored["lastKept"]), (&json!(3), &json!(2)));
    let log = world.dibs(&["log", "--url", world.url(), "--token-file", token_file(&world).to_str().unwrap()]).run();
    assert!(said(&log).contains("restored the journal as it was after #2"), "{}", said(&log));
}

fn token_file(world: &World) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = world.path("token");
    fs::write(&file, world.reader()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// Without the ledger, the journal alone has the history.
#[test]
fn a_restore_without_a_ledger_keeps_the_history_that_is_left() {
    let mut world = World::with(&["--no-ledger"]);
    let copy = world.path("copy.db");
    world.session("ana").hold("a");
    db(&world, &["backup", copy.to_str().unwrap()]);
    let lost = fence(&world.session("ana").hold("b"));
    world.stop();
    db(&world, &["restore", copy.to_str().unwrap()]);
    world.start();
    assert!(fence(&world.session("ana").hold("b")) > lost + 1_000_000);
    let history = world.get("/api/history", &world.reader()).ok();
    let verbs: Vec<&str> = history["events"].as_array().unwrap().iter().map(|event| text(&event["event"])).collect();
    assert_eq!(verbs, ["reserved", "restored", "reserved", "opened"]);
    assert_eq!(text(&world.reservations()[0]["filePath"]), "a");
}

#[test]
fn a_restore_that_cannot_be_done_changes_nothing() {
    let mut world = World::new();
    world.session("ana").hold("a");
    world.stop();
    let before = fs::read(journal(&world, "")).unwrap();
    fs::write(world.path("diary"), "Dear diary").unwrap();
    let own = journal(&world, "");
    for (file, sentence) in [
        (world.path("diary"), "not a git-dibs journal"),
        (world.path("nothing"), "nothing"),
        (own, "is the journal itself"),
    ] {
        let refused = world.dibs(&["db", "restore", file.to_str().unwrap()]).run();
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(said(&refused).contains(sentence), "{}", said(&refused));
    }
    assert!(fs::read(journal(&world, "")).unwrap() == before);
    world.start();
    assert_eq!(world.held(), ["ana a"]);
}

/// The journal is replaced by hand, or lost: the ledger knows which numbers were given out.
#[test]
fn a_start_behind_the_ledger_gives_out_no_number_twice() {
    let mut world = World::new();
    let copy = world.path("copy.db");
    world.session("ana").hold("a");
    db(&world, &["backup", copy.to_str().unwrap()]);
    let mut last = fence(&world.session("ana").hold("b"));
    for restored in [true, false] {
        caught_up(&world);
        world.stop();
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(journal(&world, suffix));
        }
        if restored {
            fs::copy(&copy, journal(&world, "")).unwrap();
        }
        world.start();
        // The log is written beside the start, so the line may come after the server accepts connections.
        until("the log says it", || world.stderr().contains("the journal ends before the ledger").then_some(()));
        assert_eq!(world.held(), if restored { vec!["ana a"] } else { vec![] });
        let next = fence(&world.session("ana").hold("b"));
        assert!(next > last && next >> 40 > last >> 40, "{next} after {last}");
        last = next;
        caught_up(&world);
        verify_ledger(&world);
    }
    // Nothing is lost from now on, so an ordinary restart begins no generation.
    world.stop();
    world.start();
    let next = fence(&world.session("ana").hold("c"));
    assert_eq!(next >> 40, last >> 40);
}

/// An empty journal beside a ledger that could not be read began with number 1 again.
#[test]
fn a_lost_journal_beside_a_damaged_ledger_begins_no_numbers_again() {
    let mut world = World::new();
    let first = fence(&world.session("ana").hold("a"));
    caught_up(&world);
    world.stop();
    let packs = fs::read_dir(ledger(&world).join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    for pack in packs.filter(|path| path.extension().is_some_and(|ending| ending == "pack")) {
        let size = fs::metadata(&pack).unwrap().len() as usize;
        fs::remove_file(&pack).unwrap();
        fs::write(&pack, vec![0; size]).unwrap();
    }
    // The journal itself knows its numbers.
    world.start();
    let second = fence(&world.session("ana").hold("b"));
    assert!(second > first && second >> 40 == 0, "{second} after {first}");
    world.stop();
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(journal(&world, suffix));
    }
    let refused = world.command(crate::world::PROGRAM, "repo").args(["serve", "--json"]).run();
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let sentence = said(&refused);
    assert!(sentence.contains("the journal is lost") && sentence.contains("git dibs db restore"), "{sentence}");
    fs::rename(ledger(&world), world.path("aside")).unwrap();
    world.start();
    assert_eq!(world.held(), [""; 0]);
}

/// A file system of its own, mounted for one test.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path, size: &str) -> Option<Mounted> {
        fs::create_dir_all(path).unwrap();
        let options = format!("size={size},mode=700");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).try_run();
        done.is_ok_and(|done| done.status.success()).then(|| Mounted(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).try_run();
    }
}

#[test]
fn a_ledger_without_room_catches_up_when_there_is_room_again() {
    // Declared first, so that the server ends before its disk is unmounted.
    let _disk;
    let mut world = World::new();
    world.session("ana").hold("a");
    caught_up(&world);
    world.stop();
    fs::rename(ledger(&world), world.path("aside")).unwrap();
    match Mounted::at(&ledger(&world), "512k") {
        Some(mounted) => _disk = mounted,
        None => return skip("a ledger without room, because a tmpfs cannot be mounted here"),
    }
    let copied = Command::new("cp").arg("-a").arg(world.path("aside/.")).arg(ledger(&world)).run();
    assert!(copied.status.success(), "{}", said(&copied));
    let ballast = ledger(&world).join("ballast");
    // Takes all the room there is.
    let _ = fs::write(&ballast, vec![0; 1 << 20]);
    world.start();
    let keys: Vec<String> = (0..100).map(|n| format!("dir/{n}")).collect();
    world.session("ana").reserve(json!({ "filePaths": keys, "ttlSeconds": 300 })).ok();
    let health = until("the server says that there is no room", || {
        let health = ledger_health(&world);
        (health["ok"] == false && health["recordsBehind"].as_u64() > Some(0)).then_some(health)
    });
    assert_eq!(health["problem"], "full", "{health}\n{}", world.stderr());
    world.session("ana").hold("b");
    fs::remove_file(&ballast).unwrap();
    caught_up(&world);
    assert_eq!(ledger_health(&world).get("problem"), None);
    assert!(verify_ledger(&world).contains("102 reservations held"));
}

/// A flush reads nothing of the ledger, so nobody noticed until a person looked.
#[test]
fn a_damaged_pack_shows_in_the_details_of_readyz() {
    let world = World::new();
    world.session("ana").hold("a");
    caught_up(&world);
    let packs = ledger(&world).join("objects/pack");
    let pack = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
    let pack = pack.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "pack")).unwrap();
    let whole = fs::read(&pack).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0xff;
    fs::write(&pack, damaged).unwrap();
    let health = until("it is noticed", || Some(ledger_health(&world)).filter(|health| health["ok"] == false));
    assert_eq!(health["problem"], "damaged", "{health}");
    until("the log names the pack", || {
        world.stderr().contains(pack.file_name().unwrap().to_str().unwrap()).then_some(())
    });
    // Reservations do not depend on it.
    world.session("ana").hold("b");
    fs::write(&pack, whole).unwrap();
    until("it is well again", || (ledger_health(&world)["ok"] == true).then_some(()));
    caught_up(&world);
}

/// A refused start left an empty journal, a secret and a ledger behind.
#[test]
fn a_start_that_is_refused_for_its_flags_leaves_nothing_behind() {
    for flags in [&["--listen", "0.0.0.0:0"][..], &["--listen", "nonsense"], &["--socket", "/no/such/directory/x.sock"]]
    {
        let world = World::not_started();
        world.git_init("repo");
        let ended = world.command(crate::world::PROGRAM, "repo").args(["serve", "--json"]).args(flags).run();
        assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
        assert!(!world.path("repo/.git/dibs").exists(), "{flags:?}");
    }
    // A socket in the server's own directory, which does not exist yet, is fine.
    let mut world = World::not_started();
    world.git_init("repo");
    let data = world.path("data");
    let socket = data.join("x.sock");
    world.args(&["--data", data.to_str().unwrap(), "--socket", socket.to_str().unwrap()]);
    world.start();
    assert_eq!(world.record()["socket"], socket.to_str().unwrap());
}
