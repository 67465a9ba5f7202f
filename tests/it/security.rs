//! Attacks: web pages of other sites, DNS rebinding, request smuggling, tokens in URLs, files that are
//! readable by others, and control characters for a terminal. Forged log lines are in `logs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::http::{Connection, Response};
use crate::mint;
use crate::world::{Run, World, text};

/// Sends exactly these bytes and reads one response, or the error if the server closes the connection.
fn raw(world: &World, head: &str) -> std::io::Result<Response> {
    let mut connection = world.connect();
    connection.send(head.as_bytes())?;
    connection.receive(false)
}

/// The statuses of all responses until the server closes the connection.
fn answers(world: &World, bytes: &[u8]) -> Vec<u16> {
    let mut connection = world.connect();
    connection.send(bytes).unwrap();
    std::iter::from_fn(|| connection.receive(false).ok()).map(|answer| answer.status).collect()
}

#[test]
fn dns_rebinding_is_refused() {
    let mut world = World::with(&["--host", "dibs.internal"]);
    let ask = |world: &World, host: &str| raw(world, &format!("GET /readyz HTTP/1.1\r\nhost: {host}\r\n\r\n")).unwrap();
    for foreign in ["evil.example", "evil.example:3427", "localhost.evil.example", "192.168.0.1:3427", "0.0.0.0"] {
        let answer = ask(&world, foreign);
        answer.check_ground_rules();
        let refusal = answer.refused("FORBIDDEN");
        assert!(text(&refusal["error"]).contains("--host"), "{refusal}");
    }
    for ours in ["localhost", "LOCALHOST:3427", "127.0.0.1", "127.0.0.1:80", "[::1]:3427", "dibs.internal"] {
        ask(&world, ours).ok();
    }
    let absolute = "GET http://evil.example/readyz HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    raw(&world, absolute).unwrap().refused("FORBIDDEN");
    let two = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n";
    raw(&world, two).unwrap().refused("INVALID_REQUEST");
    raw(&world, "GET /readyz HTTP/1.1\r\n\r\n").unwrap().refused("INVALID_REQUEST");
    raw(&world, "GET /readyz HTTP/1.0\r\n\r\n").unwrap_err(); // An answer in HTTP/1.0, which is what a probe wants.

    // Who may use the socket is decided by file permissions, or by the proxy in front of it.
    let mut socket = Connection::open(&world.unix()).unwrap();
    socket.send(b"GET /readyz HTTP/1.1\r\nhost: evil.example\r\n\r\n").unwrap();
    socket.receive(false).unwrap().ok();
    world.stop();
    world.args(&["--behind-proxy"]);
    world.start();
    ask(&world, "dibs.example").ok();
}

