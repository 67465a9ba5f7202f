//! The doctor, and what it finds.

use std::os::unix::fs::PermissionsExt;

use git_dibs::hook::Moment;
use serde_json::Value;

use crate::install::git_uses_files;
use crate::world::{PROGRAM, Run, World, said, script};

/// Level, what, advice.
type Findings = Vec<(String, String, Option<String>)>;

/// What the doctor finds without a server.
fn silent(world: &World, dir: &str) -> Findings {
    examined(world, dir, &[("DIBS_URL", "http://127.0.0.1:1")])
}

/// What the doctor finds with these variables.
fn examined(world: &World, dir: &str, variables: &[(&str, &str)]) -> Findings {
    // By its full path, because the one on PATH may be what is missing.
    let mut command = world.command(PROGRAM, dir);
    let output = command.args(["doctor", "--json"]).envs(variables.iter().copied()).run();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let read =
        |finding: &Value| (text(&finding["level"]).unwrap(), text(&finding["what"]).unwrap(), text(&finding["advice"]));
    let found: Findings = told["findings"].as_array().unwrap().iter().map(read).collect();
    let bad = found.iter().any(|(level, ..)| level == "bad");
    assert_eq!((output.status.code(), told["ok"].as_bool()), (Some(i32::from(bad)), Some(!bad)), "{found:#?}");
    found
}

fn about(findings: &[(String, String, Option<String>)], word: &str, level: &str) -> Vec<String> {
    let about = findings.iter().filter(|(of, what, _)| of == level && what.contains(word));
    about.map(|(_, what, _)| what.clone()).collect()
}

#[test]
fn the_doctor_runs_every_hook_in_every_worktree() {
    let world = World::with_hooks(true);
    world.shell("work", "git worktree add -q -b side ../side; git worktree add -q -b gone ../gone; rm -r ../gone");
    // A probe does not run the hook that existed before.
    script(&world.path("work/.git/hooks/pre-commit.dibs-next"), "#!/bin/sh\ntouch \"$TOP/ran\"\n");
    let found = silent(&world, "side");
    assert_eq!(about(&found, " works in ", "good").len(), 14, "{found:#?}");
    assert_eq!(about(&found, "no longer exists", "note").len(), 1);
    assert_eq!(about(&found, "no server answers at http://127.0.0.1:1", "bad").len(), 1);
    assert!(!world.path("ran").exists());
    assert!(found.iter().all(|(level, _, advice)| level == "good" || advice.is_some()), "{found:#?}");
}

#[test]
fn the_doctor_finds_hooks_that_do_not_fire() {
    if !git_uses_files() {
        return;
    }
    let world = World::with_hooks(false);
    let hooks = world.path("work/.git/hooks");
    std::fs::remove_file(hooks.join("pre-push")).unwrap();
    script(&hooks.join("pre-commit"), "#!/bin/sh\ntouch \"$TOP/ran\"\n");
    std::fs::set_permissions(hooks.join("pre-applypatch"), PermissionsExt::from_mode(0o644)).unwrap();
    let found = silent(&world, "work");
    assert_eq!(about(&found, " works in ", "good").len(), 3, "{found:#?}");
    assert_eq!(about(&found, "pre-push is not installed", "bad").len(), 1);
    assert_eq!(about(&found, "does not run git-dibs", "bad").len(), 1);
    assert_eq!(about(&found, "git-dibs was not reached", "bad").len(), 1);
    assert!(!world.path("ran").exists(), "a foreign hook may do anything, so it is not run");

    let world = World::with_hooks(false);
    std::fs::remove_file(world.path("bin/git-dibs")).unwrap();
    let found = silent(&world, "work");
    assert_eq!(about(&found, "git-dibs was not reached", "bad").len(), 6, "{found:#?}");

    let world = World::with_hooks(false);
    world.shell("work", "git worktree add -q -b side ../side; git config core.hooksPath .git/hooks");
    let found = silent(&world, "work");
    assert_eq!(about(&found, "work", "good").len(), 6, "{found:#?}");
    let missing = about(&found, "not installed in ", "bad");
    assert_eq!(missing.len(), 1, "a relative path leads nowhere in side, which is said once: {found:#?}");
    assert!(missing[0].starts_with("pre-commit, pre-merge-commit, prepare-commit-msg, "), "{missing:?}");
}

