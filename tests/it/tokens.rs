//! Tokens: what each scope permits. Invalid tokens are in `bad_input`.

use std::fs;
use std::path::{Path, PathBuf};

use jsonwebtoken::Algorithm;
use serde_json::json;

use crate::mint;
use crate::world::{Run, World, secret_in, text, until};

#[test]
fn a_session_token_acts_for_its_own_session_only() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana", "feature": "F-1" })), world.session("bo"));
    assert_eq!(ana.hold("a")["sessionId"], "ana");
    bo.hold("b");
    let seen = world.get("/api/sessions/ana", &bo.token).ok();
    assert_eq!((text(&seen["name"]), text(&seen["feature"])), ("Ana", "F-1"));

    for other in ["bo", "nobody", "not%20an%20id", "%F0%9F%A6%80"] {
        for (call, body) in [
            ("heartbeat", json!({})),
            ("end", json!({})),
            ("files/reserve", json!({ "filePath": "c" })),
            ("files/release", json!({ "filePath": "b" })),
            ("files/release-all", json!({})),
            ("files/renew", json!({ "filePath": "b" })),
            ("files/check-conflicts", json!({ "paths": ["b"] })),
            ("unlock-requests", json!({ "filePath": "b", "reason": "x" })),
        ] {
            world.post(&format!("/api/sessions/{other}/{call}"), &ana.token, body).refused("FORBIDDEN");
        }
        for call in ["reserved-files", "unlock-requests", "files/check-conflicts?paths=b"] {
            world.get(&format!("/api/sessions/{other}/{call}"), &ana.token).refused("FORBIDDEN");
        }
    }
    world.get("/api/sessions/nobody", &ana.token).refused("NOT_FOUND");
    assert_eq!(world.held(), ["ana a", "bo b"]);
    let alive: Vec<_> = world.get("/api/sessions", &ana.token).ok()["sessions"].as_array().unwrap().to_vec();
    assert_eq!(alive.len(), 2, "nobody came to life by being named");
}

#[test]
fn claims_mean_what_the_contract_says() {
    let world = World::new();
    let now = mint::now();
    let good = [
        ("ana", json!({ "sub": "ana", "exp": now - 20 }), "30 s leeway after exp"),
        ("ana", json!({ "sub": "ana", "nbf": now + 20 }), "30 s leeway before nbf"),
        ("ana", json!({ "sub": "ana", "iat": now as f64 + 0.5, "iss": "any", "aud": ["x", "y"] }), "nobody asks"),
        ("ana", json!({ "sub": "ana", "scope": "session", "repo": "repo" }), "said outright"),
        ("bo", json!({ "sub": "any one at all", "sid": "bo" }), "sid instead of sub"),
        ("ana", json!({ "sub": "ana", "name": null, "colour": { "deep": [] } }), "unknown claims"),
        ("A.b_c-9", json!({ "sub": "A.b_c-9" }), "every kind of character"),
    ];
    for (id, claims, why) in good {
        let token = world.token(claims);
        let answer = world.post(&format!("/api/sessions/{id}/heartbeat"), &token, json!({}));
        assert_eq!(answer.status, 200, "{why}: {answer}");
    }
    let (longest, longer) = ("x".repeat(128), "x".repeat(129));
    world.session(&longest).hold("long");
    world.session(&longer).reserve(json!({ "filePath": "longer" })).refused("UNAUTHENTICATED");

    // The scheme's name is not case-sensitive; its token is on the same line, and there is only one.
    let token = world.token(json!({ "sub": "ana" }));
    let target = "/api/sessions/ana/reserved-files";
    for scheme in ["Bearer", "bearer", "BEARER"] {
        world.send("GET", target, &[("authorization", &format!("{scheme} {token}"))], b"").ok();
    }
    for header in [token.clone(), format!("Basic {token}"), format!("Bearer{token}"), "Bearer".into(), "".into()] {
        world.send("GET", target, &[("authorization", &header)], b"").refused("UNAUTHENTICATED");
    }
    let (once, twice) = (format!("Bearer {token}"), [("authorization", "Bearer x"), ("authorization", "Bearer y")]);
    world.send("GET", target, &twice, b"").refused("UNAUTHENTICATED");
    world.send("GET", target, &[("authorization", &once), ("authorization", &once)], b"").refused("UNAUTHENTICATED");
    world.send("GET", &format!("{target}?access_token={token}"), &[], b"").refused("UNAUTHENTICATED");
}

