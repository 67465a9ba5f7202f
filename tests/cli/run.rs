//! A session that lives as long as a command.

use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use serde_json::json;

use crate::support::process::Collector;
use crate::world::{PROGRAM, Process, Run, Said, World, time, until};

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
    let script = "test -n \"$DIBS_TOKEN\" && test ! -e .git/dibs/token || exit 9
        stat -c %a .git/dibs/runs/*
        git dibs reserve src/a.rs --reason here
        env -u DIBS_TOKEN -u DIBS_SESSION -u DIBS_URL git dibs reserve src/b.rs
        echo \"$DIBS_SESSION $DIBS_URL\"; exit 42";
    let said = world.dibs(["run", "--name", "agent", "--id", "s-1", "--", "sh", "-c", script]).fails(42);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[..3], ["600", "reserved src/a.rs for 30 min", "reserved src/b.rs for 30 min"], "{said:?}");
    assert_eq!(lines[3], format!("s-1 {}", world.url()));
    assert!(said.err.contains("git-dibs: started session agent (s-1); server unix:"), "{said:?}");
    assert!(said.err.contains("session s-1 ended; released src/a.rs, src/b.rs"), "{said:?}");
    assert_eq!(world.held(), [""; 0]);
    assert_eq!(world.session_info("s-1")["state"], "failed");
    assert_eq!(session_files(&world), 0);
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
    assert_eq!(session_files(&world), 0);
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
fn a_shell_beside_a_running_agent_is_not_the_agent() {
    let world = World::served();
    let agent = started(&world, &["--id", "agent"], "git dibs reserve src/a.rs >&2; echo ready; read go");
    for args in [&["release", "src/a.rs"][..], &["session", "end"], &["reserve", "src/a.rs"], &["status", "--mine"]] {
        let said = world.dibs(args).fails(4);
        assert!(said.err.contains("this command needs a session, and there is none here"), "{args:?}: {said:?}");
    }
    let checked = world.dibs(["check", "src/a.rs"]).env("DIBS_SESSION", "agent").fails(3);
    assert!(checked.out.contains("held by sh (agent)"), "{checked:?}");
    assert_eq!(world.held(), ["agent src/a.rs"]);
    // A session of the worktree's own and the agent's do not disturb each other.
    world.dibs(["session", "start", "--id", "person"]).ok();
    world.dibs(["reserve", "b"]).ok();
    assert_eq!(world.held(), ["agent src/a.rs", "person b"]);
    assert_eq!(Said::from(agent.finish()).code, Some(1));
    assert_eq!(world.held(), ["person b"]);
    assert!(world.path("app/.git/dibs/token").exists());
}

#[test]
fn several_commands_run_in_one_checkout_at_once() {
    let world = World::served();
    let script = "git dibs reserve \"$0\" >&2 && env -u DIBS_TOKEN git dibs reserve \"$0.2\" >&2; \
                  git dibs session list --json >&2; echo ready; read go";
    let start = |name: &str| {
        let mut command = world.command(PROGRAM, "app");
        command.args(["run", "--name", name, "--", "sh", "-c", script, name]).stdin(Stdio::piped());
        Process::start(&mut command).unwrap()
    };
    let mut all: Vec<Process> = ["x", "y", "z"].into_iter().map(start).collect();
    all.iter_mut().for_each(|process| assert_eq!(process.line(), "ready"));
    let mut held: Vec<String> = world.held();
    held.sort();
    let pairs: Vec<(&str, &str)> = held.iter().map(|held| held.split_once(' ').unwrap()).collect();
    assert_eq!(pairs.iter().map(|pair| pair.1).collect::<Vec<_>>(), ["x", "x.2", "y", "y.2", "z", "z.2"]);
    for (session, path) in pairs {
        assert!(session.starts_with(&format!("{}-", &path[..1])), "{held:?}");
    }
    assert_eq!(session_files(&world), 3);
    for process in all {
        let said = Said::from(process.finish());
        assert!(!said.err.contains("cannot") && said.err.contains("ended; released"), "{said:?}");
    }
    assert_eq!((session_files(&world), world.held()), (0, vec![]));
}

#[test]
fn a_session_left_behind_is_ended_by_the_next_command() {
    let world = World::served();
    let nexts: [&[&str]; 4] =
        [&["run", "--id", "two", "--", "true"], &["session", "start"], &["status"], &["check", "a"]];
    for (n, next) in nexts.into_iter().enumerate() {
        let id = format!("left-{n}");
        let alive = started(&world, &["--id", &format!("alive-{n}")], "echo ready; read go");
        let mut process = started(&world, &["--id", &id], "git dibs reserve a > /dev/null; echo ready; read go");
        process.kill();
        assert_eq!(world.session_info(&id)["state"], "active", "nobody knows yet");
        let said = world.dibs(next).ok();
        assert!(said.err.contains(&format!("session {id} was left behind by a command that was killed")), "{said:?}");
        assert_eq!(world.session_info(&id)["state"], "failed");
        assert_eq!(world.session_info(&format!("alive-{n}"))["state"], "active");
        assert_eq!((session_files(&world), world.held()), (1, vec![]));
        assert!(!world.dibs(["status"]).ok().err.contains("left behind"), "said once");
        alive.finish();
    }
    // A session started by hand belongs to no command, and is not ended.
    world.dibs(["session", "start"]).fails(1);
}

#[test]
fn what_a_killed_run_left_stays_until_a_server_can_be_told() {
    let mut world = World::served();
    let mut process =
        started(&world, &["--id", "left"], "git dibs reserve a --ttl 300 > /dev/null; echo ready; read go");
    process.kill();
    world.kill();
    world.dibs(["status"]).fails(5);
    assert_eq!(session_files(&world), 1);
    world.start();
    let said = world.dibs(["status"]).ok();
    assert!(said.err.contains("session left was left behind"), "{said:?}");
    assert_eq!((session_files(&world), world.held()), (0, vec![]));
}

#[test]
fn whatever_is_among_the_session_files_no_command_waits_for_it() {
    let world = World::served();
    let script = "mkdir -m 700 .git/dibs/runs; cd .git/dibs/runs; echo junk >junk; mkdir dir; ln -s /dev/zero link
        mkfifo pipe $(printf guess | sha256sum | cut -c 1-64); mkfifo ../token";
    assert!(world.command("sh", "app").args(["-ec", script]).run().status.success());
    world.dibs(["run", "--", "git", "dibs", "reserve", "a"]).ok();
    let said = world.dibs(["reserve", "a"]).env("DIBS_RUN", "guess").fails(4);
    assert!(said.err.contains("the token in the session file of DIBS_RUN is "), "{said:?}");
    let said = world.dibs(["reserve", "a"]).fails(4);
    assert!(said.err.contains("dibs/token is empty"), "{said:?}");
}

/// The session files in the repository.
fn session_files(world: &World) -> usize {
    std::fs::read_dir(world.path("app/.git/dibs/runs")).map_or(0, Iterator::count)
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
