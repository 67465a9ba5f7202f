//! A git that runs hooks from its configuration (2.54 and newer). `./test` unpacks one into `target/managers`; without it
//! these tests are skipped with a sentence.

use git_dibs::git::Version;
use git_dibs::wire::Mode;

use crate::managers;
use crate::server::Shared;
use crate::support::world::skip;
use crate::world::{World, said};

/// A world in which `git` is the newer one and `$OLDER` is the directory of the machine's own.
fn world() -> Option<World> {
    let dir = managers::dir("newer-git/bin");
    if !dir.join("git").exists() {
        skip("hooks in the configuration, because a git that has them is not in target/managers");
        return None;
    }
    let mut world = World::with_hooks(false);
    let path = std::env::var("PATH").unwrap_or_default();
    world.set_variable("PATH", format!("{}:{}:{path}", world.path("bin").display(), dir.display()));
    world.set_variable("OLDER", path);
    Some(world)
}

fn machine_has_an_older_git() -> bool {
    Version::of_git().unwrap() < Version::CONFIG_HOOKS
}

/// Runs a script as a session that is not the holder, which must be stopped; returns how often that is said.
#[track_caller]
fn blocks(world: &World, server: &Shared, script: &str) -> usize {
    let output = world.try_shell("work", script, &server.variables());
    assert!(!output.status.success(), "{script}\n{}", said(&output));
    said(&output).matches(" is blocked: it changes a path that another session holds").count()
}

const COMMIT: &str = "echo 1 >>a; git commit -qam m";
const PUSH: &str = "echo 1 >>a; DIBS_ENFORCE=off git commit -qam m; git push -q";

#[test]
fn a_git_that_runs_both_kinds_of_hooks_checks_once() {
    let Some(world) = world() else { return };
    let server = Shared::lend();
    server.ana.hold_as("a", Mode::Exclusive);
    let before = world.snapshot();
    for script in [
        COMMIT,
        "echo 1 >>a; git commit -qam m --no-verify",
        "git checkout -q -b x; echo 1 >>a; DIBS_ENFORCE=off git commit -qam x; git checkout -q main; echo 1 >>b; git commit -qam b; git cherry-pick x",
        PUSH,
        "echo 1 >>a; git diff >../patch; git checkout -q a; printf 'From x\\nFrom: B <b@x>\\nSubject: m\\n\\n---\\n' | cat - ../patch | git am -q",
    ] {
        assert_eq!(blocks(&world, &server, script), 1, "{script}");
        before.restore();
    }
    let output = world.try_shell("work", "echo 1 >>b; git commit -qam b; git push -q", &server.variables());
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "{}", said(&output));
    let left = world.shell("work", "ls .git/dibs | grep -c ^checked- || true");
    assert_eq!(left.trim(), "0", "the second hook removes the note of the first");
}

#[test]
fn a_hook_in_the_configuration_runs_where_no_hook_file_does() {
    let Some(world) = world() else { return };
    let server = Shared::lend();
    server.ana.hold_as("a", Mode::Exclusive);
    world.shell("work", "git config --global core.hooksPath $TOP/empty; git worktree add -q -b side ../side");
    let before = world.snapshot();
    for script in [COMMIT, PUSH, &format!("cd ../side; {COMMIT}")] {
        assert_eq!(blocks(&world, &server, script), 1, "{script}");
        before.restore();
        if machine_has_an_older_git() {
            let output = world.try_shell("work", &format!("PATH=$OLDER; {script}"), &server.variables());
            assert!(!said(&output).contains("git-dibs:"), "an older git knows only files: {}", said(&output));
            before.restore();
        }
    }
    let output = world.try_shell("work", "git-dibs doctor", &server.variables());
    let good = said(&output).lines().filter(|line| line.starts_with("good") && line.contains(" works")).count();
    assert!(output.status.success() && good >= 5, "{}", said(&output));
    world.shell("work", "git config hook.dibs-pre-push.enabled false");
    let output = world.try_shell("work", "git-dibs doctor", &server.variables());
    assert!(!output.status.success() && said(&output).contains("pre-push"), "{}", said(&output));
}

#[test]
fn an_older_and_a_newer_git_protect_the_same_repository() {
    let Some(world) = world() else { return };
    let server = Shared::lend();
    server.ana.hold_as("a", Mode::Exclusive);
    let before = world.snapshot();
    for script in [COMMIT, PUSH] {
        for script in [script.to_owned(), format!("PATH=$OLDER; {script}")] {
            assert_eq!(blocks(&world, &server, &script), 1, "{script}");
            before.restore();
        }
    }
}

#[test]
fn a_newer_git_receives_through_the_servers_hook() {
    let Some(world) = world() else { return };
    let server = Shared::lend();
    server.ana.hold_as("a", Mode::Exclusive);
    world.install("origin.git", &["--server"]);
    let before = world.snapshot();
    world.shell("work", "echo 1 >>a; git commit -qam m");
    assert_eq!(blocks(&world, &server, "git push -q --no-verify"), 1);
    before.restore();
    world.shell("work", "echo 1 >>b; git commit -qam m");
    let output = world.try_shell("work", "git push -q --no-verify", &server.variables());
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "{}", said(&output));
}

/// The machine's own git is older, and does not run what is only in the configuration.
#[test]
fn installed_with_a_newer_git_it_still_says_what_an_older_one_needs() {
    let Some(world) = world().filter(|_| machine_has_an_older_git()) else { return };
    world.shell("work", "echo 'pre-push: {}' >lefthook.yml");
    let report = world.try_install("work", &[]);
    assert!(report.by_hand.concat().contains("lefthook.yml"), "{report:?}");
}
