//! How a browser signs in: codes, cookies, the secret for changes, signing out.

use serde_json::{Value, json};

use crate::http::Response;
use crate::mint;
use crate::world::{Run, World, text, time, until};

/// A browser that is signed in: its cookie and its secret.
struct Browser<'w> {
    world: &'w World,
    cookie: String,
    secret: String,
    login: Value,
}

impl<'w> Browser<'w> {
    /// Signs in with this body.
    #[track_caller]
    fn sign_in(world: &'w World, body: Value) -> Browser<'w> {
        let answer = world.post("/api/login", "", body);
        let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {answer}")).to_owned();
        let login = answer.ok();
        let secret = login["changeSecret"].as_str().unwrap_or_default().to_owned();
        Browser { world, cookie: cookie.split(';').next().unwrap().to_owned(), secret, login }
    }

    #[track_caller]
    fn get(&self, target: &str) -> Response {
        self.world.send("GET", target, &[("cookie", &self.cookie)], b"")
    }

    /// A call that changes something, with the secret.
    #[track_caller]
    fn change(&self, method: &str, target: &str, body: Value) -> Response {
        self.call(method, target, &[("x-dibs-change", &self.secret)], body)
    }

    #[track_caller]
    fn call(&self, method: &str, target: &str, more: &[(&str, &str)], body: Value) -> Response {
        let mut headers = vec![("cookie", &*self.cookie), ("content-type", "application/json")];
        headers.extend(more);
        self.world.send(method, target, &headers, body.to_string().as_bytes())
    }
}

#[track_caller]
fn code(world: &World, token: &str) -> String {
    text(&world.post("/api/login/codes", token, json!({})).expect(201)["code"]).to_owned()
}

#[test]
fn a_code_signs_in_once() {
    let world = World::new();
    let ana = world.session_with("ana", json!({ "name": "Ana" }));
    let made = world.post("/api/login/codes", &ana.token, json!({})).expect(201);
    let left = time(&made["expiresAt"]) - 1000 * mint::now();
    assert!((50_000..=61_000).contains(&left), "valid for {left} ms");
    let body = json!({ "code": made["code"] });
    let browser = Browser::sign_in(&world, body.clone());
    assert_eq!(browser.login["sessionId"], "ana");
    assert_eq!(browser.login["name"], "Ana");
    assert_eq!(browser.login["repositories"], json!(["repo"]));
    let sentence = world.post("/api/login", "", body).refused("UNAUTHENTICATED")["error"].clone();
    assert!(text(&sentence).contains("used already"), "{sentence}");
    let login = browser.get("/api/login").ok()["login"].clone();
    assert_eq!((&login["scope"], &login["mayChange"]), (&json!("session"), &json!(false)));
    for bad in [json!({}), json!({ "code": "x", "token": "y" })] {
        world.post("/api/login", "", bad).refused("INVALID_REQUEST");
    }
    for bad in [json!({ "code": "" }), json!({ "code": "0".repeat(32) }), json!({ "token": "x.y.z" })] {
        world.post("/api/login", "", bad).refused("UNAUTHENTICATED");
    }
}

#[test]
fn the_cookie_is_for_no_script_no_other_site_and_no_other_port() {
    let world = World::new();
    let body = json!({ "token": world.admin() }).to_string();
    let cookie = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("content-type", "application/json")]].concat();
        let answer = world.send("POST", "/api/login", &headers, body.as_bytes());
        answer.header("set-cookie").unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let plain = cookie(&[]);
    assert!(plain.contains("; Path=/; HttpOnly; SameSite=Strict; Max-Age="), "{plain}");
    assert!(!plain.contains("Secure") && !plain.contains(&*world.admin()), "{plain}");
    let over_tls = cookie(&[("origin", "https://localhost")]);
    assert!(over_tls.ends_with("; Secure"), "{over_tls}");
    let another = World::new();
    let other = another.post("/api/login", "", json!({ "token": another.admin() }));
    let name = |cookie: &str| cookie.split('=').next().unwrap().to_owned();
    assert_ne!(name(other.header("set-cookie").unwrap()), name(&plain), "two servers on this machine");
    // The cookie of another server is none.
    let foreign = other.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(world.send("GET", "/api/login", &[("cookie", &foreign)], b"").ok(), json!({ "login": null }));
    world.send("GET", "/api/reservations", &[("cookie", &foreign)], b"").refused("UNAUTHENTICATED");
    world.get("/api/login", "x.y.z").refused("UNAUTHENTICATED");
}

