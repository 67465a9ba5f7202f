//! Commands that go on: `watch`, and `status --watch`.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;

use serde_json::Value;

use crate::support::http::{Address, Connection};
use crate::support::process::Collector;
use crate::world::{Process, Run, Said, World, until};

impl World {
    /// Waits until this many clients follow the events.
    fn until_followed(&self, clients: usize) {
        until_followed(&self.unix(), clients);
    }
}

/// Waits until this many clients follow the events of the server at this address, if there is one by then.
fn until_followed(server: &Address, clients: usize) {
    until("the events are followed", || {
        let metrics = Connection::open(server).ok()?.call("GET", "/metrics", &[], b"").ok()?;
        let text = String::from_utf8(metrics.body).unwrap();
        let count = text.lines().find(|line| line.starts_with("dibs_event_readers{"))?.rsplit(' ').next()?;
        (count.parse::<f64>().unwrap() as usize == clients).then_some(())
    });
}

/// The line without its time, which differs from run to run.
fn untimed(line: &str) -> &str {
    line.split_once("Z  ").unwrap_or_else(|| panic!("no time: {line}")).1
}

#[test]
fn each_event_is_a_line() {
    let world = World::served();
    let mut watch = world.dibs(["watch"]).start();
    world.until_followed(1);
    world.as_session("ana", ["reserve", "src/a.rs", "--reason", "bad\u{1b}[2J\nnews"]).ok();
    assert_eq!(untimed(&watch.line()), "#1 session started by ANA (ana)");
    assert_eq!(untimed(&watch.line()), "#2 reserved src/a.rs by ANA (ana): bad\\x1b[2J\\nnews");
    let waiting = world.as_session("bo", ["wait", "src/a.rs"]).start();
    assert_eq!(untimed(&watch.line()), "#3 session started by BO (bo)");
    assert_eq!(untimed(&watch.line()), "#4 waiting for src/a.rs by BO (bo)");
    world.as_session("ana", ["release", "src/a.rs"]).ok();
    waiting.finish();
    let lines: Vec<String> = (0..3).map(|_| untimed(&watch.line()).to_owned()).collect();
    let expected = [
        "released src/a.rs by ANA (ana)",
        "granted after waiting: src/a.rs by BO (bo)",
        "reserved src/a.rs by BO (bo)",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.ends_with(expected), "{line}");
    }
}

#[test]
fn events_are_chosen_by_path_and_printed_as_json() {
    let world = World::served();
    let mut watch = world.dibs(["watch", "--json", "deep/"]).at("src").start();
    world.until_followed(1);
    world.as_session("ana", ["reserve", "src/a.rs", "src/deep/c.rs", "src/**/*.md"]).ok();
    world.as_session("ana", ["session", "end"]).ok();
    let keys: Vec<String> = (0..4)
        .map(|_| {
            let event: Value = serde_json::from_str(&watch.line()).unwrap();
            format!("{} {}", event["event"].as_str().unwrap(), event["filePath"].as_str().unwrap())
        })
        .collect();
    let mut sorted = keys.clone();
    sorted.sort();
    let all = ["released src/**/*.md", "released src/deep/c.rs", "reserved src/**/*.md", "reserved src/deep/c.rs"];
    assert_eq!(sorted, all, "{keys:?}");
}

#[test]
fn after_a_lost_connection_no_event_is_missing_and_none_comes_twice() {
    let mut world = World::served();
    let mut watch = world.dibs(["watch", "--json"]).start();
    world.until_followed(1);
    world.as_session("ana", ["reserve", "one"]).ok();
    let seq = |line: String| serde_json::from_str::<Value>(&line).unwrap()["seq"].as_u64().unwrap();
    assert_eq!([seq(watch.line()), seq(watch.line())], [1, 2]);
    world.kill();
    until("it is said", || watch.stderr().text().contains("the connection is lost").then_some(()));
    world.start();
    // Whether it has connected again by then or not.
    for n in 3..10 {
        world.as_session("ana", ["reserve".to_owned(), format!("file{n}")]).ok();
        assert_eq!(seq(watch.line()), n);
    }
    let said = watch.stderr().text();
    assert!(said.ends_with("git-dibs: connected again\n"), "{said}");
    assert_eq!(said.matches("the connection is lost").count(), 1, "{said}");
}

