//! How long what an agent reserved stays reserved.

use serde_json::{Value, json};

use super::fake::{FakeAgent, keepers};
use crate::support::process::until;
use crate::support::world::time;
use crate::world::{World, said};

fn world() -> World {
    World::with_hooks(false).served()
}

fn kill(pid: u32) {
    // SAFETY: takes plain numbers.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) }, 0);
}

#[test]
fn the_model_is_told_at_the_start() {
    let world = world();
    world.session_with("ana", json!({ "name": "Ana" })).hold("b");
    for (name, field) in [
        ("claude", "/hookSpecificOutput/additionalContext"),
        ("copilot", "/additionalContext"),
        ("opencode", "/context"),
    ] {
        let agent = FakeAgent::start(&world, name, "its-own-id");
        let answer: Value = serde_json::from_str(&agent.start_session()).unwrap();
        let text = answer.pointer(field).and_then(Value::as_str).unwrap_or_else(|| panic!("{answer}"));
        assert!(text.contains("git dibs status") && text.contains("\"b\" by \"Ana\" (ana), "), "{text}");
        let sessions = world.get("/api/sessions?state=active", &world.reader()).ok().to_string();
        assert!(sessions.contains(&format!("\"{name}-")) && !sessions.contains("its-own-id"), "{sessions}");
        agent.end_session();
    }
}

#[test]
fn the_end_of_the_session_releases_everything() {
    let world = world();
    let claude = FakeAgent::start(&world, "claude", "e1");
    for file in ["a", "b"] {
        assert_eq!(claude.edit(file), None);
    }
    claude.end_session();
    assert_eq!(world.held(), [""; 0]);
    let left = std::fs::read_dir(world.path("work/.git/dibs/runs")).unwrap().count();
    assert_eq!(left, 0, "no token stays behind");
    let top = world.path("work/.git").canonicalize().unwrap();
    // A resumed session has the same id, and starts anew.
    assert_eq!(claude.edit("a"), None);
    assert_eq!(world.held().len(), 1);
    claude.end_session();
    drop(claude);
    until("the keepers are gone", || keepers(top.to_str().unwrap()).is_empty().then_some(()));
}

