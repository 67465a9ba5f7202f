//! Names and paths that would break a careless page.

use serde_json::json;

use crate::world::{World, long, text};

#[test]
fn names_full_of_markup_are_text() {
    let world = World::new();
    let name = "<img src=x onerror=alert(1)>\"'&amp; \u{5d0}\u{5d1} \u{1f512}";
    let odd = world.session_with("odd.session-1", json!({ "name": name, "feature": "<b>F</b>" }));
    let reason = "</td><script>alert(2)</script> \u{202e}evil\u{202c} {{x}} ${1}";
    odd.reserve(long("src/<b>&\"'.rs", reason)).ok();
    odd.reserve(long("file:we ird/[id] {a}.rs", "x")).ok();
    let bo = world.named("bo", "Bo");
    bo.post("unlock-requests", json!({ "filePath": "src/<b>&\"'.rs", "reason": reason })).expect(201);
    let Some(browser) = world.browser_as(&odd.token) else { return };
    browser.lists("src/<b>&\"'.rs", true);
    browser.lists("we ird/[id] {a}.rs", true);
    for view in ["now", "requests", "sessions", "history", "waits", "hot"] {
        browser.show(&format!("#/{view}"));
        browser.until("the view is there", "return document.querySelector('main h1') !== null");
        assert_eq!(
            browser.run("return document.querySelectorAll('img, td script, main script, .rail b > b').length"),
            0,
            "{view}"
        );
    }
    browser.show("#/requests");
    browser.sees(name.split('"').next().unwrap_or(name));
    let shown = browser.run("return document.querySelector('.request .soft bdi').textContent");
    assert_eq!(text(&shown), reason);
    let other = world.browser_as(&bo.token).unwrap();
    other.lists("src/<b>&\"'.rs", true);
    let holder = other.run("return document.querySelector('tr.held .holder .name').textContent");
    assert_eq!(text(&holder), name);
    browser.check_console(&[]);
    other.check_console(&[]);
}

#[test]
fn long_paths_and_names_do_not_break_the_layout() {
    let world = World::new();
    let part = "a-directory-with-a-very-long-name-that-goes-on-and-on";
    let path = format!("{}/{}", [part; 5].join("/"), "file-with-a-long-name.component.spec.ts");
    assert!(path.len() > 300);
    let alone = "x".repeat(250);
    let name = "N".repeat(200);
    let long_one = world.session_with("long", json!({ "name": name, "feature": "F".repeat(200) }));
    long_one.reserve(long(&path, &"reason ".repeat(140))).ok();
    long_one.reserve(long(&alone, &"r".repeat(1000))).ok();
    let bo = world.named("bo", "Bo");
    bo.post("unlock-requests", json!({ "filePath": path, "reason": "r".repeat(1000) })).expect(201);
    let Some(browser) = world.browser_as(&long_one.token) else { return };
    browser.lists(&path, true);
    for (width, height) in [(360, 800), (900, 800), (1440, 900)] {
        browser.resize(width, height);
        for view in ["now", "now?as=table", "requests", "sessions", "history", "waits", "hot"] {
            browser.show(&format!("#/{view}"));
            browser.until("the view is there", "return document.querySelector('main h1') !== null");
            let overflow = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
            browser.until(&format!("{view} fits into {width} pixels"), overflow);
        }
        let apart = "const [nav, person] = ['nav', '.person'].map((name) => document.querySelector(name).getBoundingClientRect()); return nav.right <= person.left || nav.top >= person.bottom";
        assert_eq!(browser.run(apart), true, "the name of the person is not over the tabs in {width} pixels");
        browser.show("#/now");
        browser.click("tr.held .c-holder");
        browser.sees("Facts");
        browser.until(
            "the panel fits",
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth",
        );
        browser.screenshot(&format!("odd-long-{width}"));
    }
    browser.check_console(&[]);
}

#[test]
fn an_empty_repository_says_what_to_do() {
    let world = World::new();
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    for (view, words) in [
        ("now", "git dibs run --name Ana -- your-agent"),
        ("requests", "No open requests"),
        ("waits", "No one is waiting"),
        ("sessions", "git dibs run --name Ana -- your-agent"),
        ("history", "Nothing was held in this time."),
        ("hot", "No conflicts in the last day"),
    ] {
        browser.show(&format!("#/{view}"));
        browser.sees(words);
    }
    browser.sees("Nothing needs you");
    browser.check_console(&[]);
}

/// A page over plain HTTP has no clipboard. The button said "Copied".
#[test]
fn copied_is_said_only_of_what_is_in_the_clipboard() {
    let world = World::new();
    let Some(browser) = world.browser() else { return };
    let grant = json!({ "origin": world.url(), "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
    browser.devtools("Browser.grantPermissions", grant);
    world.sign_in(&browser, &world.reader());
    browser.sees("Nothing is held");
    let label = "return document.querySelector('.empty .command button').textContent";
    let press = || browser.click(".empty .command button");
    let says = |text: &str| browser.until(text, &format!("{label} === {text:?}"));
    let clipboard = || browser.run_async("clipboard.readText().then(done, (error) => done(String(error)))");
    browser.run("window.clipboard = navigator.clipboard; clipboard.writeText('')");
    press();
    says("Copied");
    assert_eq!(clipboard(), "git dibs run --name Ana -- your-agent");
    says("Copy");
    // Without a clipboard the old command copies.
    browser.run("Object.defineProperty(navigator, 'clipboard', { value: undefined }); clipboard.writeText('')");
    press();
    says("Copied");
    assert_eq!(clipboard(), "git dibs run --name Ana -- your-agent");
    assert_eq!(browser.run("return document.querySelectorAll('textarea').length"), 0);
    says("Copy");
    browser.run("document.execCommand = () => false");
    press();
    says("Not copied");
    says("Copy");
    browser.check_console(&[]);
}

/// Browsers take `..` out of every address, so a call for such a session would be another call.
#[test]
fn a_session_that_no_address_can_name_is_not_mistaken() {
    let world = World::new();
    let dots = world.named("..", "Dots");
    dots.reserve(long("src/a.rs", "work")).ok();
    let Some(browser) = world.browser_as(&dots.token) else { return };
    browser.click("tr.held .lock");
    browser.sees("A browser cannot send a request for the session ... Use git dibs.");
    browser.lists("src/a.rs", true);
    browser.check_console(&[]);
}