#[test]
fn a_stopped_server_is_not_started_by_those_who_watch() {
    let mut world = World::new();
    world.autostart();
    let watch = world.dibs(["watch"]).start();
    until_followed(&Address::Unix(world.path("app/.git/dibs/dibs.sock")), 1);
    world.dibs(["stop"]).ok();
    until("it is said", || watch.stderr().text().contains("the connection is lost").then_some(()));
    assert!(world.background_servers().is_empty());
}

#[test]
fn a_closed_pipe_ends_those_who_watch() {
    let world = World::served();
    for command in ["watch --json", "status --watch"] {
        let script = format!("git dibs {command} | head -n 1; echo ended");
        let mut shell = world.command("bash", "app");
        let shell = Process::start_group(shell.args(["-c", &script]).stdin(Stdio::null())).unwrap();
        world.until_followed(1);
        world.as_session("ana", ["reserve", "src/a.rs"]).ok();
        // Nothing happens any more, and still it ends.
        let said = Said::from(shell.finish());
        assert!(said.out.ends_with("ended\n"), "{said:?}");
        world.as_session("ana", ["release", "src/a.rs"]).ok();
        world.until_followed(0);
    }
}

#[test]
fn the_status_is_drawn_again_at_each_change_until_ctrl_c() {
    let world = World::served();
    let (mut here, mut there) = (0, 0);
    let size = libc::winsize { ws_row: 6, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: two live integers and a live size, and neither a name nor settings.
    let opened = unsafe { libc::openpty(&mut here, &mut there, std::ptr::null_mut(), std::ptr::null_mut(), &size) };
    assert_eq!(opened, 0);
    // SAFETY: both were just opened and have no other owner.
    let (here, there) = unsafe { (OwnedFd::from_raw_fd(here), OwnedFd::from_raw_fd(there)) };
    let mut keyboard = File::from(here.try_clone().unwrap());
    let screen = Collector::read(File::from(here));
    let mut command = world.dibs_command(&["status", "--watch"]);
    let end = || Stdio::from(there.try_clone().unwrap());
    command.stdin(end()).stdout(end()).stderr(end());
    let terminal = there.as_raw_fd();
    // SAFETY: system calls that are safe between fork and exec. The terminal becomes that of the new session.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            // The tests may have been started in the background of a shell, which ignores it.
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::ioctl(terminal, libc::TIOCSCTTY, 0);
            Ok(())
        })
    };
    let mut child = command.spawn().unwrap();
    drop((command, there));
    until("it is drawn", || screen.text().contains("nothing is reserved").then_some(()));
    for n in 0..9 {
        let name = format!("file{n}");
        world.as_session("ana", ["reserve", &name, "--reason", "x\u{1b}]0;title\u{7}"]).ok();
        // Of a long list only what fits.
        if n < 4 {
            until("the change is drawn", || screen.text().contains(&name).then_some(()));
        }
    }
    until("the rest is counted", || screen.text().contains("6 more").then_some(()));
    world.as_session("ana", ["release", "--all"]).ok();
    until("the end is drawn", || screen.text().ends_with("\u{1b}[H\u{1b}[Jnothing is reserved\r\n").then_some(()));
    keyboard.write_all(b"\x03").unwrap();
    let status = until("Ctrl-C ends it", || child.try_wait().unwrap());
    assert_eq!(status.signal(), Some(libc::SIGINT));
    let shown = screen.all().replace("\u{1b}[H\u{1b}[J", "");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
}

#[test]
fn status_in_a_pipe_follows_after_an_empty_line() {
    let world = World::served();
    let mut status = world.dibs(["status", "--watch"]).start();
    assert_eq!((status.line().as_str(), status.line().as_str()), ("nothing is reserved", ""));
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    assert!(status.line().contains("PATH") && status.line().contains("src/a.rs"));
    assert_eq!(status.line(), "");
    let mut json = world.dibs(["status", "--watch", "--json"]).start();
    let held: Value = serde_json::from_str(&json.line()).unwrap();
    assert_eq!(held["reservations"][0]["filePath"], "src/a.rs");
    let unreachable = Said::from(world.dibs_command(&["status", "--watch", "--url", "http://127.0.0.1:1"]).run());
    assert_eq!(unreachable.code, Some(5), "{unreachable:?}");
}
