//! A server of one repository, and browsers that are signed in to it.

use serde_json::{Value, json};

pub use crate::support::process::until;
pub use crate::support::session::Session;
pub use crate::support::world::{World, fetched, skip, text, time};

use crate::browser::Browser;

impl World {
    pub fn new() -> World {
        let mut world = World::empty("repo");
        world.git_init("repo");
        world.start();
        world
    }

    /// A browser; none where there is no program for one.
    pub fn browser(&self) -> Option<Browser> {
        Browser::start()
    }

    /// Signs a browser in with a code, as `git dibs open` does.
    #[track_caller]
    pub fn sign_in(&self, browser: &Browser, token: &str) {
        browser.go(&self.login_url(token, ""));
        browser.until("the page is live", "return document.querySelector('.connection.live') !== null");
    }

    /// The address that `git dibs open` prints.
    #[track_caller]
    pub fn login_url(&self, token: &str, more: &str) -> String {
        let made = self.post("/api/login/codes", token, json!({})).expect(201);
        format!("{}/#code={}{more}", self.url(), text(&made["code"]))
    }

    /// A browser that is signed in with this token.
    #[track_caller]
    pub fn browser_as(&self, token: &str) -> Option<Browser> {
        let browser = self.browser()?;
        self.sign_in(&browser, token);
        Some(browser)
    }

    /// A session with a name.
    pub fn named(&self, id: &str, name: &str) -> Session<'_> {
        self.session_with(id, json!({ "name": name }))
    }
}

/// A reservation for long enough that nothing expires during a test.
pub fn long(key: &str, reason: &str) -> Value {
    json!({ "filePath": key, "ttlSeconds": 300, "reason": reason })
}
