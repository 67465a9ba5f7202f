//! The timeline of who held what.

use serde_json::json;

use crate::browser::Browser;
use crate::live::NO_SERVER;
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
    browser.check_console(NO_SERVER);
}

/// Waits until the bar of a key says this, in the words that screen readers get.
#[track_caller]
fn says(browser: &Browser, key: &str, words: &str) {
    browser.until(
        &format!("the bar of {key} says {words}"),
        &format!("return [...document.querySelectorAll('.chart-row')].some((row) => row.querySelector('.key').title === {} && [...row.querySelectorAll('.held-bar')].some((bar) => bar.getAttribute('aria-label').includes({})))", json!(key), json!(words)),
    );
}

/// The server finds events by keys that overlap what was asked for. The page followed only events with that very text, so the
/// other bars stayed "still held".
#[test]
fn bars_end_whatever_key_was_asked_for() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    for (held, asked, shown) in [
        ("src/**", "src/a.rs", "src/**"),
        ("docs/a.md", "docs/**", "docs/a.md"),
        ("lib/*.rs", "lib/[ab].rs", "lib/*.rs"),
        ("file:app/[id]/page.tsx", "file:app/[id]/page.tsx", "app/[id]/page.tsx"),
    ] {
        ana.reserve(long(held, "first")).ok();
        let query = asked.replace('[', "%5B").replace(']', "%5D");
        browser.show(&format!("#/history?path={query}"));
        says(&browser, shown, "Still held");
        ana.release(held);
        says(&browser, shown, "Released");
        // What is reserved while the view is open gets a bar, and it ends too.
        ana.reserve(long(held, "second")).ok();
        says(&browser, shown, "Still held");
        ana.release(held);
        browser.until(
            "both have ended",
            "const bars = [...document.querySelectorAll('.chart .held-bar')]; return bars.length === 2 && bars.every((bar) => bar.classList.contains('released'))",
        );
    }
    browser.check_console(&[]);
}

/// The link to the history of a file with brackets in its name asked for the pattern.
#[test]
fn the_history_of_a_literal_name_is_that_of_the_file() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("file:app/[id]/page.tsx", "work")).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.click("tr.held .c-holder");
    browser.click("//a[text()='History of this path']");
    browser.until(
        "the address has the key",
        "return new URLSearchParams(location.hash.split('?')[1]).get('path') === 'file:app/[id]/page.tsx'",
    );
    says(&browser, "app/[id]/page.tsx", "Still held");
    ana.release("file:app/[id]/page.tsx");
    says(&browser, "app/[id]/page.tsx", "Released");
    browser.check_console(&[]);
}

/// No event tells of a refusal. The triangles were those of the moment when the view was opened.
#[test]
fn a_refused_attempt_appears_while_the_history_is_open() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/a.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.show("#/history");
    says(&browser, "src/a.rs", "Still held");
    assert_eq!(browser.run("return document.querySelectorAll('.chart .refused').length"), 0);
    bo.reserve(json!({ "filePath": "src/a.rs" })).refused("RESOURCE_LOCKED");
    browser.until(
        "the triangle is there",
        "return document.querySelector('.chart .refused')?.getAttribute('aria-label').startsWith('Bo was refused')",
    );
    browser.check_console(&[]);
}
