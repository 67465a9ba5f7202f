//! Checks before a change: conflicts, free paths, and paths the caller holds.

use serde_json::{Value, json};

use crate::world::{World, text, time};

/// A client computes the time left from this, because its own clock may be wrong.
#[test]
fn a_check_answers_with_the_time_of_the_server() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let held = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 60 })).ok();
    let checks = [
        bo.post("files/check-conflicts", json!({ "paths": ["a"] })).ok(),
        bo.get("files/check-conflicts?paths=a").ok(),
        world.post("/api/check-conflicts", &world.reader(), json!({ "paths": ["a"] })).ok(),
    ];
    for check in checks {
        let now = time(&check["serverTime"]);
        assert!((time(&held["reservedAt"])..time(&held["expiresAt"])).contains(&now), "{check}");
    }
}

#[test]
fn a_check_lists_conflicts_in_request_order() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    let held = ana.reserve(json!({ "filePath": "src/**", "reason": "moving things" })).ok();
    bo.hold("mine");
    bo.hold("lib/*");

    let paths = ["z", "src/b", "mine", "./src//a", "lib/x", "a", "lib/deep/x"];
    let expected = |answer: &Value| {
        assert_eq!(answer["clear"], json!(["z", "mine", "lib/x", "a", "lib/deep/x"]));
        assert_eq!(answer["held"], json!(["mine", "lib/x"]), "a pattern one holds covers what it matches");
        let found: Vec<_> = answer["conflicts"].as_array().unwrap().iter().map(|c| text(&c["filePath"])).collect();
        assert_eq!(found, ["src/b", "./src//a"], "as the request wrote them");
        let conflict = &answer["conflicts"][0];
        for (field, value) in [
            ("key", &json!("src/**")),
            ("reservedBy", &json!("ana")),
            ("reservedByName", &json!("Ana")),
            ("mode", &json!("exclusive")),
            ("reason", &json!("moving things")),
            ("expiresAt", &held["expiresAt"]),
            ("example", &json!("src/b")),
        ] {
            assert_eq!(conflict[field], *value, "{field}");
        }
        assert!(answer.get("paused").is_none());
    };
    let call = "files/check-conflicts";
    expected(&bo.post(call, json!({ "paths": paths })).ok());
    expected(&bo.post(call, json!({ "filePaths": paths })).ok());
    expected(&bo.get(&format!("{call}?paths={}", paths.join(","))).ok());
    let repeated = paths.map(|path| format!("path={path}")).join("&");
    expected(&bo.get(&format!("{call}?{repeated}")).ok());
    expected(&world.get(&bo.url(&format!("{call}?{repeated}")), &world.reader()).ok());
    assert_eq!(world.held().len(), 3, "a check changes nothing");
}

#[test]
fn a_query_can_name_everything_a_body_can() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    for key in ["a,b", "with space", "per%cent", "plus+sign", "ä", "file:src/[id].ts", "amp&ersand"] {
        ana.hold(key);
    }
    ana.reserve(json!({ "filePath": "file:caf%E9", "encoding": "percent" })).ok();
    let conflicts = |query: &str| {
        let answer = bo.get(&format!("files/check-conflicts?{query}")).ok();
        let found = answer["conflicts"].as_array().unwrap().iter().map(|c| text(&c["filePath"]).to_owned());
        found.collect::<Vec<_>>()
    };
    assert_eq!(conflicts("path=a,b"), ["a,b"]);
    assert_eq!(conflicts("paths=a,b"), ["a,b"], "a comma separates, except in a name that is held");
    assert_eq!(
        conflicts("path=a%2Cb&paths=with%20space,%C3%A4&path=with+space"),
        ["a,b", "with space", "ä", "with space"]
    );
    assert_eq!(conflicts("paths=per%25cent,plus%2Bsign,amp%26ersand"), ["per%cent", "plus+sign", "amp&ersand"]);
    assert_eq!(conflicts("path=file:src/[id].ts"), ["file:src/[id].ts"]);
    assert_eq!(conflicts("path=file:caf%25E9&encoding=percent"), ["file:caf%E9"]);
    assert_eq!(conflicts("path=file:caf%25E9"), [""; 0], "without the flag it is another name");
    assert_eq!(conflicts("paths="), [""; 0]);
    for bad in ["files/check-conflicts", "files/check-conflicts?x=y"] {
        bo.get(bad).refused("INVALID_REQUEST");
    }
    bo.get("files/check-conflicts?path=").refused("INVALID_PATH");
    bo.get("files/check-conflicts?paths=a,../b").refused("INVALID_PATH");
    assert_eq!(bo.get("files/check-conflicts?paths=a,,b").ok()["clear"].as_array().unwrap().len(), 2);
    bo.get("files/check-conflicts?path=a&mode=both").refused("INVALID_REQUEST");
}

