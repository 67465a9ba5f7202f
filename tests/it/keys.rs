//! Keys: what can be reserved, how it is written, and what conflicts. Invalid keys are in `bad_input`.

use serde_json::{Value, json};

use crate::world::{World, text};

#[test]
fn every_form_of_key_is_accepted_and_shown_as_written() {
    let world = World::new();
    let ana = world.session("ana");
    for (written, shown) in [
        ("src/api/users.py", "src/api/users.py"),
        ("./src//api/./x.py", "src/api/x.py"),
        ("src/api/", "src/api/**"),
        ("src/**/*.rs", "src/**/*.rs"),
        ("src/[ab].rs", "src/[ab].rs"),
        ("src/{a,b}.rs", "src/{a,b}.rs"),
        ("**", "**"),
        ("file:src/[id].ts", "file:src/[id].ts"),
        ("file:plain.ts", "plain.ts"),
        ("file:db:odd", "file:db:odd"),
        ("with space.txt", "with space.txt"),
        ("a:b/c", "file:a:b/c"),
        ("-dash", "-dash"),
        ("ä/ö.txt", "ä/ö.txt"),
        ("api:GET /v1/users", "api:GET /v1/users"),
        ("db:migration-slot", "db:migration-slot"),
        ("db:schema:users", "db:schema:users"),
        ("event:user.created", "event:user.created"),
        ("flag:billing/new", "flag:billing/new"),
        ("flag:billing/*", "flag:billing/*"),
        ("env:shared-fixtures", "env:shared-fixtures"),
        ("contract:openapi/v1.yaml", "contract:openapi/v1.yaml"),
        ("contract:./openapi//v2.yaml", "contract:openapi/v2.yaml"),
        ("feature:FEAT-123:pause", "feature:FEAT-123:pause"),
        ("github://acme/app/issues/42", "github://acme/app/issues/42"),
        ("Deploy://api-prod", "deploy://api-prod"),
    ] {
        let answer = ana.reserve(json!({ "filePath": written }));
        if written == "a:b/c" {
            let refusal = answer.refused("INVALID_PATH");
            assert!(text(&refusal["error"]).contains("drive letter"), "{refusal}");
            continue;
        }
        let granted = answer.ok();
        assert_eq!(text(&granted["filePath"]), shown, "{written}");
        // A key from a response can be sent back.
        let released = ana.release(shown);
        assert_eq!(released["releasedCount"], 1, "{written}");
    }
}

/// The conflict of a second session while the first one holds `held`.
fn conflict(world: &World, held: &str, asked: &str) -> Option<Value> {
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold(held);
    let answer = bo.reserve(json!({ "filePath": asked }));
    ana.post("files/release-all", json!({})).ok();
    bo.post("files/release-all", json!({})).ok();
    match answer.status {
        200 => None,
        _ => Some(answer.refused("RESOURCE_LOCKED")["conflicts"][0].take()),
    }
}

