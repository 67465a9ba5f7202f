//! Killed agents, no server, no git-dibs.

use std::fs;
use std::process::Command;

use crate::calls::Act;
use crate::each_agent;
use crate::make::Make;
use crate::support::process::until;
use crate::world::{Checkout, EDITED, HELLO, holds};

each_agent!(killed_agent: claude, codex, gemini, copilot, qwen, opencode);
each_agent!(no_server: claude, codex, gemini, copilot, qwen, opencode);
each_agent!(colleague_without_git_dibs: claude, codex, gemini, copilot, qwen, opencode);

/// Everything is released when the agent is killed, although it says no good-bye.
fn killed_agent(checkout: &mut Checkout, make: Make) {
    let running = checkout.start(make, &[Act::Edit("a.txt"), checkout.gate()]);
    until("the agent holds the file", || holds(&checkout.held(), make, "a.txt").then_some(()));
    // Some are two processes: one starts the other.
    running.process.signal(libc::SIGKILL);
    checkout.until_nothing_is_held();
}

/// Without a server the policy decides: by default an edit goes on, and with `block` it is denied.
fn no_server(checkout: &mut Checkout, make: Make) {
    checkout.dibs(&["stop"]);
    let run = |act: Act| {
        let no_start = |command: &mut Command| {
            command.env("DIBS_AUTOSTART", "0");
        };
        checkout.start_with(make, None, &[("main", &[act])], no_start).finish()
    };
    let talk = run(Act::Edit("a.txt"));
    assert_eq!(checkout.read("a.txt"), EDITED, "{}", talk.last_result());
    checkout.git(&["config", "dibs.onUnreachable", "block"]);
    let talk = run(Act::Edit("b.txt"));
    assert_eq!(checkout.read("b.txt"), HELLO);
    assert!(talk.last_result().contains("could not be checked"), "{}", talk.last_result());
}

/// The committed files do nothing on a machine without git-dibs.
fn colleague_without_git_dibs(checkout: &mut Checkout, make: Make) {
    fs::remove_file(checkout.world.path("bin/git-dibs")).unwrap();
    let talk = checkout.run(make, &[Act::Edit("a.txt")]);
    assert_eq!(checkout.read("a.txt"), EDITED, "{}", talk.last_result());
    assert!(!talk.last_result().contains("git-dibs"), "{}", talk.last_result());
    std::os::unix::fs::symlink(crate::support::world::PROGRAM, checkout.world.path("bin/git-dibs")).unwrap();
    assert_eq!(checkout.held(), Vec::<String>::new());
}