#[test]
fn without_a_session_every_reservation_is_a_conflict() {
    let world = World::new();
    let (ana, reader) = (world.session("ana"), world.reader());
    ana.hold("a");
    ana.reserve(json!({ "filePath": "s", "mode": "shared" })).ok();
    for token in [&reader, &ana.token, &world.admin(), &world.token(json!({ "sub": "w", "scope": "worker" }))] {
        for field in ["paths", "filePaths"] {
            let answer = world.post("/api/check-conflicts", token, json!({ field: ["a", "b", "s"] })).ok();
            let found: Vec<_> = answer["conflicts"].as_array().unwrap().iter().map(|c| text(&c["filePath"])).collect();
            assert_eq!(found, ["a", "s"]);
            assert_eq!((&answer["clear"], &answer["held"]), (&json!(["b"]), &json!([])));
        }
    }
    // A session does not conflict with itself, and a shared check does not conflict with shared holders.
    let own = ana.post("files/check-conflicts", json!({ "paths": ["a", "b", "s"] })).ok();
    assert_eq!((&own["conflicts"], &own["held"]), (&json!([]), &json!(["a", "s"])));
    let shared = world.post("/api/check-conflicts", &reader, json!({ "paths": ["s", "a"], "mode": "shared" })).ok();
    assert_eq!(shared["clear"], json!(["s"]));
    let whole = world.post("/api/check-conflicts", &reader, json!({ "paths": ["**"] })).ok();
    assert_eq!(whole["conflicts"].as_array().unwrap().len(), 2, "one for each reservation in the way");
}

#[test]
fn a_check_takes_a_hundred_thousand_paths() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.reserve(json!({ "filePaths": ["src/module7/**", "src/module42/file42.rs"] })).ok();
    let paths: Vec<String> = (0..100_000).map(|n| format!("src/module{}/file{n}.rs", n % 1000)).collect();
    let answer = bo.post("files/check-conflicts", json!({ "paths": paths })).ok();
    let found: Vec<_> = answer["conflicts"].as_array().unwrap().iter().map(|c| text(&c["filePath"])).collect();
    let held = |path: &&String| path.starts_with("src/module7/") || *path == "src/module42/file42.rs";
    assert!(found.iter().eq(paths.iter().filter(held)), "{} conflicts", found.len());
    let clear = answer["clear"].as_array().unwrap();
    assert!(clear.iter().map(text).eq(paths.iter().filter(|path| !held(path))), "{} are clear", clear.len());
    assert_eq!(world.post("/api/check-conflicts", &world.reader(), json!({ "paths": [] })).ok()["clear"], json!([]));
}

/// Regression: the same notice was repeated for every two thousand paths.
#[test]
fn a_large_check_delivers_a_notice_once() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    bo.post("unlock-requests", json!({ "filePath": "a", "reason": "mine" })).expect(201);
    let paths: Vec<String> = (0..10_000).map(|n| format!("file{n}")).collect();
    let answer = ana.post("files/check-conflicts", json!({ "paths": paths })).ok();
    assert_eq!(answer["clear"].as_array().unwrap().len(), 10_000);
    let notices = answer["notices"].as_array().unwrap();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((&notices[0]["kind"], &notices[0]["requestedBy"]), (&json!("unlockRequested"), &json!("bo")));
    time(&notices[0]["requestedAt"]);
}