/// Behind a proxy, and with a certificate of its own, a request without `Origin` got a cookie that browsers send without TLS.
#[test]
fn the_cookie_is_secure_where_browsers_use_tls() {
    let is_secure = |world: &World, origin: &[(&str, &str)]| {
        let headers = [origin, &[("content-type", "application/json")]].concat();
        let body = json!({ "token": world.admin() }).to_string();
        let answer = world.send("POST", "/api/login", &headers, body.as_bytes());
        let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{answer}")).to_owned();
        cookie.split("; ").any(|part| part == "Secure")
    };
    let plain = World::new();
    let proxied = World::with(&["--behind-proxy"]);
    for world in [&plain, &proxied] {
        assert!(is_secure(world, &[("origin", "https://localhost")]));
        // On the machine of the proxy, a browser may use the server itself.
        assert!(
            !is_secure(world, &[("origin", "http://localhost")]),
            "a page that was loaded without TLS keeps its cookie"
        );
    }
    assert!(!is_secure(&plain, &[]));
    assert!(is_secure(&proxied, &[]));
}

/// A link with the code of another person would sign this browser in as that person.
#[test]
fn a_code_for_someone_else_replaces_a_login_only_if_asked_to() {
    let world = World::new();
    let (ana, bo) =
        (world.session_with("ana", json!({ "name": "Ana" })), world.session_with("bo", json!({ "name": "Bo" })));
    [&ana, &bo].iter().for_each(|session| drop(session.hold(&session.id)));
    let browser = Browser::sign_in(&world, json!({ "code": code(&world, &ana.token) }));
    let exchange = |body: &Value| browser.call("POST", "/api/login", &[], body.clone());
    let other = code(&world, &bo.token);
    let refused = exchange(&json!({ "code": other })).refused("FORBIDDEN");
    assert_eq!(
        (&refused["signedInAs"], &refused["signsInAs"]),
        (&json!("Ana (session ana)"), &json!("Bo (session bo)"))
    );
    exchange(&json!({ "code": other, "replace": false })).refused("FORBIDDEN");
    assert_eq!(exchange(&json!({ "code": other, "replace": true })).ok()["sessionId"], "bo");
    // The same session, another scope.
    assert_eq!(exchange(&json!({ "code": code(&world, &ana.token) })).ok()["sessionId"], "ana");
    let reader = world.token(json!({ "sub": "ana", "scope": "read" }));
    exchange(&json!({ "code": code(&world, &reader) })).refused("FORBIDDEN");
    // A wrong code is wrong for everyone, and a token is no link.
    exchange(&json!({ "code": "wrong" })).refused("UNAUTHENTICATED");
    assert_eq!(exchange(&json!({ "token": bo.token })).ok()["sessionId"], "bo");
    // A login that has ended is none.
    world.send("DELETE", "/api/login", &[("cookie", &browser.cookie)], b"").ok();
    assert_eq!(exchange(&json!({ "code": code(&world, &bo.token) })).ok()["sessionId"], "bo");
}

#[test]
fn the_cookie_alone_only_reads() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("src/a.rs");
    let browser = Browser::sign_in(&world, json!({ "code": code(&world, &ana.token) }));
    assert_eq!(browser.get("/api/reservations").ok()["reservations"][0]["filePath"], "src/a.rs");
    let release = json!({ "filePath": "src/a.rs" });
    let target = "/api/sessions/ana/files/release";
    browser.call("POST", target, &[], release.clone()).refused("FORBIDDEN");
    for wrong in ["", "x", &"0".repeat(32)] {
        browser.call("POST", target, &[("x-dibs-change", wrong)], release.clone()).refused("FORBIDDEN");
    }
    // The secret without the cookie is nothing.
    world.send("POST", target, &[("x-dibs-change", &browser.secret)], b"").refused("UNAUTHENTICATED");
    assert_eq!(world.held(), ["ana src/a.rs"]);
    browser.change("POST", target, release).ok();
    assert!(world.held().is_empty());
    // Neither is a token, nor is the cookie of one accepted as a token.
    let as_token = browser.cookie.split_once('=').unwrap().1;
    world.get("/api/reservations", as_token).refused("UNAUTHENTICATED");
    let with_secret = Browser::sign_in(&world, json!({ "code": code(&world, &ana.token) }));
    browser.call("POST", target, &[("x-dibs-change", &with_secret.secret)], json!({})).refused("FORBIDDEN");
}

