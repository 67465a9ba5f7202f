//! To whom a token goes: not to an address that only a repository's own files name, not where a redirection or a proxy
//! leads, and not to another user's server.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::mint;
use crate::support::process::printed;
use crate::support::server::Server;
use crate::world::{PROGRAM, Run, World, skip, text};

/// A server of a stranger: it replies to everything with the same bytes, and remembers what it received.
struct Recorder {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    fn start(reply: String) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let memory = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut buffer = vec![0; 65536];
                let read = stream.read(&mut buffer).unwrap_or(0);
                memory.lock().unwrap().extend_from_slice(&buffer[..read]);
                let _ = stream.write_all(reply.as_bytes());
            }
        });
        Recorder { address, received }
    }

    /// One that replies with an empty list of everything.
    fn friendly() -> Recorder {
        let body = json!({
            "status": "ok", "version": "0", "conflicts": [], "clear": [], "held": [], "reservations": [], "sessions": [],
            "renewedCount": 0, "expiresAt": "2099-01-01T00:00:00Z", "notices": [],
        });
        let body = body.to_string();
        Recorder::start(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Its URL by an address that does not look like this machine's.
    fn url(&self) -> String {
        format!("http://0.0.0.0:{}", self.address.port())
    }

    fn received(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned()
    }
}

/// Directories and files like those of a bare repository, with this configuration.
fn trap(world: &World, name: &str, config: &str) {
    for dir in ["objects", "refs/heads"] {
        fs::create_dir_all(world.path(name).join(dir)).unwrap();
    }
    fs::write(world.path(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = format!("[core]\nrepositoryformatversion = 0\nbare = true\n{config}");
    fs::write(world.path(name).join("config"), config).unwrap();
}

/// Every command that calls a server.
const COMMANDS: &[&[&str]] = &[
    &["status"],
    &["session", "list"],
    &["reserve", "x"],
    &["release", "x"],
    &["check", "x"],
    &["who", "x"],
    &["requests"],
    &["log"],
    &["session", "end"],
    &["run", "--", "true"],
    &["doctor"],
];

fn run_in(world: &World, dir: &str, args: &[&str], variables: &[(&str, &str)]) -> Output {
    world.command(PROGRAM, dir).args(args).envs(variables.iter().copied()).run()
}

#[test]
fn a_directory_shaped_like_a_bare_repository_gets_no_token() {
    let world = World::new();
    let stranger = Recorder::friendly();
    let url = stranger.url();
    let token = world.token(json!({ "sub": "ana" }));
    let admin = world.admin();
    fs::write(world.path("home/token"), &token).unwrap();
    fs::set_permissions(world.path("home/token"), PermissionsExt::from_mode(0o600)).unwrap();

    trap(&world, "repo/docs/by-setting", &format!("[dibs]\nurl = {url}\n"));
    trap(&world, "repo/docs/by-token-file", &format!("[dibs]\nurl = {url}\ntokenFile = ~/token\n"));
    trap(&world, "repo/docs/by-include", "[include]\npath = more\n");
    fs::write(world.path("repo/docs/by-include/more"), format!("[dibs]\nurl = {url}\n")).unwrap();
    trap(&world, "repo/docs/by-record", "");
    fs::create_dir(world.path("repo/docs/by-record/dibs")).unwrap();
    let record = json!({ "pid": 1, "url": url, "startedAt": "2026-01-01T00:00:00Z" });
    fs::write(world.path("repo/docs/by-record/dibs/server.json"), record.to_string()).unwrap();

    for dir in ["by-setting", "by-token-file", "by-include", "by-record"] {
        for args in COMMANDS {
            for token in [&token, &admin] {
                let output = run_in(&world, &format!("repo/docs/{dir}"), args, &[("DIBS_TOKEN", token)]);
                let printed = printed(&output);
                assert!(!printed.contains(&**token), "{args:?} in {dir} shows the token: {printed}");
            }
        }
        let status = run_in(&world, &format!("repo/docs/{dir}"), &["status"], &[("DIBS_TOKEN", &token)]);
        let printed = printed(&status);
        let sentence =
            format!("the token in DIBS_TOKEN is not sent to {url}, because only this repository's own settings");
        assert!(printed.contains(&sentence) && printed.contains(&format!("export DIBS_URL={url}")), "{printed}");
    }
    // A token file that the trap names is the user's own.
    run_in(&world, "repo/docs/by-token-file", &["status"], &[]);
    let flag = world.path("home/token");
    run_in(&world, "repo/docs/by-setting", &["status", "--token-file", flag.to_str().unwrap()], &[]);
    let received = stranger.received();
    assert!(received.contains("GET /api/reservations"), "the trap was never asked: {received}");
    assert!(!received.to_ascii_lowercase().contains("authorization"), "{received}");

    // The user may name the same address.
    run_in(&world, "repo/docs/by-setting", &["status"], &[("DIBS_TOKEN", &token), ("DIBS_URL", &url)]);
    assert!(stranger.received().contains(&token));
}

#[test]
fn a_hook_does_not_send_a_token_to_an_address_of_the_repository() {
    let mut world = World::new();
    let stranger = Recorder::friendly();
    let token = world.token(json!({ "sub": "ana" }));
    assert!(world.dibs(&["install"]).run().status.success());
    world.stop();
    world.git_in("repo", &["config", "dibs.url", &stranger.url()]);
    fs::write(world.path("repo/a"), "a").unwrap();
    world.git_in("repo", &["add", "a"]);
    let commit = world.command("git", "repo").args(["commit", "-m", "x"]).env("DIBS_TOKEN", &token).run();
    let printed = printed(&commit);
    assert!(printed.contains("the token in DIBS_TOKEN is not sent to"), "{printed}");
    let received = stranger.received();
    assert!(received.contains("/api/check-conflicts"), "the hook did not ask: {printed}{received}");
    assert!(!received.contains(&token) && !received.to_ascii_lowercase().contains("authorization"), "{received}");

    // A setting of the user, for every repository or for one command, names a server that gets it.
    for (n, by_user) in [["config", "--global"], ["-c", ""]].into_iter().enumerate() {
        let stranger = Recorder::friendly();
        let setting = format!("dibs.url={}", stranger.url());
        let mut commit = world.command("git", "repo");
        match by_user[1] {
            "" => commit.args(["-c", &setting]),
            _ => {
                world.git_in("repo", &["config", "--global", "dibs.url", &stranger.url()]);
                world.git_in("repo", &["config", "--unset", "dibs.url"]);
                &mut commit
            }
        };
        commit.args(["commit", "--allow-empty", "-m", "x"]).env("DIBS_TOKEN", &token);
        fs::write(world.path("repo/a"), n.to_string()).unwrap();
        world.git_in("repo", &["add", "a"]);
        commit.run();
        assert!(stranger.received().contains(&token), "{by_user:?}");
    }
}

#[test]
fn a_redirection_is_not_followed_with_a_token() {
    let world = World::new();
    let other = Recorder::friendly();
    let token = world.token(json!({ "sub": "ana" }));
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let reply = format!(
            "HTTP/1.1 {status}\r\nlocation: http://{}/api/reservations\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            other.address
        );
        let first = Recorder::start(reply);
        for args in COMMANDS {
            let variables = [("DIBS_TOKEN", &*token), ("DIBS_URL", &first.url())];
            let output = run_in(&world, "repo", args, &variables);
            assert!(!printed(&output).contains(&token));
        }
        assert!(first.received().contains(&token));
    }
    assert_eq!(other.received(), "");
}

#[test]
fn a_proxy_that_variables_name_gets_nothing() {
    let world = World::new();
    let proxy = Recorder::friendly();
    let token = world.token(json!({ "sub": "ana" }));
    let url = format!("http://{}", proxy.address);
    let mut variables = vec![("DIBS_TOKEN", &*token), ("DIBS_URL", world.url())];
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        variables.push((name, &url));
    }
    assert!(run_in(&world, "repo", &["reserve", "a"], &variables).status.success());
    variables[1].1 = "https://127.0.0.1:1";
    assert!(!run_in(&world, "repo", &["status"], &variables).status.success());
    assert_eq!(proxy.received(), "");
}

#[test]
fn a_token_goes_to_the_address_that_it_names() {
    let world = World::new();
    let (named, other) = (Recorder::friendly(), Recorder::friendly());
    let made = world.dibs(&["token", "ana", "--url", &named.url()]).run();
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    // No repository is needed, and one that repeats the address may.
    run_in(&world, "home", &["status"], &[("DIBS_TOKEN", &token)]);
    assert!(named.received().contains(&token));
    trap(&world, "same", &format!("[dibs]\nurl = {}\n", named.url()));
    trap(&world, "other", &format!("[dibs]\nurl = {}\n", other.url()));
    named.received.lock().unwrap().clear();
    run_in(&world, "same", &["status"], &[("DIBS_TOKEN", &token)]);
    assert!(named.received().contains(&token));
    run_in(&world, "other", &["status"], &[("DIBS_TOKEN", &token)]);
    assert!(other.received().contains("GET /api/reservations") && !other.received().contains(&token));
    for bad in ["dibs.example", "ftp://x", "http://a b"] {
        let refused = world.dibs(&["token", "ana", "--url", bad]).run();
        assert_eq!(refused.status.code(), Some(2), "{bad}");
    }
}

#[test]
fn a_token_of_the_local_server_is_good_after_a_restart_on_another_port() {
    let mut world = World::new();
    let made = world.dibs(&["token", "ana"]).run();
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let reserve = |world: &World, name: &str| run_in(world, "repo", &["reserve", name], &[("DIBS_TOKEN", &token)]);
    assert!(reserve(&world, "a").status.success());
    let (before, id) = (world.url().to_owned(), world.record()["id"].clone());
    world.kill();
    // The old port is taken by another program.
    let _taken = TcpListener::bind(before.strip_prefix("http://").unwrap()).unwrap();
    world.start();
    assert!(world.url() != before && world.record()["id"] == id);
    assert!(reserve(&world, "b").status.success());

    // The server of another repository is another server, and does not get it.
    world.git_init("second");
    let second = Server::start(&mut world.serve_command("second", &[])).map_err(|_| "no server").unwrap();
    let output = run_in(&world, "second", &["status"], &[("DIBS_TOKEN", &token)]);
    assert!(printed(&output).contains("is for another server and is not sent to this repository's"), "{output:?}");
    assert!(output.status.success(), "a person may still look: {output:?}");
    let url = second.url().to_owned();
    let output = run_in(&world, "second", &["reserve", "a"], &[("DIBS_TOKEN", &token), ("DIBS_URL", &url)]);
    assert!(printed(&output).contains("the token is not valid"), "{output:?}");
}

#[test]
fn a_server_of_another_user_gets_no_token() {
    // SAFETY: geteuid has no arguments and always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root can start a server as another user");
    }
    const NOBODY: u32 = 65534;
    let world = World::not_started();
    world.git_init("repo");
    let token = mint::hs256(&mint::claims(json!({ "sub": "ana" })), b"a secret of at least thirty-two bytes");
    fs::set_permissions(world.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(world.path("home"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(world.path("data")).unwrap();
    for path in ["data", "repo/.git"] {
        chown(world.path(path), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let safe = ["config", "--global", "safe.directory", "*"];
    world.git_in("repo", &safe);
    let data = world.path("data");
    let mut command = world.serve_command("repo", &["--data", data.to_str().unwrap()]);
    let command = command.uid(NOBODY).gid(NOBODY).env("DIBS_JWT_SECRET", "a secret of at least thirty-two bytes");
    let server = Server::start(command).unwrap_or_else(|ended| panic!("{}{}", ended.stdout, ended.stderr));

    // The record of a stranger's server, in a directory that is the user's own.
    let socket = text(&server.record["socket"]).to_owned();
    let records = [json!({ "socket": socket }), json!({ "url": server.url() })];
    for (n, mut record) in records.into_iter().enumerate() {
        let dir = format!("trap{n}");
        trap(&world, &dir, "");
        fs::create_dir(world.path(&dir).join("dibs")).unwrap();
        (record["pid"], record["startedAt"]) = (1.into(), "2026-01-01T00:00:00Z".into());
        fs::write(world.path(&dir).join("dibs/server.json"), record.to_string()).unwrap();
        let output = run_in(&world, &dir, &["reserve", "a"], &[("DIBS_TOKEN", &token)]);
        let printed = printed(&output);
        assert_eq!(output.status.code(), Some(4), "{printed}");
        assert!(
            printed.contains("another user runs the server at") && printed.contains("export DIBS_URL="),
            "{printed}"
        );
    }
    for (n, url) in [format!("unix:{socket}"), server.url().to_owned()].into_iter().enumerate() {
        let dir = format!("by-setting{n}");
        trap(&world, &dir, &format!("[dibs]\nurl = {url}\n"));
        let output = run_in(&world, &dir, &["reserve", "a"], &[("DIBS_TOKEN", &token)]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        // If the user names it, it gets the token.
        let output = run_in(&world, &dir, &["reserve", "a"], &[("DIBS_TOKEN", &token), ("DIBS_URL", &url)]);
        assert!(output.status.success(), "{output:?}");
    }
}
