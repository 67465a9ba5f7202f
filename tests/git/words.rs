//! The exact messages of a blocked commit and push, of install and of the doctor.

use git_dibs::wire::Mode;
use serde_json::json;

use crate::install::git_uses_files;
use crate::world::{Run, World, said};

/// A line without the name of a commit.
fn without_hash(line: &str) -> String {
    match line.split_once("changed by ").and_then(|(start, rest)| Some((start, rest.split_once(' ')?.1))) {
        Some((start, rest)) => format!("{start}changed by HASH {rest}"),
        None => line.to_owned(),
    }
}

/// What a script prints, without what differs from run to run.
fn told(world: &World, script: &str, variables: &[(&str, &str)]) -> String {
    let script = format!("export PATH=$TOP/bin:$PATH; {script}");
    let text = said(&world.try_shell("work", &script, variables));
    let real = std::fs::canonicalize(world.path("")).unwrap();
    let text =
        text.replace(real.to_str().unwrap(), "…").replace(world.path("").to_str().unwrap().trim_end_matches('/'), "…");
    let text: String = text.lines().map(|line| format!("{}\n", without_hash(line))).collect();
    // The clock has gone on a little since the reservation was made.
    let a_little_less = (30..60).map(|seconds| format!("4 min {seconds} s left"));
    a_little_less.fold(text, |text, shorter| text.replace(&shorter, "5 min left"))
}

