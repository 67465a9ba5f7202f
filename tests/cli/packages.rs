//! Work packages: reserved, checked and released from a file.

use serde_json::Value;

use crate::world::{World, time};

const GOOD: &str = "\
title: users
locks:
  files: [src/a.rs, src/deep/]
  keys: ['db:migration-slot']
  ttl_minutes: 120
  reason: users move to v2
";

#[test]
fn a_package_is_reserved_checked_and_released_as_one() {
    let world = World::served();
    world.write("src/package.yaml", GOOD);
    world.as_session("ana", ["check", "--package", "package.yaml"]).at("src").ok();
    world.as_session("bo", ["reserve", "db:migration-slot"]).ok();
    let refused = world.as_session("ana", ["reserve", "--package", "package.yaml"]).at("src").fails(3);
    assert!(refused.err.contains("db:migration-slot: held by BO (bo)"), "{refused:?}");
    let checked = world.as_session("ana", ["check", "--package", "src/package.yaml"]).fails(3);
    assert!(checked.out.starts_with("db:migration-slot: held by BO (bo)"), "{checked:?}");
    assert_eq!(world.held().len(), 1, "nothing half done");
    world.as_session("bo", ["release", "--all"]).ok();

    let said = world.as_session("ana", ["reserve", "--package", "package.yaml"]).at("src").ok();
    assert_eq!(
        said.out,
        "reserved src/a.rs for 2 h\nreserved src/deep/** for 2 h\nreserved db:migration-slot for 2 h\n"
    );
    let status = world.dibs(["status"]).ok().out;
    assert_eq!(status.matches("users move to v2").count(), 3, "{status}");
    let released = world.as_session("ana", ["release", "--package", "-"]).input(GOOD).ok();
    assert_eq!(released.out, "released src/a.rs\nreleased src/deep/\nreleased db:migration-slot\n");
    assert_eq!(world.held(), [""; 0]);
    let short = "locks: {files: [x]}";
    world.as_session("ana", ["reserve", "--package", "-", "--ttl", "30", "--reason", "mine"]).input(short).ok();
}

#[test]
fn every_problem_is_reported_and_nothing_is_done() {
    let world = World::served();
    world.write("bad.yaml", "locks:\n  files: [src/a.rs, ../x]\n  keys: [&a db:x]\n  ttl_minutes: yes\n");
    for command in ["reserve", "release", "check"] {
        let said = world.as_session("ana", [command, "--package", "bad.yaml"]).fails(2);
        let lines: Vec<&str> = said.err.lines().collect();
        assert_eq!(lines[0], "git-dibs: the work package bad.yaml has 3 problems, and nothing was done:");
        let starts =
            ["  line 2: \"../x\" is not", "  line 3: an anchor", "  line 4: ttl_minutes is text and should be"];
        for (line, start) in lines[1..].iter().zip(starts) {
            assert!(line.starts_with(start), "{said:?}");
        }
    }
    let json = world.as_session("ana", ["check", "--package", "bad.yaml", "--json"]).fails(2);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(document["problems"][1]["line"], 3);
    assert_eq!(world.held(), [""; 0]);
    world.write("huge.yaml", &"# padding\n".repeat(1 << 20));
    let huge = world.as_session("ana", ["reserve", "--package", "huge.yaml"]).fails(2);
    assert!(huge.err.contains("larger than 1048576 bytes"), "{huge:?}");
    world.as_session("ana", ["reserve", "--package", "nowhere.yaml"]).fails(2);
    world.as_session("ana", ["reserve", "--package", "bad.yaml", "x"]).fails(2);
}

/// The coordinator's own example.
#[test]
fn the_work_package_of_the_document_is_reserved_with_defaults() {
    let world = World::served();
    let package = "\
locks:
  files: [src/api/users.py, src/api/models.py]
  keys: ['api:GET /v1/users', 'db:schema:users']
  ttl_minutes: 120
  reason: users get a new field
";
    let check = world.as_session("ana", ["check", "--package", "-"]).input(package).ok();
    assert_eq!((check.out.as_str(), check.err.as_str()), ("", "git-dibs: 4 paths clear\n"));
    world.as_session("ana", ["reserve", "--package", "-"]).input(package).ok();
    let held = world.reservations();
    assert_eq!(held.len(), 4);
    for one in held {
        assert_eq!((&one["whileSession"], &one["ttlSeconds"]), (&true.into(), &7200.into()), "{one}");
        assert_eq!(time(&one["expiresAt"]) - time(&one["reservedAt"]), 7_200_000, "{one}");
    }
    world.as_session("ana", ["release", "--all"]).ok();
    world.as_session("ana", ["reserve", "--package", "-"]).input("locks: {files: [x]}").ok();
    assert_eq!(world.reservations()[0]["ttlSeconds"], 7200, "the default");
}

#[test]
fn what_only_the_server_can_refuse_is_reported_with_its_line() {
    let world = World::served();
    for (key, why) in [
        ("feature:F-1:freeze", "the purposes are pause"),
        ("db:seed", "the forms are"),
        ("task:12", "there is no namespace"),
    ] {
        let package = format!("locks:\n  files: [a]\n  keys:\n  - db:schema:x\n  - '{key}'\n");
        for command in ["check", "reserve"] {
            let said = world.as_session("ana", [command, "--package", "-"]).input(package.as_str()).run();
            assert!(said.err.contains(why) && said.err.contains("line 5 of the work package"), "{command} {said:?}");
            assert_ne!(said.code, Some(0));
        }
    }
    assert_eq!(world.held(), [""; 0]);
}

