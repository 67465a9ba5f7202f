//! Reserve, release, renew, check, wait, status.

use serde_json::Value;

use crate::world::{Process, Said, World, bytes};

#[test]
fn a_conflict_explains_itself() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/", "--reason", "moving\u{7} users"]).ok();
    let said = world.as_session("bo", ["reserve", "src/a.rs", "README"]).fails(3);
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines[0], "git-dibs: nothing was reserved: another session holds it");
    assert!(lines[1].starts_with("  src/a.rs: held by ANA (ana) through src/**, "), "{said:?}");
    assert!(lines[1].ends_with(" left: moving\\x07 users"), "{said:?}");
    assert_eq!(lines[2], "Ask the holder to release it, with all of src/**: git dibs request src/a.rs --reason TEXT");
    assert_eq!(lines[3], "Or wait for it: git dibs wait src/a.rs");
    assert_eq!(said.out, "");
    assert_eq!(world.held().len(), 1, "all or nothing");
    let below = world.as_session("bo", ["reserve", "a.rs"]).at("src").fails(3);
    assert!(below.err.contains("git dibs wait :/src/a.rs"), "what is suggested can be typed here: {below:?}");
    let json = world.as_session("bo", ["reserve", "src/a.rs", "--json"]).fails(3);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&document["code"], &document["reservedBy"]), (&"RESOURCE_LOCKED".into(), &"ana".into()));
    assert_eq!(json.err, "");
}

#[test]
fn files_are_relative_and_keys_are_not() {
    let world = World::served();
    let args = ["a.rs", "../README", "deep/", "*.ts", ":/top.rs", "file:[id].ts", "db:schema:slot", "deploy://prod"];
    world.as_session("ana", ["reserve"].iter().chain(&args)).at("src").ok();
    let mut held = world.held();
    held.sort();
    let keys: Vec<&str> = held.iter().map(|held| held.strip_prefix("ana ").unwrap()).collect();
    assert_eq!(
        keys,
        [
            "README",
            "db:schema:slot",
            "deploy://prod",
            "file:src/[id].ts",
            "src/*.ts",
            "src/a.rs",
            "src/deep/**",
            "top.rs"
        ]
    );
    let absolute = world.path("app/src/deep").canonicalize().unwrap().join("../b.rs");
    world.as_session("ana", ["check".as_ref(), absolute.as_os_str()]).ok();
    let outside = world.as_session("ana", ["reserve", "../../x"]).at("src").fails(2);
    assert!(outside.err.contains("../../x is outside the repository at /"), "{outside:?}");
    let whole = world.as_session("ana", ["reserve", "."]).fails(2);
    assert!(whole.err.contains("the whole repository is \"**\""), "{whole:?}");
    world.as_session("ana", ["release"].iter().chain(&args)).at("src").ok();
    assert_eq!(world.held(), [""; 0]);
    let dir = world.as_session("ana", ["reserve", "."]).at("src/deep").ok();
    assert!(dir.out.starts_with("reserved src/deep/** for "), "{dir:?}");
}

