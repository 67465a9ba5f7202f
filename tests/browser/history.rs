//! The timeline of who held what.

use serde_json::json;

use crate::world::{World, long};

/// More events than one page of the history has.
const KEYS: usize = 600;

#[test]
fn what_is_older_than_a_page_is_read_too() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/first.rs", "before all the others")).ok();
    ana.release("src/first.rs");
    let keys: Vec<String> = (0..KEYS).map(|n| format!("src/file{n}.rs")).collect();
    bo.reserve(json!({ "filePaths": keys, "ttlSeconds": 300 })).ok();
    bo.release_all();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.show("#/history?by=session");
    browser.sees("The last 30 minutes");
    browser.until(
        "the oldest bar is there",
        "return [...document.querySelectorAll('.held-bar')].some((bar) => bar.getAttribute('aria-label')?.includes('before all the others'))",
    );
    browser.check_console(&[]);
}

#[test]
fn one_can_go_back_and_forth_in_time() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("src/a.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.show("#/history");
    let bars = |count: usize| {
        browser.until(
            &format!("{count} bars are shown"),
            &format!("return document.querySelectorAll('.chart .held-bar').length === {count}"),
        );
    };
    bars(1);
    browser.press_button("", "Earlier");
    browser.press_button("", "Earlier");
    browser.sees("Nothing was held in this time.");
    bars(0);
    browser.press_button("", "Later");
    browser.press_button("", "Later");
    browser.sees("The last 30 minutes");
    bars(1);
    browser.check_console(&[]);
}

/// What the page could not read while the server was away, it reads when the server is back.
#[test]
fn a_history_opened_while_the_server_is_away_is_complete_later() {
    let mut world = World::new();
    world.keep_address();
    {
        let ana = world.named("ana", "Ana");
        ana.hold("src/a.rs");
        ana.release("src/a.rs");
    }
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.until(
        "the view is loaded",
        "return performance.getEntriesByType('resource').some((one) => one.name.endsWith('/history.js'))",
    );
    world.kill();
    browser.sees("Reconnecting…");
    browser.show("#/history");
    browser.sees("The history cannot be read now.");
    world.start();
    browser.sees("Live");
    browser.until("the bar is there", "return document.querySelector('.held-bar.released:not(.sample)') !== null");
}