#[test]
fn the_doctor_probes_a_hook_manager_with_nothing_staged() {
    if !git_uses_files() {
        return;
    }
    let world = World::new();
    world.shell("work", "mkdir -p .husky/_; git config core.hooksPath .husky/_; echo 1 >>a; git add a");
    let runner = "#!/bin/sh\ngit diff --cached --name-only >>\"$(dirname \"$0\")/staged\"\n. \"$(dirname \"$0\")/../pre-commit\"\n";
    script(&world.path("work/.husky/_/pre-commit"), runner);
    let call = format!("'{}' hook pre-commit -- \"$@\" # git-dibs\n", world.path("bin/git-dibs").display());
    std::fs::write(world.path("work/.husky/pre-commit"), call).unwrap();
    let found = silent(&world, "work");
    assert_eq!(about(&found, "pre-commit works through husky in ", "good").len(), 1, "{found:#?}");
    assert_eq!(std::fs::read(world.path("work/.husky/_/staged")).unwrap(), b"");
    assert_eq!(world.shell("work", "git diff --cached --name-only"), "a\n");
    let advice = found.iter().filter_map(|(_, _, advice)| advice.as_deref());
    assert!(advice.clone().any(|advice| advice.contains(".husky/")), "{found:#?}");
}

#[test]
fn on_a_server_the_doctor_checks_only_server_hooks() {
    let world = World::new();
    world.install("origin.git", &["--server"]);
    let found = silent(&world, "origin.git");
    let hooks: Vec<String> = about(&found, " in ", "good");
    assert_eq!(hooks.len(), 1, "{found:#?}");
    assert!(hooks[0].starts_with(&format!("{} works in ", Moment::PreReceive)));
}

#[test]
fn the_doctor_reports_the_server_and_the_session() {
    let world = World::with_hooks(false).served();
    let found = examined(&world, "work", &[]);
    assert_eq!(about(&found, "the server answers (git-dibs ", "good").len(), 1, "{found:#?}");
    assert_eq!(about(&found, "clocks of the server and of this machine agree", "good").len(), 1, "{found:#?}");
    assert_eq!(about(&found, "no session works here", "note").len(), 1, "{found:#?}");
    let bo = world.session("bo");
    let found = examined(&world, "work", &[("DIBS_TOKEN", &bo.token)]);
    assert_eq!(about(&found, "the token belongs to session bo", "good").len(), 1, "{found:#?}");
    bo.hold_as("a", git_dibs::wire::Mode::Exclusive);
    bo.end();
    let found = examined(&world, "work", &[("DIBS_TOKEN", &bo.token)]);
    assert_eq!(about(&found, "bo has ended", "bad").len(), 1, "{found:#?}");
    let found = examined(&world, "work", &[("DIBS_TOKEN", "not.a.token")]);
    assert!(
        found.iter().any(|(level, _, advice)| level == "bad" && advice.as_ref().unwrap().contains("session start")),
        "{found:#?}"
    );
}

#[test]
fn the_doctor_sees_the_settings_of_the_users_git() {
    let world = World::with_hooks(false);
    let no_hooks = [
        ("DIBS_URL", "http://127.0.0.1:1"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "core.hooksPath"),
        ("GIT_CONFIG_VALUE_0", "/dev/null"),
    ];
    if git_uses_files() {
        let found = examined(&world, "work", &no_hooks);
        assert_eq!(about(&found, " works in ", "good"), Vec::<String>::new(), "{found:#?}");
        assert_eq!(about(&found, "are not installed", "bad").len(), 1, "{found:#?}");
    }
    assert_eq!(about(&silent(&world, "work"), " works in ", "good").len(), 6);
}

#[test]
fn the_doctor_is_not_content_with_hooks_that_check_nothing() {
    let world = World::with_hooks(false).served();
    world.shell("work", "git config dibs.enforce off");
    let found = examined(&world, "work", &[]);
    assert_eq!(about(&found, "the hooks check nothing here (dibs.enforce=off)", "bad").len(), 1, "{found:#?}");
    let found = examined(&world, "work", &[("DIBS_ENFORCE", "warn")]);
    assert_eq!(about(&found, "DIBS_ENFORCE=warn", "note").len(), 1, "{found:#?}");
}