/// Regression: `app/[id]/page.tsx` was reserved as a pattern, which did not cover the file of that name.
#[test]
fn a_name_that_exists_is_not_a_pattern() {
    let world = World::served();
    std::fs::create_dir_all(world.path("app/src/[id]")).unwrap();
    std::fs::write(world.path("app/src/[id]/page.tsx"), "x").unwrap();
    std::fs::write(world.path("app/src/{gone}.rs"), "x").unwrap();
    world.git(&["add", "src"]);
    std::fs::remove_file(world.path("app/src/{gone}.rs")).unwrap();
    let note = |name: &str| format!("git-dibs: {name} exists here, so it is taken as a name, not as a pattern\n");

    let said = world.as_session("ana", ["reserve", "[id]/page.tsx"]).at("src").ok();
    assert_eq!(said.err, note("[id]/page.tsx"));
    let said = world.as_session("ana", ["reserve", "src/{gone}.rs"]).ok();
    assert_eq!(said.err, note("src/{gone}.rs"), "the index has it");
    assert_eq!(world.as_session("ana", ["reserve", "src/[new]/x", "src/*.rs"]).ok().err, "");
    let said = world.as_session("ana", ["reserve", "src/[id]/"]).ok();
    assert!(said.err.contains("src/[id]/ exists here"), "{said:?}");
    let mut held = world.held();
    held.sort();
    let keys = ["file:src/[id]/page.tsx", "file:src/{gone}.rs", "src/*.rs", "src/[[]id]/**", "src/[new]/x"];
    assert_eq!(held, keys.map(|key| format!("ana {key}")));
    for path in ["src/i/page.tsx", "src/gone.rs.x"] {
        world.as_session("bo", ["check", path]).ok();
    }
    // A pattern that is not the name of a file covers its own text all the same.
    for path in ["file:src/[new]/x", "file:src/[id]/page.tsx", "src/[id]/other", "file:src/{gone}.rs"] {
        world.as_session("bo", ["check", path]).fails(3);
    }
    let names = ["src/[id]/page.tsx", "src/{gone}.rs", "src/[new]/x", "src/[id]/", "src/*.rs"];
    world.as_session("ana", ["release"].iter().chain(&names)).ok();
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn renew_and_release() {
    let world = World::served();
    world.as_session("ana", ["reserve", "a", "b", "--ttl", "5"]).ok();
    let renewed = world.as_session("ana", ["renew", "a", "--ttl", "200", "--json"]).json();
    assert_eq!(renewed["filePath"], "a");
    let all = world.as_session("ana", ["renew"]).ok();
    assert!(all.out.starts_with("renewed 2 reservations; the first expires in "), "{all:?}");
    let missing = world.as_session("ana", ["renew", "c"]).fails(1);
    assert!(missing.err.contains("does not hold \"c\""), "{missing:?}");
    world.as_session("bo", ["release", "a"]).fails(3);
    assert!(missing.err.contains("nothing was renewed") && missing.err.contains("git dibs status"), "{missing:?}");
    world.as_session("bo", ["renew", "a"]).fails(3);
    let nothing = world.as_session("bo", ["release", "c"]).fails(1);
    assert!(nothing.out.is_empty() && nothing.err.contains("nothing was released: no session holds c;"), "{nothing:?}");
    let document = world.as_session("bo", ["release", "c", "--json"]).fails(1).out;
    assert!(document.contains("\"released\":false"), "{document}");
    assert_eq!(world.as_session("ana", ["release", "a"]).ok().out, "released a\n");
    let partly = world.as_session("ana", ["release", "a", "b"]).fails(1);
    assert_eq!(partly.out, "released 1 of 2\n");
    assert!(partly.err.contains("no session holds 1 of these keys"), "{partly:?}");
    assert_eq!(world.as_session("ana", ["release", "--all"]).ok().out, "");
    for (command, flag) in [("reserve", "--ttl"), ("reserve", "--idle"), ("wait", "--ttl")] {
        let refused = world.as_session("ana", [command, "c", flag, "9999999"]).fails(2);
        assert!(refused.err.contains(&format!("{flag} is 9999999; it must be ")), "{refused:?}");
    }
    world.as_session("ana", ["reserve", "c", "--shared"]).ok();
    world.as_session("bo", ["reserve", "c", "--shared"]).ok();
    assert_eq!(world.as_session("bo", ["release", "--all"]).ok().out, "released c\n");
    assert_eq!(world.held(), ["ana c"]);
}

#[test]
fn status_is_a_table_that_marks_your_own() {
    let world = World::served();
    let nothing = world.dibs(["status"]).ok().err;
    assert!(nothing.starts_with("git-dibs: server http://127.0.0.1:"), "{nothing}");
    assert!(nothing.ends_with("\ngit-dibs: nothing is reserved\n"), "{nothing}");
    world.as_session("ana", ["reserve", "src/b.rs", "--reason", "line\nbreak"]).ok();
    world.as_session("bo", ["reserve", "src/a.rs", "--shared", "--ttl", "300"]).ok();
    let said = world.as_session("ana", ["status"]).ok();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = said.out.lines().map(words).collect();
    assert_eq!(lines[0], "PATH HOLDER MODE LEFT REASON");
    // As in every message.
    assert!(lines[1].starts_with("src/a.rs BO (bo) shared "), "{said:?}");
    assert!(lines[2].starts_with("* src/b.rs ANA (ana) ") && lines[2].ends_with("line\\nbreak"), "{said:?}");
    assert!(said.err.ends_with("git-dibs: * marks what your session holds\n"), "{said:?}");
    let person = world.dibs(["status"]).ok();
    assert!(!person.out.contains('*') && person.out.lines().count() == 3, "{person:?}");
    assert_eq!(world.as_session("ana", ["status", "--mine"]).ok().out.lines().count(), 2);
    assert_eq!(world.dibs(["status", "--holder", "bo"]).ok().out.lines().count(), 2);
    world.dibs(["status", "--mine"]).fails(4);
}

#[test]
fn status_shows_every_page() {
    let world = World::served();
    let names: Vec<String> = (0..2_300).map(|n| format!("f{n:04}")).collect();
    world.as_session("ana", ["reserve".to_owned()].into_iter().chain(names.iter().cloned())).ok();
    assert_eq!(world.held().len(), 2_300);
    assert_eq!(world.dibs(["status"]).ok().out.lines().count(), 2_301);
}

#[test]
fn check_takes_names_from_every_source() {
    let world = World::served();
    world.write("new\nline", "x");
    world.write(bytes(b"caf\xe9"), "x");
    world.write("src/[id].ts", "x");
    world.write("src/a.rs", "two\n");
    world.git(&["add", "--all"]);
    let clear = world.dibs(["check", "--staged"]).ok();
    assert_eq!((clear.out.as_str(), clear.err.as_str()), ("", "git-dibs: 4 paths clear\n"));

    let odd = [bytes(b"reserve"), bytes(b"caf\xe9"), bytes(b"file:new\nline"), bytes(b"file:src/[id].ts")];
    world.as_session("ana", odd).ok();
    let staged = world.as_session("bo", ["check", "--staged"]).at("src").fails(3);
    let paths: Vec<&str> = staged.out.lines().map(|line| line.split(": held by").next().unwrap()).collect();
    assert_eq!(paths, ["caf\\xe9", "new\\nline", "src/[id].ts"]);
    assert_eq!(staged.err, "git-dibs: 3 of 4 paths are held by other sessions, 1 clear\n");
    let own = world.as_session("ana", ["check", "--staged"]).ok();
    assert_eq!(own.err, "git-dibs: 4 paths clear, 3 of them yours\n");

    let stdin = b"caf\xe9\0src/a.rs\0src/i.ts\0new\nline\0".to_vec();
    let listed = world.dibs(["check", "--stdin", "-z", "--json"]).input(stdin).fails(3);
    let document: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(document["conflicts"].as_array().unwrap().len(), 2, "a literal name is no pattern");
    assert_eq!(document["clear"], serde_json::json!(["file:src/a.rs", "file:src/i.ts"]));
    let lines = world.dibs(["check", "--stdin"]).input("src/a.rs\nsrc/[id].ts\n").fails(3);
    assert!(lines.out.starts_with("src/[id].ts: held by ANA (ana)"), "{lines:?}");

    world.git(&["commit", "--quiet", "--message=second"]);
    let nothing = world.dibs(["check", "--staged"]).ok();
    assert_eq!(nothing.err, "git-dibs: there is nothing to check\n");
    let range = world.dibs(["check", "--range", "HEAD~1..HEAD"]).token("ci", "read").fails(3);
    assert_eq!(range.out.lines().count(), 3, "{range:?}");
    let bad = world.dibs(["check", "--range", "nowhere..HEAD"]).fails(1);
    assert!(bad.err.contains("nowhere"), "{bad:?}");
    world.dibs(["check", "--range", "--all"]).fails(2);
    world.dibs(["check", "--staged", "a"]).fails(2);
}

#[test]
fn a_paused_feature_blocks_everything() {
    let world = World::served();
    world.dibs(["session", "start", "--id", "bo", "--feature", "F-1"]).ok();
    world.as_session("ana", ["reserve", "feature:F-1:pause", "--reason", "broken main"]).ok();
    let check = world.dibs(["check", "src/a.rs"]).fails(3);
    assert!(check.err.contains("your feature F-1 is paused by ANA (ana)"), "{check:?}");
    let refused = world.dibs(["reserve", "src/a.rs"]).fails(3);
    assert!(refused.err.contains("feature F-1 is paused by ANA (ana) (broken main)"), "{refused:?}");
    for waits in [["reserve", "--wait", "1", "src/a.rs"], ["wait", "--timeout", "1", "src/a.rs"]] {
        let over = world.dibs(waits).fails(7);
        assert!(over.err.contains("timed out") && over.err.contains("git dibs wait --unpaused"), "{over:?}");
    }
}

#[test]
fn waiting_ends_with_a_grant() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    let waiting = world.as_session("bo", ["wait", "a.rs", "--reason", "next"]).at("src").start();
    world.until_waits_for("bo", &["src/a.rs"]);
    let conflict = world.as_session("cy", ["reserve", "src/a.rs"]).fails(3);
    assert!(conflict.err.contains(" left, 1 waiting"), "{conflict:?}");
    world.as_session("ana", ["release", "src/a.rs"]).ok();
    let said = Said::from(waiting.finish());
    assert_eq!((said.code, said.out.as_str()), (Some(0), "reserved src/a.rs for 30 min\n"), "{said:?}");
    assert!(said.err.starts_with("git-dibs: waiting for up to 5 min:\n  src/a.rs: held by ANA (ana), "), "{said:?}");
    assert_eq!(world.held(), ["bo src/a.rs"]);
}

