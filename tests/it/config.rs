//! The configuration file: precedence, every mistake that can be made in it, and reloading.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::mint;
use crate::world::{Run, World, secret_in, text, until};

/// What `serve --check-config` says about this file: its exit code, and its lines without the name of the file.
fn check(world: &World, config: &str) -> (i32, Vec<String>) {
    let path = world.path("dibs.toml");
    fs::write(&path, config).unwrap();
    let done = world.dibs(&["serve", "--check-config", "--config", path.to_str().unwrap()]).run();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    let said = String::from_utf8(done.stdout).unwrap();
    let prefix = format!("{}:", path.display());
    let lines = said.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned()).collect();
    (done.status.code().unwrap(), lines)
}

#[test]
fn the_example_configuration_is_valid() {
    let world = World::not_started();
    world.git_init("repo");
    let example = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/git-dibs.toml")).unwrap();
    assert_eq!(check(&world, &example), (0, vec!["the configuration has no errors".to_owned()]));
    assert!(!world.path("repo/.git/dibs").exists(), "looking changes nothing");
}

#[test]
fn every_mistake_is_reported_with_its_line() {
    let world = World::not_started();
    world.git_init("repo");
    fs::write(world.path("secret"), "s".repeat(40)).unwrap();
    fs::set_permissions(world.path("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(world.path("open")).unwrap();
    fs::set_permissions(world.path("open"), fs::Permissions::from_mode(0o777)).unwrap();
    let config = "\
        repo = [\"repo\", \"gone\"]\n\
        listen = \"0.0.0.0:3427\"\n\
        socket = \"open/dibs.sock\"\n\
        secret-file = \"secret\"\n\
        jwks = \"no-keys.json\"\n\
        data = \"secret/data\"\n\
        log = \"xml\"\n\
        log-level = \"a=b=c\"\n\
        lisen = \"\"\n\
        connections = 5\n\
        \n\
        [policy]\n\
        namespaces = [\"dbs\"]\n\
        file-ttl = { default = 600 }\n\
        exclusive = [\"/etc/passwd\"]\n\
        [limits]\n\
        keys-per-check = \"all\"\n\
        header-seconds = 0\n";
    let (code, lines) = check(&world, config);
    assert_eq!(code, 1);
    for (line, word) in [
        (1, "gone"),
        (2, "--behind-proxy"),
        (3, "chmod o-w"),
        (4, "chmod 600"),
        (5, "no-keys.json"),
        (6, "cannot be created"),
        (7, "\"json\" or \"text\""),
        (8, "log level"),
        (9, "did you mean listen?"),
        (10, "did you mean limits.connections?"),
        (13, "\"dbs\" is not a namespace"),
        (14, "min ≤ default ≤ max"),
        (15, "/etc/passwd"),
        (17, "a whole number from 1 to 1000000"),
        (18, "from 1 to"),
    ] {
        let found = lines.iter().any(|said| said.starts_with(&format!("{line}: ")) && said.contains(word));
        assert!(found, "nothing about {word} in line {line}: {lines:#?}");
    }
    assert_eq!(lines.len(), 15, "{lines:#?}");
}

#[test]
fn invalid_toml_and_a_missing_file_are_reported() {
    let world = World::not_started();
    world.git_init("repo");
    let (code, lines) = check(&world, "a = = 1\nlisten = 7\n");
    assert_eq!(code, 1);
    assert!(lines.iter().any(|line| line.starts_with("1: this is not TOML")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("2: listen must be a string")), "{lines:?}");
    let gone = world.dibs(&["serve", "--check-config", "--config", "gone.toml"]).run();
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8(gone.stdout).unwrap();
    assert!(said.contains("gone.toml cannot be read"), "{said}");
}

#[test]
fn a_server_with_an_invalid_file_does_not_start() {
    let mut world = World::not_started();
    world.git_init("repo");
    world.configure("lisen = \"x\"\n[limits]\nconnections = 0\n");
    let ended = world.start_and_fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("dibs.toml:1: lisen"), "{}", ended.stderr);
    assert!(ended.stderr.contains("dibs.toml:3: limits.connections is 0"), "{}", ended.stderr);
}

#[test]
fn a_flag_overrides_a_variable_and_a_variable_the_file() {
    let mut world = World::not_started();
    world.git_init("repo");
    world.configure("issuer = \"file\"\n");
    world.start();
    let counts = |world: &World, issuer: &str| {
        let token = mint::hs256(&mint::claims(json!({ "sub": "r", "scope": "read", "iss": issuer })), &world.secret());
        world.get("/api/reservations", &token).status == 200
    };
    let which = |world: &World| -> Vec<&str> {
        ["file", "variable", "flag"].into_iter().filter(|issuer| counts(world, issuer)).collect()
    };
    assert_eq!(which(&world), ["file"]);
    world.stop();
    world.env("DIBS_ISSUER", "variable");
    world.start();
    assert_eq!(which(&world), ["variable"]);
    world.stop();
    world.args(&["--issuer", "flag"]);
    world.start();
    assert_eq!(which(&world), ["flag"]);
}

#[test]
fn every_flag_has_a_setting_in_the_file() {
    let mut world = World::not_started();
    world.git_init("repo");
    world.git_init("other");
    let config = "repo = [\"app=repo\", \"web=other\"]\ndata = \"var\"\nsocket = \"s/dibs.sock\"\nno-ledger = true\n\
                  secret-file = \"key\"\naudience = \"dibs\"\nsession-timeout = 77\nlog = \"json\"\n";
    fs::create_dir(world.path("s")).unwrap();
    world.configure(config);
    world.start();
    assert_eq!(world.record()["socket"], world.path("s/dibs.sock").to_str().unwrap());
    let secret = fs::read_to_string(world.path("key")).unwrap().trim_end().as_bytes().to_vec();
    let claims = json!({ "sub": "ana", "aud": "dibs", "repo": "web" });
    let token = mint::hs256(&mint::claims(claims), &secret);
    world.post("/api/sessions/ana/files/reserve", &token, json!({ "filePath": "a" })).ok();
    assert!(world.path("var/web/journal.db").exists() && !world.path("var/web/ledger.git").exists());
    let line = until("the decision is logged", || {
        let said = world.stderr();
        said.lines().find(|line| line.contains("\"ana\"")).map(str::to_owned)
    });
    serde_json::from_str::<serde_json::Value>(&line).unwrap();
}

#[test]
fn the_policy_limits_what_may_be_reserved() {
    let world = World::configured(
        "[policy]\nnamespaces = [\"db\", \"feature\"]\npurposes = [\"review\"]\npattern-depth = 1\n\
         exclusive = [\"db:*\", \"migrations/\"]\nfile-ttl = { default = 5, max = 10 }\n\
         name-ttl = { default = 7, max = 9, min = 6 }\n",
    );
    let ana = world.session("ana");
    let refused = |key: &str, code: &str| {
        let refusal = ana.reserve(json!({ "filePath": key })).refused(code);
        text(&refusal["error"]).to_owned()
    };
    assert!(refused("env:x", "OPERATION_NOT_PERMITTED").contains("db, feature"));
    assert!(refused("**", "OPERATION_NOT_PERMITTED").contains("directory"));
    ana.hold("src/**");
    ana.hold("feature:F:review");
    let share = |key: &str| ana.reserve(json!({ "filePath": key, "mode": "shared" }));
    share("db:schema:x").refused("OPERATION_NOT_PERMITTED");
    share("migrations/1.sql").refused("OPERATION_NOT_PERMITTED");
    share("docs/a").ok();
    ana.hold("db:schema:x");
    let bounds = |key: &str| {
        let refusal = ana.reserve(json!({ "filePath": key, "ttlSeconds": 1000 })).refused("TTL_OUT_OF_RANGE");
        (refusal["min"].clone(), refusal["max"].clone())
    };
    assert_eq!(bounds("a"), (json!(1), json!(10)));
    assert_eq!(bounds("db:schema:y"), (json!(6), json!(9)));
}

#[test]
fn sighup_reloads_settings_and_reports_those_that_need_a_restart() {
    let mut world = World::configured("[policy]\nfile-ttl = { max = 100 }\n");
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let reserve = |ttl: u32| ana.reserve(json!({ "filePath": "a", "ttlSeconds": ttl })).status;
    assert_eq!((reserve(100), reserve(101)), (200, 400));
    let (admin, secret) = (world.admin(), world.secret());
    let claims = mint::claims(json!({ "sub": "looker", "scope": "read", "iss": "us" }));
    let reader = mint::hs256(&claims, &secret);
    world.get("/api/reservations", &world.reader()).ok();

    let old = world.reader();
    let (ana_token, bo_token) = (ana.token.clone(), bo.token.clone());
    let later = "socket = \"elsewhere.sock\"\ndata = \"elsewhere\"\nissuer = \"us\"\nhost = [\"dibs.test\"]\n\
                 log-level = \"info\"\n\
                 [policy]\nfile-ttl = { max = 200 }\npurposes = [\"review\"]\n\
                 [limits]\nkeys-per-check = 1\nsessions-per-repository = 1\n";
    world.configure(later);
    world.signal(libc::SIGHUP);
    until("what cannot change is named", || {
        let said = world.stderr();
        let all = ["new value of socket", "new value of data", "the configuration was reloaded"];
        all.iter().all(|words| said.contains(words)).then_some(())
    });

    world.get("/api/reservations", &reader).ok();
    world.get("/api/reservations", &old).refused("UNAUTHENTICATED");
    for token in [&admin, &ana_token, &bo_token] {
        world.get("/api/reservations", token).refused("UNAUTHENTICATED");
    }
    let mine = |sub: &str| mint::hs256(&mint::claims(json!({ "sub": sub, "iss": "us" })), &secret);
    // The session began without an issuer, so this is another session now, and one too many.
    let refused = world.post("/api/sessions/cy/files/reserve", &mine("cy"), json!({ "filePath": "c" }));
    refused.refused("QUOTA_EXCEEDED");
    let check = world.post("/api/check-conflicts", &reader, json!({ "paths": ["a", "b"] }));
    check.refused("INVALID_REQUEST");
    let mut named = world.connect();
    named.send(b"GET /readyz HTTP/1.1\r\nhost: dibs.test\r\n\r\n").unwrap();
    named.receive(false).unwrap().ok();

    world.configure("isuer = \"them\"\n");
    world.signal(libc::SIGHUP);
    let said = until("the broken file is told", || {
        let said = world.stderr();
        said.lines().find(|line| line.contains("was not reloaded")).map(str::to_owned)
    });
    assert!(said.contains("dibs.toml:1: isuer is not a setting; did you mean issuer?"), "{said}");
    world.get("/api/reservations", &reader).ok();

    // Local users find a valid read token again.
    let local = fs::read_to_string(world.path("repo/.git/dibs/read-token")).unwrap();
    world.get("/api/reservations", &local).ok();
}

#[test]
fn sighup_changes_limits_while_reservations_are_held() {
    let mut world = World::configured("[policy]\nfile-ttl = { max = 100 }\n");
    let token = world.session("ana").token;
    let reserve = |world: &World, body| world.post("/api/sessions/ana/files/reserve", &token, body).status;
    assert_eq!(reserve(&world, json!({ "filePath": "db:schema:x", "mode": "shared" })), 200);
    assert_eq!(reserve(&world, json!({ "filePath": "a", "ttlSeconds": 200 })), 400);
    world.configure("[policy]\nfile-ttl = { max = 200 }\nnamespaces = []\n[limits]\nreservations-per-session = 2\n");
    world.signal(libc::SIGHUP);
    until("the new bounds hold", || {
        (reserve(&world, json!({ "filePath": "a", "ttlSeconds": 200 })) == 200).then_some(())
    });
    assert_eq!(reserve(&world, json!({ "filePath": "b" })), 429);
    assert_eq!(reserve(&world, json!({ "filePath": "db:schema:y" })), 403);
    let renewed = world.post("/api/sessions/ana/files/renew", &token, json!({ "filePath": "db:schema:x" }));
    renewed.ok();
    world.post("/api/sessions/ana/files/release", &token, json!({ "filePath": "db:schema:x" })).ok();
    assert_eq!(reserve(&world, json!({ "filePath": "b" })), 200);
    assert_eq!(secret_in(&world.path("repo/.git/dibs")), world.secret());
}

#[test]
fn a_configuration_can_be_checked_outside_of_a_repository() {
    let world = World::not_started();
    let (good, bad) = (world.path("good.toml"), world.path("bad.toml"));
    std::fs::write(&good, "session-timeout = 60\n").unwrap();
    std::fs::write(&bad, "session-timeout = 0\n").unwrap();
    let check = |file: &std::path::Path| {
        world.dibs(&["serve", "--check-config", "--config", file.to_str().unwrap()]).current_dir(world.path("")).run()
    };
    let done = check(&good);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "the configuration has no errors\n");
    let done = check(&bad);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&done.stdout).lines().count(), 1, "only the mistake itself");
}

