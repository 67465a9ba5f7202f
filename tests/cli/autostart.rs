//! Servers that start by themselves, run in the background and end when they are not used.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::dice::Dice;
use crate::support::world::skip;
use crate::world::{PROGRAM, Process, Run, Said, World, until};

/// A user who owns nothing here.
const OTHER_USER: u32 = 65534;

impl World {
    /// A repository without a server, whose commands start one.
    fn unserved() -> World {
        let mut world = World::new();
        world.autostart();
        world
    }

    /// The repository's servers have a port from now on that those of other tests do not take.
    fn has_own_port(&self) {
        self.dibs(["serve", "--background", "--listen", "127.0.0.1:0"]).ok();
        self.dibs(["stop"]).ok();
    }

    fn dibs_dir(&self) -> PathBuf {
        self.path("app/.git/dibs")
    }

    /// What the running server says about itself; none without one.
    fn server_record(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.dibs_dir().join("server.json")).ok()?).ok()
    }

    fn server_pid(&self) -> i32 {
        self.server_record().expect("a server runs")["pid"].as_i64().unwrap() as i32
    }

    /// Kills the server in the background, as a power failure would.
    fn kill_background_server(&self) {
        let pid = self.server_pid();
        // SAFETY: takes plain numbers.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        until("the server is gone", || self.background_servers().is_empty().then_some(()));
    }

    /// A token of the repository's secret, which the first call makes.
    fn session_token(&self, session: &str) -> String {
        self.dibs(["token", session]).ok().out.trim().to_owned()
    }

    fn held_keys(&self) -> Vec<String> {
        let mut status = self.dibs(["status", "--json"]).json();
        let all: Vec<Value> = serde_json::from_value(status["reservations"].take()).unwrap();
        let mut keys: Vec<String> = all.iter().map(|one| one["filePath"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys
    }
}

#[test]
fn a_command_starts_the_server_and_the_next_one_uses_it() {
    let world = World::unserved();
    world.has_own_port();
    let said = world.dibs(["status"]).ok();
    let record = world.server_record().unwrap();
    let (url, since) = (record["url"].as_str().unwrap(), record["startedAt"].as_str().unwrap());
    let (since, pid) = (since.strip_suffix(".000Z").unwrap(), &record["pid"]);
    let line = format!("git-dibs: server {url} since {since}Z, pid {pid}\ngit-dibs: nothing is reserved\n");
    assert_eq!((said.out.as_str(), said.err), ("", line));
    world.dibs(["session", "list"]).ok();
    assert_eq!(world.server_record().unwrap(), record);
    let stopped = world.dibs(["stop", "--json"]).json();
    assert_eq!(stopped, json!({ "stopped": true, "pid": record["pid"], "url": record["url"] }));
    assert_eq!(world.server_record(), None);
    assert!(world.background_servers().is_empty());
    assert_eq!(world.dibs(["stop"]).ok().err, "git-dibs: no server runs for this repository\n");
    world.dibs(["status"]).ok();
    let again = world.server_record().unwrap();
    assert_ne!(again["pid"], record["pid"]);
    assert_eq!(again["url"], record["url"], "the address survives restarts");
}

#[test]
fn serve_in_the_background_returns_when_the_server_is_ready() {
    let world = World::unserved();
    let record = world.dibs(["serve", "--background", "--json", "--listen", "127.0.0.1:0"]).json();
    assert_eq!(world.server_record().unwrap()["pid"], record["pid"]);
    assert_eq!(record["background"], true);
    let again = world.dibs(["serve", "--background"]).ok();
    assert!(again.out.contains(record["url"].as_str().unwrap()), "{again:?}");
    assert!(again.err.contains("it runs already"), "{again:?}");
    let refused = world.dibs(["serve"]).fails(1);
    assert!(refused.err.contains("is already served at") && refused.err.contains("git dibs stop"), "{refused:?}");
    world.dibs(["stop"]).ok();
    let bad = world.dibs(["serve", "--background", "--listen", "nonsense"]).fails(1);
    assert!(bad.err.contains("nonsense is not an address to listen on"), "{bad:?}");
}

#[test]
fn ten_commands_at_once_start_one_server_and_all_succeed() {
    let world = World::unserved();
    let token = world.session_token("ana");
    let calls = (0..10).map(|n| world.dibs(["reserve", &format!("file{n}")]).env("DIBS_TOKEN", &token).start());
    for call in calls.collect::<Vec<_>>() {
        let said = Said::from(call.finish());
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    assert_eq!(world.background_servers(), [world.server_pid()]);
    assert_eq!(world.held_keys().len(), 10);
}

#[test]
fn the_slower_of_two_starts_in_the_background_failed() {
    for _ in 0..3 {
        let world = World::unserved();
        let start = || world.dibs(["serve", "--background", "--json", "--listen", "127.0.0.1:0"]).start();
        let said: Vec<Said> = [start(), start(), start()].into_iter().map(|one| Said::from(one.finish())).collect();
        let pid = world.server_pid();
        assert_eq!(world.background_servers(), [pid]);
        for one in &said {
            let record: Value = serde_json::from_str(&one.out).unwrap_or_else(|_| panic!("{one:?}"));
            assert_eq!((one.code, &record["pid"]), (Some(0), &json!(pid)), "{one:?}");
        }
        let slower = said.iter().filter(|one| one.err.contains("it runs already")).count();
        assert_eq!(slower, 2, "{said:?}");
    }
}

#[test]
fn a_killed_server_is_started_again_and_knows_everything() {
    let world = World::unserved();
    world.has_own_port();
    let token = world.session_token("ana");
    for n in 0..3 {
        world.dibs(["reserve", &format!("file{n}"), "--ttl", "300"]).env("DIBS_TOKEN", &token).ok();
        let url = world.server_record().unwrap()["url"].clone();
        world.kill_background_server();
        assert_eq!(world.held_keys().len(), n + 1);
        assert_eq!(world.server_record().unwrap()["url"], url);
    }
    // Also for a command that was given the address.
    let url = world.server_record().unwrap()["url"].as_str().unwrap().to_owned();
    world.kill_background_server();
    world.dibs(["reserve", "other"]).env("DIBS_TOKEN", &token).env("DIBS_URL", url).ok();
    assert_eq!(world.held_keys().len(), 4);
}

#[test]
fn a_server_killed_at_any_moment_of_its_start_is_started_again() {
    let world = World::unserved();
    let token = world.session_token("ana");
    world.dibs(["reserve", "file", "--ttl", "300"]).env("DIBS_TOKEN", &token).ok();
    world.kill_background_server();
    let mut dice = Dice::new(15);
    for round in 0..20 {
        let mut server = world.command(PROGRAM, "app");
        let mut server = Process::start(server.args(["serve", "--json"])).unwrap();
        // Somewhere between its first instruction and the moment it is ready.
        for _ in 0..dice.below(40) * 1000 {
            std::thread::yield_now();
        }
        server.kill();
        assert_eq!(world.held_keys(), ["file"], "round {round}");
        world.kill_background_server();
    }
}

#[test]
fn a_starter_killed_while_it_starts_a_server_is_in_nobodys_way() {
    let world = World::unserved();
    let mut dice = Dice::new(15);
    for _ in 0..10 {
        let mut starter = world.dibs(["status"]).start();
        for _ in 0..dice.below(20) * 1000 {
            std::thread::yield_now();
        }
        starter.kill();
        world.dibs(["status"]).ok();
        world.dibs(["stop"]).ok();
    }
}

#[test]
fn an_unused_server_ends_and_leaves_word_that_nothing_is_held() {
    let mut world = World::unserved();
    world.set_variable("DIBS_IDLE_TIMEOUT", "1");
    world.set_variable("DIBS_SESSION_TIMEOUT", "1");
    let word = world.dibs_dir().join("nothing-held");
    let token = world.session_token("ana");
    // The hold is longer than the time after which an unused server ends.
    world.dibs(["reserve", "file", "--ttl", "3"]).env("DIBS_TOKEN", &token).ok();
    until("the server has ended", || world.background_servers().is_empty().then_some(()));
    assert_eq!(world.server_record(), None);
    assert!(fs::read_to_string(&word).unwrap().starts_with("nothing is held since \""));
    let log = world.dibs(["log", "--json"]).json().to_string();
    assert!(log.contains("\"expired\""), "the server ended before the hold did: {log}");
    assert!(!word.exists(), "a server has started since");
}

#[test]
fn a_server_that_is_stopped_while_something_is_held_leaves_no_word() {
    let world = World::unserved();
    let token = world.session_token("ana");
    world.dibs(["reserve", "file"]).env("DIBS_TOKEN", &token).ok();
    world.dibs(["stop"]).ok();
    assert!(!world.dibs_dir().join("nothing-held").exists());
    world.dibs(["session", "end"]).env("DIBS_TOKEN", &token).ok();
    world.dibs(["stop"]).ok();
    assert!(world.dibs_dir().join("nothing-held").exists());
}

#[test]
fn a_restored_backup_may_hold_something() {
    let world = World::unserved();
    let token = world.session_token("ana");
    world.dibs(["reserve", "file", "--ttl", "300"]).env("DIBS_TOKEN", &token).ok();
    let backup = world.path("backup.db").to_str().unwrap().to_owned();
    world.dibs(["db", "backup", &backup]).ok();
    world.dibs(["session", "end"]).env("DIBS_TOKEN", &token).ok();
    world.dibs(["stop"]).ok();
    assert!(world.dibs_dir().join("nothing-held").exists());
    world.dibs(["db", "restore", &backup]).ok();
    assert!(!world.dibs_dir().join("nothing-held").exists());
    assert_eq!(world.held_keys(), ["file"]);
}

#[test]
fn no_server_is_started_where_none_belongs() {
    let world = World::unserved();
    let why = |variable: &str, value: &str| world.dibs(["status"]).env(variable, value).fails(5).err;
    assert!(why("CI", "true").contains("no server runs here, and none was started: CI is set"), "{}", why("CI", "1"));
    assert!(why("CODEX_SANDBOX", "seatbelt").contains("CODEX_SANDBOX is set, and none is started in a sandbox"));
    assert!(why("DIBS_AUTOSTART", "0").contains("no server is configured here"));
    assert!(why("DIBS_URL", "http://127.0.0.1:1").contains("no server answers at http://127.0.0.1:1"));
    world.git(&["config", "dibs.url", "http://127.0.0.1:1"]);
    world.dibs(["status"]).fails(5);
    world.git(&["config", "--unset", "dibs.url"]);
    world.git(&["config", "dibs.autostart", "false"]);
    let off = world.dibs(["status"]).env("DIBS_AUTOSTART", "").fails(5);
    assert!(off.err.contains("no server is configured here"), "{off:?}");
    world.git(&["config", "--unset", "dibs.autostart"]);
    fs::write(world.dibs_dir(), "in the way").unwrap();
    let unwritable = world.dibs(["status"]).fails(5);
    assert!(unwritable.err.contains(".git/dibs cannot be written (File exists"), "{unwritable:?}");
    assert!(world.background_servers().is_empty());
}

#[test]
fn no_server_is_started_for_another_users_repository_or_in_a_directory_that_cannot_be_written() {
    let world = World::unserved();
    // SAFETY: has no arguments and always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        return skip("servers in other users' repositories: only root can make one");
    }
    world.git_in("", &["config", "--global", "safe.directory", "*"]);
    chown(world.path("app/.git"), Some(OTHER_USER), None).unwrap();
    let other = world.dibs(["status"]).fails(5);
    assert!(other.err.contains("app/.git/ belongs to another user"), "{other:?}");

    fs::set_permissions(world.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(world.path("app/.git"), PermissionsExt::from_mode(0o555)).unwrap();
    // The program under test may be where this user cannot go.
    let program = world.path("git-dibs");
    // By another process: a file that this one has written cannot run while another thread starts a program.
    world.command("cp", "").args([Path::new(PROGRAM), &program]).run();
    let mut command = world.command(&program, "app");
    let said = Said::from(command.arg("status").uid(OTHER_USER).gid(OTHER_USER).run());
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(said.err.contains("app/.git/dibs cannot be written (Permission denied"), "{said:?}");
    assert!(world.background_servers().is_empty());
}

#[test]
fn a_server_with_settings_of_its_own_is_not_replaced() {
    let mut world = World::unserved();
    let data = world.path("data").to_str().unwrap().to_owned();
    world.args(&["--data", &data]);
    world.start();
    world.stop();
    let said = world.dibs(["status"]).fails(5);
    assert!(said.err.contains("the last server of this repository was started with options of its own"), "{said:?}");
    assert!(world.background_servers().is_empty());
}

#[test]
fn a_caller_does_not_wait_for_the_server() {
    let world = World::unserved();
    let token = world.session_token("ana");
    // A pipe of the caller's own, besides the usual ones; the call returns only when every copy of each is closed.
    let script = format!("exec 9>&1; {PROGRAM} status; {PROGRAM} reserve file");
    let mut shell = world.command("sh", "app");
    let said = Said::from(shell.args(["-c", &script]).env("DIBS_TOKEN", &token).run());
    assert_eq!(said.code, Some(0), "{said:?}");
    let pid = world.server_pid();
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("DIBS_TOKEN"));
    // SAFETY: takes a plain number.
    let (session, own) = unsafe { (libc::getsid(pid), libc::getsid(0)) };
    assert_ne!(session, own);
}

#[test]
fn a_server_starts_in_a_directory_of_any_name() {
    let mut world = World::empty("it's a \"dir\" $HOME;x\n=y");
    world.autostart();
    world.git_init("it's a \"dir\" $HOME;x\n=y");
    let said = Said::from(world.dibs_command(&["status"]).run());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(world.background_servers().len(), 1);
    assert_eq!(world.dibs_command(&["stop"]).run().status.code(), Some(0));
    until("the server is gone", || world.background_servers().is_empty().then_some(()));
}

#[test]
fn linked_worktrees_share_the_server() {
    let world = World::unserved();
    world.git(&["worktree", "add", "--quiet", "../linked"]);
    world.dibs(["status"]).at("../linked").ok();
    world.dibs(["status"]).ok();
    assert_eq!(world.background_servers(), [world.server_pid()]);
    let stopped = world.dibs(["stop", "--json"]).at("../linked").json();
    assert_eq!(stopped["stopped"], true);
}

#[test]
fn the_session_of_run_survives_the_servers_death() {
    let world = World::unserved();
    let script = format!(
        "git dibs reserve one >/dev/null 2>&1
         kill -9 $(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/' {0}/server.json)
         git dibs reserve two && git dibs status --mine",
        world.dibs_dir().display()
    );
    let said = world.dibs(["run", "--quiet", "--id", "ana", "--", "sh", "-c", &script]).ok();
    assert!(said.out.contains("reserved two") && said.out.contains("one"), "{said:?}");
}

#[test]
fn a_server_that_run_started_can_be_stopped() {
    let world = World::unserved();
    let mut run = world.dibs(["run", "--quiet", "--", "sh", "-c", "echo ready; read go"]).start();
    assert_eq!(run.line(), "ready");
    world.dibs(["stop"]).ok();
    assert!(world.background_servers().is_empty());
    run.finish();
}

#[test]
fn heartbeats_of_run_do_not_start_a_server_that_was_stopped() {
    let world = World::unserved();
    let mut run = world.dibs(["run", "--quiet", "--", "sh", "-c", "echo ready; read go"]).start();
    assert_eq!(run.line(), "ready");
    world.dibs(["stop"]).ok();
    // In the place of the server, so that it is seen when a heartbeat is sent.
    let socket = world.dibs_dir().join("dibs.sock");
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    for _ in 0..2 {
        drop(listener.accept().unwrap());
    }
    assert!(world.background_servers().is_empty());
    drop(listener);
    run.finish();
}

#[test]
fn the_port_is_another_one_if_the_last_is_taken() {
    let world = World::unserved();
    world.has_own_port();
    world.dibs(["status"]).ok();
    let url = world.server_record().unwrap()["url"].as_str().unwrap().to_owned();
    world.dibs(["stop"]).ok();
    let _taken = std::net::TcpListener::bind(url.strip_prefix("http://").unwrap()).unwrap();
    world.dibs(["status"]).ok();
    assert_ne!(world.server_record().unwrap()["url"], url);
}

#[test]
fn a_server_in_the_foreground_does_not_end_by_itself() {
    let mut world = World::new();
    world.start();
    assert_eq!(world.record()["background"], Value::Null);
    world.stop();
    assert!(!world.dibs_dir().join("nothing-held").exists());
    let mut timed = world.dibs_command(&["serve", "--json", "--idle-timeout", "1"]);
    let ended = Process::start(timed.stdin(Stdio::null())).unwrap().finish();
    assert!(ended.status.success(), "unless it is told to");
}

#[test]
fn uninstalling_everything_stops_a_server_that_started_by_itself() {
    let world = World::unserved();
    world.dibs(["status"]).ok();
    world.dibs(["uninstall", "--all"]).ok();
    assert!(world.background_servers().is_empty() && !world.dibs_dir().exists());
}
