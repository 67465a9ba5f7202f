//! History: `log`, `who` and `ledger`, with and without a server.

use serde_json::json;

use crate::world::{Run, World, until};

/// A server with a short history, all of it in the ledger.
fn world() -> World {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/", "--reason", "moving it"]).ok();
    world.as_session("ana", ["release", "src/"]).ok();
    world.as_session("bo", ["reserve", "src/a.rs", "--ttl", "300"]).ok();
    until("the ledger has the last event", || {
        let dir = world.path("app/.git/dibs/ledger.git");
        let mut git = world.command("git", "app");
        let output = git.arg("--git-dir").arg(dir).args(["show", "ledger:src/a.rs"]).run();
        output.status.success().then_some(())
    });
    world
}

/// The lines without their times.
fn told(out: &str) -> Vec<String> {
    out.lines().map(|line| line.split_once("  ").unwrap().1.to_owned()).collect()
}

#[test]
fn a_path_has_a_history_with_and_without_a_server() {
    let mut world = world();
    let expected = [
        "#5 reserved src/a.rs by BO (bo)",
        "#3 released src/** by ANA (ana)",
        "#2 reserved src/** by ANA (ana): moving it",
    ];
    assert_eq!(told(&world.dibs(["log", "src/a.rs"]).ok().out), expected);
    assert_eq!(told(&world.dibs(["log", "a.rs"]).at("src").ok().out), expected);
    // The times are marked as UTC, and can be given back.
    let times = world.dibs(["log", "src/a.rs"]).ok().out;
    let time = times.split_whitespace().next().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{times}");
    assert_eq!(told(&world.dibs(["log", "src/a.rs", "--since", time, "-n", "1"]).ok().out), expected[..1]);
    assert_eq!(told(&world.dibs(["log", "--session", "bo", "-n", "1"]).ok().out), expected[..1]);
    assert_eq!(told(&world.dibs(["log", "README"]).ok().out), [""; 0]);
    assert_eq!(told(&world.dibs(["log", "src/a.rs", "--since", "1h"]).ok().out), expected);
    let list = world.dibs(["log", "src/a.rs", "--json"]).json();
    assert_eq!((&list["events"][0]["event"], &list["events"][0]["sessionName"]), (&json!("reserved"), &json!("BO")));
    let who = world.dibs(["who", "src/a.rs"]).ok().out;
    assert!(who.starts_with("src/a.rs: held by BO (bo), "), "{who}");
    assert_eq!(world.dibs(["who", "README"]).ok().err, "git-dibs: no session holds it\n");
    let said = world.dibs(["log", "--since", "yesterday"]).fails(2);
    assert!(said.err.contains("is not a time"), "{said:?}");

    world.kill();
    let said = world.dibs(["log", "src/a.rs"]).ok();
    assert_eq!(told(&said.out), expected);
    assert!(said.err.contains("what the ledger in this repository says"), "{said:?}");
    assert_eq!(world.dibs(["who", "src/a.rs"]).ok().out, "src/a.rs: held by BO (bo)\n");
}

#[test]
fn a_ledger_can_be_checked_found_and_shared() {
    let world = world();
    let dir = world.dibs(["ledger", "show-path"]).ok().out;
    assert!(dir.trim().ends_with("app/.git/dibs/ledger.git"), "{dir}");
    let shelves = world.dibs(["ledger", "show-path", "src/a.rs", "src/", ".gitmodules", "db:schema:x"]).ok().out;
    assert_eq!(shelves, "src/a.rs\n.dibs/glob/src%2F**\n.dibs/path/%2Egitmodules\n.dibs/name/db:schema:x\n");
    let said = world.dibs(["ledger", "verify"]).ok();
    assert!(
        said.out.starts_with("the ledger is undamaged: 5 events in ")
            && said.out.ends_with(", the last is #5; 1 reservation held\n"),
        "{said:?}"
    );
    assert_eq!(world.dibs(["ledger", "verify", "--json"]).json()["held"], 1);

    world.git(&["init", "--quiet", "--bare", "../hub.git"]);
    world.git(&["remote", "add", "origin", "../hub.git"]);
    world.dibs(["ledger", "push", "origin"]).ok();
    world.git(&["clone", "--quiet", "../hub.git", "../clone"]);
    let inside = |args: &[&str]| {
        let mut call = world.dibs(args);
        call.command.current_dir(world.path("clone"));
        call
    };
    inside(&["ledger", "verify"]).fails(1);
    inside(&["ledger", "fetch", "origin"]).ok();
    assert!(inside(&["ledger", "verify"]).ok().out.starts_with("the ledger is undamaged: 5 events"));
    assert_eq!(told(&inside(&["log", "src/a.rs"]).ok().out).len(), 3);
    assert!(inside(&["ledger", "fetch", "../nowhere"]).fails(1).err.contains("could not fetch a ledger from"));

    // A commit made by hand is detected.
    let hand = "git commit-tree -p ledger -m x ledger^{tree} | xargs git update-ref refs/heads/ledger";
    let done = world.command("sh", "app").env("GIT_DIR", dir.trim()).args(["-c", hand]).run().status;
    assert!(done.success());
    let said = world.dibs(["ledger", "verify"]).fails(1);
    assert!(said.err.contains("was not written by git-dibs"), "{said:?}");
}

#[test]
fn the_log_is_in_plain_words_with_the_path() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    world.as_session("bo", ["request", "src/a.rs", "--reason", "a fix"]).ok();
    world.as_session("bo", ["wait", "src/a.rs", "--timeout", "1"]).fails(7);
    let waiting = world.as_session("bo", ["reserve", "src/a.rs", "--wait", "60"]).start();
    world.until_waits_for("bo", &["src/a.rs"]);
    world.as_session("ana", ["approve"]).ok();
    assert!(waiting.finish().status.success());
    world.as_session("bo", ["session", "end"]).run();
    let log = told(&world.dibs(["log"]).ok().out);
    let says = |text: &str| assert!(log.iter().any(|line| line.contains(text)), "{text}\n{log:#?}");
    says("asked to release src/a.rs by BO (bo): a fix");
    says("stopped waiting for src/a.rs by BO (bo), timed out");
    says("waiting for src/a.rs by BO (bo)");
    says("agreed to release src/a.rs by ANA (ana)");
    says("granted after waiting: src/a.rs by BO (bo)");
    says("session started by ANA (ana)");
    let raw = ["unlockRequested", "unlockAnswered", "timedOut", "seated", "queued"];
    assert!(!log.iter().any(|line| raw.iter().any(|word| line.contains(word))), "{log:#?}");
}
