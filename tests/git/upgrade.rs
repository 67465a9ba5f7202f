//! Hooks that an earlier version installed, kept in `fixtures/upgrade/`, with the program of today.

use std::path::Path;

use git_dibs::wire::Mode;

use crate::install::git_uses_files;
use crate::world::{World, said, script};

/// Writes the hooks as `git dibs install` of the earlier version did.
fn install_earlier(world: &World, hooks: &str, names: &[&str]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/upgrade/format-2/hooks");
    let program = format!("'{}'", world.path("bin/git-dibs").display());
    std::fs::create_dir_all(world.path(hooks)).unwrap();
    for name in names {
        let text = std::fs::read_to_string(dir.join(name)).unwrap().replace("'@GIT_DIBS@'", &program);
        script(&world.path(hooks).join(name), &text);
    }
}

const CLIENT: [&str; 6] =
    ["pre-commit", "pre-merge-commit", "prepare-commit-msg", "pre-applypatch", "pre-push", "reference-transaction"];

#[test]
fn hooks_of_an_earlier_version_still_protect() {
    if !git_uses_files() {
        return;
    }
    let world = World::new().served();
    install_earlier(&world, "work/.git/hooks", &CLIENT);
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold_as("b", Mode::Exclusive);
    let run = |session: &_, script: &str| {
        let output = world.try_shell("work", script, &world.variables(Some(session)));
        (output.status.success(), said(&output))
    };
    for command in ["git commit -qam his", "git commit --no-verify -qam his"] {
        let (passed, text) = run(&bo, &format!("echo his >>b; {command}"));
        assert!(!passed && text.contains("b: held by ana"), "{command}: {text}");
        run(&bo, "git reset -q --hard");
    }
    let (passed, text) = run(&bo, "echo 1 >>a; git commit -qam other");
    assert!(passed && text.is_empty(), "{text}");
    let (passed, text) = run(&ana, "echo hers >>b; git commit -qam hers; git push -q origin HEAD:hers");
    assert!(passed && text.is_empty(), "{text}");

    // The program of today takes them for its own: it brings them up to date, and removes them.
    assert_eq!(world.try_install("work", &["--strict"]).by_hand, Vec::<String>::new());
    let doctor = world.program("work").arg("doctor").envs(world.variables(Some(&ana))).output().unwrap();
    assert!(doctor.status.success(), "{}", said(&doctor));
    install_earlier(&world, "work/.git/hooks", &CLIENT);
    world.uninstall("work");
    let left = std::fs::read_dir(world.path("work/.git/hooks")).into_iter().flatten().count();
    assert_eq!(left, 0);
}

#[test]
fn a_receiving_hook_of_an_earlier_version_still_protects() {
    if !git_uses_files() {
        return;
    }
    let world = World::new().served();
    install_earlier(&world, "origin.git/hooks", &["pre-receive"]);
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold_as("b", Mode::Exclusive);
    world.shell(
        "work",
        "git -C ../origin.git config receive.advertisePushOptions true; echo his >>b; git commit -qam his",
    );
    let push = |session: &crate::support::session::Session<'_>| {
        let script = format!("git push -q -o dibs-token={} origin main", session.token);
        let output = world.try_shell("work", &script, &world.variables(Some(session)));
        (output.status.success(), said(&output))
    };
    let (passed, text) = push(&bo);
    assert!(!passed && text.contains("b: held by ana"), "{text}");
    let (passed, text) = push(&ana);
    assert!(passed, "{text}");
}
