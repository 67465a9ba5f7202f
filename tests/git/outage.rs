//! A server that freezes while git runs many hooks.

use crate::support::process::until;
use crate::world::{World, said};

/// Three commits to pick, each of which runs hooks.
const COMMITS: &str =
    "git switch -q -c side; for n in 1 2 3; do echo $n >>b; git commit -qam \"side $n\"; done; git switch -q main";

#[test]
fn a_frozen_server_is_reported_once_for_a_cherry_pick() {
    let world = World::with_hooks(false).served();
    world.shell("work", COMMITS);
    world.signal(libc::SIGSTOP);
    let output = world.try_shell("work", "git cherry-pick main..side", &[]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("was not checked").count(), 1, "{text}");
    // Another command says it again, and a push is blocked with the reason.
    let text = said(&world.try_shell("work", "echo 1 >>c; git commit -qam c", &[]));
    assert_eq!(text.matches("was not checked").count(), 1, "{text}");
    let output = world.try_shell("work", "git push", &[]);
    assert!(!output.status.success() && said(&output).contains("did not reply within"), "{}", said(&output));
    world.signal(libc::SIGCONT);
}

#[test]
fn a_server_that_is_back_is_asked_at_once() {
    let world = World::with_hooks(false).served();
    let ana = world.session("ana");
    ana.hold("a");
    world.signal(libc::SIGSTOP);
    let text = said(&world.try_shell("work", "echo 1 >>b; git commit -qam b", &[]));
    assert!(text.contains("was not checked"), "{text}");
    assert!(world.path("work/.git/dibs/outage").exists());
    world.signal(libc::SIGCONT);
    until("the server answers", || (world.get("/healthz", "").status == 200).then_some(()));
    let output = world.try_shell("work", "echo 1 >>a; git commit -qam a", &[]);
    assert!(said(&output).contains("this commit is blocked"), "{}", said(&output));
    assert!(!world.path("work/.git/dibs/outage").exists());
}
