//! One browser: what a person does with it, and what can be seen in it.

use std::cell::RefCell;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::driver::{Driver, driver};
use crate::support::process::until;
use crate::support::world::scratch_dir;

/// How WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A script for [`Browser::run_async`] that answers with a value of the page's state, `store`.
pub fn in_store(value: &str) -> String {
    format!(
        "import(document.querySelector('script[type=module]').src.replace('app.js', 'store.js')).then(({{ store }}) => done({value}))"
    )
}

/// A browser with a fresh profile; closed when this is dropped.
pub struct Browser {
    driver: &'static Driver,
    session: String,
    /// What a test has said to expect in the console.
    expected: RefCell<Vec<&'static str>>,
    _profile: TempDir,
}

impl Browser {
    pub fn start() -> Option<Browser> {
        let driver = driver()?;
        let profile = scratch_dir(&std::env::temp_dir());
        let session = driver.new_session(profile.path());
        let browser = Browser { driver, session, expected: RefCell::default(), _profile: profile };
        browser.resize(1440, 900);
        Some(browser)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let body = (method == "POST").then_some(&body);
        self.driver.call(method, &format!("/session/{}{path}", self.session), body)
    }

    // ---- what the browser does ----

    #[track_caller]
    pub fn go(&self, url: &str) {
        self.call("POST", "/url", json!({ "url": url }));
    }

    #[track_caller]
    pub fn reload(&self) {
        self.call("POST", "/refresh", json!({}));
    }

    /// Changes the fragment of the address, as a link in the page does.
    #[track_caller]
    pub fn show(&self, fragment: &str) {
        self.run(&format!("location.hash = {}", json!(fragment)));
    }

    /// The size of the page, and its scale: one pixel for each.
    pub fn resize(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// "light" or "dark".
    pub fn set_theme(&self, theme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    #[track_caller]
    pub fn devtools(&self, command: &str, params: Value) -> Value {
        self.call("POST", "/goog/cdp/execute", json!({ "cmd": command, "params": params }))
    }

    /// Runs a script in the page and returns what it returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Runs a script that calls `done` with its result.
    #[track_caller]
    pub fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.call("POST", "/execute/async", json!({ "script": script, "args": [] }))
    }

    /// Runs a script again and again until it returns true.
    #[track_caller]
    pub fn until(&self, what: &str, script: &str) {
        until(&format!("{what} ({script})"), || (self.run(script) == true).then_some(()));
    }

    /// Opens another tab and returns its handle. The tab that was in front is in the background then.
    #[track_caller]
    pub fn new_tab(&self) -> String {
        let made = self.call("POST", "/window/new", json!({ "type": "tab" }));
        let handle = made["handle"].as_str().expect("a tab has a handle").to_owned();
        self.switch_to(&handle);
        handle
    }

    /// The tab in front.
    #[track_caller]
    pub fn tab(&self) -> String {
        self.call("GET", "/window", Value::Null).as_str().expect("a tab has a handle").to_owned()
    }

    #[track_caller]
    pub fn switch_to(&self, tab: &str) {
        self.call("POST", "/window", json!({ "handle": tab }));
    }

    /// Closes the tab in front. Another one must be chosen then.
    #[track_caller]
    pub fn close_tab(&self) {
        self.call("DELETE", "/window", Value::Null);
    }

    // ---- what a person does ----

    /// The first element that a selector (CSS), or an XPath that begins with a slash or parenthesis, finds.
    #[track_caller]
    fn element(&self, what: &str) -> String {
        let using = if what.starts_with(['/', '(']) { "xpath" } else { "css selector" };
        let body = json!({ "using": using, "value": what });
        let path = format!("/session/{}/element", self.session);
        let found = until(&format!("{what} is there"), || self.driver.try_call("POST", &path, Some(&body)).ok());
        found[ELEMENT].as_str().expect("an element has an id").to_owned()
    }

    /// Clicks an element. The page may draw it anew at that moment, so this is tried again.
    #[track_caller]
    pub fn click(&self, what: &str) {
        until(&format!("{what} can be clicked"), || {
            let path = format!("/session/{}/element/{}/click", self.session, self.element(what));
            self.driver.try_call("POST", &path, Some(&json!({}))).ok()
        });
    }

    /// Clicks the first button with exactly this text, within an element if one is named (XPath).
    #[track_caller]
    pub fn press_button(&self, within: &str, text: &str) {
        self.click(&format!("({within}//button[normalize-space(.)='{text}'])[1]"));
    }

    /// Moves the pointer over an element.
    #[track_caller]
    pub fn point_at(&self, what: &str) {
        let origin = json!({ (ELEMENT): self.element(what) });
        let to = json!({ "type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0 });
        self.call("POST", "/actions", json!({ "actions": [{ "type": "pointer", "id": "mouse", "actions": [to] }] }));
    }

    #[track_caller]
    pub fn type_into(&self, what: &str, text: &str) {
        let path = format!("/element/{}/value", self.element(what));
        self.call("POST", &path, json!({ "text": text }));
    }

    /// Presses and releases keys, one after the other: characters, or WebDriver's codes for others.
    #[track_caller]
    pub fn keys(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })])
            .collect();
        self.call("POST", "/actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }));
    }