#[test]
fn waiting_ends_without_a_grant() {
    let world = World::served();
    world.as_session("ana", ["reserve", "a", "--ttl", "300"]).ok();
    let said = world.as_session("bo", ["wait", "a", "--timeout", "1"]).fails(7);
    assert!(
        said.err.contains("git-dibs: the wait timed out and nothing was reserved: another session holds it"),
        "{said:?}"
    );
    world.as_session("bo", ["reserve", "a", "--wait", "1"]).fails(7);
    world.as_session("bo", ["reserve", "a", "--wait", "301"]).fails(2);
    world.as_session("bo", ["wait"]).fails(2);
    // An interrupted command leaves the queue.
    let mut waiting = world.as_session("bo", ["reserve", "a", "--wait", "300"]).start();
    world.until_waits_for("bo", &["a"]);
    waiting.kill();
    world.until_waits_for("bo", &[]);
}

#[test]
fn waiting_outlives_a_restart_of_the_server() {
    let mut world = World::served();
    world.as_session("ana", ["reserve", "a"]).ok();
    let waiting = world.as_session("bo", ["wait", "a"]).start();
    world.until_waits_for("bo", &["a"]);
    world.kill();
    world = world.serve(&[]);
    world.until_waits_for("bo", &["a"]);
    world.as_session("ana", ["release", "a"]).ok();
    assert_eq!(Said::from(waiting.finish()).code, Some(0));
    world.kill();
    world.dibs(["wait", "a"]).token("bo", "session").fails(5);
}

