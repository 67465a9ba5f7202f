//! What every command says about itself.

use crate::world::{PROGRAM, Run, World};

const COMMANDS: [&str; 32] = [
    "serve",
    "token",
    "run",
    "session",
    "session start",
    "session end",
    "session list",
    "reserve",
    "release",
    "renew",
    "check",
    "wait",
    "status",
    "who",
    "log",
    "ledger",
    "ledger verify",
    "ledger push",
    "ledger fetch",
    "ledger show-path",
    "db",
    "db backup",
    "db check",
    "db compact",
    "request",
    "requests",
    "approve",
    "reject",
    "withdraw",
    "completions",
    "man",
    "install-commands",
];

#[test]
fn help_reads_as_it_should() {
    let world = World::new();
    for command in COMMANDS {
        let said = world.dibs(command.split_whitespace().chain(["--help"])).ok();
        insta::assert_snapshot!(command.replace(' ', "-"), said.out);
        assert!(!said.out.contains('\u{1b}'), "no colour where there is no terminal");
        assert_eq!(said.err, "");
    }
    for name in ["rlock", "runlock", "rlock-heartbeat"] {
        let link = world.path(name);
        std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
        let output = world.command(&link, "app").arg("--help").run();
        insta::assert_snapshot!(name, String::from_utf8(output.stdout).unwrap());
    }
}

#[test]
fn completions_know_every_command() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = world.dibs(["completions", shell]).ok();
        for command in ["reserve", "install-commands", "withdraw"] {
            assert!(said.out.contains(command), "{command} for {shell}");
        }
    }
    world.dibs(["completions", "cash"]).fails(2);
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::new();
    let said = world.dibs(["man"]).ok();
    assert!(said.out.contains(".TH git-dibs 1"), "{}", said.out);
    let dir = world.path("man1");
    world.dibs(["man".as_ref(), dir.as_os_str()]).ok();
    for page in ["git-dibs", "git-dibs-reserve", "git-dibs-session-start"] {
        let text = std::fs::read_to_string(dir.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(&format!(".TH {page} 1")), "{page}");
    }
    assert!(!dir.join("git-dibs-man.1").exists(), "hidden commands stay hidden");
}