    // ---- what can be seen ----

    /// Waits until the page shows this.
    #[track_caller]
    pub fn sees(&self, text: &str) {
        self.until(&format!("{text:?} is shown"), &format!("return document.body.innerText.includes({})", json!(text)));
    }

    /// Waits until the page does not show this any more.
    #[track_caller]
    pub fn sees_no(&self, text: &str) {
        self.until(&format!("{text:?} is gone"), &format!("return !document.body.innerText.includes({})", json!(text)));
    }

    /// The row of a reservation, as XPath.
    pub fn row(key: &str) -> String {
        format!("//tr[@data-key='{key}']")
    }

    /// Waits until a key is in the list, or is not.
    #[track_caller]
    pub fn lists(&self, key: &str, is_there: bool) {
        let found =
            format!("[...document.querySelectorAll('tr.held')].some((row) => row.dataset.key === {})", json!(key));
        self.until(&format!("{key} is listed: {is_there}"), &format!("return {found} === {is_there}"));
    }

    /// Writes a picture of the page to `target/screenshots`.
    #[track_caller]
    pub fn screenshot(&self, name: &str) {
        let picture = self.call("GET", "/screenshot", Value::Null);
        let dir = screenshots();
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("{name}.png")), base64(picture.as_str().unwrap())).unwrap();
    }

    /// Checks that the console has no warnings and errors but those that contain one of these texts, or one of an earlier call.
    /// Every browser is checked once more when it is closed.
    #[track_caller]
    pub fn check_console(&self, expected: &[&'static str]) {
        self.expect_in_console(expected);
        let log = self.call("POST", "/se/log", json!({ "type": "browser" }));
        let odd = self.odd_lines(&log);
        assert!(odd.is_empty(), "in the browser's console: {odd:#?}");
    }

    /// The console may have lines with these texts from now on.
    pub fn expect_in_console(&self, expected: &[&'static str]) {
        self.expected.borrow_mut().extend(expected);
    }

    /// Warnings and errors that were not expected.
    fn odd_lines(&self, log: &Value) -> Vec<String> {
        let lines = log.as_array().unwrap().iter().filter(|line| line["level"] != "DEBUG" && line["level"] != "INFO");
        let text = |line: &Value| line["message"].as_str().unwrap_or_default().to_owned();
        let expected = self.expected.borrow();
        lines.map(text).filter(|line| !expected.iter().any(|known| line.contains(known))).collect()
    }

    /// The cookies as the browser keeps them.
    #[track_caller]
    pub fn cookies(&self) -> Vec<Value> {
        self.call("GET", "/cookie", Value::Null).as_array().unwrap().clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A tab that the test has closed has no log.
        let path = format!("/session/{}/se/log", self.session);
        let log = self.driver.try_call("POST", &path, Some(&json!({ "type": "browser" })));
        let odd = log.map(|log| self.odd_lines(&log)).unwrap_or_default();
        let _ = self.driver.try_call("DELETE", &format!("/session/{}", self.session), None);
        if !std::thread::panicking() {
            assert!(odd.is_empty(), "in the browser's console at its end: {odd:#?}");
        }
    }
}

/// `target/screenshots`, beside what cargo builds.
pub fn screenshots() -> PathBuf {
    let program = PathBuf::from(crate::support::world::PROGRAM);
    program.ancestors().nth(2).expect("the program is in target/debug").join("screenshots")
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bytes, mut bits, mut number) = (Vec::with_capacity(text.len()), 0, 0usize);
    for digit in digits {
        number = number << 6 | digit;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((number >> bits) as u8);
        }
    }
    bytes
}