#[test]
fn a_worker_acts_for_the_sessions_it_was_first_to_use() {
    let world = World::new();
    let worker = |sub: &str, iss: &str, exp: i64| {
        world.token(json!({ "sub": sub, "iss": iss, "scope": "worker", "exp": mint::now() + exp }))
    };
    let (one, rotated, two) = (worker("w1", "ci", 60), worker("w1", "ci", 90), worker("w2", "ci", 60));
    let elsewhere = worker("w1", "other", 60);
    let hold = |session: &str, token: &str| {
        world.post(&format!("/api/sessions/{session}/files/reserve"), token, json!({ "filePath": session }))
    };
    hold("s1", &one).ok();
    hold("s2", &one).ok();
    hold("s1", &rotated).ok();
    for other in [two.clone(), elsewhere, world.session("s1").token] {
        hold("s1", &other).refused("FORBIDDEN");
        world.post("/api/sessions/s1/end", &other, json!({})).refused("FORBIDDEN");
        world.get("/api/sessions/s1/reserved-files", &other).refused("FORBIDDEN");
    }
    hold("s3", &two).ok();
    // A session id first used with a session token belongs to that session.
    world.session("s4").hold("s4");
    hold("s4", &one).refused("FORBIDDEN");
    // What an admin creates belongs to the token that the admin got for it.
    let made = world.post("/api/sessions", &world.admin(), json!({ "sessionId": "s5" })).expect(201);
    hold("s5", &two).refused("FORBIDDEN");
    hold("s5", text(&made["token"])).ok();
    // A worker's token may be for one session only.
    let bound = world.token(json!({ "sub": "w1", "iss": "ci", "scope": "worker", "sid": "s2" }));
    hold("s2", &bound).ok();
    hold("s1", &bound).refused("FORBIDDEN");
    assert_eq!(world.held(), ["s1 s1", "s2 s2", "s3 s3", "s4 s4", "s5 s5"]);
    // The binding outlives the session: only its worker gets the repeated response to an end.
    world.post("/api/sessions/s1/end", &rotated, json!({})).ok();
    world.post("/api/sessions/s1/end", &two, json!({})).refused("FORBIDDEN");
    hold("s1", &one).refused("SESSION_ENDED");
}

#[test]
fn a_reader_may_only_read_and_an_admin_may_do_anything() {
    let world = World::new();
    let (ana, reader, admin) = (world.session("ana"), world.reader(), world.admin());
    let held = ana.hold("a");
    let file = fs::read_to_string(world.path("repo/.git/dibs/read-token")).unwrap();
    for reader in [&reader, &file] {
        for target in [
            "/api/sessions",
            "/api/sessions/ana",
            "/api/sessions/ana/reserved-files",
            "/api/sessions/ana/unlock-requests",
            "/api/sessions/ana/files/check-conflicts?paths=a",
            "/api/reservations",
            "/api/stats",
        ] {
            world.get(target, reader).ok();
        }
        world.post("/api/check-conflicts", reader, json!({ "paths": ["a"] })).ok();
        world.post("/api/sessions/ana/files/check-conflicts", reader, json!({ "paths": ["a"] })).ok();
        for (call, body) in [
            ("heartbeat", json!({})),
            ("end", json!({})),
            ("files/reserve", json!({ "filePath": "b" })),
            ("files/release", json!({ "filePath": "a" })),
            ("files/release-all", json!({})),
            ("files/renew", json!({ "filePath": "a" })),
            ("unlock-requests", json!({ "filePath": "a", "reason": "x" })),
        ] {
            world.post(&format!("/api/sessions/ana/{call}"), reader, body).refused("FORBIDDEN");
        }
    }
    let target = format!("/api/reservations/{}", text(&held["reservationId"]));
    for token in [&ana.token, &reader, &world.token(json!({ "sub": "w", "scope": "worker" }))] {
        world.delete(&target, token, json!({ "reason": "x" })).refused("FORBIDDEN");
        world.post("/api/sessions", token, json!({})).refused("FORBIDDEN");
    }
    assert_eq!(world.held(), ["ana a"]);

    world.post("/api/sessions/ana/files/reserve", &admin, json!({ "filePath": "b" })).ok();
    world.post("/api/sessions/ana/files/release", &admin, json!({ "filePath": "a" })).ok();
    assert_eq!(world.held(), ["ana b"]);
    world.post("/api/sessions/nobody/heartbeat", &admin, json!({})).refused("NOT_FOUND");
    world.post("/api/sessions/no%20id/heartbeat", &admin, json!({})).refused("INVALID_REQUEST");
}

