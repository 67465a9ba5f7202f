//! To whom a token goes: not to an address that only a repository's own files name, not where a redirection or a proxy
//! leads, and not to another user's server. And what a token is good for: a worker's sessions are its own, an ended
//! session's token is dead everywhere, and a server's answer cannot harm the client that asked.

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
use crate::world::{PROGRAM, Run, World, skip, text, until};

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
        // If the token or the user names it, it gets the token.
        let claims = mint::claims(json!({ "sub": "ana", "url": url }));
        let naming = mint::hs256(&claims, b"a secret of at least thirty-two bytes");
        let output = run_in(&world, &dir, &["reserve", "a"], &[("DIBS_TOKEN", &naming)]);
        assert!(output.status.success(), "{output:?}");
        let output = run_in(&world, &dir, &["reserve", "a"], &[("DIBS_TOKEN", &token), ("DIBS_URL", &url)]);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_session_that_an_admin_created_is_not_a_workers() {
    let world = World::new();
    let worker = |sub: &str, more: serde_json::Value| {
        let mut claims = json!({ "sub": sub, "scope": "worker" });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.token(claims)
    };
    let thief = worker("thief", json!({}));
    let made = world.post("/api/sessions", &world.admin(), json!({ "sessionId": "ana" })).expect(201);
    // Before its own first call.
    for (call, body) in [("files/reserve", json!({ "filePath": "a" })), ("heartbeat", json!({})), ("end", json!({}))] {
        world.post(&format!("/api/sessions/ana/{call}"), &thief, body).refused("FORBIDDEN");
    }
    world.post("/api/sessions/ana/files/reserve", text(&made["token"]), json!({ "filePath": "a" })).ok();
    for call in ["end", "files/release-all", "heartbeat"] {
        world.post(&format!("/api/sessions/ana/{call}"), &thief, json!({})).refused("FORBIDDEN");
    }
    assert_eq!(world.held(), ["ana a"]);
    // A session token that names the session, but is not the one that was made for it.
    for call in ["end", "files/release-all", "heartbeat", "files/reserve"] {
        let body = json!({ "filePath": "b" });
        world.post(&format!("/api/sessions/ana/{call}"), &world.session("ana").token, body).refused("FORBIDDEN");
    }
    let again = world.post("/api/sessions", &world.admin(), json!({ "sessionId": "ana" })).expect(201);
    world.post("/api/sessions/ana/heartbeat", text(&again["token"]), json!({})).ok();
    world.post("/api/sessions/ana/heartbeat", text(&made["token"]), json!({})).ok();
    // After its end the id is free again, for a token that is issued later.
    world.post("/api/sessions", &world.admin(), json!({ "sessionId": "dora" })).expect(201);
    world.post("/api/sessions/dora/end", &world.admin(), json!({})).ok();
    let later = world.token(json!({ "sub": "dora", "iat": mint::now() + 5 }));
    world.post("/api/sessions/dora/heartbeat", &later, json!({})).ok();
    // A session that began with its own token keeps it, and the admin gets another one.
    world.session("own").hold("own");
    let other = world.post("/api/sessions", &world.admin(), json!({ "sessionId": "own" })).expect(201);
    world.post("/api/sessions/own/heartbeat", text(&other["token"]), json!({})).ok();
    world.session("own").release_all();
    // Neither does it end what never was, so that its owner finds it dead.
    world.post("/api/sessions/bo/end", &thief, json!({})).refused("NOT_FOUND");
    world.session("bo").hold("b");

    let limited = worker("host", json!({ "prefix": "host-" }));
    world.post("/api/sessions/host-1/files/reserve", &limited, json!({ "filePath": "c" })).ok();
    for id in ["cy", "hos", "HOST-1", "host_1", "bo"] {
        for call in ["files/reserve", "heartbeat", "end"] {
            let body = json!({ "filePath": "d" });
            world.post(&format!("/api/sessions/{id}/{call}"), &limited, body).refused("FORBIDDEN");
        }
        world.get(&format!("/api/sessions/{id}/reserved-files"), &limited).refused("FORBIDDEN");
    }
    world.post("/api/sessions/host-1/end", &thief, json!({})).refused("FORBIDDEN");
    for bad in [json!(""), json!("a b"), json!(7)] {
        let token = worker("host", json!({ "prefix": bad }));
        world.get("/api/sessions", &token).refused("UNAUTHENTICATED");
    }
    // An admin's second token for a session that a worker owns would be of no use.
    world.post("/api/sessions", &world.admin(), json!({ "sessionId": "host-1" })).refused("FORBIDDEN");
}