#[test]
fn shared_holders_may_change_a_path_beside_each_other() {
    let world = World::new();
    let (ana, bo, cy) = (world.session("ana"), world.session("bo"), world.session("cy"));
    for session in [&ana, &bo] {
        session.reserve(json!({ "filePath": "shared", "mode": "shared" })).ok();
    }
    bo.reserve(json!({ "filePath": "docs/**", "mode": "shared" })).ok();
    bo.hold("exclusive");
    let paths = ["shared", "docs/a", "exclusive", "free"];
    let call = "files/check-conflicts";
    let in_the_way = |answer: Value| {
        let conflicts = answer["conflicts"].as_array().unwrap().iter();
        (conflicts.map(|c| text(&c["filePath"]).to_owned()).collect::<Vec<_>>(), answer["held"].clone())
    };
    let check = |session: &crate::world::Session<'_>, intent: &str| {
        let query = paths.map(|path| format!("path={path}")).join("&");
        let by_body = in_the_way(session.post(call, json!({ "paths": paths, "intent": intent })).ok());
        assert_eq!(in_the_way(session.get(&format!("{call}?{query}&intent={intent}")).ok()), by_body);
        by_body
    };
    let found = |paths: &[&str], held: &[&str]| (paths.iter().map(|path| (*path).to_owned()).collect(), json!(held));
    assert_eq!(check(&ana, "change"), found(&["docs/a", "exclusive"], &["shared"]));
    assert_eq!(check(&ana, "look"), found(&["exclusive"], &["shared"]));
    assert_eq!(check(&cy, "change"), found(&["shared", "shared", "docs/a", "exclusive"], &[]));
    assert_eq!(check(&cy, "look"), found(&["exclusive"], &[]));
    let without = in_the_way(ana.post(call, json!({ "paths": paths })).ok());
    assert_eq!(without, found(&["shared", "docs/a", "exclusive"], &[]), "without an intent, for a reservation");
    ana.post(call, json!({ "paths": paths, "intent": "both" })).refused("INVALID_REQUEST");
    ana.get(&format!("{call}?path=shared&intent=both")).refused("INVALID_REQUEST");
    let reader = world.post("/api/check-conflicts", &world.reader(), json!({ "paths": paths, "intent": "look" })).ok();
    assert_eq!(in_the_way(reader), found(&["exclusive"], &[]));
}

fn blob(number: usize) -> String {
    format!("{number:040x}")
}

#[test]
fn content_that_the_holder_committed_may_be_carried_also_after_a_kill() {
    let mut world = World::new();
    let call = "files/check-conflicts";
    {
        let ana = world.session("ana");
        ana.reserve(json!({ "filePath": "src/**", "ttlSeconds": 300 })).ok();
        let paths = ["src/a", "src/b", "src/a", "free"];
        let own = json!({
            "paths": paths, "blobs": [blob(1), blob(0), blob(3), blob(4)], "intent": "change", "record": true,
        });
        let answer = ana.post(call, own.clone()).ok();
        assert_eq!((&answer["clear"], &answer["held"]), (&json!(paths), &json!(["src/a", "src/b", "src/a"])));
        assert!(answer.get("carried").is_none(), "{answer}");
        let seq = || world.get("/api/history?limit=1", &world.admin()).ok();
        let before = seq();
        ana.post(call, own).ok();
        assert_eq!(seq(), before, "what is known is not recorded again");
    }
    for again in [false, true] {
        if again {
            world.kill();
            world.start();
        }
        let (bo, reader) = (world.session("bo"), world.reader());
        let carried = json!({
            "paths": ["src/a", "src/a", "src/a", "src/b", "src/b"],
            "blobs": [blob(1), blob(2), blob(3), blob(0), blob(1)], "intent": "change",
        });
        let checks =
            [bo.post(call, carried.clone()).ok(), world.post("/api/check-conflicts", &reader, carried.clone()).ok()];
        for answer in checks {
            assert_eq!(answer["carried"], json!(["src/a", "src/a", "src/b"]), "{answer}");
            assert_eq!(answer["clear"], answer["carried"]);
            let found: Vec<_> = answer["conflicts"].as_array().unwrap().iter().map(|c| text(&c["filePath"])).collect();
            assert_eq!(found, ["src/a", "src/b"], "one row for each path and content");
        }
        let mut reserve = carried;
        reserve["intent"] = Value::Null;
        let answer = bo.post(call, reserve).ok();
        assert_eq!(answer["conflicts"].as_array().unwrap().len(), 5, "a reservation carries nothing");
    }
}

