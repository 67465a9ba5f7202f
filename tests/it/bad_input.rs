//! Bad input of every kind: nothing is granted, the server continues, and no token is logged.

use serde_json::{Value, json};

use crate::http::Connection;
use crate::mint;
use crate::world::{Session, World, text};

/// Paths git would refuse, or that lie outside.
#[rustfmt::skip]
const BAD_PATHS: &[&str] = &[
    "", ".", "./", "/", "//", "././.", "/etc/passwd", "//a", "C:", "C:\\x", "c:/x", "z:x", "..", "../a", "a/..",
    "a/../b", "./../a", "a\\b", "\\\\host\\share", "a\0b", "\0", "a\nb", "a\tb", "\u{1b}[31m", "a\u{7f}", "a ", "a\t",
    "dir/a\u{3000}", ".git", ".git/config", ".GIT", ".Git/hooks/x", "a/.git", "a/.gIT/b", ".git.", ".git ", ".git...",
    "git~1", "GIT~1/x", "a/git~1", ".g\u{200c}it", ".gi\u{200d}t/x", "\u{feff}.git", ".git::$DATA", ".git/**",
    "**/.git/*", "../**", "/**", "a/../*.rs", "file:", "file:..", "file:/a", "file:a\\b", "file:a/", "file:.git/x",
];

/// Keys that do not follow their form.
#[rustfmt::skip]
const MALFORMED: &[&str] = &[
    "api:", "api:GET", "api:get /x", "api:GET  /x", "api:GET x", "api:GET /a b", "db:", "db:Users", "db:a::b",
    "db:schema:", "event:", "event:User.created", "event:a..b", "event:.a", "flag:", "flag:*", "flag:Billing",
    "flag:a//b", "flag:a/*/b", "env:", "env:8080", "env:a b", "contract:", "contract:../x", "contract:/x",
    "contract:.git/x", "feature:", "feature:F-1", "feature:F-1:", "feature:F-1:party", "feature::pause", "github://",
    "xy://a b", "xy://a\nb", "a[", "a]{b", "{a,b", "a[z-a]", "a[]",
];

/// Bodies that are no JSON, no object, or not UTF-8.
#[rustfmt::skip]
const BROKEN: &[&[u8]] = &[
    b"{", b"}", b"[]", b"[\"a\"]", b"\"a\"", b"7", b"null", b"true", b"{\"filePath\": \"a\"",
    b"{'filePath': 'a'}", b"{\"filePath\": \"a\",}", b"{\"filePath\": \"a\"}{}", b"{\"filePath\": \"a\"} x",
    b"{\"filePath\": \"\\ud800\"}", b"{\"filePath\": \"\\q\"}", b"{\"filePath\": \"\xff\xfe\"}",
    b"{\"filePath\": NaN}", b"\xef\xbb\xbf{\"filePath\": \"a\"}", b"{\"filePath\": \"a\", \"filePath\": \"b\"}",
    b"{\"filePath\": \"a\", \"ttlSeconds\": 1e}", b"\0", b"filePath=a", b"<xml/>",
];

/// A server that logs everything it can.
fn talkative() -> World {
    let mut world = World::not_started();
    world.git_init("repo");
    world.env("DIBS_LOG", "trace");
    world.start();
    world
}

/// Nothing was granted, the server still answers, and its log contains no token.
#[track_caller]
fn unharmed(mut world: World, mut tokens: Vec<String>) {
    assert_eq!(world.held(), [""; 0]);
    let last = world.session("last");
    last.hold("still/works");
    world.get("/readyz", "").ok();
    tokens.extend([last.token, world.reader()]);
    let ended = world.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for said in [&ended.stdout, &ended.stderr] {
        assert!(!said.contains("panicked"), "{said}");
        for token in tokens.iter().flat_map(|token| token.split('.')).filter(|part| part.len() > 8) {
            assert!(!said.contains(token), "a part of a token was logged: {token}");
        }
    }
}

