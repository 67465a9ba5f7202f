//! What a person can do in the page, and what the server has done then.

use serde_json::json;

use crate::browser::Browser;
use crate::world::{World, long, text, until};

/// Waits until exactly this is held.
#[track_caller]
fn held(world: &World, expected: &[&str]) {
    until(&format!("{expected:?} is held"), || (world.held() == expected).then_some(()));
}

#[test]
fn my_padlock_releases_and_anothers_asks() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/mine.rs", "mine")).ok();
    bo.reserve(long("src/theirs.rs", "theirs")).ok();
    let Some(browser) = world.browser_as(&ana.token) else { return };
    let label = |key: &str| {
        let script =
            format!("return document.querySelector(\"tr[data-key='{key}'] .lock\").getAttribute('aria-label')");
        browser.lists(key, true);
        text(&browser.run(&script)).to_owned()
    };
    assert_eq!(label("src/mine.rs"), "Held by you. Release");
    assert_eq!(label("src/theirs.rs"), "Held by Bo. Ask");
    browser.click(&format!("{}//button", Browser::row("src/mine.rs")));
    browser.lists("src/mine.rs", false);
    held(&world, &["bo src/theirs.rs"]);

    browser.click(&format!("{}//button", Browser::row("src/theirs.rs")));
    browser.sees("Ask Bo for src/theirs.rs?");
    assert_eq!(
        browser.run("return document.querySelector('dialog button[type=submit]').disabled"),
        true,
        "a reason is required"
    );
    browser.type_into("dialog textarea", "a fix that cannot wait");
    browser.press_button("//dialog", "Ask");
    browser.sees("you ask");
    let asked = bo.get("unlock-requests").ok();
    assert_eq!(asked["incoming"][0]["reason"], "a fix that cannot wait");

    browser.show("#/requests?tab=outgoing");
    browser.sees("You wait for 1 answer");
    browser.press_button("", "Withdraw");
    browser.sees("withdrawn");
    assert_eq!(bo.get("unlock-requests").ok()["incoming"][0]["status"], "withdrawn");
    browser.check_console(&[]);
}

#[test]
fn a_holder_approves_hands_over_and_rejects() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    for key in ["a", "b", "c"] {
        ana.reserve(long(key, "work")).ok();
    }
    let Some(browser) = world.browser_as(&ana.token) else { return };
    for key in ["a", "b", "c"] {
        bo.post("unlock-requests", json!({ "filePath": key, "reason": format!("for {key}") })).expect(201);
    }
    browser.sees("Needs your answer");
    browser.until("the count is in the title", "return document.title.startsWith('(3) ')");
    let request = |key: &str| format!("//article[.//*[text()='for {key}']]");
    browser.show("#/requests");
    browser.sees("3 requests need your answer");
    browser.press_button(&request("a"), "Approve");
    held(&world, &["ana b", "ana c"]);
    browser.press_button(&request("b"), "Hand over");
    held(&world, &["ana c", "bo b"]);
    browser.sees("handed over");
    browser.press_button(&request("c"), "Reject…");
    browser.sees("Reject Bo’s request?");
    browser.type_into("dialog textarea", "in ten minutes");
    browser.press_button("//dialog", "Reject");
    browser.sees("“in ten minutes”");
    browser.sees("No requests for you");
    let outgoing = bo.get("unlock-requests").ok()["outgoing"].clone();
    let status = |n: usize| text(&outgoing[n]["status"]).to_owned();
    assert_eq!([status(0), status(1), status(2)], ["approved", "approved", "rejected"]);
    assert_eq!(outgoing[2]["note"], "in ten minutes");
    held(&world, &["ana c", "bo b"]);
    browser.check_console(&[]);
}

#[test]
fn an_admin_overrides_with_a_reason_and_ends_a_session() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("src/**", "work")).ok();
    bo.reserve(long("docs/a.md", "docs")).ok();
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.click(&format!("{}//button", Browser::row("src/**")));
    browser.sees("Take src/** away from Ana?");
    browser.press_button("//dialog", "Keep it with Ana");
    browser.until("the dialog is closed", "return !document.querySelector('dialog')");
    held(&world, &["ana src/**", "bo docs/a.md"]);
    browser.click(&format!("{}//button", Browser::row("src/**")));
    browser.type_into("dialog textarea", "blocked the release");
    browser.press_button("//dialog", "Take it away");
    browser.lists("src/**", false);
    held(&world, &["bo docs/a.md"]);
    let notices = ana.post("heartbeat", json!({})).ok()["notices"].to_string();
    assert!(notices.contains("blocked the release") && notices.contains("Ops"), "{notices}");

    browser.show("#/sessions");
    browser.click("//tr[.//*[@title='bo']]//button");
    browser.sees("End Bo’s session?");
    browser.sees("1 reservation is released");
    browser.press_button("//dialog", "End session");
    browser.sees("Ended in the last hour");
    held(&world, &[]);
    bo.post("heartbeat", json!({})).refused("SESSION_ENDED");
    browser.check_console(&[]);
}

#[test]
fn an_admin_pauses_and_resumes_a_feature() {
    let world = World::new();
    let eli = world.session_with("eli", json!({ "name": "Eli", "feature": "FEAT-130" }));
    eli.reserve(long("src/auth.rs", "tokens")).ok();
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.show("#/sessions");
    browser.press_button("", "Pause a feature…");
    browser.type_into("dialog input", "FEAT-130");
    browser.type_into("dialog textarea", "auth incident");
    browser.press_button("//dialog", "Pause");
    browser.sees("FEAT-130 is paused");
    browser.sees("auth incident");
    browser.sees("Eli cannot reserve or commit.");
    let refused = eli.reserve(json!({ "filePath": "src/b.rs" })).refused("FEATURE_PAUSED");
    assert_eq!(refused["reason"], "auth incident");
    browser.press_button("", "Resume…");
    browser.sees("Resume FEAT-130?");
    browser.press_button("//dialog", "Resume");
    browser.sees_no("is paused");
    eli.reserve(json!({ "filePath": "src/b.rs" })).ok();
    browser.check_console(&[]);
}

