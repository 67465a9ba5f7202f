//! What a service manager relies on: inherited sockets, readiness notification, and unit files that fit the program.

use std::fs;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::http::{Address, Connection};
use crate::support::process::LIMIT;
use crate::support::server::Server;
use crate::world::{PROGRAM, Run, World};

/// A server that inherits these sockets, as from a service manager.
fn activated(world: &World, sockets: &[RawFd], args: &str) -> Command {
    let count = sockets.len();
    let script = format!("LISTEN_PID=$$ LISTEN_FDS={count} exec \"$0\" serve --json {args}");
    let mut command = world.command("sh", "repo");
    command.args(["-c", &script, PROGRAM]);
    let sockets = sockets.to_vec();
    let hand_over = move || {
        for (from, to) in sockets.iter().zip(3..) {
            // SAFETY: both are descriptors of the new process, and a failure is returned.
            if unsafe { libc::dup2(*from, to) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: only dup2 is called between fork and exec, which is allowed there.
    unsafe { command.pre_exec(hand_over) };
    command
}

/// Starts it and waits until it listens.
fn started(command: &mut Command) -> Server {
    Server::start(command).unwrap_or_else(|ended| panic!("{}{}", ended.stdout, ended.stderr))
}

/// A copy with a high number, so that dup2 overwrites none before it is passed on.
fn high(socket: &impl AsRawFd) -> RawFd {
    // SAFETY: duplicates an open file that outlives the call.
    let fd = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 200) };
    assert!(fd >= 200);
    fd
}

fn stop(server: Server) {
    server.signal(libc::SIGTERM);
    let ended = server.wait();
    assert!(ended.status.success(), "{}", ended.stderr);
}

#[test]
fn inherited_sockets_are_served_and_kept() {
    let world = World::not_started();
    world.git_init("repo");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = world.path("handed.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let ready = UnixDatagram::bind(world.path("notify")).unwrap();
    ready.set_read_timeout(Some(LIMIT)).unwrap();
    let mut command = activated(&world, &[high(&tcp), high(&unix)], "");
    let server = started(command.env("NOTIFY_SOCKET", world.path("notify")));
    let record = &server.record;
    let address = tcp.local_addr().unwrap();
    assert_eq!(record["url"], format!("http://{address}"));
    assert_eq!(record["socket"], path.to_str().unwrap());
    let mut state = [0; 64];
    let count = ready.recv(&mut state).unwrap();
    assert_eq!(&state[..count], b"READY=1");
    for address in [Address::Tcp(address), Address::Unix(path.clone())] {
        let mut connection = Connection::open(&address).unwrap();
        connection.call("GET", "/readyz", &[], b"").unwrap().ok();
    }
    assert!(!world.path("repo/.git/dibs/dibs.sock").exists(), "nothing else is opened");
    stop(server);
    let count = ready.recv(&mut state).unwrap();
    assert_eq!(&state[..count], b"STOPPING=1");
    assert!(path.exists(), "the service manager uses the socket again");
}

#[test]
fn one_inherited_socket_is_enough() {
    let world = World::not_started();
    world.git_init("repo");
    let path = world.path("handed.sock");
    let unix = UnixListener::bind(&path).unwrap();
    let server = started(&mut activated(&world, &[high(&unix)], ""));
    assert_eq!(server.record["url"], Value::Null);
    let done = world.dibs(&["status"]).run();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    stop(server);
}

#[test]
fn an_inherited_file_must_be_a_permitted_listening_socket() {
    let world = World::not_started();
    world.git_init("repo");
    let refused = |sockets: &[RawFd], word: &str| {
        let done = activated(&world, sockets, "").run();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains(word), "{said}");
    };
    refused(&[high(&fs::File::open("/dev/null").unwrap())], "not a stream socket that can listen");
    refused(&[high(&UnixDatagram::unbound().unwrap())], "not a stream socket that can listen");
    refused(&[high(&TcpListener::bind("0.0.0.0:0").unwrap())], "--behind-proxy");
    let elsewhere = world.dibs(&["serve", "--check-config"]).envs([("LISTEN_PID", "1"), ("LISTEN_FDS", "9")]).run();
    assert!(elsewhere.status.success(), "they were meant for somebody else");
}

#[test]
fn the_unit_and_the_image_use_options_that_exist() {
    let world = World::not_started();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join("packaging").join(name)).unwrap();
    let help = world.dibs(&["serve", "--help"]).run();
    let help = String::from_utf8(help.stdout).unwrap();
    for name in ["git-dibs.service", "Dockerfile"] {
        let text = read(name);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || "\",[]=".contains(c)));
        let flags: Vec<_> = words.filter(|word| word.starts_with("--") && word.len() > 2).collect();
        for flag in flags {
            let known = help.contains(&format!("{flag} "))
                || help.contains(&format!("{flag}\n"))
                || help.contains(&format!("{flag}["));
            assert!(
                known
                    || [
                        "--locked",
                        "--add",
                        "--release",
                        "--home",
                        "--system",
                        "--from",
                        "--interval",
                        "--timeout",
                        "--no-install-recommends",
                        "--create-home",
                        "--shell",
                        "--uid"
                    ]
                    .contains(&flag),
                "{name}: {flag}"
            );
        }
    }
    let service = read("git-dibs.service");
    for hardening in ["NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes", "Type=notify", "ExecReload="] {
        assert!(service.contains(hardening), "{hardening}");
    }
}