/// The last hook names one directory, and only the session of its repository was ended.
#[test]
fn what_an_agent_reserved_in_another_repository_was_not_released_at_its_end() {
    let world = world();
    world.shell("", "git init -q other; mkdir between");
    let mut serve = world.serve_command("other", &[]);
    let mut server = crate::world::Process::start(&mut serve).unwrap();
    server.line();
    let held = || said(&crate::world::Run::run(world.program("other").args(["status", "--json"])));
    // Where the agent is at its end: in one of the repositories, or in none of them.
    for (n, end) in ["work", "other", "between"].into_iter().enumerate() {
        let mut claude = FakeAgent::start(&world, "claude", &format!("r{n}"));
        claude.start_session();
        assert_eq!((claude.edit("a"), claude.edit("../other/y")), (None, None));
        assert!(held().contains("\"y\"") && world.held().len() == 1, "{}", held());
        claude.cwd = world.path(end).canonicalize().unwrap();
        claude.end_session();
        assert!(!held().contains("\"y\""), "{end}: {}", held());
        assert_eq!(world.held(), [""; 0], "{end}");
    }
    let left = std::fs::read_dir(world.path("home/.local/state/git-dibs/agents")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_killed_agent_holds_nothing() {
    let world = world();
    let (claude, codex) = (FakeAgent::start(&world, "claude", "k1"), FakeAgent::start(&world, "codex", "k2"));
    assert_eq!((claude.edit("a"), codex.edit("b")), (None, None));
    claude.keeper();
    claude.kill();
    until("the keeper has released it", || (world.held().len() == 1).then_some(()));
    assert!(world.held()[0].starts_with("codex-"), "{:?}", world.held());
}

#[test]
fn without_agent_and_keeper_a_hold_lasts_five_minutes_or_until_it_is_in_the_way() {
    let world = world();
    let (claude, codex) = (FakeAgent::start(&world, "claude", "k1"), FakeAgent::start(&world, "codex", "k2"));
    assert_eq!(claude.edit("a"), None);
    kill(claude.keeper());
    claude.kill();
    let one = &world.reservations()[0];
    let lasts = time(&one["expiresAt"]) - time(&one["reservedAt"]);
    assert!((290_000..=320_000).contains(&lasts), "{one}");
    assert_eq!(codex.edit("a"), None, "the agent that held it is gone");
    assert!(world.held()[0].starts_with("codex-"), "{:?}", world.held());
}

#[test]
fn the_next_hook_replaces_a_killed_keeper() {
    let world = world();
    let claude = FakeAgent::start(&world, "claude", "r1");
    assert_eq!(claude.edit("a"), None);
    let first = claude.keeper();
    kill(first);
    let top = world.path("work/.git").canonicalize().unwrap();
    until("it is dead", || keepers(top.to_str().unwrap()).is_empty().then_some(()));
    assert_eq!(claude.edit("a"), None);
    assert_ne!(claude.keeper(), first);
}

#[test]
fn a_path_is_released_when_it_is_committed_and_clean() {
    let world = world();
    let claude = FakeAgent::start(&world, "claude", "c1");
    let keys = || world.held().iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>();
    for file in ["a", "b", "c", "gone"] {
        assert_eq!(claude.edit(file), None);
    }
    world.shell(
        "work",
        "echo 1 >>a; echo 1 >>b; echo 1 >gone; git add a b gone; git commit -qm m; echo 2 >>b; git rm -q gone",
    );
    // The keeper notices, or the next hook; `c` was never changed, `b` and `gone` are not clean.
    until("a is released", || (keys() == ["b", "c", "gone"]).then_some(()));
    world.shell("work", "git commit -qam m");
    assert_eq!(claude.edit("b"), None, "it is clean, but about to be edited again");
    until("gone is released", || (keys() == ["b", "c"]).then_some(()));
    world.shell("work", "git config dibs.agentRelease session; echo 1 >>c; git commit -qam m");
    assert_eq!(claude.edit("c"), None);
    assert_eq!(keys(), ["b", "c"]);
    let end = claude.event("SessionEnd", json!({}));
    claude.hook(&end);
    assert_eq!(keys(), [""; 0]);
}

#[test]
fn with_release_at_push_a_commit_does_not_release() {
    let world = world();
    world.shell("work", "git config dibs.agentRelease push");
    let claude = FakeAgent::start(&world, "claude", "p1");
    for file in ["a", "b"] {
        assert_eq!(claude.edit(file), None);
    }
    world.shell("work", "echo 1 >>a; git commit -qam m");
    assert_eq!(claude.edit("b"), None, "a look at what was committed");
    assert_eq!(world.held().len(), 2);
    world.shell("work", "git push -q");
    until("a is released", || (world.held().len() == 1).then_some(()));
}

/// Its data was deleted, so it has another secret and knows no session.
#[test]
fn a_server_that_starts_anew_gets_a_new_session() {
    let mut world = world();
    let first = {
        let claude = FakeAgent::start(&world, "claude", "n1");
        assert_eq!(claude.edit("a"), None);
        kill(claude.keeper());
        world.held()
    };
    world.kill();
    world.shell("work", "cd .git/dibs; rm -rf journal.db* secret read-token ledger.git server.json");
    world.start();
    let claude = FakeAgent::start(&world, "claude", "n1");
    for _ in 0..2 {
        assert_eq!(claude.edit("a"), None);
        assert_eq!(world.held().len(), 1);
        assert_ne!(world.held(), first);
    }
    let (code, text) = claude.shell("echo 1 >>a; git commit -qam m");
    assert_eq!((&*code, &*text), ("0", ""));
}

#[test]
fn an_edit_starts_the_server_that_it_needs() {
    let mut world = World::new();
    world.autostart();
    // Only where git-dibs is set up.
    let untouched = FakeAgent::start(&world, "codex", "z1");
    assert_eq!(untouched.edit("a"), None);
    assert!(world.background_servers().is_empty());
    world.shell("work", "mkdir -m 700 .git/dibs");
    let claude = FakeAgent::start(&world, "claude", "z2");
    assert_eq!(claude.edit("a"), None);
    assert!(!world.background_servers().is_empty());
    assert!(untouched.edit("a").is_some_and(|reason| reason.contains("a is held by claude-")));
}

/// The hooks in committed files did nothing in a clone until some command had been run there.
#[test]
fn committed_hooks_protect_a_clone_where_no_command_was_run() {
    let mut world = World::new();
    world.autostart();
    world.shell("work", "mkdir .codex; echo '{\"command\": \"git-dibs agent-hook codex\"}' >.codex/hooks.json");
    let (codex, other) = (FakeAgent::start(&world, "codex", "y1"), FakeAgent::start(&world, "codex", "y2"));
    assert_eq!(codex.edit("a"), None);
    assert!(!world.background_servers().is_empty());
    assert!(other.edit("a").is_some_and(|reason| reason.contains("a is held by codex-")));
}