#[test]
fn two_keys_conflict_when_some_name_could_match_both() {
    let world = World::new();
    for (one, other, example) in [
        ("a/b", "a/b", None),
        ("a/b", "./a//b", None),
        ("file:a/b", "a/b", None),
        ("caf\u{e9}", "cafe\u{301}", None),
        ("src/**", "src/a.rs", Some("src/a.rs")),
        ("src/", "src/deep/a.rs", Some("src/deep/a.rs")),
        ("*.rs", "a.rs", Some("a.rs")),
        ("src/**/*.rs", "src/x/**", None),
        ("src/a*", "src/*b", None),
        ("**", "anything/at/all", Some("anything/at/all")),
        ("src/{a,b}/x", "src/[b-z]/*", Some("src/b/x")),
        ("src/[id].ts", "src/i.ts", Some("src/i.ts")),
        // A path also conflicts with anything that claims it as a directory.
        ("a", "a/b", None),
        ("a", "a/", None),
        ("a", "a/**", None),
        ("flag:billing/*", "flag:billing/new", None),
        ("flag:billing/*", "flag:billing/deep/er", None),
        ("db:schema:users", "db:schema:users", None),
        ("api:GET /v1/users", "api:GET /v1/users", None),
        ("github://a/b", "GitHub://a/b", None),
    ] {
        let globs = [one, other].iter().any(|key| key.ends_with('/') || key.contains(['*', '?', '[', '{']));
        let files = !one.contains(':') || one.starts_with("file:");
        for (held, asked) in [(one, other), (other, one)] {
            let found = conflict(&world, held, asked);
            let found = found.unwrap_or_else(|| panic!("{held} and {asked} do not conflict"));
            assert_eq!(found["reservedBy"], "ana");
            assert_eq!(found["example"].is_string(), globs && files, "{held} and {asked}: {found}");
            if let Some(example) = example {
                assert_eq!(found["example"], example, "{held} and {asked}");
            }
        }
    }
    for (one, other) in [
        ("a/b", "a/c"),
        ("a", "ab"),
        ("a/b", "A/b"),
        ("*.rs", "src/a.rs"),
        ("src/*", "src/a/b"),
        ("src/*.rs", "src/*.ts"),
        ("src/a?", "src/a"),
        ("src/[ab]", "src/[cd]"),
        ("src/**/x", "src/**/y"),
        ("file:src/[id].ts", "src/i.ts"),
        ("flag:billing/*", "flag:billing"),
        ("flag:billing/*", "flag:billings/x"),
        ("db:schema:users", "db:schema:user"),
        ("api:GET /v1/users", "api:POST /v1/users"),
        ("**", "db:migration-slot"),
        ("**", "github://acme/app"),
        ("contract:openapi/v1.yaml", "openapi/v1.yaml"),
        ("github://a/b", "gitlab://a/b"),
    ] {
        assert_eq!(conflict(&world, one, other), None, "{one} and {other}");
        assert_eq!(conflict(&world, other, one), None, "{other} and {one}");
    }
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn only_exclusive_reservations_of_others_conflict() {
    let world = World::new();
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    let shared = json!({ "filePath": "src/**", "mode": "shared" });
    assert_eq!(ana.reserve(shared.clone()).ok()["mode"], "shared");
    assert_eq!(bo.reserve(json!({ "filePath": "src/a", "mode": "collaborative" })).ok()["mode"], "collaborative");
    carl.reserve(json!({ "filePath": "src/a" })).refused("RESOURCE_LOCKED");
    ana.reserve(json!({ "filePath": "src/**", "mode": "exclusive" })).refused("RESOURCE_LOCKED");
    bo.release("src/a");
    assert_eq!(ana.hold("src/**")["mode"], "exclusive", "alone again, the holder may have it for itself");
    bo.reserve(shared.clone()).refused("RESOURCE_LOCKED");
    assert_eq!(ana.reserve(shared.clone()).ok()["mode"], "shared");
    bo.reserve(shared).ok();

    // Overlapping keys of one session are two reservations, each released by its own name.
    carl.hold("lib/**");
    carl.hold("lib/a");
    carl.release("lib/a");
    bo.reserve(json!({ "filePath": "lib/a" })).refused("RESOURCE_LOCKED");
}

#[test]
fn case_matters_unless_the_repository_ignores_it() {
    let mut world = World::not_started();
    world.git_init("repo");
    world.git_in("repo", &["config", "core.ignorecase", "true"]);
    world.start();
    for (held, asked) in [("README.md", "readme.MD"), ("Src/**", "sRC/a"), ("STRASSE", "straße"), ("É", "e\u{301}")] {
        let found = conflict(&world, held, asked).unwrap_or_else(|| panic!("{held} and {asked} do not conflict"));
        assert_eq!(found["key"], held, "shown as the holder wrote it");
    }
    assert_eq!(conflict(&world, "api:GET /V1", "api:GET /v1"), None, "only files are in a file system");
}

#[test]
fn names_that_are_not_utf8_travel_percent_encoded() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let odd = json!({ "filePath": "file:caf%E9/100%25%0A.txt", "encoding": "percent" });
    let granted = ana.reserve(odd.clone()).ok();
    assert_eq!(text(&granted["filePath"]), "file:caf%E9/100%25%0A.txt");
    assert_eq!(granted["encoding"], "percent");
    let refusal = bo.reserve(json!({ "filePath": "file:caf%e9/100%25%0a.txt", "encoding": "percent" }));
    assert_eq!(refusal.refused("RESOURCE_LOCKED")["conflicts"][0]["encoding"], "percent");
    // Without the flag a percent sign is a percent sign, and only `file:` is ever encoded.
    bo.reserve(json!({ "filePath": "file:caf%E9/100%25%0A.txt" })).ok();
    let plain = bo.reserve(json!({ "filePath": "50%25", "encoding": "percent" })).ok();
    assert_eq!(plain["filePath"], "50%25");
    for bad in ["file:%", "file:%4", "file:%zz", "file:a%00b"] {
        bo.reserve(json!({ "filePath": bad, "encoding": "percent" })).refused("INVALID_PATH");
    }
    let renewed = ana.post("files/renew", odd.clone()).ok();
    assert_eq!(renewed["reservationId"], granted["reservationId"]);
    let check = json!({ "paths": ["file:caf%E9/100%25%0A.txt"], "encoding": "percent" });
    assert_eq!(bo.post("files/check-conflicts", check.clone()).ok()["conflicts"][0]["reservedBy"], "ana");
    assert_eq!(ana.post("files/check-conflicts", check).ok()["held"], json!(["file:caf%E9/100%25%0A.txt"]));
    assert_eq!(ana.post("files/release", odd).ok()["released"], true);
}