/// Every call that takes a key refuses it with this code.
#[track_caller]
fn names_nothing(session: &Session<'_>, key: &str, code: &str) {
    let one = json!({ "filePath": key, "reason": "x" });
    let calls = [
        ("files/reserve", one.clone()),
        ("files/reserve", json!({ "filePaths": ["fine", key] })),
        ("files/release", one.clone()),
        ("files/renew", one.clone()),
        ("files/check-conflicts", json!({ "paths": ["fine", key] })),
        ("unlock-requests", one),
    ];
    for (call, body) in calls {
        let answer = session.post(call, body);
        assert!(answer.status >= 400 && answer.json()["code"] == code, "{call} {key:?}: {answer}");
        assert!(text(&answer.json()["error"]).len() < 600, "{answer}");
    }
}

#[test]
fn bad_paths() {
    let world = talkative();
    let ana = world.session("ana");
    let (long, wide) = ("x/".repeat(2048) + "x", "x".repeat(256));
    let deep = format!("a/{wide}/b");
    for path in BAD_PATHS.iter().copied().chain([&*long, &*wide, &*deep]) {
        names_nothing(&ana, path, "INVALID_PATH");
    }
    let tokens = vec![ana.token];
    unharmed(world, tokens);
}

#[test]
fn malformed_keys() {
    let world = talkative();
    let ana = world.session("ana");
    let braces = "{".repeat(300) + &"}".repeat(300);
    let choices = format!("{{{}}}", (0..5000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    for key in MALFORMED.iter().copied().chain([&*braces, &*choices]) {
        let answer = ana.reserve(json!({ "filePath": key }));
        assert!(answer.status == 400, "{key:?}: {answer}");
        let code = answer.json()["code"].clone();
        assert!(code == "INVALID_KEY" || (code == "INVALID_PATH" && key.len() > 1000), "{key:?}: {answer}");
        names_nothing(&ana, key, text(&code));
    }
    for key in ["nope:x", "DB:x", "ftp:x", "c++:x", "a.b:c"] {
        names_nothing(&ana, key, "OPERATION_NOT_PERMITTED");
    }
    let tokens = vec![ana.token];
    unharmed(world, tokens);
}

#[test]
fn bad_tokens() {
    let world = talkative();
    let (secret, now) = (world.secret(), mint::now());
    let good = mint::claims(json!({ "sub": "ana" }));
    let header = |header: Value| mint::signed(&header.to_string(), &good.to_string(), &secret);
    let with = |claims: Value| world.token(claims);
    let unsigned = |alg: &str| {
        let parts = [json!({ "alg": alg, "typ": "JWT" }), good.clone()]
            .map(|part| mint::base64url(part.to_string().as_bytes()));
        format!("{}.", parts.join("."))
    };
    let whole = with(json!({ "sub": "ana" }));
    let (message, signature) = whole.rsplit_once('.').unwrap();
    let flipped = format!("{message}.{}", signature.chars().rev().collect::<String>());
    let other_payload = {
        let payload = mint::base64url(mint::claims(json!({ "sub": "ana", "scope": "admin" })).to_string().as_bytes());
        let (head, _) = message.split_once('.').unwrap();
        format!("{head}.{payload}.{signature}")
    };
    let bad: Vec<(&str, String)> = vec![
        ("nothing", "x".into()),
        ("dots", "..".into()),
        ("two parts", message.into()),
        ("four parts", format!("{whole}.x")),
        ("no signature", format!("{message}.")),
        ("a turned signature", flipped),
        ("another payload", other_payload),
        ("padding", format!("{whole}=")),
        ("none", unsigned("none")),
        ("None", unsigned("None")),
        ("NONE", unsigned("NONE")),
        ("HS256 unsigned", unsigned("HS256")),
        ("none, signed", header(json!({ "alg": "none" }))),
        ("HS512 header", header(json!({ "alg": "HS512" }))),
        ("RS256 header", header(json!({ "alg": "RS256" }))),
        ("no alg", header(json!({ "typ": "JWT" }))),
        ("alg a list", header(json!({ "alg": ["HS256"] }))),
        ("unknown kid", header(json!({ "alg": "HS256", "kid": "nobody" }))),
        ("kid a path", header(json!({ "alg": "HS256", "kid": "../../secret" }))),
        ("a critical header", header(json!({ "alg": "HS256", "crit": ["x"], "x": 1 }))),
        ("another kind of token", header(json!({ "alg": "HS256", "typ": "dpop+jwt" }))),
        ("wrong key", mint::hs256(&good, b"another secret that is long enough")),
        ("empty key", mint::hs256(&good, b"")),
        ("payload a list", mint::signed(r#"{"alg":"HS256"}"#, "[]", &secret)),
        ("payload no JSON", mint::signed(r#"{"alg":"HS256"}"#, "{", &secret)),
        (
            "a claim twice",
            mint::signed(r#"{"alg":"HS256"}"#, &format!(r#"{{"sub":"x","sub":"ana","exp":{}}}"#, now + 60), &secret),
        ),
        ("nbf", with(json!({ "sub": "ana", "nbf": now + 300 }))),
        ("nbf text", with(json!({ "sub": "ana", "nbf": "soon" }))),
        ("no exp", with(json!({ "sub": "ana", "exp": null }))),
        ("exp text", with(json!({ "sub": "ana", "exp": (now + 60).to_string() }))),
        ("exp in milliseconds", with(json!({ "sub": "ana", "exp": now * 1000 }))),
        ("exp negative", with(json!({ "sub": "ana", "exp": -1 }))),
        ("exp beyond numbers", with(json!({ "sub": "ana", "exp": 1e300 }))),
        ("no sub", with(json!({}))),
        ("sub empty", with(json!({ "sub": "" }))),
        ("sub a number", with(json!({ "sub": 7 }))),
        ("sub no session id", with(json!({ "sub": "an a" }))),
        ("sid no session id", with(json!({ "sub": "ana", "sid": "an/a" }))),
        ("unknown scope", with(json!({ "sub": "ana", "scope": "king" }))),
        ("scope a list", with(json!({ "sub": "ana", "scope": ["admin"] }))),
        ("two scopes", with(json!({ "sub": "ana", "scope": "session admin" }))),
        ("name a number", with(json!({ "sub": "ana", "name": 7 }))),
        ("name with an escape", with(json!({ "sub": "ana", "name": "\u{1b}[31m" }))),
        ("repo a number", with(json!({ "sub": "ana", "repo": 7 }))),
        ("huge", with(json!({ "sub": "ana", "x": "x".repeat(20_000) }))),
    ];
    let reserve = |token: &str| world.post("/api/sessions/ana/files/reserve", token, json!({ "filePath": "a" }));
    for (why, token) in &bad {
        let answer = reserve(token);
        assert!(answer.status == 401, "{why}: {answer}");
        let body = answer.refused("UNAUTHENTICATED");
        assert_eq!(text(&body["error"]), "the token is not valid", "{why}: no hints");
        assert_eq!(body.as_object().unwrap().len(), 2, "{why}: no hints");
    }
    let expired = with(json!({ "sub": "ana", "exp": now - 60 }));
    let said = reserve(&expired).refused("UNAUTHENTICATED");
    assert!(text(&said["error"]).contains("expired"), "{said}");
    // Only a token with a valid signature is reported as expired.
    let forged = mint::hs256(&json!({ "sub": "ana", "exp": now - 60 }), b"another secret that is long enough");
    assert_eq!(text(&reserve(&forged).refused("UNAUTHENTICATED")["error"]), "the token is not valid");
    // Without a valid token the rest of the request is not examined.
    for (method, target) in [
        ("POST", "/api/sessions"),
        ("GET", "/api/sessions"),
        ("POST", "/api/sessions/ana/files/reserve"),
        ("POST", "/api/check-conflicts"),
        ("DELETE", "/api/reservations/x"),
        ("GET", "/api/reservations?limit=x"),
    ] {
        for body in [&b""[..], b"{", b"[]", &[b'x'; 100_000]] {
            let headers = [("authorization", &*format!("Bearer {forged}")), ("content-type", "application/json")];
            world.send(method, target, &headers, body).refused("UNAUTHENTICATED");
            world.send(method, target, &[], body).refused("UNAUTHENTICATED");
        }
    }

    // Valid tokens without the permission.
    let (reader, dead) = (world.reader(), world.session("dead"));
    dead.end();
    let refused: Vec<(&str, String, &str)> = vec![
        ("another session's", with(json!({ "sub": "bo" })), "FORBIDDEN"),
        ("another by sid", with(json!({ "sub": "ana", "sid": "bo" })), "FORBIDDEN"),
        ("read scope writing", reader.clone(), "FORBIDDEN"),
        ("read scope of that name", with(json!({ "sub": "ana", "scope": "read" })), "FORBIDDEN"),
        ("wrong repository", with(json!({ "sub": "ana", "repo": "other" })), "FORBIDDEN"),
        ("admin of another repository", with(json!({ "sub": "ops", "scope": "admin", "repo": "other" })), "FORBIDDEN"),
    ];
    for (why, token, code) in &refused {
        let answer = reserve(token);
        assert!(answer.status == 403, "{why}: {answer}");
        answer.refused(code);
    }
    dead.reserve(json!({ "filePath": "a" })).refused("SESSION_ENDED");
    let ana = world.session("ana");
    for token in [&ana.token, &reader] {
        world.post("/api/sessions", token, json!({})).refused("FORBIDDEN");
        world.delete("/api/reservations/x", token, json!({ "reason": "x" })).refused("FORBIDDEN");
    }
    let mut tokens: Vec<String> = bad.into_iter().map(|(_, token)| token).filter(|token| token.len() > 20).collect();
    tokens.extend(refused.into_iter().map(|(_, token, _)| token));
    tokens.extend([expired, forged, dead.token, ana.token, reader]);
    unharmed(world, tokens);
}

#[test]
fn broken_bodies() {
    let world = talkative();
    let ana = world.session("ana");
    let bearer = format!("Bearer {}", ana.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let deep_lists = format!(r#"{{"filePath": {}{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    let deep_maps = format!(r#"{{"filePath": {}1{}}}"#, r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let unclosed = format!(r#"{{"filePath": {}"#, r#"{"filePath": "#.repeat(50_000));
    for body in BROKEN.iter().copied().chain([deep_lists.as_bytes(), deep_maps.as_bytes(), unclosed.as_bytes()]) {
        for call in ["files/reserve", "files/release", "files/renew", "files/check-conflicts"] {
            let answer = world.send("POST", &ana.url(call), &headers, body);
            let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
            assert!(answer.status == 400, "{call} {shown}: {answer}");
            assert!(answer.body.len() < 1000, "{call} {shown}: {answer}");
        }
    }
    for (target, body) in [
        ("/api/sessions/%ff/heartbeat", "{}"),
        ("/api/sessions/ana/heartbeat", "[[["),
        ("/api/sessions/ana/end", r#"{"state": "#),
        ("/api/sessions/ana/unlock-requests", r#"{"filePath": "a"}"#),
        ("/api/check-conflicts", r#"{"paths": {"0": "a"}}"#),
    ] {
        assert_eq!(world.send("POST", target, &headers, body.as_bytes()).status, 400, "{target}");
    }

    // A client that closes in the middle of a body or a head, or speaks no HTTP, does no harm.
    let whole = crate::http::request("POST", &ana.url("files/reserve"), &headers, br#"{"filePath": "broken"}"#);
    for cut in [1, 20, whole.len() - 30, whole.len() - 1] {
        world.connect().send(&whole[..cut]).unwrap();
    }
    for noise in [&b"\0\0\0\0\r\n\r\n"[..], b"SSH-2.0-x\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", &[0xff; 5000]]
    {
        let mut line = world.connect();
        line.send(noise).unwrap();
    }
    let many: Vec<(String, String)> = (0..300).map(|n| (format!("x-{n}"), "y".repeat(100))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (&**name, &**value)).collect();
    let crowded = Connection::open(&world.tcp()).unwrap().call("GET", "/healthz", &many, b"");
    assert!(crowded.is_ok_and(|answer| answer.status == 200 || answer.status == 431));
    let tokens = vec![ana.token];
    unharmed(world, tokens);
}
