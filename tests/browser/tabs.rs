//! Several tabs of one browser. Without HTTP/2 a browser opens six connections to a server, so the tabs share an event stream.

use crate::browser::Browser;
use crate::live::NO_SERVER;
use crate::world::{World, long, until};

/// One more than the connections that a browser opens.
const TABS: usize = 7;

/// Opens the page in this many tabs. The first one is signed in.
fn open_tabs(world: &World, browser: &Browser, count: usize) -> Vec<String> {
    let mut tabs = vec![browser.tab()];
    while tabs.len() < count {
        tabs.push(browser.new_tab());
        browser.go(world.url());
        browser.until("the tab is live", "return document.querySelector('.connection.live') !== null");
    }
    tabs
}

/// The event streams that the server has open.
fn streams(world: &World) -> String {
    let bearer = format!("Bearer {}", world.reader());
    let answer = world.connect().call("GET", "/metrics", &[("authorization", &*bearer)], b"").unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    let line = text.lines().find(|line| line.starts_with("dibs_event_readers{")).unwrap();
    line.rsplit_once(' ').unwrap().1.to_owned()
}

#[test]
fn seven_tabs_share_one_stream_and_all_are_live() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("src/before.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    let tabs = open_tabs(&world, &browser, TABS);
    assert_eq!(streams(&world), "1");
    ana.reserve(long("src/after.rs", "work")).ok();
    for tab in &tabs {
        browser.switch_to(tab);
        browser.lists("src/before.rs", true);
        browser.lists("src/after.rs", true);
        // There is a connection left for other requests.
        browser.show("#/hot");
        browser.sees("No conflicts");
        browser.show("#/now");
        browser.check_console(&[]);
    }
    // The tab that was first goes, and the others stay live.
    browser.switch_to(&tabs[0]);
    browser.close_tab();
    ana.release("src/before.rs");
    for tab in &tabs[1..] {
        browser.switch_to(tab);
        browser.lists("src/before.rs", false);
        browser.lists("src/after.rs", true);
    }
    assert_eq!(streams(&world), "1");
    // With the last tab the stream ends. The browser itself needs one that stays.
    browser.new_tab();
    for tab in &tabs[1..] {
        browser.switch_to(tab);
        browser.close_tab();
    }
    until("no stream is left", || (streams(&world) == "0").then_some(()));
}

#[test]
fn all_tabs_find_a_server_that_was_started_again() {
    let mut world = World::new();
    world.keep_address();
    world.named("ana", "Ana").reserve(long("src/before.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    let tabs = open_tabs(&world, &browser, 3);
    world.kill();
    browser.sees("Reconnecting…");
    world.start();
    world.named("bo", "Bo").reserve(long("src/after.rs", "work")).ok();
    for tab in &tabs {
        browser.switch_to(tab);
        browser.lists("src/after.rs", true);
        browser.lists("src/before.rs", true);
        browser.check_console(NO_SERVER);
    }
    until("one stream", || (streams(&world) == "1").then_some(()));
}

/// A tab that loads its lists while others follow the stream lacks records that the stream has sent already.
#[test]
fn a_tab_that_is_behind_the_shared_stream_misses_nothing() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("src/0.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.lists("src/0.rs", true);
    let module = "document.querySelector('script[type=module]').src.replace('app.js', 'stream.js')";
    // As a tab that read its lists before record 1.
    let first = browser.run_async(&format!(
        "(async () => {{ const {{ followEvents }} = await import({module}); const seen = []; const stop = followEvents(new URL('api/events?live=1', location), ['opened', 'reserved'], 0, {{ open() {{}}, lost() {{}}, reset() {{}}, event: (name) => {{ seen.push(name); if (seen.length === 2) {{ stop(); done(seen); }} }} }}) }})()"
    ));
    assert_eq!(first, serde_json::json!(["opened", "reserved"]));
}

/// Where a browser has no shared workers, each page has a stream of its own.
#[test]
fn a_browser_without_shared_workers_has_a_stream_for_each_tab() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    let Some(browser) = world.browser() else { return };
    let script = serde_json::json!({ "source": "delete globalThis.SharedWorker" });
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", script);
    world.sign_in(&browser, &world.reader());
    ana.reserve(long("src/a.rs", "work")).ok();
    browser.lists("src/a.rs", true);
    assert_eq!((streams(&world), browser.run("return typeof SharedWorker")), ("1".to_owned(), "undefined".into()));
    browser.check_console(&[]);
}