#[test]
fn unknown_prefixes_are_refused_with_advice() {
    let world = World::new();
    let ana = world.session("ana");
    for key in ["http:x", "DB:x", "file2:a", "todo:later", "Api:GET /x"] {
        let refusal = ana.reserve(json!({ "filePath": key })).refused("OPERATION_NOT_PERMITTED");
        assert!(text(&refusal["error"]).contains(&format!("file:{key}")), "{refusal}");
        ana.hold(&format!("file:{key}"));
    }
    let refusal = ana.reserve(json!({ "filePath": "env:8080" })).refused("INVALID_KEY");
    assert!(text(&refusal["error"]).contains("allocate"), "{refusal}");
}

#[test]
fn purposes_of_features_come_from_the_configuration() {
    let mut world = World::not_started();
    world.git_init("repo");
    std::fs::write(
        world.path("dibs.toml"),
        "[policy]\npurposes = [\"review\"]\nfile-ttl = { default = 5, max = 900 }\n",
    )
    .unwrap();
    let config = world.path("dibs.toml");
    world.args(&["--config", config.to_str().unwrap()]);
    world.start();
    let ana = world.session("ana");
    ana.hold("feature:F-1:review");
    ana.hold("feature:F-1:pause");
    let refusal = ana.reserve(json!({ "filePath": "feature:F-1:deploy" })).refused("INVALID_KEY");
    assert!(text(&refusal["error"]).contains("pause, review"), "{refusal}");
    ana.reserve(json!({ "filePath": "a", "ttlSeconds": 900 })).ok();
    let refusal = ana.reserve(json!({ "filePath": "a", "ttlSeconds": 901 })).refused("TTL_OUT_OF_RANGE");
    assert_eq!((&refusal["min"], &refusal["max"]), (&json!(1), &json!(900)));
}

#[test]
fn no_encoding_reserves_the_directory_of_git_itself() {
    let world = World::new();
    let ana = world.session("ana");
    for key in ["file:%2egit/config", "file:.GI%54", "file:git~%31", "file:%ff/.git", "file:a/.git/hooks/x"] {
        ana.reserve(json!({ "filePath": key, "encoding": "percent" })).refused("INVALID_PATH");
        ana.reserve(json!({ "filePaths": ["a", key], "encoding": "percent" })).refused("INVALID_PATH");
    }
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn a_name_that_only_git_accepts_comes_back_as_it_was_sent() {
    let world = World::new();
    let ana = world.session("ana");
    for key in ["file:a%0Ab", "file:a%20", "file:a%5Cb", "file:caf%E9"] {
        let granted = ana.reserve(json!({ "filePath": key, "encoding": "percent" })).ok();
        assert_eq!(granted["encoding"], "percent", "{granted}");
        let again = json!({ "filePath": granted["filePath"], "encoding": "percent" });
        assert_eq!(ana.post("files/release", again).ok()["released"], true, "{granted}");
    }
}

#[test]
fn a_word_before_a_colon_may_begin_with_anything() {
    let world = World::new();
    let ana = world.session("ana");
    for key in ["1foo:bar", "_x:bar", "é:x", "1a://x"] {
        ana.reserve(json!({ "filePath": key })).refused("OPERATION_NOT_PERMITTED");
        ana.hold(&format!("file:{key}"));
    }
    for key in ["db:schema:a:b", "env:8080/tcp"] {
        ana.reserve(json!({ "filePath": key })).refused("INVALID_KEY");
    }
}

#[test]
fn lists_find_a_beginning_in_every_spelling() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("caf\u{e9}/a.rs");
    for prefix in ["caf%C3%A9/", "cafe%CC%81/", "./caf%C3%A9"] {
        let found = world.get(&format!("/api/reservations?prefix={prefix}"), &ana.token).ok();
        assert_eq!(found["reservations"].as_array().unwrap().len(), 1, "{prefix}");
    }
}
