//! How the page looks, for eyes, keyboards and screen readers.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::live::NO_SERVER;
use crate::support::http::{Connection, request};
use crate::world::{Session, World, fetched, long, skip, text, until};

/// A repository in the middle of a working day. The requests that wait do so as long as their connections are open.
fn busy(world: &World) -> Vec<Connection> {
    let session = |id: &str, name: &str, feature: Option<&str>| {
        let claims = feature.map_or(json!({ "name": name }), |feature| json!({ "name": name, "feature": feature }));
        world.session_with(id, claims)
    };
    let (ana, bo) = (&session("ana", "Ana", Some("FEAT-118")), &session("bo", "Bo", Some("FEAT-118")));
    let (cy, dee) = (&session("cy", "Cy", Some("FEAT-121")), &session("dee", "Dee", Some("FEAT-121")));
    let (eli, jonas) = (&session("eli", "Eli", Some("FEAT-130")), &session("jonas", "Jonas", None));
    let mira = &session("mira", "Mira", None);
    let shared =
        |key: &str, reason: &str| json!({ "filePath": key, "mode": "shared", "ttlSeconds": 300, "reason": reason });
    for key in ["src/parser/**", "tests/parser/**"] {
        ana.reserve(long(key, "splitting the parser in two")).ok();
    }
    for key in ["src/cli/args.rs", "src/cli/mod.rs"] {
        bo.reserve(json!({ "filePath": key, "ttlSeconds": 300, "reason": "--format flag for every command" })).ok();
    }
    for key in [
        "migrations/0043_invoice_lines.sql",
        "src/billing/invoice.rs",
        "src/billing/tax.rs",
        "tests/billing/invoice.rs",
    ] {
        cy.reserve(json!({ "filePath": key, "ttlSeconds": 240, "reason": "invoice lines get their own table" })).ok();
    }
    cy.reserve(json!({ "filePath": "db:migration-slot", "reason": "0043_invoice_lines" })).ok();
    cy.reserve(shared("tests/fixtures/**", "reads only")).ok();
    bo.reserve(shared("tests/fixtures/**", "reads only")).ok();
    for key in ["contract:openapi/v1.yaml", "api:GET /v1/invoices", "flag:billing/*"] {
        dee.reserve(json!({ "filePath": key, "reason": "new paging parameters" })).ok();
    }
    for key in ["session.rs", "cookie.rs", "mfa.rs", "mod.rs", "token.rs"] {
        eli.reserve(long(&format!("src/auth/{key}"), "rotate refresh tokens")).ok();
    }
    jonas.reserve(shared("docs/guide/**", "proofreading before the release")).ok();
    jonas.reserve(json!({ "filePath": "deploy://api-staging", "reason": "release candidate 4" })).ok();
    mira.reserve(long("docs/adr/0012-billing.md", "decide on invoice numbering")).ok();
    mira.reserve(long("web/src/theme/**", "tokens for dark mode")).ok();
    mira.reserve(long("docs/adr/0011-ledger.md", "typo")).ok();
    mira.release("docs/adr/0011-ledger.md");
    for (who, key) in [
        (eli, "src/parser/lexer.rs"),
        (jonas, "src/parser/lexer.rs"),
        (mira, "src/cli/args.rs"),
        (cy, "src/parser/grammar.rs"),
    ] {
        who.reserve(json!({ "filePath": key })).refused("RESOURCE_LOCKED");
    }
    let wait = |key: &str| json!({ "filePath": key, "waitSeconds": 290 });
    let waits = vec![
        wait_open(bo, &wait("src/parser/lexer.rs")),
        wait_open(jonas, &wait("src/parser/README.md")),
        wait_open(cy, &wait("contract:openapi/v1.yaml")),
        wait_open(eli, &wait("db:migration-slot")),
        wait_open(mira, &wait("src/cli/args.rs")),
    ];
    ana.reserve(wait("src/cli/mod.rs")).refused("POSSIBLE_DEADLOCK");
    for (who, key, reason) in [
        (bo, "web/src/theme/tokens.css", "dark-mode variables for the docs page"),
        (cy, "docs/adr/0012-billing.md", "link the migration from the decision"),
        (eli, "contract:openapi/v1.yaml", "the login endpoint needs a new error body"),
        (mira, "src/parser/grammar.rs", "rename one token, two lines"),
    ] {
        who.post("unlock-requests", json!({ "filePath": key, "reason": reason })).expect(201);
    }
    let admin = world.token(json!({ "sub": "jonas", "scope": "admin", "name": "Jonas" }));
    world.post("/api/sessions", &admin, json!({ "sessionId": "pause-1", "name": "Jonas" })).expect(201);
    let pause = json!({ "filePath": "feature:FEAT-130:pause", "reason": "auth incident, wait for the hotfix", "ttlSeconds": 28_800 });
    world.post("/api/sessions/pause-1/files/reserve", &admin, pause).ok();
    waits
}