#[test]
fn a_workers_token_starts_sessions_of_its_own() {
    let world = World::new();
    let output = world.dibs(&["token", "host", "--scope", "worker", "--prefix", "host-"]).run();
    let worker = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let dibs = |args: &[&str]| run_in(&world, "repo", args, &[("DIBS_TOKEN", &worker)]);
    let run = dibs(&["run", "--", PROGRAM, "reserve", "a", "--json"]);
    let printed_run = printed(&run);
    assert!(run.status.success() && printed_run.contains("\"sessionId\":\"host-"), "{printed_run}");
    assert_eq!(world.held(), Vec::<String>::new(), "it ended with the command");

    // A process that loses DIBS_TOKEN finds the session through DIBS_RUN.
    let script = format!("unset DIBS_TOKEN DIBS_SESSION; {PROGRAM} reserve b && {PROGRAM} status --mine --json");
    let run = dibs(&["run", "--", "sh", "-c", &script]);
    assert!(run.status.success() && printed(&run).contains("\"filePath\":\"b\""), "{}", printed(&run));

    let start = dibs(&["session", "start"]);
    assert!(start.status.success(), "{}", printed(&start));
    let id = String::from_utf8(start.stdout).unwrap().trim().to_owned();
    assert!(id.starts_with("host-"), "{id}");
    // The worktree is bound: no variable is needed.
    let reserve = run_in(&world, "repo", &["reserve", "c"], &[]);
    assert!(reserve.status.success(), "{}", printed(&reserve));
    assert_eq!(world.held(), [format!("{id} c")]);
    let end = run_in(&world, "repo", &["session", "end"], &[]);
    assert!(end.status.success() && world.held().is_empty(), "{}", printed(&end));
    assert!(!world.path("repo/.git/dibs/token").exists());

    let refused = dibs(&["session", "start", "--id", "other-1"]);
    assert_eq!(refused.status.code(), Some(4), "{}", printed(&refused));
    let usage = world.dibs(&["token", "host", "--prefix", "host-"]).run();
    assert_eq!(usage.status.code(), Some(2), "{}", printed(&usage));
}

#[test]
fn the_token_command_finds_the_server_that_it_signs_for() {
    let mut world = World::not_started();
    world.git_in("", &["init", "--quiet", "--bare", "repo"]);
    let data = world.path("data").to_str().unwrap().to_owned();
    world.args(&["--data", &data]);
    world.start();
    let token = |world: &World, args: &[&str]| {
        let output = world.dibs(&[&["token"], args].concat()).run();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned(), printed(&output))
    };
    let (code, ana, said) = token(&world, &["ana"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!world.path("repo/dibs/secret").exists());
    world.post("/api/sessions/ana/heartbeat", &ana, json!({})).ok();
    for (args, why) in [
        (&["ana", "--repo", "other"][..], "the server has no repository \"other\"; it has repo"),
        (&["ana", "--repo", "other", "--data", &data], "the server has no repository \"other\"; it has repo"),
    ] {
        let (code, _, said) = token(&world, args);
        assert!(code == Some(2) && said.contains(why), "{said}");
    }
    world.stop();
    let (code, _, said) = token(&world, &["ana"]);
    assert!(code == Some(1) && said.contains("name its directory with --data DIR"), "{said}");
    assert!(!world.path("repo/dibs/secret").exists());
    assert_eq!(token(&world, &["ana", "--data", &data]).0, Some(0));

    let (mut two, data) = World::of_two(["app", "web"]);
    let data = data.to_str().unwrap();
    for _ in 0..2 {
        let (code, _, said) = token(&two, &["ana", "--data", data]);
        assert!(code == Some(2) && said.contains("name one of them with --repo: app, web"), "{said}");
        let (code, _, said) = token(&two, &["ana", "--data", data, "--repo", "apps"]);
        assert!(code == Some(2) && said.contains("no repository \"apps\"; it has app, web"), "{said}");
        assert_eq!(token(&two, &["ana", "--data", data, "--repo", "web"]).0, Some(0));
        assert_eq!(token(&two, &["ops", "--data", data, "--scope", "admin"]).0, Some(0));
        // The same from its files alone.
        if two.path("data/server.json").exists() {
            two.stop();
            assert!(!two.path("data/server.json").exists());
        }
    }
}

