//! Sessions that hold things, and servers that several tests use one after the other.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

use git_dibs::wire;
use serde_json::json;

use crate::support::session::Session;
use crate::world::{World, at_the_end};

impl World {
    /// Variables that make git and its hooks act as a session, or without one.
    pub fn variables<'a>(&'a self, session: Option<&'a Session<'_>>) -> Vec<(&'a str, &'a str)> {
        let mut all = vec![("DIBS_URL", self.url())];
        all.extend(session.map(|session| ("DIBS_TOKEN", session.token.as_str())));
        all
    }
}

/// A server with two sessions that many situations use, one after the other: starting one for each would take longer
/// than everything else.
pub struct Shared {
    world: &'static World,
    pub ana: Session<'static>,
    pub bo: Session<'static>,
}

/// A shared server while one test uses it alone; nothing is held when the next test gets it.
pub struct Lent(ManuallyDrop<Shared>);

static IDLE: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

impl Shared {
    /// Takes an idle one, or starts one.
    pub fn lend() -> Lent {
        let idle = IDLE.lock().unwrap().pop();
        Lent(ManuallyDrop::new(idle.unwrap_or_else(Shared::start)))
    }

    fn start() -> Shared {
        let world: &World = Box::leak(Box::new(World::new().served()));
        at_the_end(&format!("kill {}; rm -rf '{}'", world.server().pid(), world.path("").display()));
        let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
        Shared { world, ana, bo }
    }

    /// Variables that make git and its hooks act for bo.
    pub fn variables(&self) -> Vec<(&str, &str)> {
        self.world.variables(Some(&self.bo))
    }
}

impl Deref for Lent {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Shared {
        &mut self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // After a failure it is unknown what is held; that server is not used again.
        if !std::thread::panicking() {
            self.ana.release_all();
            // SAFETY: it is not used any more.
            IDLE.lock().unwrap().push(unsafe { ManuallyDrop::take(&mut self.0) });
        }
    }
}

impl Session<'_> {
    /// Reserves `key` for five minutes, with a reason.
    pub fn hold_as(&self, key: &str, mode: wire::Mode) {
        self.reserve(json!({ "filePath": key, "ttlSeconds": 300, "mode": mode, "reason": "a good reason" })).ok();
    }

    /// Reserves all of these for five minutes, with a reason.
    pub fn hold_all(&self, keys: &[&str]) {
        self.reserve(json!({ "filePaths": keys, "ttlSeconds": 300, "reason": "a good reason" })).ok();
    }

    /// Reserves a file name as git has it. False if it can never be reserved.
    pub fn try_hold_literally(&self, name: &[u8]) -> bool {
        let key = format!("file:{}", git_dibs::text::percent::encode(name));
        let response = self.reserve(json!({ "filePath": key, "encoding": "percent" }));
        match response.status {
            400 => {
                response.refused("INVALID_PATH");
                false
            }
            _ => {
                response.ok();
                true
            }
        }
    }

    pub fn hold_for(&self, key: &str, seconds: i64) {
        self.reserve(json!({ "filePath": key, "ttlSeconds": seconds })).ok();
    }

    /// Waits for `key` until it is free.
    pub fn wait_for(&self, key: &str) {
        self.reserve(json!({ "filePath": key, "waitSeconds": 50 })).ok();
    }
}
