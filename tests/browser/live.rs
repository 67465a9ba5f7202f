//! What changes by itself.

use serde_json::{Value, json};

use crate::browser::{Browser, in_store};
use crate::world::{World, long, time, until};

/// What the browser logs itself while the server is away.
pub const NO_SERVER: &[&str] = &[
    "ERR_CONNECTION_REFUSED",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "ERR_CONNECTION_RESET",
    "ERR_EMPTY_RESPONSE",
    "ERR_SOCKET_NOT_CONNECTED",
];

#[test]
fn reservations_appear_and_go() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.sees("Nothing is held");
    browser.sees("git dibs run --name Ana -- your-agent");
    // The page is not loaded again: a mark in it stays.
    browser.run("window.mark = true");
    ana.reserve(long("src/a.rs", "splitting the parser")).ok();
    browser.lists("src/a.rs", true);
    browser.sees("splitting the parser");
    browser.sees("Ana");
    bo.reserve(json!({ "filePath": "src/short.rs", "ttlSeconds": 1 })).ok();
    browser.lists("src/short.rs", true);
    browser.lists("src/short.rs", false);
    ana.release("src/a.rs");
    browser.sees("Nothing is held");
    assert_eq!(browser.run("return window.mark"), true);
    browser.check_console(&[]);
}