#[test]
fn an_admin_answers_for_a_holder() {
    let world = World::new();
    let (ana, bo) = (world.named("ana", "Ana"), world.named("bo", "Bo"));
    ana.reserve(long("a", "work")).ok();
    bo.post("unlock-requests", json!({ "filePath": "a", "reason": "a fix" })).expect(201);
    let Some(browser) = world.browser_as(&world.admin()) else { return };
    browser.show("#/requests");
    browser.sees("you can answer them as admin");
    browser.press_button("", "Answer for Ana…");
    browser.press_button("//dialog", "Hand over");
    held(&world, &["bo a"]);
    browser.sees("Answered");
    browser.check_console(&[]);
}

/// A browser that is an admin and the session ana. Ana holds `mine`, bo holds `theirs`.
fn admin_who_is_ana(world: &World) -> Option<Browser> {
    world.named("ana", "Ana").reserve(long("mine", "work")).ok();
    world.named("bo", "Bo").reserve(long("theirs", "work")).ok();
    let browser = world.browser()?;
    browser.go(&world.login_url(&world.admin(), "&session=ana"));
    browser.lists("theirs", true);
    Some(browser)
}

/// `git dibs open --admin` in a worktree with a session: an admin, and that session.
#[test]
fn an_admin_with_a_session_is_that_session() {
    let world = World::new();
    let Some(browser) = admin_who_is_ana(&world) else { return };
    browser.click(&format!("{}//button", Browser::row("theirs")));
    browser.sees("Ask…");
    browser.press_button(&Browser::row("theirs"), "Override…");
    browser.sees("Take theirs away from Bo?");
    browser.press_button("//dialog", "Keep it with Bo");
    browser.click(&format!("{}//button", Browser::row("mine")));
    browser.lists("mine", false);
    held(&world, &["bo theirs"]);
    browser.check_console(&[]);
}

/// What the server refuses is said in the words of the server, where it was tried.
#[test]
fn a_refusal_is_shown_in_its_row() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("a", "work")).ok();
    ana.reserve(long("b", "work")).ok();
    let Some(browser) = world.browser_as(&ana.token) else { return };
    browser.lists("b", true);
    // Every call that changes something is refused.
    browser.run("window.fetch = ((old) => (url, options) => options?.method === 'POST' ? Promise.resolve(new Response(JSON.stringify({ error: 'the answer of the server', code: 'FORBIDDEN' }), { status: 403 })) : old(url, options))(window.fetch)");
    for (width, height) in [(1440, 900), (360, 800)] {
        browser.resize(width, height);
        browser.click(&format!("{}//button", Browser::row("a")));
        browser.sees("the answer of the server");
        browser.until(
            "the sentence is under its row, and covers neither it nor the next one",
            "const box = (what) => document.querySelector(what).getBoundingClientRect(); const sentence = box('.problem-row'); return box(\"tr[data-key='a']\").bottom <= sentence.top + 1 && sentence.bottom <= box(\"tr[data-key='b']\").top + 1",
        );
    }
    browser.lists("a", true);
}

/// A session that has paused a feature is offered to resume it, and can.
#[test]
fn a_session_resumes_its_own_pause() {
    let world = World::new();
    let ana = world.named("ana", "Ana");
    ana.reserve(long("feature:FEAT-1:pause", "an incident")).ok();
    let Some(browser) = world.browser_as(&ana.token) else { return };
    browser.sees("FEAT-1 is paused");
    browser.press_button("", "Resume…");
    browser.press_button("//dialog", "Resume");
    browser.sees_no("is paused");
    held(&world, &[]);
    browser.until("the focus is kept", "return document.activeElement !== document.body");
    browser.check_console(&[]);
}

/// The menu of a padlock, with the keyboard alone; and what has the focus afterwards.
#[test]
fn a_padlock_is_opened_with_the_keyboard() {
    const DOWN: char = '\u{e015}';
    const ESCAPE: char = '\u{e00c}';
    const ENTER: char = '\u{e007}';
    let world = World::new();
    let Some(browser) = admin_who_is_ana(&world) else { return };
    let focused = |text: &str| {
        browser.until(
            &format!("{text} has the focus"),
            &format!("return document.activeElement.innerText.trim() === {text:?}"),
        );
    };
    let is_row = |key: &str| {
        browser.until(
            &format!("the row of {key} has the focus"),
            &format!("return document.activeElement.dataset.key === {key:?}"),
        );
    };
    browser.run("document.querySelector(\"tr[data-key='theirs']\").focus()");
    browser.keys(" ");
    focused("Ask…");
    browser.keys(&DOWN.to_string());
    focused("Override…");
    browser.keys(&ESCAPE.to_string());
    is_row("theirs");
    assert_eq!(browser.run("return document.querySelectorAll('.sheet').length"), 0);
    browser.keys(" ");
    focused("Ask…");
    browser.keys(&format!("{DOWN}{ENTER}"));
    browser.sees("Take theirs away from Bo?");
    browser.keys(&ESCAPE.to_string());
    is_row("theirs");
    browser.run("document.querySelector(\"tr[data-key='mine']\").focus()");
    browser.keys(" ");
    browser.lists("mine", false);
    is_row("theirs");
    // A new view begins at its top, with its headline.
    browser.keys("4");
    browser.until("the headline has the focus", "return document.activeElement.matches('main.sessions h1')");
    browser.check_console(&[]);
}