#[test]
fn a_rate_limit_sees_the_decoded_session_id() {
    let world = World::configured("[limits]\nrequests-per-second = 5\n");
    let worker = world.token(json!({ "sub": "host", "scope": "worker" }));
    // Each spelling is used once, so only a limit for all of them together refuses one. A slow machine may take so long
    // that none is refused; then the next id.
    let is_refused = |id: &str| {
        let spellings: Vec<String> = (0..1 << id.len())
            .map(|bits| {
                let spell = |(n, byte): (usize, u8)| match bits >> n & 1 {
                    0 => char::from(byte).to_string(),
                    _ => format!("%{byte:02x}"),
                };
                id.bytes().enumerate().map(spell).collect()
            })
            .collect();
        spellings.iter().any(|id| {
            let reply = world.post(&format!("/api/sessions/{id}/heartbeat"), &worker, json!({}));
            reply.status == 429
        })
    };
    let ids = ["anabel", "carlos", "dorian", "edward"];
    let tried = ids.iter().position(|id| is_refused(id)).expect("64 spellings of one id are one session");
    assert_eq!(world.get("/api/sessions", &world.admin()).ok()["sessions"].as_array().unwrap().len(), tried + 1);
}

#[test]
fn metrics_refuse_the_token_of_an_ended_session() {
    let world = World::with(&["--behind-proxy"]);
    let metrics = |token: &str| {
        let bearer = format!("Bearer {token}");
        world.connect().call("GET", "/metrics", &[("authorization", &bearer)], b"").unwrap()
    };
    let ana = world.session("ana");
    ana.hold("a");
    assert_eq!(metrics(&ana.token).status, 200);
    ana.end();
    metrics(&ana.token).refused("SESSION_ENDED");
    assert_eq!(metrics(&world.reader()).status, 200);
    assert_eq!(metrics(&world.admin()).status, 200);
    let worker = world.token(json!({ "sub": "host", "scope": "worker", "sid": "ana" }));
    metrics(&worker).refused("FORBIDDEN");
}

#[test]
fn files_that_other_users_can_read_are_reported_or_refused() {
    let mut world = World::new();
    let mode = |world: &World, path: &str, mode| {
        fs::set_permissions(world.path(path), PermissionsExt::from_mode(mode)).unwrap();
    };
    let token = world.token(json!({ "sub": "ana" }));
    fs::write(world.path("home/token"), &token).unwrap();
    let file = world.path("home/token").to_str().unwrap().to_owned();
    for (bits, is_open) in [(0o600, false), (0o644, true), (0o640, true)] {
        mode(&world, "home/token", bits);
        let output = run_in(&world, "repo", &["reserve", "a", "--token-file", &file], &[]);
        let printed = printed(&output);
        let warning = format!("other users can read the token in {file} (mode {bits:04o}); run: chmod 600 {file}");
        assert!(output.status.success() && printed.contains(&warning) == is_open, "{printed}");
    }
    assert!(world.dibs(&["session", "start"]).run().status.success());
    mode(&world, "repo/.git/dibs/token", 0o644);
    let output = run_in(&world, "repo", &["reserve", "b"], &[]);
    let said = printed(&output);
    assert!(
        output.status.code() == Some(4) && said.contains("is in a file that other users can read (mode 0644)"),
        "{said}"
    );

    world.stop();
    mode(&world, "repo/.git/dibs/journal.db", 0o644);
    world.start();
    until("the journal is reported", || world.stderr().contains("other users can read the journal").then_some(()));
    world.stop();
    mode(&world, "repo/.git/dibs/journal.db", 0o666);
    let ended = world.start_and_fail();
    assert!(
        ended.stderr.contains("other users can change the journal") && ended.stderr.contains("chmod 600"),
        "{}",
        ended.stderr
    );
}

/// A server whose every text has an escape sequence, a carriage return and a line feed in it.
fn hostile_body() -> String {
    let evil = "x\u{1b}[2J\r\nfake\u{202e}\u{7}";
    let reservation = json!({
        "reservationId": evil, "filePath": evil, "sessionId": evil, "sessionName": evil, "mode": "exclusive",
        "reservedAt": "2026-01-01T00:00:00Z", "expiresAt": "2099-01-01T00:00:00Z", "fence": 1, "version": 1, "reason": evil,
        "key": evil, "reservedBy": evil, "reservedByName": evil, "example": evil,
    });
    let request = json!({
        "id": evil, "reservationId": evil, "filePath": evil, "requestedBy": evil, "requestedByName": evil, "reason": evil,
        "requestedAt": "2026-01-01T00:00:00Z", "status": "pending", "reservedBy": evil, "note": evil,
    });
    let session = json!({
        "sessionId": evil, "state": "active", "name": evil, "feature": evil, "startedAt": "2026-01-01T00:00:00Z",
        "lastSeenAt": "2026-01-01T00:00:00Z", "heldCount": 1, "waitingFor": [evil],
    });
    let event = json!({
        "seq": 1, "at": "2026-01-01T00:00:00Z", "sessionName": evil, "event": "opened", "sessionId": evil, "name": evil,
        "feature": evil,
    });
    let notice = json!({ "kind": "featurePaused", "feature": evil, "reservedBy": evil, "reason": evil });
    let mut body = json!({
        "status": "ok", "version": evil, "conflicts": [reservation], "clear": [evil], "held": [evil],
        "reservations": [reservation], "reserved": [evil], "sessions": [session], "renewedCount": 1, "notices": [notice],
        "incoming": [request], "outgoing": [request], "releasedCount": 1, "releasedPaths": [evil], "released": true,
        "ok": true, "state": "completed", "events": [event], "missing": [], "error": evil, "code": "NOT_FOUND",
    });
    for part in [reservation, request, session] {
        for (name, value) in part.as_object().unwrap() {
            body.as_object_mut().unwrap().entry(name).or_insert(value.clone());
        }
    }
    body.to_string()
}