#[test]
fn cross_origin_requests_are_refused_without_cors_headers() {
    let world = World::new();
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", ana.token);
    let from = |origin: &str, method: &str, target: &str| {
        let headers = [
            ("authorization", &*bearer),
            ("content-type", "application/json"),
            ("origin", origin),
            ("access-control-request-method", "POST"),
        ];
        let answer = world.send(method, target, &headers, br#"{"filePath": "a"}"#);
        let leave = answer.headers.iter().find(|(name, _)| name.starts_with("access-control-"));
        assert_eq!(leave, None, "{answer}");
        answer
    };
    let reserve = ana.url("files/reserve");
    for origin in ["https://evil.example", "null", "http://localhost:1", "http://localhost.evil.example", "file://"] {
        from(origin, "POST", &reserve).refused("FORBIDDEN");
        from(origin, "OPTIONS", &reserve).refused("FORBIDDEN");
        from(origin, "GET", "/readyz").refused("FORBIDDEN");
    }
    assert_eq!(world.held(), Vec::<String>::new());
    from("http://localhost", "OPTIONS", &reserve).refused("METHOD_NOT_ALLOWED");
    from("http://localhost", "POST", &reserve).ok();
}

#[test]
fn request_smuggling_is_refused() {
    let world = World::new();
    let bearer = format!("authorization: Bearer {}", world.session("ana").token);
    let post = |headers: &str, body: &str| {
        let head = "POST /api/sessions/ana/files/reserve HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        format!("{head}\r\n{bearer}\r\n{headers}\r\n\r\n{body}").into_bytes()
    };
    let hidden = "GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let body = r#"{"filePath": "a"}"#;

    // Both lengths: the chunks count, and what comes after them is not trusted to be a request.
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n{hidden}", body.len());
    assert_eq!(answers(&world, &post("content-length: 4\r\ntransfer-encoding: chunked", &chunked)), [200]);
    assert_eq!(answers(&world, &post("transfer-encoding: chunked\r\ncontent-length: 4", &chunked)), [200]);

    let length = format!("content-length: {}", body.len());
    for headers in [
        format!("{length}\r\ncontent-length: 3"),
        format!("{length}, 3"),
        "content-length: +17".to_owned(),
        "content-length: 0x11".to_owned(),
        "content-length: -1".to_owned(),
        "transfer-encoding: xchunked".to_owned(),
        "transfer-encoding: chunked, identity".to_owned(),
        format!("transfer-encoding : chunked\r\n{length}"),
        format!("x: y\r\n folded: z\r\n{length}"),
        format!("{length}\r\nx: a\u{0}b"),
    ] {
        let seen = answers(&world, &post(&headers, &format!("{body}{hidden}")));
        assert_eq!(seen, [400], "{headers:?}");
    }
    for chunks in ["zz\r\n", "ffffffffffffffffff\r\n", "5\r\nabcdeXX0\r\n\r\n", "-1\r\n\r\n"] {
        let seen = answers(&world, &post("transfer-encoding: chunked", &format!("{chunks}{hidden}")));
        assert!(seen.iter().all(|status| *status == 400) && seen.len() <= 1, "{chunks:?}: {seen:?}");
    }
    // The same length twice is one length, and what follows is a request of its own.
    assert_eq!(answers(&world, &post(&format!("{length}\r\n{length}\r\nconnection: close"), body)), [200]);
}

#[test]
fn a_token_in_a_url_is_refused_and_not_logged() {
    let mut world = World::not_started();
    world.git_init("repo");
    world.args(&["--log", "text", "--log-level", "trace"]);
    world.start();
    let reader = world.reader();
    for name in ["token", "access_token", "%74oken", "jwt"] {
        for target in ["/api/reservations", "/readyz", "/nowhere"] {
            let refusal = world.get(&format!("{target}?{name}={reader}"), &reader).refused("UNAUTHENTICATED");
            assert!(text(&refusal["error"]).contains("Authorization"), "{refusal}");
            assert!(!refusal.to_string().contains(&reader));
        }
    }
    world.get("/api/reservations?prefix=token", &reader).ok();
    world.session("ana").hold("a");
    let said = world.stop().stderr;
    let signature = reader.rsplit('.').next().unwrap();
    assert!(said.contains("INFO") || said.contains("DEBUG"), "{said}");
    assert!(!said.contains(signature), "the token is in the log");
}

#[test]
fn a_secret_readable_by_others_is_refused() {
    let mut world = World::not_started();
    world.git_init("repo");
    let secret = world.path("secret");
    fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    world.args(&["--secret-file", secret.to_str().unwrap()]);
    for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666] {
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
        let ended = world.start_and_fail();
        assert_eq!(ended.status.code(), Some(1));
        let advice = format!("chmod 600 {secret:?}");
        assert!(ended.stderr.contains(&advice), "{mode:o}: {}", ended.stderr);
        assert!(!ended.stderr.contains("0123456789abcdef"), "{}", ended.stderr);
    }
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    world.start();
    let mode = |name: &str| fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
    for name in ["journal.db", "server.json", "read-token", "dibs.sock"] {
        assert_eq!(mode(&format!("repo/.git/dibs/{name}")), 0o600, "{name}");
    }
    assert_eq!(mode("repo/.git/dibs"), 0o700);
}

#[test]
fn a_socket_in_a_world_writable_directory_is_refused() {
    let mut world = World::not_started();
    world.git_init("repo");
    let (directory, socket) = (world.path("run"), world.path("run/dibs.sock"));
    fs::create_dir(&directory).unwrap();
    world.args(&["--socket", socket.to_str().unwrap()]);
    for mode in [0o777, 0o703] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        let ended = world.start_and_fail();
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.stderr.contains("chmod o-w"), "{mode:o}: {}", ended.stderr);
        assert!(!socket.exists());
    }
    for mode in [0o755, 0o1777] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        world.start();
        assert!(socket.exists());
        world.stop();
    }
}

