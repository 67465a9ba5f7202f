//! Getting in and out.

use serde_json::{Value, json};

use crate::world::{World, text};

const UNAUTHORIZED: &str = "status of 401";
const FORBIDDEN: &str = "status of 403";

#[test]
fn a_code_signs_in_once_and_leaves_the_address() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.hold("src/a.rs");
    let Some(browser) = world.browser() else { return };
    let url = world.login_url(&ana.token, "");
    browser.go(&url);
    browser.lists("src/a.rs", true);
    browser.sees("Live");
    let address = browser.run("return location.href");
    assert!(!text(&address).contains("code"), "{address}");
    assert_eq!(browser.run("return performance.getEntriesByType('navigation')[0].name.includes('code=')"), true);
    browser.check_console(&[]);

    // A second browser with the same code does not get in.
    let other = world.browser().unwrap();
    other.go(&url);
    other.sees("This code was used already or is older than a minute. Run git dibs open again.");
    other.sees("Sign in to git-dibs");
    other.check_console(&[UNAUTHORIZED]);

    // The first one stays signed in when its own address is opened again.
    browser.go(&url);
    browser.lists("src/a.rs", true);
    browser.check_console(&[UNAUTHORIZED]);
}

#[test]
fn a_pasted_token_becomes_a_cookie_that_no_script_reads() {
    let world = World::new();
    let admin = world.admin();
    let Some(browser) = world.browser() else { return };
    browser.go(world.url());
    browser.sees("Sign in to git-dibs");
    browser.check_console(&[]);
    browser.type_into("#token", "x.y.z\n");
    browser.sees("This token is not accepted.");
    browser.run("document.querySelector('#token').value = ''");
    browser.reload();
    browser.type_into("#token", &admin);
    browser.press_button("", "Sign in");
    browser.sees("Nothing is held");
    assert_eq!(browser.run("return document.cookie"), "");
    let cookies = browser.cookies();
    assert_eq!(cookies.len(), 1);
    let cookie = &cookies[0];
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")));
    let stored = browser.run("return JSON.stringify([localStorage, sessionStorage]) + location.href + document.cookie");
    assert!(!text(&stored).contains(&admin), "the token is nowhere that a script can read");
    browser.check_console(&[UNAUTHORIZED]);

    // A page that is loaded again goes on, with its rights; a new tab is read only.
    browser.reload();
    browser.sees("Nothing is held");
    browser.sees("Ops, admin");
    browser.run("sessionStorage.clear()");
    browser.reload();
    browser.sees("Ops, read only");
    let answer = browser.run_async(
        "fetch('api/sessions', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }).then((one) => done(one.status))",
    );
    assert_eq!(answer, 403, "the cookie alone changes nothing");
    browser.check_console(&[FORBIDDEN]);
}

#[test]
fn signing_out_ends_it() {
    let world = World::new();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    let cookie = browser.cookies()[0].clone();
    browser.click(".person .opener");
    browser.press_button("", "Sign out");
    browser.sees("Sign in to git-dibs");
    assert!(browser.cookies().is_empty());
    let header = format!("{}={}", text(&cookie["name"]), text(&cookie["value"]));
    let host = world.url().strip_prefix("http://").unwrap().to_owned();
    let request = format!("GET /api/reservations HTTP/1.1\r\nhost: {host}\r\ncookie: {header}\r\n\r\n");
    let mut connection = world.connect();
    connection.send(request.as_bytes()).unwrap();
    assert_eq!(connection.receive(false).unwrap().status, 401, "the cookie that was copied is not accepted either");
    browser.reload();
    browser.sees("Sign in to git-dibs");
    browser.check_console(&[]);
}

/// A link names the session of an admin only together with a code that works.
#[test]
fn a_link_without_a_right_code_makes_nothing_mine() {
    let world = World::new();
    world.named("ana", "Ana").hold("src/a.rs");
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.lists("src/a.rs", true);
    browser.go("about:blank");
    browser.go(&format!("{}/#code=x&session=ana", world.url()));
    browser.lists("src/a.rs", true);
    assert_eq!(
        browser.run("return document.querySelector('.lock').getAttribute('aria-label')"),
        "Held by Ana. Override"
    );
    browser.check_console(&[UNAUTHORIZED]);
}

