//! A session that lives as long as a command.

use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use serde_json::json;

use crate::support::process::Collector;
use crate::world::{PROGRAM, Process, Said, World, time, until};

/// Starts `git-dibs run -- sh -c SCRIPT` and waits until it prints `ready`.
fn started(world: &World, args: &[&str], script: &str) -> Process {
    let mut command = world.command(PROGRAM, "app");
    command.arg("run").args(args).args(["--", "sh", "-c", script]).stdin(Stdio::piped());
    let mut process = Process::start(&mut command).unwrap();
    assert_eq!(process.line(), "ready");
    process
}

#[test]
fn the_session_of_a_command_ends_with_it() {
    let world = World::served();
    let script = "test -n \"$DIBS_TOKEN\" && test \"$(cat .git/dibs/token)\" = \"$DIBS_TOKEN\" || exit 9
        stat -c %a .git/dibs/token
        git dibs reserve src/a.rs --reason here
        env -u DIBS_TOKEN -u DIBS_SESSION -u DIBS_URL git dibs reserve src/b.rs
        echo \"$DIBS_SESSION $DIBS_URL\"; exit 42";
    let said = world.dibs(["run", "--name", "agent", "--id", "s-1", "--", "sh", "-c", script]).fails(42);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[..3], ["600", "reserved src/a.rs for 1 min", "reserved src/b.rs for 1 min"], "{said:?}");
    assert_eq!(lines[3], format!("s-1 {}", world.url()));
    assert!(said.err.contains("git-dibs: session of agent (s-1) at unix:"), "{said:?}");
    assert!(said.err.contains("session s-1 ended; released src/a.rs, src/b.rs"), "{said:?}");
    assert_eq!(world.held(), [""; 0]);
    assert_eq!(world.session_info("s-1")["state"], "failed");
    assert!(!world.path("app/.git/dibs/token").exists());
    let quiet = world.dibs(["run", "--quiet", "--id", "s-2", "--", "git", "dibs", "reserve", "x"]).ok();
    assert_eq!(quiet.err, "");
    assert_eq!(world.session_info("s-2")["state"], "completed");
    assert_eq!(world.session_info("s-2")["name"], "git", "called after its command");
}

#[test]
fn input_and_arguments_pass_through() {
    let world = World::served();
    let said = world.dibs(["run", "-q", "--", "sh", "-c", "cat; echo \"$@\"", "x", "--json", "-q"]).input("in\n").ok();
    assert_eq!(said.out, "in\n--json -q\n");
    world.dibs(["run"]).fails(2);
}

#[test]
fn signals_reach_the_command() {
    let world = World::served();
    for (number, name) in
        [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGHUP, "HUP"), (libc::SIGUSR1, "USR1")]
    {
        let script = format!("trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.1; done");
        let process = started(&world, &["--id", name], &script);
        process.signal(number);
        let said = Said::from(process.finish());
        assert_eq!((said.code, said.out.as_str()), (Some(7), "got\n"), "{name}: {said:?}");
        assert_eq!(world.session_info(name)["state"], "failed");
    }
}