#[test]
fn the_repo_claim_selects_the_repository() {
    let mut world = World::not_started();
    world.git_init("one");
    world.git_init("two");
    world.args(&["--repo", "a=one", "--repo", "b=two"]);
    world.start();
    let secret = secret_in(&world.path("one/.git/dibs"));
    let token = |claims| mint::hs256(&mint::claims(claims), &secret);
    let ana = |repo: &str| token(json!({ "sub": "ana", "repo": repo }));
    let reserve = |token: &str| world.post("/api/sessions/ana/files/reserve", token, json!({ "filePath": "x" }));
    let (first, second) = (reserve(&ana("a")).ok(), reserve(&ana("b")).ok());
    assert_ne!(first["reservationId"], second["reservationId"]);

    reserve(&token(json!({ "sub": "ana" }))).refused("UNAUTHENTICATED");
    reserve(&ana("c")).refused("FORBIDDEN");
    world.get("/api/reservations?repo=b", &ana("a")).refused("FORBIDDEN");
    world.get("/api/reservations?repo=b", &token(json!({ "sub": "r", "scope": "read" }))).refused("FORBIDDEN");
    for repo in ["a", "b"] {
        world.get(&format!("/api/reservations?repo={repo}"), &ana(repo)).ok();
    }

    let everywhere = token(json!({ "sub": "ops", "scope": "admin" }));
    let of_a = token(json!({ "sub": "ops", "scope": "admin", "repo": "a" }));
    let names = world.get("/api/reservations", &everywhere).refused("INVALID_REQUEST");
    assert!(text(&names["error"]).contains("a, b"), "{names}");
    let made = world.post("/api/sessions", &everywhere, json!({ "repo": "b", "sessionId": "bo" })).expect(201);
    world.post("/api/sessions/bo/files/reserve", text(&made["token"]), json!({ "filePath": "y" })).ok();
    world.post("/api/sessions", &of_a, json!({ "repo": "b", "sessionId": "bo" })).refused("FORBIDDEN");
    world.post("/api/sessions", &of_a, json!({ "sessionId": "carl" })).expect(201);
    world.get("/api/sessions/carl?repo=b", &everywhere).refused("NOT_FOUND");
    world.get("/api/sessions/carl?repo=a", &everywhere).ok();

    world.delete("/api/reservations/none?repo=a", &of_a, json!({ "reason": "x" })).refused("NOT_FOUND");
    let (target, reason) = (text(&second["reservationId"]), json!({ "reason": "x" }));
    world.delete(&format!("/api/reservations/{target}"), &of_a, reason.clone()).refused("NOT_FOUND");
    world.delete(&format!("/api/reservations/{target}?repo=b"), &of_a, reason.clone()).refused("FORBIDDEN");
    world.delete(&format!("/api/reservations/{target}?repo=b"), &everywhere, reason).ok();
    let left = world.get("/api/reservations?repo=b", &everywhere).ok();
    assert_eq!(left["reservations"].as_array().unwrap().len(), 1);
    // Each repository has its own record of the server.
    for repo in ["one", "two"] {
        assert!(world.path(repo).join(".git/dibs/server.json").exists());
        let reader = fs::read_to_string(world.path(repo).join(".git/dibs/read-token")).unwrap();
        world.get("/api/reservations", &reader).ok();
    }
}