fn hostile_reply(status: &str) -> String {
    let body = hostile_body();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\n') || c == '\u{202e}'
}

#[test]
fn text_of_a_server_cannot_control_the_terminal() {
    let world = World::new();
    let token = world.token(json!({ "sub": "ana" }));
    let mut shown = 0;
    for status in ["200 OK", "404 Not Found"] {
        let server = Recorder::start(hostile_reply(status));
        let more: &[&[&str]] = &[
            &["renew", "x"],
            &["renew", "--all"],
            &["release", "--all"],
            &["request", "x", "--reason", "y"],
            &["approve", "1"],
            &["reject", "1"],
            &["withdraw", "1"],
            &["wait", "x", "--timeout", "1"],
            &["ports"],
            &["ports", "--list"],
            &["pause", "f"],
            &["resume", "f"],
        ];
        for args in COMMANDS.iter().chain(more) {
            for json in [false, true] {
                let args: Vec<&str> = args.iter().copied().chain(json.then_some("--json")).collect();
                let variables = [("DIBS_TOKEN", &*token), ("DIBS_URL", &server.url())];
                let output = run_in(&world, "repo", &args, &variables);
                let printed = printed(&output);
                assert!(!printed.contains(is_harmful), "{args:?}: {printed:?}");
                shown += usize::from(printed.contains("fake"));
                let forged = printed.lines().any(|line| line.starts_with("fake"));
                assert!(!forged, "a line of the server's own: {args:?}: {printed}");
            }
        }
    }
    let history = Recorder::start(hostile_reply("200 OK"));
    let output = run_in(&world, "repo", &["log"], &[("DIBS_TOKEN", &token), ("DIBS_URL", &history.url())]);
    assert!(printed(&output).contains("fake"), "the history shows the event: {}", printed(&output));
    // The same program under its other names.
    let bin = world.path("home/bin");
    fs::create_dir(&bin).unwrap();
    assert!(world.dibs(&["install-commands", bin.to_str().unwrap()]).run().status.success());
    for status in ["200 OK", "404 Not Found", "423 Locked"] {
        let server = Recorder::start(hostile_reply(status));
        for args in [&["rlock", "deploy://x"][..], &["runlock", "deploy://x"], &["rlock-heartbeat", "deploy://x"]] {
            let mut command = world.command(bin.join(args[0]), "repo");
            let output = command.args(&args[1..]).env("DIBS_TOKEN", &token).env("DIBS_URL", server.url()).run();
            assert!(!printed(&output).contains(is_harmful), "{args:?}: {:?}", printed(&output));
        }
    }
    assert!(shown > 20, "the commands show something of it: {shown}");
}

#[test]
fn a_list_that_never_ends_is_given_up() {
    let world = World::new();
    let token = world.token(json!({ "sub": "ana" }));
    // Each page has a cursor that no page had before.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let padding = " ".repeat(60 << 20);
        for (n, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 65536]);
            let page = json!({
                "reservations": [], "sessions": [], "events": [], "missing": [], "nextCursor": n.to_string(),
            });
            let page = page.to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let length = page.len() + padding.len();
            let _ = write!(stream, "{head}content-length: {length}\r\n\r\n{page}{padding}");
        }
    });
    let url = format!("http://{address}");
    for args in [&["status"][..], &["session", "list"], &["log"]] {
        let output = run_in(&world, "repo", args, &[("DIBS_TOKEN", &token), ("DIBS_URL", &url)]);
        let printed = printed(&output);
        assert!(!output.status.success() && printed.contains("a list of more than"), "{args:?}: {printed}");
    }
}