#[test]
fn completions_and_manual_pages_are_installed_where_shells_and_man_look() {
    let world = World::not_started();
    let bin = world.path("home/.cargo/bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("git-dibs");
    // Copied by another process: a program that this one has open for writing cannot be run.
    let copied = world.command("cp", ".").arg(env!("CARGO_BIN_EXE_git-dibs")).arg(&program).run();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let output = world.command(&program, ".").args(["completions", "--install"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let installed = [
        (".local/share/bash-completion/completions/git-dibs", "_git_dibs()"),
        (".local/share/zsh/site-functions/_git-dibs", "#description"),
        (".local/share/fish/vendor_completions.d/git-dibs.fish", "complete -c git-dibs"),
        (".local/share/fish/vendor_conf.d/git-dibs.fish", "complete -c git "),
        // `man` looks beside each bin of PATH.
        (".cargo/share/man/man1/git-dibs.1", ".TH git-dibs 1"),
        (".cargo/share/man/man1/git-dibs-reserve.1", ".TH git-dibs-reserve 1"),
    ];
    for (file, word) in installed {
        let text = fs::read_to_string(world.path("home").join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(word), "{file} has no {word}");
    }
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("fpath=("), "zsh needs a line in ~/.zshrc: {stderr}");
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.lines().all(|file| std::path::Path::new(file).exists()), "{listed}");

    let share = world.path("share");
    let args = ["completions", "--install", "--dir", share.to_str().unwrap()];
    assert!(world.command(&program, ".").args(args).output().unwrap().status.success());
    assert!(share.join("man/man1/git-dibs.1").exists());
    let both = world.command(&program, ".").args(["completions", "bash", "--install"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn the_first_commands_of_the_readme_end_in_a_blocked_commit() {
    let mut world = World::not_started();
    world.autostart();
    let readme = fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "the README is read to its end");
    let (_, section) = readme.split_once("## Your first blocked commit").unwrap();
    let commands = section.split("```").nth(1).and_then(|block| block.strip_prefix("sh\n")).unwrap();
    assert_eq!(commands.lines().count(), 5);
    let shown = section.split("```").nth(3).and_then(|block| block.strip_prefix("text\n")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_git-dibs"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = world.command("bash", ".");
    // A fresh machine: git knows no name and no address yet.
    command.env("PATH", path).args(["-c", commands]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    // How many seconds are left differs from run to run.
    let without_numbers = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "").replace(" min", " s");
    for line in shown.lines() {
        assert!(without_numbers(&stderr).contains(&without_numbers(line)), "{line}\nis not in\n{stderr}");
    }
}