#[test]
fn public_keys_are_selected_by_kid_and_reloaded() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tokens");
    let pem = |name: &str| fs::read(fixtures.join(name)).unwrap();
    let mut world = World::not_started();
    world.git_init("repo");
    let jwks: PathBuf = world.path("jwks.json");
    fs::copy(fixtures.join("jwks.json"), &jwks).unwrap();
    world.args(&["--jwks", jwks.to_str().unwrap()]);
    world.start();
    let ask = |token: &str| world.get("/api/sessions/ana/reserved-files", token);
    let claims = mint::claims(json!({ "sub": "ana" }));

    let ed = mint::with_key(Algorithm::EdDSA, "ed", &pem("ed25519.pem"), &claims);
    let ec = mint::with_key(Algorithm::ES256, "ec", &pem("p256.pem"), &claims);
    let rsa = mint::with_key(Algorithm::RS256, "rsa", &pem("rsa.pem"), &claims);
    let secret = world.session("ana").token;
    for token in [&ed, &ec, &rsa, &secret] {
        ask(token).ok();
    }
    for sample in ["eddsa.jwt", "es256.jwt", "rs256.jwt"] {
        let token = fs::read_to_string(fixtures.join(sample)).unwrap();
        world.get("/api/sessions/sess_01abc/reserved-files", token.trim()).ok();
    }
    // Each key is pinned to its algorithm, and the public half of one is not a secret.
    let hs256 = |kid: &str, secret: &[u8]| {
        mint::signed(&json!({ "alg": "HS256", "kid": kid }).to_string(), &claims.to_string(), secret)
    };
    for bad in [
        mint::with_key(Algorithm::EdDSA, "rsa", &pem("ed25519.pem"), &claims),
        mint::with_key(Algorithm::RS384, "rsa", &pem("rsa.pem"), &claims),
        mint::with_key(Algorithm::PS256, "rsa", &pem("rsa.pem"), &claims),
        mint::with_key(Algorithm::EdDSA, "ed-next", &pem("ed25519-next.pem"), &claims),
        mint::with_key(Algorithm::EdDSA, "ed", &pem("ed25519-next.pem"), &claims),
        hs256("rsa", &pem("rsa-public.pem")),
        hs256("ed", &world.secret()),
    ] {
        ask(&bad).refused("UNAUTHENTICATED");
    }

    let next = mint::with_key(Algorithm::EdDSA, "ed-next", &pem("ed25519-next.pem"), &claims);
    fs::write(&jwks, "{ broken").unwrap();
    until("the broken file is told of", || world.stderr().contains("jwks.json").then_some(()));
    ask(&ed).ok();
    fs::copy(fixtures.join("jwks-next.json"), &jwks).unwrap();
    until("the new key counts", || (ask(&next).status == 200).then_some(()));
    for old in [&ed, &ec, &rsa] {
        ask(old).refused("UNAUTHENTICATED");
    }
    ask(&secret).ok();
}

#[test]
fn issuer_and_audience_are_checked_where_configured() {
    let world = World::with(&["--issuer", "ci", "--audience", "dibs"]);
    let ask = |claims| world.get("/api/sessions/ana/reserved-files", &world.token(claims));
    ask(json!({ "sub": "ana", "iss": "ci", "aud": "dibs" })).ok();
    ask(json!({ "sub": "ana", "iss": "ci", "aud": ["other", "dibs"] })).ok();
    for claims in [
        json!({ "sub": "ana" }),
        json!({ "sub": "ana", "iss": "ci" }),
        json!({ "sub": "ana", "aud": "dibs" }),
        json!({ "sub": "ana", "iss": "cd", "aud": "dibs" }),
        json!({ "sub": "ana", "iss": "ci", "aud": "other" }),
        json!({ "sub": "ana", "iss": "ci", "aud": ["other"] }),
        json!({ "sub": "ana", "iss": "ci", "aud": [] }),
    ] {
        ask(claims).refused("UNAUTHENTICATED");
    }
    // The server accepts the read token that it makes itself.
    let admin = world.token(json!({ "sub": "ops", "scope": "admin", "iss": "ci", "aud": "dibs" }));
    let made = world.post("/api/sessions", &admin, json!({ "sessionId": "bo" })).expect(201);
    world.get("/api/sessions/bo/reserved-files", text(&made["token"])).ok();
    let reader = fs::read_to_string(world.path("repo/.git/dibs/read-token")).unwrap();
    world.get("/api/reservations", &reader).ok();
}