#[test]
fn a_cycle_is_refused_and_shown() {
    let world = World::served();
    world.as_session("ana", ["reserve", "a"]).ok();
    world.as_session("bo", ["reserve", "b"]).ok();
    let waiting = world.as_session("ana", ["reserve", "b", "--wait", "300"]).start();
    world.until_waits_for("ana", &["b"]);
    let said = world.as_session("bo", ["wait", "a"]).fails(3);
    assert!(said.err.contains("nothing was reserved, because this wait would never end:\n"), "{said:?}");
    assert!(
        said.err.contains("  bo holds b and wants a\n") && said.err.contains("  ana holds a and wants b\n"),
        "{said:?}"
    );
    world.as_session("bo", ["release", "b"]).ok();
    assert_eq!(Said::from(waiting.finish()).code, Some(0));
}

#[test]
fn retries_repeat_the_request() {
    let world = World::served();
    world.as_session("ana", ["reserve", "a"]).ok();
    let refused = || world.get("/api/stats", &world.reader()).ok()["conflictsDetected"].as_u64().unwrap();
    let before = refused();
    world.as_session("bo", ["reserve", "a", "--retries", "2"]).fails(3);
    assert_eq!(refused() - before, 3);
    // A request that can never succeed is not repeated.
    world.as_session("bo", ["reserve", "..", "--retries", "1000"]).fails(2);
    world.as_session("bo", ["reserve", "b", "--ttl", "0", "--retries", "1000"]).fails(2);
}