#[test]
fn a_page_of_another_site_can_neither_sign_in_nor_change_anything() {
    let world = World::new();
    let browser = Browser::sign_in(&world, json!({ "token": world.admin() }));
    let foreign = ("origin", "http://evil.example");
    let secret = ("x-dibs-change", &*browser.secret);
    let target = "/api/sessions/ana/end";
    browser.call("POST", target, &[foreign, secret], json!({})).refused("FORBIDDEN");
    let body = json!({ "token": world.admin() }).to_string();
    let headers = [foreign, ("content-type", "application/json")];
    world.send("POST", "/api/login", &headers, body.as_bytes()).refused("FORBIDDEN");
    // What a form of another site can send is not JSON.
    world
        .send("POST", "/api/login", &[("content-type", "text/plain")], body.as_bytes())
        .refused("UNSUPPORTED_MEDIA_TYPE");
}

#[test]
fn each_scope_sees_and_does_what_its_token_may() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let held = ana.hold("src/a.rs");
    bo.hold("src/b.rs");
    let reader = Browser::sign_in(&world, json!({ "token": world.reader() }));
    assert_eq!(reader.login["changeSecret"], Value::Null);
    assert_eq!(reader.get("/api/reservations").ok()["reservations"].as_array().unwrap().len(), 2);
    let end = |browser: &Browser, id: &str| browser.change("POST", &format!("/api/sessions/{id}/end"), json!({}));
    end(&reader, "ana").refused("FORBIDDEN");
    let session = Browser::sign_in(&world, json!({ "token": bo.token }));
    end(&session, "ana").refused("FORBIDDEN");
    session.get("/api/sessions/bo/unlock-requests").ok();
    let admin = Browser::sign_in(&world, json!({ "token": world.admin() }));
    assert_eq!(admin.get("/api/login").ok()["login"]["scope"], "admin");
    let target = format!("/api/reservations/{}", text(&held["reservationId"]));
    admin.change("DELETE", &target, json!({ "reason": "stuck" })).ok();
    end(&admin, "bo").ok();
    assert!(world.held().is_empty());
}

#[test]
fn an_open_page_is_no_sign_of_life_and_takes_no_notices() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.reserve(json!({ "filePath": "src/a.rs", "ttlSeconds": 300 })).ok();
    bo.post("unlock-requests", json!({ "filePath": "src/a.rs", "reason": "a fix" })).expect(201);
    let browser = Browser::sign_in(&world, json!({ "token": ana.token }));
    let list = browser.get("/api/reservations").ok();
    assert_eq!(list.get("notices"), None, "{list}");
    assert_eq!(browser.get("/api/unlock-requests").ok()["requests"][0]["requestedBy"], "bo");
    let seen = |world: &World| text(&world.get("/api/sessions/ana", &world.reader()).ok()["lastSeenAt"]).to_owned();
    let before = seen(&world);
    browser.get("/api/sessions/ana").ok();
    browser.get("/api/sessions/ana/reserved-files").ok();
    assert_eq!(seen(&world), before);
    assert!(ana.post("heartbeat", json!({})).ok()["notices"].to_string().contains("a fix"));
}

/// The reply to a click carried the notices, which the page does not show, and the worker never heard of them.
#[test]
fn a_change_from_the_page_leaves_the_notices_for_the_worker() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ["src/a.rs", "src/b.rs"].iter().for_each(|key| drop(ana.hold(key)));
    bo.post("unlock-requests", json!({ "filePath": "src/a.rs", "reason": "a fix" })).expect(201);
    let browser = Browser::sign_in(&world, json!({ "token": ana.token }));
    for call in ["files/release", "files/reserve", "heartbeat"] {
        let reply = browser.change("POST", &ana.url(call), json!({ "filePath": "src/b.rs" })).ok();
        assert!(reply.get("notices").is_none_or(|notices| *notices == json!([])), "{call}: {reply}");
    }
    assert!(ana.post("heartbeat", json!({})).ok()["notices"].to_string().contains("a fix"));
}