/// A link signed a browser in as another person without a word, who then saw what the person in front of it did.
#[test]
fn a_link_for_someone_else_asks_first() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.hold("src/a.rs");
    let Some(browser) = world.browser_as(&ana.token) else { return };
    let mine = "document.querySelector('.lock')?.getAttribute('aria-label')";
    let open = |url: &str| {
        browser.go("about:blank");
        browser.go(url);
    };
    let link = world.login_url(&bo.token, "");
    open(&link);
    browser.sees("Sign in as Bo (session bo)?");
    browser.sees("This browser is signed in as Ana (session ana).");
    assert!(!text(&browser.run("return location.href")).contains("code"));
    browser.press_button("", "Stay signed in as Ana (session ana)");
    browser.until("ana is signed in", &format!("return {mine} === 'Held by you. Release'"));
    browser.check_console(&[FORBIDDEN]);
    // The code was not used.
    open(&link);
    browser.press_button("", "Sign in as Bo (session bo)");
    browser.until("bo is signed in", &format!("return {mine} === 'Held by Ana. Ask'"));
    // A link for the same person replaces the login, and needs no question.
    open(&world.login_url(&bo.token, ""));
    browser.until("bo is signed in", &format!("return {mine} === 'Held by Ana. Ask'"));
    browser.check_console(&[FORBIDDEN]);
}

/// Tabs share the cookie and not the secret: a tab that lost its rights to another one says so.
#[test]
fn a_second_sign_in_is_told_to_the_first_tab() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.hold("src/a.rs");
    let Some(browser) = world.browser_as(&ana.token) else { return };
    browser.lists("src/a.rs", true);
    let code = world.post("/api/login/codes", &ana.token, json!({})).expect(201)["code"].clone();
    // Another tab signs in, and tells the others.
    browser.run_async(&format!(
        "fetch('api/login', {{ method: 'POST', headers: {{ 'content-type': 'application/json' }}, body: JSON.stringify({{ code: {code} }}) }}).then(() => {{ new BroadcastChannel('dibs /').postMessage(''); done(true) }})"
    ));
    browser.sees("This tab is read only.");
    assert_eq!(browser.run("return document.querySelectorAll('button.lock').length"), 0);
    browser.press_button("", "Sign in here again");
    browser.sees("Sign in to git-dibs");
    browser.check_console(&[]);
}

/// A page of another site, on another port of this machine, cannot use the cookie of a signed-in browser.
#[test]
fn another_site_can_neither_read_nor_change() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.hold("src/a.rs");
    let another = World::new();
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    // The page at /docs of another server: another origin, whose scripts may do what an attacker's may.
    browser.go(&format!("{}/docs", another.url()));
    let target = format!("{}/api/sessions/ana/end", world.url());
    let attempt = |options: Value| {
        let script = format!(
            "fetch({}, {options}).then((answer) => done(answer.status || answer.type)).catch(() => done('refused'))",
            json!(target)
        );
        browser.run_async(&script)
    };
    // The page's own policy would refuse these; without it, the server and the browser do.
    browser.devtools("Page.setBypassCSP", json!({ "enabled": true }));
    browser.reload();
    let with = |more: Value| {
        let mut options = json!({ "method": "POST", "credentials": "include", "body": "{}" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        options
    };
    let plain = attempt(with(json!({ "mode": "no-cors", "headers": { "content-type": "text/plain" } })));
    assert!(plain == "opaque" || plain == "refused", "{plain}");
    assert_eq!(
        attempt(with(json!({ "headers": { "content-type": "application/json", "x-dibs-change": "x" } }))),
        "refused"
    );
    let read = format!(
        "fetch({}, {{ credentials: 'include' }}).then(() => done('read')).catch(() => done('refused'))",
        json!(format!("{}/api/reservations", world.url()))
    );
    assert_eq!(browser.run_async(&read), "refused");
    assert_eq!(world.held(), ["ana src/a.rs"], "nothing has changed");
    browser.check_console(&[FORBIDDEN, "blocked by CORS policy", "net::ERR_FAILED"]);
}

#[test]
fn a_read_token_sees_everything_and_has_no_buttons() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.hold("src/a.rs");
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.lists("src/a.rs", true);
    assert_eq!(browser.run("return document.querySelectorAll('button.lock').length"), 0);
    assert_eq!(browser.run("return document.querySelector('.lock').getAttribute('aria-label')"), "Held by Ana");
    browser.sees("read only");
    browser.check_console(&[]);
}