#[test]
fn versions_guard_against_late_changes() {
    let world = World::served();
    let version = world.as_session("ana", ["reserve", "a", "--json"]).json()["version"].as_u64().unwrap();
    world.as_session("ana", ["release", "a"]).ok();
    let late = world.as_session("bo", ["reserve", "a", "--if-version", &version.to_string()]).fails(3);
    assert!(late.err.contains("is at version"), "{late:?}");
    world.as_session("bo", ["reserve", "a", "--if-version", &(version + 1).to_string()]).ok();
}

#[test]
fn the_status_fits_eighty_columns() {
    let world = World::served();
    let reason = "splitting the parser into three parts because it has become too large to read";
    let script = "git dibs reserve src/a.rs src/deep/ --reason \"$0\" >&2; echo ready; read go";
    let mut command = world.dibs_command(&["run", "--name", "Ana", "--", "sh", "-c", script, reason]);
    let mut agent = Process::start(command.stdin(std::process::Stdio::piped())).unwrap();
    assert_eq!(agent.line(), "ready");
    let shown = world.on_terminal(80, &["status"]);
    let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(wide, [""; 0], "{shown}");
    let id = world.reservations()[0]["sessionId"].as_str().unwrap().to_owned();
    assert!(id.starts_with("ana-") && shown.contains(&id), "the id is in one piece: {shown}");
    assert!(shown.contains("src/a.rs") && shown.contains("splitting"), "{shown}");
    agent.finish();
}

#[test]
fn who_and_check_without_arguments_answer_the_usual_question() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    assert_eq!(world.dibs(["who"]).ok().out, world.dibs(["status"]).ok().out);
    assert_eq!(world.as_session("bo", ["check"]).ok().err, "git-dibs: there is nothing to check\n");
    world.write("src/a.rs", "changed");
    world.git(&["add", "src/a.rs"]);
    let said = world.as_session("bo", ["check"]).fails(3);
    assert!(said.out.starts_with("src/a.rs: held by ANA (ana)"), "{said:?}");
}

#[test]
fn a_pattern_that_overlaps_a_held_file_is_not_held_through_it() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    let said = world.as_session("bo", ["check", "src/"]).fails(3);
    assert!(said.out.starts_with("src/: overlaps src/a.rs, held by ANA (ana), "), "{said:?}");
    let said = world.as_session("bo", ["reserve", "src/**"]).fails(3);
    assert!(said.err.contains("src/**: overlaps src/a.rs, held by ANA (ana), "), "{said:?}");
    world.as_session("ana", ["reserve", "lib/"]).ok();
    let said = world.as_session("bo", ["check", "lib/b.rs"]).fails(3);
    assert!(said.out.starts_with("lib/b.rs: held by ANA (ana) through lib/**, "), "{said:?}");
}