/// Somebody whose token was locked out with new keys signed in with a code that was made before.
#[test]
fn a_code_does_not_outlive_the_keys() {
    let world = World::new();
    let admin = world.admin();
    let code = code(&world, &admin);
    std::fs::write(world.path("repo/.git/dibs/secret"), "another-secret-of-sufficient-length-0123456789\n").unwrap();
    world.signal(libc::SIGHUP);
    until("the old keys are gone", || (world.get("/api/reservations", &admin).status == 401).then_some(()));
    world.post("/api/login", "", json!({ "code": code })).refused("UNAUTHENTICATED");
}

#[test]
fn signing_out_ends_the_login() {
    let world = World::new();
    let browser = Browser::sign_in(&world, json!({ "token": world.reader() }));
    let answer = world.send("DELETE", "/api/login", &[("cookie", &browser.cookie)], b"");
    let cleared = answer.header("set-cookie").unwrap();
    assert!(
        cleared.contains("Max-Age=0") && cleared.starts_with(browser.cookie.split('=').next().unwrap()),
        "{cleared}"
    );
    browser.get("/api/reservations").refused("UNAUTHENTICATED");
    world.send("DELETE", "/api/login", &[], b"").ok();
}

/// A server that is killed right after the answer still refuses the cookie, with its secret too.
#[test]
fn a_login_that_signed_out_stays_ended_after_a_restart() {
    let mut world = World::new();
    world.keep_address();
    let (cookie, secret) = {
        let browser = Browser::sign_in(&world, json!({ "token": world.admin() }));
        world.send("DELETE", "/api/login", &[("cookie", &browser.cookie)], b"").ok();
        (browser.cookie, browser.secret)
    };
    for _ in 0..2 {
        world.kill();
        world.start();
        world.send("GET", "/api/reservations", &[("cookie", &cookie)], b"").refused("UNAUTHENTICATED");
        let headers = [("cookie", &*cookie), ("x-dibs-change", &*secret), ("content-type", "application/json")];
        world.send("POST", "/api/sessions", &headers, b"{}").refused("UNAUTHENTICATED");
    }
}

#[test]
fn a_login_outlives_a_restart_but_not_the_secret() {
    let mut world = World::new();
    let secret = world.path("repo/.git/dibs/secret");
    let (cookie, change) = {
        let browser = Browser::sign_in(&world, json!({ "token": world.admin() }));
        (browser.cookie, browser.secret)
    };
    world.stop();
    world.start();
    // The port is part of the cookie's name, and the restarted server has another one; this client names none.
    let headers = [("cookie", &*cookie), ("x-dibs-change", &*change)];
    assert_eq!(world.send("GET", "/api/login", &headers, b"").ok()["login"]["mayChange"], true);
    world.stop();
    std::fs::write(&secret, "another-secret-of-sufficient-length-0123456789\n").unwrap();
    world.start();
    world.send("GET", "/api/reservations", &headers, b"").refused("UNAUTHENTICATED");
}

#[test]
fn a_login_ends_with_its_token() {
    let world = World::new();
    let token = world.token(json!({ "sub": "ops", "scope": "admin", "exp": mint::now() - 28 }));
    let browser = Browser::sign_in(&world, json!({ "token": token }));
    let until_expired = || (browser.get("/api/reservations").status == 401).then_some(());
    crate::world::until("the login has expired", until_expired);
    let month = world.token(json!({ "sub": "ops", "scope": "admin", "exp": mint::now() + 30 * 24 * 3600 }));
    let browser = Browser::sign_in(&world, json!({ "token": month }));
    assert!(time(&browser.login["expiresAt"]) <= 1000 * (mint::now() + 7 * 24 * 3600));
}

#[test]
fn the_token_of_an_ended_session_does_not_sign_in() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("a");
    let (code, open) = (code(&world, &ana.token), Browser::sign_in(&world, json!({ "token": ana.token })));
    ana.end();
    world.post("/api/login", "", json!({ "code": code })).refused("SESSION_ENDED");
    world.post("/api/login", "", json!({ "token": ana.token })).refused("SESSION_ENDED");
    // A page that is open goes on, and shows that the session has ended; it cannot act for it.
    open.get("/api/reservations").ok();
    open.change("POST", "/api/sessions/ana/files/reserve", json!({ "filePath": "b" })).refused("SESSION_ENDED");
}