const SEVERAL: &str = "\
feature: {id: users}
contracts: {openapi: {files: [openapi/v1.yaml]}}
packages:
- package_id: api
  title: the server
  locks: {files: [src/api/], keys: ['contract:openapi/v1.yaml'], ttl_minutes: 60}
- package_id: web
  depends_on: [api]
  locks:
    files: [web/]
    reason: the pages
";

#[test]
fn a_file_with_several_packages_is_checked_as_a_whole_and_reserved_by_name() {
    let world = World::served();
    world.write("work-packages.yaml", SEVERAL);
    let run = |args: &[&str]| world.as_session("ana", [args, &["--package", "work-packages.yaml"]].concat()).run();
    for command in ["check", "reserve"] {
        let which = run(&[command]);
        assert!(which.code == Some(2) && which.err.contains("say which with --name: api, web"), "{which:?}");
    }
    let unknown = run(&["reserve", "--name", "app"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("it has api, web"), "{unknown:?}");
    let web = run(&["reserve", "--name", "web"]);
    assert_eq!((web.code, web.out.as_str()), (Some(0), "reserved web/** for 2 h\n"));
    let api = run(&["reserve", "--name", "api"]);
    assert_eq!(api.out, "reserved src/api/** for 1 h\nreserved contract:openapi/v1.yaml for 1 h\n");
    let one = run(&["check", "--name", "api"]);
    assert_eq!(one.err, "git-dibs: 2 paths clear, 2 of them yours\n");
    run(&["release", "--name", "api"]);
    assert_eq!(world.held(), ["ana web/**"]);

    world.write("work-packages.yaml", &SEVERAL.replace("files: [web/]", "files: [web/, src/api/users.py]"));
    for command in ["check", "reserve"] {
        let said = run(&[command, "--name", "api"]);
        let what =
            "line 10: \"src/api/users.py\" of package \"web\" overlaps \"src/api/**\" of package \"api\" (line 6)";
        assert!(said.code == Some(2) && said.err.contains(what), "{said:?}");
    }
}

#[test]
fn a_package_of_the_same_file_that_the_server_would_refuse_is_a_problem_of_the_file() {
    let world = World::served();
    let package = SEVERAL.replace("files: [web/]", "keys: ['feature:F:nope']");
    for command in ["check", "reserve"] {
        let said = world.as_session("ana", [command, "--package", "-", "--name", "api"]).input(&*package).run();
        assert!(said.err.contains("feature:F:nope") && said.err.contains("line 10 of the work package"), "{said:?}");
        assert_ne!(said.code, Some(0));
    }
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn check_and_reserve_agree_about_the_limits_of_the_server() {
    for (limit, why) in [("keys-per-reserve = 2", "2 is the most"), ("reservations-per-session = 2", "reservations of")]
    {
        let mut world = World::new();
        world.configure(&format!("[limits]\n{limit}\n"));
        let world = world.serve(&[]);
        for (files, fits) in [("a, b, c", false), ("a, b", true)] {
            let package = format!("locks: {{files: [{files}]}}");
            for command in ["check", "reserve"] {
                let said = world.as_session("ana", [command, "--package", "-"]).input(&*package).run();
                assert_eq!((said.code == Some(0), said.err.contains(why)), (fits, !fits), "{command} {said:?}");
            }
        }
        // What the session holds already is no further reservation.
        world.as_session("ana", ["check", "--package", "-"]).input("locks: {files: [b, a]}").ok();
    }
}

#[test]
fn check_and_reserve_agree_about_a_package() {
    let world = World::served();
    let ttls = [
        "",
        ", ttl_minutes: 1",
        ", ttl_minutes: 5",
        ", ttl_minutes: 6",
        ", ttl_minutes: 480",
        ", ttl_minutes: 0",
        ", ttl_minutes: 481",
    ];
    let lists = [
        "files: [src/a.rs]",
        "keys: ['db:schema:slot']",
        "files: [src/a.rs], keys: ['db:schema:slot']",
        "files: []",
        "keys: ['what:ever']",
        "keys: ['contract:a.yaml']",
        "keys: ['feature:F:freeze']",
        "keys: ['feature:F:pause']",
    ];
    for ttl in ttls {
        for list in lists {
            let package = format!("locks: {{{list}{ttl}}}");
            let run =
                |command: &str| world.as_session("ana", [command, "--package", "-"]).input(package.as_str()).run();
            let (check, reserve) = (run("check"), run("reserve"));
            assert_eq!(check.code, reserve.code, "{package}\n{check:?}\n{reserve:?}");
            world.as_session("ana", ["release", "--all"]).ok();
        }
    }
}

#[test]
fn check_and_reserve_agree_about_a_package_that_another_session_waits_for() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    let waiting = world.as_session("bo", ["wait", "src/a.rs", "src/b.rs"]).start();
    world.until_waits_for("bo", &["src/a.rs", "src/b.rs"]);
    let run =
        |command: &str| world.as_session("cy", [command, "--package", "-"]).input("locks: {files: [src/b.rs]}").run();
    let (check, reserve) = (run("check"), run("reserve"));
    assert_eq!((check.code, reserve.code), (Some(3), Some(3)), "{check:?}\n{reserve:?}");
    world.as_session("ana", ["release", "--all"]).ok();
    waiting.finish();
}
