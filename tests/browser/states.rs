//! What the page says about sessions and times, and what a person can look for.

use serde_json::json;

use crate::browser::Browser;
use crate::world::{World, long, text, until};

/// Sets the browser's clock so many seconds ahead, before any script of the page runs.
fn set_clock_ahead(browser: &Browser, seconds: i64) {
    let source = format!(
        "{{ const Real = Date; const ahead = {seconds} * 1000; globalThis.Date = class extends Real {{ constructor(...parts) {{ super(...(parts.length ? parts : [Real.now() + ahead])) }} static now() {{ return Real.now() + ahead }} }} }}"
    );
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": source }));
}

/// The page counts by the server's time: a computer with a wrong clock shows the same deadlines.
#[test]
fn a_browser_whose_clock_is_wrong_by_an_hour_shows_the_right_times() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("src/a.rs", "work")).ok();
    ana.reserve(long("src/ended.rs", "work")).ok();
    ana.release("src/ended.rs");
    let bo = world.named("bo", "Bo");
    bo.hold("src/b.rs");
    bo.end();
    for seconds in [3600, -3600] {
        let Some(browser) = world.browser() else { return };
        set_clock_ahead(&browser, seconds);
        world.sign_in(&browser, &world.reader());
        assert_eq!(
            browser.run("return Math.abs(Date.now() - performance.timeOrigin - performance.now()) > 3500000"),
            true
        );
        browser.lists("src/a.rs", true);
        // A later reservation comes with an event, and its deadline is by the same clock.
        let later = format!("src/later{seconds}.rs");
        ana.reserve(long(&later, "work")).ok();
        for key in ["src/a.rs", &*later] {
            browser.lists(key, true);
            let row = format!("document.querySelector(\"tr[data-key='{key}']\")");
            let left = browser.run(&format!("return {row}.querySelector('.tm').textContent"));
            assert!(("3:00".."5:02").contains(&text(&left)), "{key} with {seconds} s: {left}");
            let share =
                browser.run(&format!("return Number({row}.querySelector('.bar').style.getPropertyValue('--left'))"));
            assert!((0.6..=1.0).contains(&share.as_f64().unwrap()), "{key} with {seconds} s: {share}");
        }
        // What is held meets the end of the axis, and what has ended is in the picture.
        browser.show("#/history");
        browser.until("both bars are there", "return document.querySelectorAll('.chart .held-bar').length >= 2");
        let gap = "const [bar, axis] = ['.chart .held-bar.held', '.chart .axis'].map((what) => document.querySelector(what).getBoundingClientRect()); return Math.abs(bar.right - axis.right)";
        browser.until("the bar ends now", &format!("{gap} < 8"));
        browser.until("the other one has ended", "return document.querySelector('.chart .held-bar.released') !== null");
        browser.show("#/sessions");
        browser.sees("Alive");
        browser.sees("Ended in the last hour");
        browser.check_console(&[]);
        ana.release(&later);
    }
}

/// The state of a session in its row of the sessions.
fn state(browser: &Browser, id: &str, words: &str) {
    browser.until(
        &format!("{id} is {words}"),
        &format!(
            "return [...document.querySelectorAll('main.sessions tr')].some((row) => row.querySelector('[title={id}]') && row.innerText.includes({words:?}))"
        ),
    );
}

#[test]
fn a_session_that_is_not_heard_of_is_silent() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("src/a.rs", "work")).ok();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.show("#/sessions");
    state(&browser, "ana", "Alive");
    // Nearly three minutes pass for this browser, and no session calls. What the server sends about an earlier call sets the
    // page's clock right, so the time passes again then.
    let later = |what: &str, shown: &str| {
        let pass = "const ahead = serverNow() - performance.timeOrigin - performance.now(); if (ahead < 100_000) { const now = Date.now; Date.now = () => now() + 170_000; }";
        let script = format!(
            "import(document.querySelector('script[type=module]').src.replace('app.js', 'store.js')).then(({{ serverNow }}) => {{ {pass} done({shown}) }})"
        );
        until(what, || (browser.run_async(&script) == true).then_some(()));
    };
    later(
        "the row says it",
        "/Silent\\s+[23]:\\d\\d/.test(document.querySelector('main.sessions tbody tr').innerText)",
    );
    later("the headline says it", "document.querySelector('h1').innerText === 'Ana is silent and holds 1 reservation'");
    browser.show("#/now");
    later(
        "the row of the key says it",
        "document.querySelector(\"tr[data-key='src/a.rs'] .c-holder\")?.innerText.includes('silent') === true",
    );
    // With a call the session is there again, and the page has the server's time.
    browser.show("#/sessions");
    ana.post("heartbeat", json!({})).ok();
    state(&browser, "ana", "Alive");
    browser.check_console(&[]);
}

#[test]
fn a_session_of_a_paused_feature_is_paused_and_a_lost_one_has_ended() {
    let mut world = World::empty("repo");
    world.git_init("repo");
    world.args(&["--session-timeout", "1"]);
    world.start();
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.show("#/sessions");
    let eli = world.session_with("eli", json!({ "name": "Eli", "feature": "FEAT-130" }));
    let ops = world.named("ops", "Ops");
    eli.reserve(long("src/auth.rs", "tokens")).ok();
    state(&browser, "eli", "Alive");
    ops.reserve(long("feature:FEAT-130:pause", "auth incident")).ok();
    state(&browser, "eli", "Paused");
    let hint = "return document.querySelector('.s-state .warn').title";
    assert_eq!(browser.run(hint), "paused: auth incident");
    browser.show("#/now");
    browser.until(
        "the row says it",
        "return document.querySelector(\"tr[data-key='src/auth.rs'] .c-holder\").innerText.includes('paused')",
    );
    browser.show("#/sessions");
    ops.release("feature:FEAT-130:pause");
    state(&browser, "eli", "Alive");
    // Silence ends a session that holds nothing.
    eli.release("src/auth.rs");
    state(&browser, "eli", "Lost");
    browser.sees("Ended in the last hour");
    browser.check_console(&[]);
}

