//! Hooks in a repository without a server.

use std::fs::File;

use crate::support::process::until;
use crate::world::{World, said};

impl World {
    fn unserved() -> World {
        let mut world = World::with_hooks(false);
        world.autostart();
        world
    }

    fn has_server(&self) -> bool {
        !self.background_servers().is_empty()
    }

    /// Commits a change to a file, and returns what was said and whether it went through.
    fn commit(&self, file: &str) -> (String, bool) {
        let output = self.try_shell("work", &format!("echo 1 >>{file}; git commit -qm x {file}"), &[]);
        (said(&output), output.status.success())
    }

    /// Runs the program in `work` as a session of the repository.
    fn as_ana(&self, args: &str) {
        let script =
            format!("PATH=$TOP/bin:$PATH; export DIBS_TOKEN=$(git dibs token ana --name Ana); git dibs {args}");
        let output = self.try_shell("work", &script, &[]);
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn a_commit_starts_the_server_and_is_checked() {
    let world = World::unserved();
    assert_eq!(world.commit("a"), (String::new(), true));
    assert!(world.has_server());
    world.as_ana("reserve b");
    let (text, passed) = world.commit("b");
    assert!(!passed && text.contains("b: held by Ana (ana)"), "{text}");
}

#[test]
fn a_commit_in_a_quiet_repository_starts_nothing() {
    let world = World::unserved();
    world.shell("work", "PATH=$TOP/bin:$PATH; git dibs status 2>/dev/null; git dibs stop 2>/dev/null");
    assert!(world.path("work/.git/dibs/nothing-held").exists());
    assert_eq!(world.commit("a"), (String::new(), true));
    let push = world.try_shell("work", "git push", &[]);
    assert!(push.status.success() && !said(&push).contains("git-dibs"), "{}", said(&push));
    assert!(!world.has_server());
    // The word is worth nothing as soon as a server has started.
    world.as_ana("reserve a");
    assert!(!world.path("work/.git/dibs/nothing-held").exists());
    let (text, passed) = world.commit("a");
    assert!(!passed && text.contains("a: held by Ana"), "{text}");
    world.as_ana("stop");
    let (text, passed) = world.commit("a");
    assert!(!passed && text.contains("a: held by Ana"), "the server is started again: {text}");
}

#[test]
fn a_session_that_must_hold_what_it_changes_is_checked_in_a_quiet_repository_too() {
    let world = World::unserved();
    world.shell("work", "PATH=$TOP/bin:$PATH git dibs session start 2>/dev/null && git config dibs.require held");
    world.shell("work", "PATH=$TOP/bin:$PATH git dibs stop 2>/dev/null; : >.git/dibs/nothing-held");
    let (text, passed) = world.commit("a");
    assert!(!passed && text.contains("it changes a path that you have not reserved"), "{text}");
}

#[test]
fn a_frozen_start_is_reported_once_and_the_policy_decides() {
    let world = World::unserved();
    world.shell(
        "work",
        "git switch -q -c side; for n in 1 2 3; do echo $n >>b; git commit -qam $n; done; git switch -q main",
    );
    // As a server that has taken the repository and goes no further.
    let lock = File::open(world.path("work/.git")).unwrap();
    lock.lock().unwrap();
    let output = world.try_shell("work", "git cherry-pick main..side", &[]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("was not checked").count(), 1, "{text}");
    assert!(text.contains("another server has the repository and does not answer"), "{text}");
    let output = world.try_shell("work", "git push", &[]);
    assert!(!output.status.success() && said(&output).contains("this push is blocked"), "{}", said(&output));
    drop(lock);
    std::fs::remove_file(world.path("work/.git/dibs/start-failed")).unwrap();
    assert_eq!(world.commit("a"), (String::new(), true));
    assert!(world.has_server());
}

#[test]
fn no_hook_starts_a_server_in_ci_or_where_a_push_arrives() {
    let world = World::unserved();
    let output = world.try_shell("work", "echo 1 >>a; git commit -qam x", &[("CI", "true")]);
    assert!(output.status.success() && said(&output).contains("was not checked"), "{}", said(&output));
    assert!(said(&output).contains("CI is set, and none is started in CI"), "{}", said(&output));
    world.install("origin.git", &["--server"]);
    world.install("origin.git", &["--strict"]);
    world.shell("work", "git push -q");
    world.shell("work", "echo 2 >>a; git commit -qam y");
    // Only the receiving side checks it.
    let output = world.try_shell("work", "git push --no-verify", &[]);
    assert!(!output.status.success() && said(&output).contains("this push is blocked"), "{}", said(&output));
    assert!(!world.has_server() && !world.path("origin.git/dibs/server.json").exists());
}

#[test]
fn a_hook_in_the_background_keeps_nothing_of_the_commit_open() {
    let world = World::unserved();
    // The index and the lock files of the commit must not stay in use.
    assert_eq!(world.commit("a"), (String::new(), true));
    let [server] = world.background_servers()[..] else { panic!("one server") };
    let files = std::fs::read_dir(format!("/proc/{server}/fd")).unwrap();
    let open: Vec<_> = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok()).collect();
    let own = world.path("work/.git/dibs");
    let foreign = open.iter().filter(|file| file.starts_with(world.dir()) && !file.starts_with(&own));
    assert_eq!(foreign.collect::<Vec<_>>(), [&world.path("work/.git")], "only the lock of the repository");
    assert!(!open.iter().any(|file| file.to_string_lossy().starts_with("pipe:")), "{open:?}");
    until("the server is asked again", || world.commit("b").1.then_some(()));
}