#[test]
fn messages_of_a_blocked_commit_and_push() {
    let world = World::with_hooks(false).served();
    let (ana, bo) = (world.session_with("sess_7f3a", json!({ "name": "ana" })), world.session("bo"));
    ana.hold_as("dir/", Mode::Exclusive);
    let acting = world.variables(Some(&bo));
    insta::assert_snapshot!(told(&world, "echo 1 >>a; echo 1 >>dir/x; git commit -am change", &acting), @r"
    git-dibs: this commit is blocked: it changes a path that another session holds (dibs.enforce=block by default).
      dir/x: held by ana (sess_7f3a) through dir/**, 5 min left: a good reason
    To leave it out, commit only your own paths: git commit -- PATH...
    Ask the holder to release it, with all of dir/**: git dibs request :/dir/x --reason TEXT
    Or wait for it: git dibs wait :/dir/x
    ");
    insta::assert_snapshot!(told(&world, "git commit -am change", &[]), @r"
    git-dibs: this commit is blocked: it changes a path that another session holds (dibs.enforce=block by default).
      dir/x: held by ana (sess_7f3a) through dir/**, 5 min left: a good reason
    To leave it out, commit only your own paths: git commit -- PATH...
    Talk to the holder, or start a session and wait: git dibs session start && git dibs wait :/dir/x
    ");
    let push = "git -c dibs.enforce=off commit -qam change; git push 2>&1 | grep -v '^error: failed'";
    insta::assert_snapshot!(told(&world, push, &acting), @r"
    git-dibs: this push is blocked: it changes a path that another session holds (dibs.enforce=block by default).
      dir/x: held by ana (sess_7f3a) through dir/**, 5 min left: a good reason
        changed by HASH of Bo: change
    Ask the holder to release it, with all of dir/**: git dibs request :/dir/x --reason TEXT
    Or wait for it: git dibs wait :/dir/x
    ");
    insta::assert_snapshot!(told(&world, "cd dir; git -c dibs.enforce=warn push -q", &acting), @r"
    git-dibs: warning for this push: it changes a path that another session holds (dibs.enforce=warn).
      dir/x: held by ana (sess_7f3a) through dir/**, 5 min left: a good reason
        changed by HASH of Bo: change
    Ask the holder to release it, with all of dir/**: git dibs request :/dir/x --reason TEXT
    Or wait for it: git dibs wait :/dir/x
    ");
}

#[test]
fn suggested_commands_work_in_any_directory() {
    let world = World::with_hooks(false).served();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let acting = world.variables(Some(&bo));
    // Each from the user's directory. With `git -C` the hook does not learn that directory from git.
    for (standing, commit) in
        [("", "git commit -qam m"), ("dir/", "git commit -qam m"), ("dir/", "git -C .. commit -qam m")]
    {
        for name in ["plain", "it's [id].ts", "--all", "$HOME \"x\"", "file:x", ":x"] {
            assert!(ana.try_hold_literally(format!("dir/{name}").as_bytes()));
            std::fs::write(world.path("work/dir").join(name), "1").unwrap();
            let text = told(&world, &format!("git add .; cd ./{standing}; {commit}"), &acting);
            let words = text.split("git dibs request ").nth(1).and_then(|rest| rest.split(" --reason TEXT").next());
            let words = words.unwrap_or_else(|| panic!("no suggestion: {text}"));
            let script = format!("cd ./{standing}; git dibs request {words} --reason why --json");
            let script = format!("export PATH=$TOP/bin:$PATH; {script}");
            let output = world.try_shell("work", &script, &acting);
            assert!(output.status.success(), "{script}: {}", said(&output));
            let asked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let shown = asked["filePath"].as_str().unwrap();
            let shown = shown.strip_prefix("file:").unwrap_or(shown);
            assert_eq!(shown, format!("dir/{name}"), "{script}: {asked}");
            world.shell("work", "git reset -q --hard");
        }
    }
}

#[test]
fn messages_of_install_doctor_and_uninstall() {
    if !git_uses_files() {
        return;
    }
    let mut world = World::new();
    insta::assert_snapshot!(told(&world, "git dibs install; git dibs install", &[]), @r"
    hook.dibs-* set in git's configuration, for git 2.54 and newer
    …/work/.git/hooks/pre-commit installed
    …/work/.git/hooks/pre-merge-commit installed
    …/work/.git/hooks/prepare-commit-msg installed
    …/work/.git/hooks/pre-applypatch installed
    …/work/.git/hooks/pre-rebase installed
    …/work/.git/hooks/pre-push installed
    git-dibs: the hooks are installed; test them with: git dibs doctor
    git-dibs: the hooks are installed already
    ");
    world.start();
    let bo = world.session("bo");
    let version = git_dibs::git::Version::of_git().unwrap().to_string();
    let doctor = told(&world, "git dibs doctor", &world.variables(Some(&bo)));
    let doctor = doctor
        .replace(&version, "2.x")
        .replace(env!("CARGO_PKG_VERSION"), "0.x")
        .replace(world.url(), "http://127.0.0.1:3427");
    // It has no socket if the path would be too long for one.
    let doctor = doctor.replace("unix:…/work/.git/dibs/dibs.sock or ", "");
    insta::assert_snapshot!(doctor, @r"
    good  git-dibs 0.x, git 2.x
    good  pre-commit works in …/work
    good  pre-merge-commit works in …/work
    good  prepare-commit-msg works in …/work
    good  pre-applypatch works in …/work
    good  pre-rebase works in …/work
    good  pre-push works in …/work
    good  dibs.enforce=block by default; dibs.require=none by default; at a commit dibs.onUnreachable=warn by default, at a push dibs.onUnreachable=block by default
    good  the server answers (git-dibs 0.x at http://127.0.0.1:3427)
    good  the token belongs to session bo
    good  the clocks of the server and of this machine agree
    git-dibs: everything works
    ");
    world.kill();
    std::fs::remove_file(world.path("work/.git/hooks/pre-push")).unwrap();
    let doctor = told(&world, "git dibs doctor || echo exit $?", &[("DIBS_URL", "http://127.0.0.1:1")]);
    insta::assert_snapshot!(doctor.replace(&version, "2.x").replace(env!("CARGO_PKG_VERSION"), "0.x"), @r"
    good  git-dibs 0.x, git 2.x
    good  pre-commit works in …/work
    good  pre-merge-commit works in …/work
    good  prepare-commit-msg works in …/work
    good  pre-applypatch works in …/work
    good  pre-rebase works in …/work
    bad   pre-push is not installed in …/work
          Run: git dibs install
    good  dibs.enforce=block by default; dibs.require=none by default; at a commit dibs.onUnreachable=warn by default, at a push dibs.onUnreachable=block by default
    bad   no server answers at http://127.0.0.1:1 (connection refused); is git dibs serve running?
          Start it with: git dibs serve --background, or correct dibs.url or DIBS_URL.
    exit 1
    git-dibs: 2 things do not work
    ");
    insta::assert_snapshot!(told(&world, "git dibs uninstall; git dibs uninstall", &[]), @r"
    hook.dibs-* removed from git's configuration
    …/work/.git/hooks/pre-commit removed
    …/work/.git/hooks/pre-merge-commit removed
    …/work/.git/hooks/prepare-commit-msg removed
    …/work/.git/hooks/pre-applypatch removed
    …/work/.git/hooks/pre-rebase removed
    git-dibs: no git-dibs hooks are installed here
    ");
}

#[test]
fn a_hook_prints_json_for_programs() {
    let world = World::with_hooks(false);
    world.shell("work", "echo 1 >>a; git add a");
    let output = world.program("work").args(["hook", "pre-commit", "--json"]).run();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), told["exitCode"].as_i64()), (Some(0), Some(0)), "{told}");
    assert!(told["hook"] == "pre-commit" && told["message"].as_str().unwrap().contains("was not checked"), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let output = world.program("work").args(["hook", "nonsense", "--"]).run();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let output = world.program("work").args(["hook"]).run();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