#[test]
fn details_are_shown_for_what_is_pointed_at() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    let held = ana.reserve(long("src/a.rs", "splitting the parser")).ok();
    bo.reserve(json!({ "filePath": "src/a.rs" })).refused("RESOURCE_LOCKED");
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    browser.show("#/history");
    browser.until("the bar is there", "return document.querySelector('.chart .held-bar') !== null");
    browser.point_at(".chart .held-bar");
    let tip = || text(&browser.run("return document.querySelector('.tip')?.innerText ?? ''")).to_owned();
    browser.until("the details are shown", "return document.querySelector('.tip') !== null");
    let fence = format!("fence {}", held["fence"]);
    for words in ["Ana, exclusive", &fence, "src/a.rs", "“splitting the parser”", "Still held"] {
        assert!(tip().contains(words), "{words} in {}", tip());
    }
    browser.point_at(".chart .refused");
    browser.until(
        "the refusal is explained",
        "return document.querySelector('.tip')?.innerText.includes('Bo was refused')",
    );
    assert!(tip().contains("Ana had it"), "{}", tip());
    browser.point_at("h1");
    browser.until("the details are gone", "return document.querySelector('.tip') === null");
    // The same for the focus.
    browser.run("document.querySelector('.chart .held-bar').focus()");
    browser.until("the details are shown", "return document.querySelector('.tip') !== null");
    // A name that is cut has its whole text as a hint.
    browser.show("#/now");
    browser.until("the row is there", "return document.querySelector('tr.held .key').title === 'src/a.rs'");
    browser.check_console(&[]);
}

#[test]
fn a_filter_is_part_of_the_address_and_a_link_shows_the_same() {
    let world = World::new();
    let ana = world.session_with("ana-1", json!({ "name": "Ana", "feature": "FEAT-118" }));
    let bo = world.session_with("bo-1", json!({ "name": "Bo", "feature": "FEAT-121" }));
    for (who, key, reason) in [
        (&ana, "src/parser/lexer.rs", "tokens"),
        (&ana, "db:migration-slot", "a migration"),
        (&bo, "docs/parser.md", "words"),
        (&bo, "deploy://staging", "a release"),
    ] {
        who.reserve(long(key, reason)).ok();
    }
    let all = ["db:migration-slot", "deploy://staging", "docs/parser.md", "src/parser/lexer.rs"];
    let Some(browser) = world.browser_as(&world.reader()) else { return };
    let shows = |browser: &Browser, keys: &[&str]| {
        let rows = "[...document.querySelectorAll('tr.held')].filter((row) => !row.matches('.gone')).map((row) => row.dataset.key).sort().join(' ')";
        browser.until(&format!("{keys:?} are listed"), &format!("return {rows} === {:?}", keys.join(" ")));
    };
    let same_in_another_tab = |keys: &[&str]| {
        let (tab, address) = (browser.tab(), text(&browser.run("return location.href")).to_owned());
        let other = browser.new_tab();
        browser.go(&address);
        shows(&browser, keys);
        browser.check_console(&[]);
        assert_eq!(browser.tab(), other);
        browser.close_tab();
        browser.switch_to(&tab);
    };
    shows(&browser, &all);
    for (typed, expected) in [
        ("parser", &["docs/parser.md", "src/parser/lexer.rs"][..]),
        ("PARSER .rs", &["src/parser/lexer.rs"]),
        ("tokens", &["src/parser/lexer.rs"]),
        ("session:bo", &["deploy://staging", "docs/parser.md"]),
        ("session:ana-1", &["db:migration-slot", "src/parser/lexer.rs"]),
        ("feature:feat-121", &["deploy://staging", "docs/parser.md"]),
        ("feature:FEAT-118 kind:name", &["db:migration-slot"]),
        ("kind:uri", &["deploy://staging"]),
        ("session:bo parser", &["docs/parser.md"]),
    ] {
        browser.run("const field = document.querySelector('#filter'); field.value = ''; field.dispatchEvent(new Event('input', { bubbles: true }))");
        shows(&browser, &all);
        browser.type_into("#filter", typed);
        shows(&browser, expected);
        let query = browser.run("return new URLSearchParams(location.hash.split('?')[1]).get('q')");
        assert_eq!(query, typed);
        same_in_another_tab(expected);
    }
    browser.run("const field = document.querySelector('#filter'); field.value = ''; field.dispatchEvent(new Event('input', { bubbles: true }))");
    for (button, expected) in [
        ("Paths 2", &["docs/parser.md", "src/parser/lexer.rs"][..]),
        ("Names 1", &["db:migration-slot"]),
        ("URIs 1", &["deploy://staging"]),
        ("All 4", &all),
    ] {
        browser.press_button("", button);
        shows(&browser, expected);
        same_in_another_tab(expected);
    }
    browser.type_into("#filter", "no such thing");
    browser.sees("Nothing held matches");
    browser.check_console(&[]);
}
