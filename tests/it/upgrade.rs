//! Going from one version to the next: journals and requests that an earlier version wrote, in `fixtures/upgrade/`.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::mint;
use crate::world::{Run, World, skip, text};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/upgrade/format-2").join(name)
}

fn journal(world: &World) -> PathBuf {
    world.path("repo/.git/dibs/journal.db")
}

/// A repository with the journal of an earlier version, and no server yet.
fn earlier(name: &str) -> World {
    let world = World::not_started();
    world.git_init("repo");
    fs::create_dir_all(world.path("repo/.git/dibs")).unwrap();
    fs::copy(fixture(name), journal(&world)).unwrap();
    fs::set_permissions(journal(&world), fs::Permissions::from_mode(0o600)).unwrap();
    world
}

fn format_of(path: &Path) -> i64 {
    let db = rusqlite::Connection::open(path).unwrap();
    db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// A list of objects with only these fields.
fn only(list: &Value, fields: &[&str]) -> Vec<Vec<Value>> {
    list.as_array().unwrap().iter().map(|one| fields.iter().map(|field| one[*field].clone()).collect()).collect()
}

#[test]
fn a_journal_of_an_earlier_version_is_continued() {
    for name in ["journal.db", "journal-with-snapshot.db"] {
        let answers: Value = serde_json::from_slice(&fs::read(fixture("answers.json")).unwrap()).unwrap();
        let mut world = earlier(name);
        world.start();
        let admin = world.admin();
        let fields = ["reservationId", "filePath", "sessionId", "sessionName", "mode", "reason", "reservedAt", "fence"];
        let held = world.get("/api/reservations?limit=1000", &admin).ok();
        assert_eq!(only(&held["reservations"], &fields), only(&answers["reservations"]["reservations"], &fields));
        let fields = ["sessionId", "state", "name", "feature", "startedAt", "endedAt", "heldCount"];
        let sessions = world.get("/api/sessions", &admin).ok();
        assert_eq!(only(&sessions["sessions"], &fields), only(&answers["sessions"]["sessions"], &fields));
        let stats = world.get("/api/stats", &admin).ok();
        for field in ["totalLocks", "activeLocks", "expiredLocks", "sessions"] {
            assert_eq!(stats[field], answers["stats"][field], "{field}");
        }
        // Refused deadlocks are conflicts too; earlier versions did not count them as such.
        assert!(stats["conflictsDetected"].as_u64() >= answers["stats"]["conflictsDetected"].as_u64(), "{stats}");
        let fields =
            ["id", "reservationId", "filePath", "requestedBy", "reason", "requestedAt", "status", "respondedBy"];
        let requests = world.get("/api/sessions/ana/unlock-requests", &admin).ok();
        assert_eq!(only(&requests["incoming"], &fields), only(&answers["unlockRequests"]["incoming"], &fields));

        // The past is as it was told then, as far as the journal goes back.
        let oldest = if name == "journal.db" { 1 } else { 40 };
        let of_then = |list: &Value| -> Vec<Value> {
            let mut events = list["events"].as_array().unwrap().clone();
            events.retain(|event| (oldest..=117).contains(&event["seq"].as_u64().unwrap()));
            for event in &mut events {
                // What later versions added.
                for field in ["sessionName", "reservationIds"] {
                    event.as_object_mut().unwrap().remove(field);
                }
            }
            events
        };
        let history = world.get("/api/history?limit=1000", &admin).ok();
        let (past, now) = (of_then(&answers["history"]), of_then(&history));
        assert!(past.len() > 70);
        for (past, now) in past.iter().zip(&now) {
            assert_eq!(past, now);
        }
        assert_eq!(past.len(), now.len());

        // Its sessions go on, and its numbers too.
        let ana = world.session("ana");
        assert!(ana.post("heartbeat", json!({})).ok()["renewedCount"].as_u64() > Some(10));
        let fence = ana.hold("new")["fence"].as_u64().unwrap();
        assert!((118..200).contains(&fence), "{fence}");
        let worker = world.token(json!({ "sub": "w2", "iss": "hub", "scope": "worker" }));
        world.post("/api/sessions/run2/heartbeat", &worker, json!({})).ok();
        world.session("run2").reserve(json!({ "filePath": "x" })).refused("FORBIDDEN");
        world.session("e-completed").reserve(json!({ "filePath": "x" })).refused("SESSION_ENDED");

        // The journal as it was is beside it, and the log names it.
        let copy = journal(&world).with_file_name("journal.db.format-2");
        assert!(world.stderr().contains(copy.to_str().unwrap()), "{}", world.stderr());
        world.stop();
        assert_eq!(format_of(&copy), 2);
        assert!(format_of(&journal(&world)) > 2);
        let read = |path: &Path| -> Vec<(i64, String)> {
            let db = rusqlite::Connection::open(path).unwrap();
            let mut rows = db.prepare("SELECT first, records FROM batch ORDER BY first").unwrap();
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
        };
        fs::copy(fixture(name), world.path("fixture.db")).unwrap();
        assert_eq!(read(&copy), read(&world.path("fixture.db")));
        world.start();
        assert!(!world.stderr().contains("format"), "the next start has nothing to upgrade: {}", world.stderr());
    }
}

#[test]
fn a_journal_that_cannot_be_copied_for_lack_of_room_is_not_upgraded() {
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(&self.0).try_run();
        }
    }
    let _disk;
    let mut world = World::not_started();
    world.git_init("repo");
    let dir = world.path("repo/.git/dibs");
    fs::create_dir_all(&dir).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=80k,mode=700", "tmpfs"]).arg(&dir).try_run();
    if !mount.is_ok_and(|done| done.status.success()) {
        return skip("an upgrade without room, because a tmpfs cannot be mounted here");
    }
    _disk = Mounted(dir.clone());
    fs::copy(fixture("journal.db"), journal(&world)).unwrap();
    let ended = world.start_and_fail();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("nothing was changed"), "{}", ended.stderr);
    assert!(ended.stderr.contains("free some space there"), "{}", ended.stderr);
    assert!(fs::read(journal(&world)).unwrap() == fs::read(fixture("journal.db")).unwrap());
    let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.contains("format-")).collect();
    assert_eq!(left, [""; 0], "no half of a copy");

    let more = Command::new("mount").args(["-o", "remount,size=4m"]).arg(&dir).run();
    assert!(more.status.success());
    world.start();
    assert!(!world.held().is_empty());
}