#[test]
fn attempts_and_codes_have_a_bound_and_a_right_code_still_works() {
    let world = World::new();
    let right = code(&world, &world.reader());
    let mut refused = 0;
    for _ in 0..70 {
        refused += u32::from(world.post("/api/login", "", json!({ "code": "wrong" })).status == 429);
    }
    assert_eq!(refused, 10);
    Browser::sign_in(&world, json!({ "code": right }));
    let first = code(&world, &world.admin());
    (0..8).for_each(|_| drop(code(&world, &world.admin())));
    let answer = world.post("/api/login", "", json!({ "code": first }));
    assert_eq!(answer.status, 429, "the ninth code replaced the first: {answer}");
}

#[test]
fn an_admin_of_several_repositories_sees_all_of_them() {
    let (world, data) = World::of_two(["one", "two"]);
    let secret = crate::world::secret_in(&data);
    let token = |claims: Value| mint::hs256(&mint::claims(claims), &secret);
    let admin = Browser::sign_in(&world, json!({ "token": token(json!({ "sub": "ops", "scope": "admin" })) }));
    assert_eq!(admin.login["repositories"], json!(["one", "two"]));
    admin.get("/api/reservations?repo=two").ok();
    let reader = token(json!({ "sub": "r", "scope": "read", "repo": "one" }));
    let reader = Browser::sign_in(&world, json!({ "token": reader }));
    assert_eq!(reader.login["repositories"], json!(["one"]));
    reader.get("/api/reservations?repo=two").refused("FORBIDDEN");
}

#[test]
fn events_follow_with_a_cookie_and_end_when_the_browser_signs_out() {
    let world = World::new();
    let browser = Browser::sign_in(&world, json!({ "token": world.reader() }));
    let mut connection = world.connect();
    let request = crate::http::request("GET", "/api/events", &[("cookie", &browser.cookie)], b"");
    connection.send(&request).unwrap();
    assert_eq!(connection.head().unwrap().status, 200);
    world.session("ana").hold("src/a.rs");
    let mut stream = String::new();
    while !stream.contains("event: reserved") {
        stream += &String::from_utf8(connection.chunk().unwrap().expect("the stream goes on")).unwrap();
    }
    world.send("DELETE", "/api/login", &[("cookie", &browser.cookie)], b"").ok();
    while let Some(chunk) = connection.chunk().unwrap() {
        stream += &String::from_utf8(chunk).unwrap();
    }
    assert!(stream.contains("the browser has signed out"), "{stream}");
}

#[test]
fn open_prints_an_address_that_signs_in() {
    let world = World::new();
    let open = |args: &[&str]| {
        let output = world.dibs(&[&["open"], args].concat()).run();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let sign_in = |line: &str| {
        let (page, code) = line.trim().split_once("/#code=").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(page, world.url());
        let code = code.split('&').next().unwrap();
        Browser::sign_in(&world, json!({ "code": code }))
    };
    let (exit, line, said) = open(&["--print"]);
    assert_eq!((exit, &*said), (Some(0), ""));
    assert_eq!(sign_in(&line).login["scope"], "read");
    let (_, line, said) = open(&[]);
    assert!(line.contains("/#code=") && said.contains("no browser can be started here"), "{line}{said}");
    let admin = sign_in(&open(&["--print", "--admin"]).1);
    assert_eq!((&admin.login["scope"], &admin.login["name"]), (&json!("admin"), &json!("Bo")));
    assert!(world.dibs(&["session", "start", "--name", "Ana", "--id", "ana"]).run().status.success());
    assert_eq!(sign_in(&open(&["--print"]).1).login["sessionId"], "ana");
    let line = open(&["--print", "--admin"]).1;
    assert!(line.trim_end().ends_with("&session=ana"), "an admin who has a session is that session: {line}");
    let document: Value = serde_json::from_str(&open(&["--json"]).1).unwrap();
    sign_in(text(&document["url"]));
    assert!(time(&document["expiresAt"]) > 1000 * mint::now());
}

#[test]
fn open_starts_the_users_browser() {
    let world = World::new();
    let (script, seen) = (world.path("browser"), world.path("seen"));
    std::fs::write(
        &script,
        format!("#!/bin/sh\necho \"$1\" > {}.new && mv {}.new {}\n", seen.display(), seen.display(), seen.display()),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = world.dibs(&["open"]).env("BROWSER", &script).run();
    let printed = String::from_utf8(output.stdout).unwrap();
    let opened = crate::world::until("the browser was started", || std::fs::read_to_string(&seen).ok());
    assert_eq!(opened, printed);
}