#[test]
fn only_a_session_records_what_it_commits() {
    let world = World::new();
    let (ana, bo, reader) = (world.session("ana"), world.session("bo"), world.reader());
    ana.hold("a");
    let body = json!({ "paths": ["a"], "blobs": [blob(1)], "intent": "change", "record": true });
    let call = "files/check-conflicts";
    world.post(&ana.url(call), &reader, body.clone()).ok();
    world.post("/api/check-conflicts", &ana.token, body.clone()).ok();
    bo.post(call, body.clone()).ok();
    world.post(&ana.url(call), &bo.token, body.clone()).refused("FORBIDDEN");
    let carried = || world.post("/api/check-conflicts", &reader, body.clone()).ok()["carried"].clone();
    assert_eq!(carried(), Value::Null);
    ana.post(call, body.clone()).ok();
    assert_eq!(carried(), json!(["a"]));
}

#[test]
fn a_check_names_one_content_for_each_path() {
    let world = World::new();
    let ana = world.session("ana");
    for (blobs, field) in [
        (json!([blob(1)]), "blobs"),
        (json!([]), "blobs"),
        (json!([blob(1), "12"]), "blobs[1]"),
        (json!([blob(1), "g".repeat(40)]), "blobs[1]"),
    ] {
        let body = json!({ "paths": ["a", "b"], "blobs": blobs, "intent": "change" });
        assert_eq!(ana.post("files/check-conflicts", body).refused("INVALID_REQUEST")["field"], field);
    }
    let sha256 = json!({ "paths": ["a"], "blobs": ["AB".repeat(32)], "intent": "change", "record": true });
    assert_eq!(ana.post("files/check-conflicts", sha256).ok()["clear"], json!(["a"]));
    let none = json!({ "paths": ["a"], "blobs": null, "record": null });
    assert_eq!(ana.post("files/check-conflicts", none).ok()["clear"], json!(["a"]));
}

/// A large commit is recorded in pieces.
#[test]
fn a_holder_may_commit_thousands_of_files() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("src/");
    let paths: Vec<String> = (0..5_000).map(|n| format!("src/file{n}")).collect();
    let mut body = json!({ "paths": paths, "blobs": vec![blob(7); paths.len()], "intent": "change", "record": true });
    ana.post("files/check-conflicts", body.clone()).ok();
    body["record"] = json!(false);
    let answer = bo.post("files/check-conflicts", body).ok();
    assert_eq!((answer["carried"].as_array().unwrap().len(), &answer["conflicts"]), (5_000, &json!([])));
}

#[test]
fn a_list_of_paths_in_a_query_may_have_spaces_and_empty_items() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    ana.reserve(json!({ "filePath": "notes, v2.txt" })).ok();
    let check = |query: &str| bo.get(&format!("files/check-conflicts?{query}")).ok();
    let reply = check("paths=a,%20b%20,,%20");
    assert_eq!((&reply["conflicts"][0]["filePath"], &reply["clear"]), (&json!("a"), &json!(["b"])));
    let reply = check("paths=notes,%20v2.txt");
    assert_eq!(reply["conflicts"][0]["filePath"], "notes, v2.txt", "a comma in a name that is held");
    assert_eq!(check("paths=other,%20v2.txt")["clear"], json!(["other", "v2.txt"]));
    assert_eq!(check("paths=")["clear"], json!([]));
    for token in [world.reader(), world.admin()] {
        let listed = world.get("/api/sessions/ana/reserved-files", &token).ok();
        assert_eq!(listed["reservations"].as_array().unwrap().len(), 2, "of another session");
    }
    world.get("/api/sessions/ana/reserved-files", &bo.token).refused("FORBIDDEN");
}

#[test]
fn a_name_with_a_comma_hides_no_conflict() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("x1,x2");
    bo.hold("x1");
    let checked = ana.get("files/check-conflicts?paths=x1,x2").ok();
    assert_eq!(checked["conflicts"][0]["filePath"], "x1", "{checked}");
    assert_eq!(checked["clear"], json!(["x1,x2", "x2"]));
}

#[test]
fn a_query_that_is_not_utf8_is_refused() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.reserve(json!({ "filePath": "file:%FF", "encoding": "percent" })).ok();
    bo.get("files/check-conflicts?path=%ff").refused("INVALID_REQUEST");
    let checked = bo.get("files/check-conflicts?path=file:%25FF&encoding=percent").ok();
    assert_eq!(checked["conflicts"].as_array().unwrap().len(), 1);
}