#[test]
fn a_journal_of_a_later_version_is_refused_and_left_alone() {
    let mut world = World::new();
    world.session("ana").hold("a");
    world.stop();
    let known = format_of(&journal(&world));
    rusqlite::Connection::open(journal(&world)).unwrap().pragma_update(None, "user_version", known + 1).unwrap();
    let before = fs::read(journal(&world)).unwrap();
    let ended = world.start_and_fail();
    assert_eq!(ended.status.code(), Some(1));
    let sentence = format!("has format {}, and this git-dibs knows formats up to {known}", known + 1);
    assert!(ended.stderr.contains(&sentence), "{}", ended.stderr);
    assert!(ended.stderr.contains("use the newer git-dibs that wrote it"), "{}", ended.stderr);
    assert!(fs::read(journal(&world)).unwrap() == before);
    let checked = world.dibs(&["db", "check"]).run();
    assert_eq!(checked.status.code(), Some(1));
}

/// Every request of the commands and hooks of an earlier version gets an answer that it can read.
#[test]
fn a_client_of_an_earlier_version_works() {
    let mut world = World::not_started();
    world.git_init("repo");
    world.start();
    let lines = fs::read_to_string(fixture("client.jsonl")).unwrap();
    // What the server chose then, and what it chooses now.
    let mut chosen: HashMap<String, String> = HashMap::new();
    let mut tokens: HashMap<String, String> = HashMap::new();
    for line in lines.lines() {
        let line = chosen.iter().fold(line.to_owned(), |line, (then, now)| line.replace(then, now));
        let call: Value = serde_json::from_str(&line).unwrap();
        let what = format!("{}: {} {}", text(&call["command"]), text(&call["method"]), text(&call["target"]));
        let mut headers: Vec<(&str, &str)> =
            call["headers"].as_object().unwrap().iter().map(|(name, value)| (&**name, text(value))).collect();
        let mut claims = call["claims"].clone();
        let token = match tokens.get(claims["sub"].as_str().unwrap_or_default()) {
            Some(token) => token.clone(),
            None => {
                if call["issued"] == true {
                    claims["iat"] = mint::now().into();
                }
                world.token(claims.clone())
            }
        };
        let bearer = format!("Bearer {token}");
        if call["claims"].is_object() {
            headers.push(("authorization", &bearer));
        }
        let body = call.get("body").map(Value::to_string).unwrap_or_default();
        let answer = world.send(text(&call["method"]), text(&call["target"]), &headers, body.as_bytes());
        assert_eq!(u64::from(answer.status), call["status"].as_u64().unwrap(), "{what}: {answer}");
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        compare(&what, &call["reply"], &answer, &mut chosen);
        if let Some(token) = answer["token"].as_str() {
            tokens.insert(text(&answer["sessionId"]).to_owned(), token.to_owned());
        }
    }
    assert!(chosen.len() > 5);
}

/// What the client of then found in the answer must still be there, and be of the same type. Ids are collected.
fn compare(what: &str, then: &Value, now: &Value, chosen: &mut HashMap<String, String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (field, value) in then {
                // An absent list is an empty one.
                let empty = value.as_array().is_some_and(Vec::is_empty) && !now.contains_key(field);
                if ["events", "error", "token"].contains(&&**field) || empty {
                    continue;
                }
                let found = now.get(field).unwrap_or_else(|| panic!("{what}: {field} is missing in {now:?}"));
                compare(&format!("{what}: {field}"), value, found, chosen);
            }
            collect(then, now, chosen);
        }
        (Value::Array(then), Value::Array(now)) => {
            assert_eq!(then.len(), now.len(), "{what}: {now:?}");
            then.iter().zip(now).for_each(|(then, now)| compare(what, then, now, chosen));
        }
        (Value::Null, _) => {}
        (Value::String(then), Value::String(now)) => {
            let is_word = |text: &str| text.len() < 20 && !text.contains(|c: char| c.is_ascii_digit());
            assert!(!is_word(then) || then == now, "{what}: {now} instead of {then}");
        }
        _ => assert_eq!(std::mem::discriminant(then), std::mem::discriminant(now), "{what}: {now} instead of {then}"),
    }
}

fn collect(then: &Map<String, Value>, now: &Map<String, Value>, chosen: &mut HashMap<String, String>) {
    for field in ["id", "requestId", "reservationId"] {
        if let (Some(Value::String(then)), Some(Value::String(now))) = (then.get(field), now.get(field))
            && then != now
        {
            chosen.insert(then.clone(), now.clone());
        }
    }
}