#[test]
fn the_session_of_a_killed_command_ends() {
    let world = World::served();
    let said = world.dibs(["run", "--id", "k", "--", "sh", "-c", "git dibs reserve a; kill -9 $$"]).fails(137);
    assert!(said.err.contains("released a"), "{said:?}");
    assert_eq!(world.session_info("k")["state"], "failed");
    world.dibs(["run", "--id", "t", "--", "sh", "-c", "kill -TERM $$"]).fails(143);
    assert_eq!(world.session_info("t")["state"], "stopped");
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn a_command_that_cannot_start_is_reported() {
    let world = World::served();
    let said = world.dibs(["run", "--id", "n", "--", "no-such-command"]).fails(127);
    assert!(said.err.contains("cannot run no-such-command: "), "{said:?}");
    assert_eq!(world.session_info("n")["state"], "failed");
    let said = world.dibs(["run", "--id", "p", "--", "./README"]).fails(126);
    assert!(said.err.contains("cannot run ./README: "), "{said:?}");
    assert!(!world.path("app/.git/dibs/token").exists());
}

#[test]
fn the_session_stays_alive_until_run_is_killed() {
    let world = World::new().serve(&["--session-timeout", "1"]);
    let script = "git dibs reserve a --ttl 1 >&2; echo ready; read go; git dibs status --mine";
    let alive = started(&world, &["--id", "alive"], script);
    // It was renewed twice the session timeout after the reservation was made, and so lives longer than either.
    until("the reservation is renewed after two seconds", || {
        let all = world.reservations();
        let held = all.first().expect("it is renewed before it expires");
        (time(&held["expiresAt"]) - time(&held["reservedAt"]) > 3_000).then_some(())
    });
    let said = Said::from(alive.finish());
    assert!(said.out.contains("*  a "), "{said:?}");
    let mut killed = started(&world, &["--id", "killed"], "echo ready; read go");
    killed.kill();
    until("the session is lost", || (world.session_info("killed")["state"] == "lost").then_some(()));
}

#[test]
fn a_second_command_in_a_worktree_keeps_the_first_token() {
    let world = World::served();
    let first = world.dibs(["session", "start", "--id", "first"]).ok();
    assert_eq!(first.out, "first\n");
    let said = world.dibs(["run", "--id", "second", "--", "git", "dibs", "reserve", "a"]).ok();
    assert!(said.err.contains("session first works in this worktree too"), "{said:?}");
    assert!(world.path("app/.git/dibs/token").exists());
    world.dibs(["reserve", "b"]).ok();
    assert_eq!(world.held(), ["first b"]);
}

#[test]
fn a_session_left_behind_is_ended_by_the_next_command() {
    let world = World::served();
    for (id, next) in [("one", &["run", "--id", "two", "--", "true"][..]), ("three", &["session", "start"])] {
        let mut process = started(&world, &["--id", id], "git dibs reserve a > /dev/null; echo ready; read go");
        process.kill();
        assert_eq!(world.session_info(id)["state"], "active", "nobody knows yet");
        let said = world.dibs(next).ok();
        assert!(said.err.contains(&format!("session {id} was left behind by a command that was killed")), "{said:?}");
        assert_eq!(world.session_info(id)["state"], "failed");
        assert_eq!(world.held(), [""; 0]);
    }
    // A session started by hand belongs to no command, and is not ended.
    world.dibs(["session", "start"]).fails(1);
    let said = world.dibs(["run", "--", "true"]).ok();
    assert!(said.err.contains("works in this worktree too"), "{said:?}");
}

#[test]
fn notices_received_by_the_heartbeat_reach_the_next_command() {
    let world = World::new().serve(&["--session-timeout", "2"]);
    // The heartbeat runs several times a second, so it receives the notice first.
    let script = "git dibs reserve a --ttl 60 >&2; echo ready; read go; git dibs status; true";
    let mut process = started(&world, &["--id", "ana"], script);
    let id = world.reservations()[0]["reservationId"].as_str().unwrap().to_owned();
    let target = format!("/api/reservations/{id}");
    world.delete(&target, &world.token_of("ops", "admin"), json!({ "reason": "release night" })).ok();
    until("the notice is kept", || world.path("app/.git/dibs/notices-ana").exists().then_some(()));
    process.send("go\n");
    let said = Said::from(process.finish());
    assert!(said.err.contains("you no longer hold a (overridden by OPS): release night"), "{said:?}");
    assert!(!world.path("app/.git/dibs/notices-ana").exists());
}

#[test]
fn a_server_that_stopped_does_not_change_the_exit_code() {
    let mut world = World::served();
    let process = started(&world, &[], "echo ready; read go; exit 5");
    world.kill();
    let said = Said::from(process.finish());
    assert_eq!(said.code, Some(5));
    assert!(said.err.contains("could not be ended (no server answers at "), "{said:?}");
}

/// Ctrl-C on a terminal reaches all processes there; forwarded as well it would arrive twice.
#[test]
fn ctrl_c_arrives_once() {
    let world = World::served();
    let (mut here, mut there) = (0, 0);
    // SAFETY: two live integers, and no name, settings or size asked for.
    let opened = unsafe {
        libc::openpty(&mut here, &mut there, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut())
    };
    assert_eq!(opened, 0);
    // SAFETY: both were just opened and have no other owner.
    let (here, there) = unsafe { (OwnedFd::from_raw_fd(here), OwnedFd::from_raw_fd(there)) };
    let script = "trap 'echo interrupted' INT; echo ready; read one; read two; echo \"got $two\"";
    let mut command = world.command(PROGRAM, "app");
    command.args(["run", "--quiet", "--id", "tty", "--", "sh", "-c", script]);
    let end = || Stdio::from(there.try_clone().unwrap());
    command.stdin(end()).stdout(end()).stderr(end());
    // SAFETY: setsid and ioctl may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    drop((command, there));
    let mut terminal = std::fs::File::from(here);
    let screen = Collector::read(terminal.try_clone().unwrap());
    let until_shown = |what: &str| {
        until(&format!("the terminal shows {what:?}"), || screen.text().contains(what).then_some(()));
    };
    until_shown("ready");
    terminal.write_all(b"\x03").unwrap();
    until_shown("interrupted");
    terminal.write_all(b"a\nb\n").unwrap();
    until_shown("got ");
    let status = until("the command ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "{}", screen.text());
    assert_eq!(screen.text().matches("interrupted").count(), 1, "{}", screen.text());
}
