//! Work packages: reserved, checked and released from a file.

use serde_json::Value;

use crate::world::World;

const GOOD: &str = "\
title: users
locks:
  files: [src/a.rs, src/deep/]
  keys: ['db:migration-slot']
  ttl_minutes: 5
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
        "reserved src/a.rs for 5 min\nreserved src/deep/** for 5 min\nreserved db:migration-slot for 5 min\n"
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

#[test]
fn a_ttl_the_server_refuses_is_reported_with_its_line() {
    let world = World::served();
    let said = world.as_session("ana", ["reserve", "--package", "-"]).input(GOOD.replace("5\n", "30\n")).fails(2);
    assert!(said.err.contains("line 5 of the work package: ttl_minutes is 30"), "{said:?}");
    // A check is refused for the same reason.
    let said = world.as_session("ana", ["check", "--package", "-"]).input(GOOD.replace("5\n", "30\n")).fails(2);
    assert!(said.err.contains("line 5 of the work package: ttl_minutes is 30"), "{said:?}");
    let keys = "locks: {keys: ['db:schema:slot'], ttl_minutes: 30}";
    world.as_session("ana", ["reserve", "--package", "-"]).input(keys).ok();
    world.as_session("ana", ["check", "--package", "-"]).input(keys).ok();
}

#[test]
fn check_and_reserve_agree_about_a_package() {
    let world = World::served();
    let ttls =
        ["", ", ttl_minutes: 1", ", ttl_minutes: 5", ", ttl_minutes: 6", ", ttl_minutes: 480", ", ttl_minutes: 0"];
    let lists = [
        "files: [src/a.rs]",
        "keys: ['db:schema:slot']",
        "files: [src/a.rs], keys: ['db:schema:slot']",
        "files: []",
        "keys: ['what:ever']",
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