#[test]
fn a_session_learns_nothing_of_another_repository() {
    let (world, data) = World::of_two(["app", "hidden"]);
    let secret = crate::world::secret_in(&data);
    let token = |claims: Value| mint::hs256(&mint::claims(claims), &secret);
    let other = token(json!({ "sub": "olga", "repo": "hidden", "name": "Olga", "feature": "F-9" }));
    world.post("/api/sessions/olga/files/reserve", &other, json!({ "filePath": "plans.txt", "reason": "ours" })).ok();

    let admin = token(json!({ "sub": "ops", "scope": "admin", "repo": "app" }));
    let ana = token(json!({ "sub": "ana", "repo": "app" }));
    let lost = token(json!({ "sub": "ana" }));
    let mut said = Vec::new();
    for token in [&ana, &admin, &lost, ""] {
        for target in [
            "/api/reservations",
            "/api/sessions",
            "/api/sessions/olga",
            "/api/sessions/olga/reserved-files",
            "/api/sessions/olga/unlock-requests",
            "/api/history",
            "/api/history?path=plans.txt",
            "/api/stats",
            "/metrics",
            "/healthz",
            "/readyz",
            "/",
        ] {
            let target = if token.is_empty() { target.to_owned() } else { target.replace("//", "/") };
            let headers =
                [("authorization", &*format!("Bearer {token}"))].map(|(name, value)| (name, value.to_owned()));
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
            let answer =
                world.connect().call("GET", &target, if token.is_empty() { &[] } else { &headers }, b"").unwrap();
            said.push((target, String::from_utf8_lossy(&answer.body).into_owned()));
        }
        if !token.is_empty() {
            let check = json!({ "paths": ["plans.txt"] });
            let answer = world.post("/api/check-conflicts", token, check);
            if answer.status == 200 {
                assert_eq!(answer.json()["clear"], json!(["plans.txt"]));
            }
        }
    }
    for (target, body) in said {
        for name in ["hidden", "olga\"", "Olga", "F-9", "ours"] {
            assert!(!body.contains(name), "{target} tells of {name}: {body}");
        }
    }

    // Whether there is such a repository makes no difference.
    let ask = |repo: &str| {
        let answer = world.get(&format!("/api/reservations?repo={repo}"), &ana);
        (answer.status, answer.json())
    };
    assert_eq!(ask("hidden"), ask("nowhere"));
    assert_eq!(ask("hidden").0, 403);
    let claimed = |repo: &str| world.get("/api/reservations", &token(json!({ "sub": "x", "repo": repo }))).status;
    assert_eq!(claimed("nowhere"), 403);
}

#[test]
fn no_output_contains_control_characters() {
    const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{8}\u{202e}x\n";
    let world = World::new();
    let coded: String = NASTY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let held = format!("file:src/{coded}");
    let (ana, bo) = (world.session("ana"), world.session_with("bo", json!({ "name": "Bo" })));
    for key in [&*held, "plain.txt", "db:schema:slot"] {
        ana.reserve(json!({ "filePath": key, "encoding": "percent", "reason": NASTY, "ttlSeconds": 300 })).ok();
    }
    bo.post("unlock-requests", json!({ "filePath": "plain.txt", "reason": NASTY })).expect(201);
    let taken = ana.hold("gone.txt");
    let target = format!("/api/reservations/{}", text(&taken["reservationId"]));
    world.delete(&target, &world.admin(), json!({ "reason": NASTY })).ok();

    let clean = |mut command: Command, what: &str| {
        let done = command.run();
        for (way, bytes) in [("stdout", &done.stdout), ("stderr", &done.stderr)] {
            let said = String::from_utf8_lossy(bytes);
            let bad = said.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
            assert_eq!(bad, None, "{what} on {way}: {said:?}");
        }
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    };
    let as_session = |args: &[&str], token: &str| {
        let mut command = world.dibs(args);
        command.env("DIBS_TOKEN", token);
        command
    };
    for args in [
        &["status"][..],
        &["who", "plain.txt"],
        &["log"],
        &["log", "plain.txt"],
        &["check", "plain.txt", "db:schema:slot"],
        &["session", "list"],
        &["requests"],
        &["reserve", "plain.txt"],
        &["reserve", "plain.txt", "--json"],
        &["request", "db:schema:slot", "--reason", NASTY],
        &["release", "plain.txt"],
        &["wait", "plain.txt", "--timeout", "1"],
        &["doctor"],
    ] {
        for token in [&ana.token, &bo.token] {
            let said = clean(as_session(args, token), &args.join(" "));
            assert!(!said.contains("unexpected argument"), "{said}");
        }
    }
    let log = clean(as_session(&["log"], &bo.token), "log");
    assert!(log.contains("\\x1b[2J"), "it is shown, as text: {log}");

    // A commit, without a session, of a file that a session holds.
    let repo = world.path("repo");
    let git = |args: &[&str]| {
        let mut git = world.command("git", "");
        git.current_dir(&repo).args(args);
        git.envs([("GIT_AUTHOR_NAME", "P"), ("GIT_AUTHOR_EMAIL", "p@x"), ("GIT_COMMITTER_NAME", "P")]);
        git.env("GIT_COMMITTER_EMAIL", "p@x");
        git
    };
    clean(world.dibs(&["install"]), "install");
    fs::create_dir(repo.join("src")).unwrap();
    fs::write(repo.join("plain.txt"), "x").unwrap();
    fs::write(repo.join(format!("src/{NASTY}")), "x").unwrap();
    assert!(git(&["add", "--all"]).run().status.success());
    let said = clean(git(&["commit", "-qm", "x"]), "commit");
    assert!(said.contains("plain.txt") && said.contains("ana"), "the commit is refused: {said}");
}
