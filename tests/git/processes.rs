//! Which git processes a hook starts: none where nothing is in conflict.

use git_dibs::wire::Mode;

use crate::server::Shared;
use crate::world::{World, said};

/// Runs a script with these variables, and returns what git was started for, by every process.
fn started(world: &World, dir: &str, script: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let trace = world.path("trace");
    let _ = std::fs::remove_file(&trace);
    let variables = [variables, &[("GIT_TRACE2_EVENT", trace.to_str().unwrap())]].concat();
    let output = world.try_shell(dir, script, &variables);
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "{script}\n{}", said(&output));
    let events = std::fs::read_to_string(&trace).unwrap_or_default();
    let starts = events.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let starts = starts.filter(|event| event["event"] == "start");
    let words = |event: serde_json::Value| {
        let words = event["argv"].as_array().unwrap().iter().filter_map(|word| word.as_str());
        // The first few, because git also names its own temporary files and process numbers.
        let words = words.skip(1).take(3).map(|word| word.split("/shallow_").next().unwrap_or_default());
        words.collect::<Vec<_>>().join(" ")
    };
    let mut all: Vec<String> = starts.map(words).collect();
    all.sort();
    all
}

/// The same script starts the same processes with our hooks as without any.
fn starts_nothing(world: &World, dir: &str, script: &str, variables: &[(&str, &str)]) {
    let before = world.snapshot();
    let no_hooks =
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "core.hooksPath"), ("GIT_CONFIG_VALUE_0", "/dev/null")];
    let without = started(world, dir, script, &[variables, &no_hooks].concat());
    before.restore();
    let with = started(world, dir, script, variables);
    before.restore();
    assert_eq!(with, without, "{script}");
}

const COMMIT: &str = "echo 1 >>a; git commit -qam m";
const MERGE: &str = "git checkout -q -b topic; echo 1 >>dir/x; git commit -qam topic; git checkout -q main; echo 1 >>a; git commit -qam m; git merge -q topic";

#[test]
fn a_hook_starts_no_process_where_nothing_is_in_conflict() {
    let world = World::with_hooks(true);
    let server = Shared::lend();
    let acts = [
        COMMIT.to_owned(),
        format!("{COMMIT}; git push -q --dry-run"),
        format!("{COMMIT}; {COMMIT}; git push -q"),
        format!("{COMMIT}; git push -q origin main:new"),
        format!("{COMMIT}; git tag -a -m t t; git push -q origin t"),
        format!("{MERGE}; git push -q"),
        "git push -q origin main:new".to_owned(),
    ];
    for held in [&[][..], &["b", "elsewhere/**", "dir/y"]] {
        server.ana.hold_all(if held.is_empty() { &["nowhere"] } else { held });
        for act in &acts {
            starts_nothing(&world, "work", act, &server.variables());
        }
        // The session's own reservations start none either.
        server.bo.hold_all(&["a"]);
        starts_nothing(&world, "work", &format!("{COMMIT}; git push -q"), &server.variables());
        server.bo.release_all();
    }
}

#[test]
fn a_hook_starts_no_process_where_nothing_is_held_even_if_only_git_can_read_the_change() {
    let world = World::with_hooks(false);
    let server = Shared::lend();
    // The index in two files, a history that is too long to read here, a shallow clone, and a forced push.
    let many = "for n in $(seq 400); do echo \"commit refs/heads/main\ncommitter B <b@x> $n +0000\ndata 1\nm\"; test $n != 1 || echo 'from refs/heads/main^0'; echo \"M 100644 inline n\ndata ${#n}\n$n\"; done | git fast-import --quiet --force; git reset -q --hard";
    let setups = [
        ("git update-index --split-index; echo 1 >>a", "git commit -qam m"),
        (many, "git push -q"),
        ("git fetch -q --depth=1 file://$TOP/origin.git main; echo 1 >>a; git commit -qam m", "git push -q"),
        ("echo 1 >>a; git commit -qam m; git push -q; git commit -q --amend -m n", "git push -q --force"),
    ];
    for (setup, act) in setups {
        let before = world.snapshot();
        world.shell("work", setup);
        starts_nothing(&world, "work", act, &server.variables());
        before.restore();
    }
    // Something is held, so git reads it, and the verdict is the same.
    world.shell("work", many);
    server.ana.hold_as("n", Mode::Exclusive);
    let output = world.try_shell("work", "git push -q", &server.variables());
    assert!(!output.status.success() && said(&output).contains("n: held by Ana (ana)"), "{}", said(&output));
}

#[test]
fn a_servers_hook_starts_no_process_where_nothing_is_in_conflict() {
    let world = World::new();
    world.install("origin.git", &["--server"]);
    let server = Shared::lend();
    for held in [&["nowhere"][..], &["b", "elsewhere/**"]] {
        server.ana.hold_all(held);
        for act in ["git push -q", "git push -q origin main:new"] {
            let before = world.snapshot();
            world.shell("work", COMMIT);
            starts_nothing(&world, "work", act, &server.variables());
            before.restore();
        }
    }
}