/// On another machine: the address and the token are in the user's configuration, and the server is not of this repository.
#[test]
fn git_dibs_open_signs_in_to_a_team_server() {
    let world = World::new();
    world.named("bo", "Bo").hold("src/theirs.rs");
    world.git_init("clone");
    let token = world.token(json!({ "sub": "ana", "name": "Ana" }));
    crate::support::world::write_private(&world.path("ana.token"), &token);
    world.git_in("clone", &["config", "--global", "dibs.url", world.url()]);
    world.git_in("clone", &["config", "--global", "dibs.tokenFile", world.path("ana.token").to_str().unwrap()]);
    let Some(browser) = world.browser() else { return };
    let open = |args: &[&str]| {
        let mut command = world.command(crate::support::world::PROGRAM, "clone");
        let ended = crate::support::process::Run::run(command.arg("open").args(args));
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap().trim().to_owned()
    };
    let url = open(&["--print"]);
    assert!(url.starts_with(world.url()) && !url.contains(&token), "{url}");
    browser.go(&url);
    browser.lists("src/theirs.rs", true);
    // It has not called yet: its name is that of the token.
    browser.until("it is Ana", "return document.querySelector('.person-name').innerText === 'Ana'");
    assert_eq!(browser.run("return document.querySelector('.lock').getAttribute('aria-label')"), "Held by Bo. Ask");
    browser.click("tr.held .lock");
    browser.type_into("dialog textarea", "a fix");
    browser.press_button("//dialog", "Ask");
    browser.sees("you ask");
    // An admin's token of the same person replaces the login if the person says so.
    let admin = world.token(json!({ "sub": "ana", "name": "Ana", "scope": "admin" }));
    crate::support::world::write_private(&world.path("ana.token"), &admin);
    browser.go("about:blank");
    browser.go(&open(&["--print", "--admin"]));
    browser.press_button("", "Sign in as Ana (admin)");
    browser.sees("Ana, admin");
    browser.check_console(&[FORBIDDEN]);
}

#[test]
fn several_repositories_have_a_switch() {
    let mut world = World::empty("one");
    ["one", "two"].iter().for_each(|name| world.git_init(name));
    let data = world.path("data");
    let repos = ["one", "two"].map(|name| format!("{name}={}", world.path(name).display()));
    world.args(&["--repo", &repos[0], "--repo", &repos[1], "--data", data.to_str().unwrap()]);
    world.start();
    let secret = crate::support::world::secret_in(&data);
    let token = |claims: Value| crate::support::mint::hs256(&crate::support::mint::claims(claims), &secret);
    for repo in ["one", "two"] {
        let ana = token(json!({ "sub": "ana", "repo": repo }));
        world.post("/api/sessions/ana/files/reserve", &ana, json!({ "filePath": format!("in-{repo}") })).ok();
    }
    let Some(browser) = world.browser_as(&token(json!({ "sub": "ops", "scope": "admin" }))) else { return };
    browser.lists("in-one", true);
    browser.click(".brand .opener");
    browser.press_button("", "two");
    browser.lists("in-two", true);
    browser.lists("in-one", false);
    assert_eq!(browser.run("return document.title"), "two – git-dibs");
    // A link to the other repository shows it.
    browser.reload();
    browser.lists("in-two", true);
    browser.check_console(&[]);
}