#[test]
fn the_server_accepts_tokens_of_the_token_command() {
    let mut world = World::not_started();
    world.git_init("repo");
    // Before the server's first start, so that the secret is made here and only read there.
    let token = |args: &[&str]| {
        let done = world.dibs(&[&["token"], args].concat()).run();
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, ana, talk) = token(&["ana", "--name", "Ana"]);
    assert_eq!((code, &*talk), (Some(0), ""));
    let admin = token(&["ops", "--scope", "admin"]).1;
    let (code, out, talk) = token(&["not a session"]);
    assert_eq!((code, &*out), (Some(1), ""));
    assert!(talk.contains("not a session") && talk.trim_end().lines().count() == 1, "{talk}");
    let (code, _, talk) = token(&["ana", "--scope", "king"]);
    assert!(code == Some(2) && talk.contains("king"), "{talk}");

    world.start();
    world.post("/api/sessions/ana/heartbeat", ana.trim_end(), json!({})).ok();
    assert_eq!(world.get("/api/sessions/ana", ana.trim_end()).ok()["name"], "Ana");
    world.post("/api/sessions", admin.trim_end(), json!({})).expect(201);
}

#[test]
fn the_secret_may_come_from_the_environment() {
    let mut world = World::not_started();
    world.git_init("repo");
    let secret = "a secret of at least thirty-two bytes";
    world.env("DIBS_JWT_SECRET", secret);
    world.start();
    assert!(!world.path("repo/.git/dibs/secret").exists());
    let token = mint::hs256(&mint::claims(json!({ "sub": "ana" })), secret.as_bytes());
    world.get("/api/sessions/ana/reserved-files", &token).ok();
    world.stop();

    let mut short = World::not_started();
    short.git_init("repo");
    short.env("DIBS_JWT_SECRET", "short");
    let ended = short.start_and_fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("at least 32") && !ended.stderr.contains("short\n"), "{}", ended.stderr);
}

#[test]
fn times_in_a_token_may_have_fractions() {
    let world = World::new();
    let now = mint::now();
    let ok = |claims| world.get("/api/stats", &world.token(claims)).ok();
    ok(json!({ "sub": "ana", "exp": now as f64 + 60.5, "nbf": now as f64 - 0.25, "iat": now as f64 - 0.5 }));
    ok(json!({ "sub": "ana", "exp": (now + 60) as f64 }));
    let past = world.token(json!({ "sub": "ana", "exp": now as f64 - 60.5 }));
    world.get("/api/stats", &past).refused("UNAUTHENTICATED");
}

#[test]
fn another_session_is_refused_before_its_body_is_read() {
    let world = World::new();
    let ana = world.session("ana");
    let (target, token) = ("/api/sessions/bo/files/reserve", format!("Bearer {}", ana.token));
    for (kind, body) in [("application/json", "{bad"), ("application/json", r#"{"filePath":3}"#), ("text/plain", "x")] {
        let headers = [("Authorization", &*token), ("Content-Type", kind)];
        world.send("POST", target, &headers, body.as_bytes()).refused("FORBIDDEN");
    }
}

#[test]
fn a_reader_is_told_so_before_anything_else_about_an_entity() {
    let world = World::new();
    for call in ["lock", "unlock"] {
        world.post(&format!("/api/entities/job/1/{call}"), &world.reader(), json!({})).refused("FORBIDDEN");
    }
}

#[test]
fn a_token_from_a_clock_that_is_ahead_ends_with_its_session() {
    let world = World::new();
    let now = mint::now();
    let ana = world.session_with("ana", json!({ "iat": now + 3600 }));
    ana.hold("a");
    ana.end();
    ana.reserve(json!({ "filePath": "a" })).refused("SESSION_ENDED");
    // One that was issued later opens the session again, and goes on to work.
    let later = world.session_with("ana", json!({ "iat": now + 3601 }));
    later.hold("a");
    later.hold("b");
}