#[test]
fn a_request_that_waits_is_shown_with_what_it_waits_for() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/parser/**", "splitting the parser")).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    std::thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "src/parser/lexer.rs", "waitSeconds": 60 }));
        browser.sees("Ana holds up 1");
        browser.show("#/waits");
        browser.sees("Ana holds up 1 session");
        browser.until(
            "the key is at its arrow",
            "return document.querySelector('.graph')?.textContent.includes('src/parser/lexer.rs')",
        );
        browser.until(
            "it says when the wait gives up",
            "return /gives up in \\d+:\\d\\d/.test(document.querySelector('.graph').textContent)",
        );
        ana.release("src/parser/**");
        waiting.join().unwrap().ok();
        browser.sees("No one is waiting");
    });
    browser.show("#/now");
    browser.lists("src/parser/lexer.rs", true);
    browser.check_console(&[]);
}

#[test]
fn hot_spots_show_when_and_between_whom() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/parser/lexer.rs", "work")).ok();
    for _ in 0..3 {
        bo.reserve(json!({ "filePath": "src/parser/lexer.rs" })).refused("RESOURCE_LOCKED");
    }
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.show("#/hot");
    browser.sees("src/parser/ caused 3 of 3 conflicts in the last day");
    browser.sees("By hour");
    let row = "document.querySelector('.hot tbody tr')";
    assert_eq!(browser.run(&format!("return {row}.querySelectorAll('.steps-chart rect').length")), 25);
    // All three are in the current hour, which is the last bar.
    assert_eq!(browser.run(&format!("return {row}.querySelectorAll('.steps-chart rect:not(.none)').length")), 1);
    assert_eq!(browser.run(&format!("return {row}.querySelector('.h-between .sr').textContent")), "Ana, Bo");
    browser.press_button("//main", "Week");
    browser.sees("conflicts in the last week");
    browser.sees("By day");
    browser.check_console(&[]);
}

#[test]
fn a_renewal_moves_the_deadline_that_is_shown() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(json!({ "filePath": "src/a.rs", "ttlSeconds": 20 })).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.until(
        "some of the time has passed",
        "const left = document.querySelector('tr.held .tm')?.textContent; return left < '0:16'",
    );
    ana.post("heartbeat", json!({})).ok();
    browser.until("the deadline has moved", "return document.querySelector('tr.held .tm').textContent >= '0:18'");
    browser.check_console(&[]);
}

#[test]
fn two_browsers_see_the_same() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    for n in 0..20 {
        ana.reserve(long(&format!("src/{n}.rs"), "work")).ok();
    }
    let Some(first) = world.browser_as(&ana.token) else { return };
    let second = world.browser_as(&bo.token).unwrap();
    second.lists("src/7.rs", true);
    first.click(&format!("{}//button", Browser::row("src/7.rs")));
    second.lists("src/7.rs", false);
    let keys = "return [...document.querySelectorAll('tr.held')].map((row) => row.dataset.key).join()";
    until("both list the same", || (first.run(keys) == second.run(keys)).then_some(()));
    bo.post("unlock-requests", json!({ "filePath": "src/3.rs", "reason": "please" })).expect(201);
    first.sees("Bo asks for");
    second.sees("you ask");
}

#[test]
fn a_server_that_is_killed_and_started_again_is_found() {
    let mut world = World::new();
    world.keep_address();
    world.named("ana", "Ana").reserve(long("src/before.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.lists("src/before.rs", true);
    world.kill();
    browser.sees("Reconnecting…");
    browser.sees("nothing can be changed until it is back");
    browser.until(
        "what would change something is switched off",
        "return document.querySelectorAll('button.lock').length === 0",
    );
    world.start();
    world.named("bo", "Bo").reserve(long("src/after.rs", "work")).ok();
    browser.lists("src/after.rs", true);
    browser.lists("src/before.rs", true);
    browser.sees("Live");
    browser.check_console(NO_SERVER);
}

/// A server that is started again gives every reservation its whole time. The page went on with the deadlines from before.
#[test]
fn deadlines_are_those_of_the_server_after_it_was_started_again() {
    let mut world = World::new();
    world.keep_address();
    let ana = |world: &World| {
        let ana = world.named("ana", "Ana");
        ana.reserve(json!({ "filePath": "src/a.rs", "ttlSeconds": 200 })).ok();
        ana.reserve(json!({ "filePath": "src/b.rs", "ttlSeconds": 300 })).ok();
    };
    ana(&world);
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.lists("src/a.rs", true);
    let on_page = || browser.run_async(&in_store("[...store.data.order].map((one) => [one.key, one.expires])"));
    let on_server = |world: &World| {
        let row = |one: &Value| json!([one["filePath"], time(&one["expiresAt"])]);
        Value::from(world.reservations().iter().map(row).collect::<Vec<_>>())
    };
    let before = on_server(&world);
    assert_eq!(on_page(), before);
    world.kill();
    browser.sees("Reconnecting…");
    world.start();
    browser.sees("Live");
    let after = on_server(&world);
    assert_ne!(after, before);
    until("the page has the new deadlines", || (on_page() == after).then_some(()));
    browser.check_console(NO_SERVER);
}

/// The journal was restored from a backup while the page was open: what the page knew may never have happened.
#[test]
fn a_restored_journal_is_loaded_anew() {
    let mut world = World::new();
    world.keep_address();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("src/kept.rs", "work")).ok();
    let backup = world.path("backup.db");
    let made = crate::support::process::Run::run(&mut world.dibs_command(&["db", "backup", backup.to_str().unwrap()]));
    if !made.status.success() {
        panic!("{}", String::from_utf8_lossy(&made.stderr));
    }
    ana.reserve(long("src/undone.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.lists("src/undone.rs", true);
    world.stop();
    let journal = world.path("repo/.git/dibs/journal.db");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", journal.display()));
    }
    std::fs::copy(&backup, &journal).unwrap();
    world.start();
    browser.lists("src/undone.rs", false);
    browser.lists("src/kept.rs", true);
    browser.sees("Reloaded at");
    browser.check_console(NO_SERVER);
}

#[test]
fn a_request_for_what_i_hold_is_a_notification_while_i_work_elsewhere() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/a.rs", "work")).ok();
    ana.reserve(long("src/b.rs", "work")).ok();
    let Some(browser) = world.browser() else { return };
    let grant = json!({ "origin": world.url(), "permissions": ["notifications"] });
    browser.devtools("Browser.grantPermissions", grant);
    world.sign_in(&browser, &ana.token);
    // No person sees the notifications of a browser without a screen, so the page notes which it shows.
    browser.run("window.noted = []; const real = Notification; window.Notification = class extends real { constructor(title, more) { super(title, more); window.noted.push(`${title}: ${more.body}`) } }");
    let ask = |key: &str| bo.post("unlock-requests", json!({ "filePath": key, "reason": "a hotfix" })).expect(201);
    browser.run("document.hasFocus = () => true");
    ask("src/a.rs");
    browser.until("the first is counted", "return document.title.startsWith('(1) ')");
    browser.run("document.hasFocus = () => false");
    ask("src/b.rs");
    browser.until("the second is counted", "return document.title.startsWith('(2) ')");
    assert_eq!(browser.run("return window.noted"), json!(["Bo asks for src/b.rs: a hotfix"]));
    browser.check_console(&[]);
}

/// Browsers on phones have `Notification`, and throw when a page makes one. The page reported an error and drew late.
#[test]
fn a_browser_that_shows_no_notifications_goes_on() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/a.rs", "work")).ok();
    let Some(browser) = world.browser_as(&ana.token) else { return };
    browser.run("window.Notification = class { static permission = 'granted'; constructor() { window.tried = true; throw new TypeError('Illegal constructor') } }; document.hasFocus = () => false");
    bo.post("unlock-requests", json!({ "filePath": "src/a.rs", "reason": "a hotfix" })).expect(201);
    browser.until("it is counted", "return document.title.startsWith('(1) ')");
    assert_eq!(browser.run("return window.tried"), true);
    browser.sees("Bo asks for");
    browser.check_console(&[]);
}