/// Sends a request that waits, and returns once it does.
fn wait_open(session: &Session, body: &Value) -> Connection {
    let mut connection = session.world.connect();
    let bearer = format!("Bearer {}", session.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let bytes = body.to_string();
    connection.send(&request("POST", &session.url("files/reserve"), &headers, bytes.as_bytes())).unwrap();
    let target = format!("/api/sessions/{}", session.id);
    let is_waiting =
        || session.world.get(&target, &session.world.reader()).ok()["waitingFor"][0].is_string().then_some(());
    until("the request waits", is_waiting);
    connection
}

/// Every view: its name, its address, what it must show before it is looked at, and what is done first.
const VIEWS: [(&str, &str, &str, &str); 9] = [
    ("now", "#/now", "tr.held", ""),
    ("now-table", "#/now?as=table", "tr.held", ""),
    (
        "detail",
        "#/now?q=parser",
        "tr.held",
        "document.querySelector(\"tr[data-key='src/parser/**'] .c-holder\").click()",
    ),
    ("requests", "#/requests", ".request", ""),
    ("outgoing", "#/requests?tab=outgoing", ".request", ""),
    ("waits", "#/waits", ".graph .node", ""),
    ("sessions", "#/sessions", "table.tall td", ""),
    ("history", "#/history", ".held-bar", ""),
    ("hot", "#/hot", ".hot table td", ""),
];

#[test]
fn every_view_light_and_dark_wide_and_narrow() {
    let world = World::new();
    let Some(browser) = world.browser() else { return };
    let axe = axe();
    let waits = busy(&world);
    let admin = world.token(json!({ "sub": "mira", "scope": "admin", "name": "Mira" }));
    browser.go(&world.login_url(&admin, "&session=mira"));
    browser.until("the page is live", "return document.querySelector('.connection.live') !== null");
    for (width, height) in [(1440, 900), (360, 780)] {
        browser.resize(width, height);
        for theme in ["light", "dark"] {
            browser.set_theme(theme);
            for view in VIEWS {
                look(&browser, axe.as_deref(), view, width, theme);
            }
        }
    }
    browser.resize(1440, 900);
    browser.set_theme("light");
    dialogs(&browser, axe.as_deref());
    browser.check_console(&[]);
    drop(waits);
}

fn look(browser: &Browser, axe: Option<&str>, view: (&str, &str, &str, &str), width: u32, theme: &str) {
    let (name, address, ready, first) = view;
    browser.show(&format!("{address}{}x={theme}{width}", if address.contains('?') { "&" } else { "?" }));
    browser.until(&format!("{name} is drawn"), &format!("return document.querySelector(\"{ready}\") !== null"));
    browser.run(first);
    if !first.is_empty() {
        browser.sees("Facts");
    }
    let fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    browser.until(&format!("{name} fits into {width} pixels"), fits);
    browser.screenshot(&format!("{name}-{width}-{theme}"));
    check_with_axe(browser, axe, &format!("{name} {width} {theme}"));
}

fn dialogs(browser: &Browser, axe: Option<&str>) {
    browser.show("#/now?x=dialogs");
    browser.until("rows are drawn", "return document.querySelector('tr.held') !== null");
    browser.click("//tr[@data-key='src/parser/**']//button");
    // Mira has asked for it already, so there is one way left.
    browser.sees("away from Ana?");
    browser.screenshot("override-1440-light");
    check_with_axe(browser, axe, "override");
    browser.press_button("//dialog", "Keep it with Ana");
    browser.keys("?");
    browser.sees("fold, unfold a directory");
    browser.screenshot("keys-1440-light");
    check_with_axe(browser, axe, "keys");
    browser.press_button("//dialog", "Close");
    // Menus: a padlock with several ways, the person, the repository.
    let check = |name: &str| {
        browser.screenshot(&format!("{name}-1440-light"));
        check_with_axe(browser, axe, name);
    };
    browser.click("//tr[@data-key='src/cli/mod.rs']//button");
    browser.sees("Override…");
    check("padlock-menu");
    browser.press_button("", "Ask…");
    browser.sees("Ask Bo for src/cli/mod.rs?");
    check("ask");
    browser.press_button("//dialog", "Cancel");
    browser.click(".person .opener");
    browser.sees("Sign out");
    check("person-menu");
    browser.keys("\u{e00c}");
    browser.press_button("", "Resume…");
    browser.sees("Resume FEAT-130?");
    check("resume");
    browser.press_button("//dialog", "Cancel");
    browser.show("#/sessions");
    browser.press_button("", "Pause a feature…");
    browser.sees("Pause a feature?");
    check("pause");
    browser.press_button("//dialog", "Cancel");
    browser.click("//tr[.//*[@title='dee']]//button");
    browser.sees("End Dee’s session?");
    check("end");
    browser.press_button("//dialog", "Leave it");
    browser.show("#/requests");
    browser.press_button("", "Reject…");
    browser.sees("request?");
    check("reject");
    browser.press_button("//dialog", "Cancel");
    browser.press_button("", "Answer for Dee…");
    browser.sees("Answer for Dee?");
    check("answer");
    browser.press_button("//dialog", "Cancel");
    browser.show("#/history");
    browser.until("a bar is there", "return document.querySelector('.chart .held-bar') !== null");
    browser.point_at(".chart .held-bar");
    browser.until("its details are there", "return document.querySelector('.tip') !== null");
    check("tip");
}

/// A read token, three paused features, a session that has ended, a server that does not answer, and a link for someone else.
#[test]
fn what_is_seldom_seen_looks_right_too() {
    let mut world = World::new();
    world.keep_address();
    let Some(browser) = world.browser() else { return };
    let axe = axe();
    let check = |name: &str| {
        for (width, height) in [(1440, 900), (360, 780)] {
            browser.resize(width, height);
            for theme in ["light", "dark"] {
                browser.set_theme(theme);
                browser.until(
                    &format!("{name} fits into {width} pixels"),
                    "return document.documentElement.scrollWidth <= document.documentElement.clientWidth",
                );
                browser.screenshot(&format!("{name}-{width}-{theme}"));
                check_with_axe(&browser, axe.as_deref(), &format!("{name} {width} {theme}"));
            }
        }
        browser.resize(1440, 900);
    };
    {
        let ana = world.named("ana", "Ana");
        ana.reserve(long("src/parser/**", "splitting the parser in two")).ok();
        for feature in ["FEAT-1", "FEAT-2", "FEAT-3"] {
            ana.reserve(long(&format!("feature:{feature}:pause"), "an incident")).ok();
        }
        world.sign_in(&browser, &world.reader());
        browser.sees("3 features are paused");
        check("read-only");
        browser.press_button("", "Show");
        browser.sees("FEAT-2 is paused");
        check("banners");
        let bo = world.named("bo", "Bo");
        bo.reserve(long("docs/a.md", "work")).ok();
        browser.go("about:blank");
        browser.go(&world.login_url(&bo.token, ""));
        browser.sees("Sign in as Bo (session bo)?");
        check("other-login");
        browser.press_button("", "Sign in as Bo (session bo)");
        browser.lists("docs/a.md", true);
        bo.end();
        browser.sees("Your session has ended.");
        check("session-ended");
    }
    world.kill();
    browser.sees("Reconnecting…");
    check("reconnecting");
    browser.expect_in_console(&["status of 403"]);
    browser.check_console(NO_SERVER);
}

#[test]
fn signing_in_and_documents_look_right() {
    let world = World::new();
    let Some(browser) = world.browser() else { return };
    let axe = axe();
    for (width, height) in [(1440, 900), (360, 780)] {
        browser.resize(width, height);
        for theme in ["light", "dark"] {
            browser.set_theme(theme);
            browser.go(world.url());
            browser.sees("Sign in to git-dibs");
            browser.screenshot(&format!("signin-{width}-{theme}"));
            check_with_axe(&browser, axe.as_deref(), &format!("signin {width} {theme}"));
            browser.go(&format!("{}/docs", world.url()));
            browser.sees("File reservations for repositories");
            browser.screenshot(&format!("docs-{width}-{theme}"));
            let fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
            assert_eq!(browser.run(fits), true, "/docs fits into {width} pixels");
        }
    }
    check_with_axe(&browser, axe.as_deref(), "docs");
    browser.resize(1440, 900);
    browser.set_theme("light");
    world.sign_in(&browser, &world.admin());
    browser.sees("Nothing is held");
    browser.screenshot("empty-1440-light");
    check_with_axe(&browser, axe.as_deref(), "empty");
    browser.check_console(&[]);
}

/// axe-core, which `./test` fetches; none where it could not.
fn axe() -> Option<String> {
    let text = std::fs::read_to_string(fetched("axe/node_modules/axe-core/axe.min.js")).ok();
    if text.is_none() {
        skip("axe-core on the dashboard, because it could not be fetched from npm");
    }
    text
}

/// Runs the checks of axe-core on the page as it is.
#[track_caller]
fn check_with_axe(browser: &Browser, axe: Option<&str>, what: &str) {
    let Some(axe) = axe else { return };
    if browser.run("return typeof axe") == "undefined" {
        // As a debugger does it: the policy of the page allows no foreign script.
        browser.devtools("Runtime.evaluate", json!({ "expression": axe }));
    }
    let found = browser.run_async(
        "axe.run(document, { resultTypes: ['violations'], rules: { 'color-contrast': { enabled: true } } }).then(({ violations }) => done(violations.map((one) => one.id + ': ' + one.help + ' ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).join(' | '))))",
    );
    assert_eq!(found, json!([]), "{what}: {found:#}");
}

#[test]
fn the_keyboard_is_enough() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    for key in ["src/a.rs", "src/b.rs", "src/c.rs"] {
        bo.reserve(long(key, "work")).ok();
    }
    ana.reserve(long("docs/mine.md", "work")).ok();
    let Some(browser) = world.browser_as(&ana.token) else { return };
    let focus = || {
        text(&browser.run("const row = document.activeElement.closest('[role=row]'); return row ? (row.dataset.key ?? row.innerText.split('\\n')[0].trim()) : document.activeElement.id || document.activeElement.tagName")).to_owned()
    };
    let (down, up, left, right, enter, escape) =
        ("\u{e015}", "\u{e013}", "\u{e012}", "\u{e014}", "\u{e007}", "\u{e00c}");
    browser.lists("src/c.rs", true);
    // Without a focus, the arrows lead into the list.
    browser.keys(down);
    browser.until("a row has the focus", "return document.activeElement.closest('#rows [role=row]') !== null");
    browser.keys("/");
    browser.until("the filter has the focus", "return document.activeElement.id === 'filter'");
    browser.keys("src");
    browser.lists("docs/mine.md", false);
    browser.keys(down);
    browser.until("a row has the focus", "return document.activeElement.closest('[role=row]') !== null");
    browser.keys(&format!("{down}{down}"));
    browser.until("the focus moves", "return document.activeElement.dataset.key === 'src/b.rs'");
    browser.keys(enter);
    browser.sees("Facts");
    browser.keys(escape);
    browser.sees_no("Facts");
    // The focus stays where it is while other rows come and go, and moves on when its row goes.
    bo.reserve(long("src/0.rs", "work")).ok();
    browser.lists("src/0.rs", true);
    browser.run("document.querySelector(\"tr[data-key='src/b.rs']\").focus()");
    bo.release("src/0.rs");
    browser.lists("src/0.rs", false);
    assert_eq!(focus(), "src/b.rs");
    bo.release("src/b.rs");
    browser.lists("src/b.rs", false);
    browser.until("the next row has the focus", "return document.activeElement.dataset?.key === 'src/c.rs'");
    browser.keys(&format!("{up}{up}{left}"));
    browser.lists("src/a.rs", false);
    browser.keys(right);
    browser.lists("src/a.rs", true);
    browser.keys(escape);
    browser.lists("docs/mine.md", true);
    // Space opens the padlock: what is mine is released.
    browser.run("document.querySelector(\"tr[data-key='docs/mine.md']\").focus()");
    browser.keys(" ");
    browser.lists("docs/mine.md", false);
    browser.keys("g");
    browser.until("the table is shown", "return location.hash.includes('as=table')");
    for (key, view) in
        [("2", "requests"), ("3", "waits"), ("4", "sessions"), ("5", "history"), ("6", "hot"), ("1", "now")]
    {
        browser.keys(key);
        browser.until(
            view,
            &format!("return location.hash.startsWith('#/{view}') && document.querySelector('main h1') !== null"),
        );
    }
    browser.check_console(&[]);
}

#[test]
fn requests_are_answered_by_key() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    for key in ["a", "b"] {
        ana.reserve(long(key, "work")).ok();
        bo.post("unlock-requests", json!({ "filePath": key, "reason": format!("for {key}") })).expect(201);
    }
    let Some(browser) = world.browser_as(&ana.token) else { return };
    browser.show("#/requests");
    browser.sees("for b");
    let focus = |reason: &str| {
        browser.run(&format!(
            "[...document.querySelectorAll('.request')].find((one) => one.textContent.includes('{reason}')).focus()"
        ))
    };
    let _: Value = focus("for a");
    browser.keys("h");
    browser.sees("handed over");
    focus("for b");
    browser.keys("r");
    browser.sees("Reject Bo’s request?");
    browser.press_button("//dialog", "Reject");
    browser.sees("rejected");
    let held = world.held();
    assert_eq!(held, ["ana b", "bo a"]);
    browser.check_console(&[]);
}