#[test]
fn namespaces_that_no_key_could_have_and_a_timeout_beyond_its_bounds_are_reported() {
    let world = World::not_started();
    world.git_init("repo");
    for (config, line, why) in [
        ("[policy]\nplain-namespaces = { \"a b\" = {} }\n", 2, "\"a b\" cannot be a namespace"),
        ("[policy]\nplain-namespaces = { \"a/b\" = {} }\n", 2, "\"a/b\" cannot be a namespace"),
        ("resourceLockTimeout = 28801\n", 1, "name-ttl in [policy] allows 1 to 28800"),
        ("resourceLockTimeout = 9\n[policy]\nname-ttl = { min = 10, default = 20, max = 30 }\n", 1, "allows 10 to 30"),
    ] {
        let (code, lines) = check(&world, config);
        assert_eq!((code, lines.len()), (1, 1), "{config}: {lines:?}");
        assert!(lines[0].starts_with(&format!("{line}: ")) && lines[0].contains(why), "{lines:?}");
    }
    let wide = "resourceLockTimeout = 40000\n[policy]\nname-ttl = { max = 50000 }\n";
    assert_eq!(check(&world, wide).0, 0);
}

#[test]
fn namespaces_forms_and_timeouts_can_be_added() {
    let world = World::configured(
        "resourceLockTimeout = 900\n[policy]\ndb-forms = [\"seed\", \"table:*\"]\n\
         plain-namespaces = { task = { default = 30, max = 3600 }, build = {} }\n",
    );
    let ana = world.session("ana");
    for (key, seconds) in
        [("task:123", 30), ("build:nightly/7", 1800), ("db:seed", 900), ("db:table:users", 900), ("deploy://x", 900)]
    {
        assert_eq!(ana.hold(key)["ttlSeconds"], seconds, "{key}");
    }
    let refusal = ana.reserve(json!({ "filePath": "task:9", "ttlSeconds": 3601 })).refused("TTL_OUT_OF_RANGE");
    assert_eq!((&refusal["min"], &refusal["max"]), (&json!(1), &json!(3600)));
    ana.reserve(json!({ "filePath": "todo:1" })).refused("OPERATION_NOT_PERMITTED");
    ana.reserve(json!({ "filePath": "db:other" })).refused("INVALID_KEY");
    ana.reserve(json!({ "filePath": "task:a b" })).refused("INVALID_KEY");
    ana.reserve(json!({ "filePath": "db:migration-slot", "mode": "shared" })).refused("OPERATION_NOT_PERMITTED");
    ana.hold("db:migration-slot");
}
