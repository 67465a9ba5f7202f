//! A session with its token, and its calls.

use serde_json::{Value, json};

use super::http::Response;
use super::process::until;
use super::world::World;

pub struct Session<'w> {
    pub world: &'w World,
    pub id: String,
    pub token: String,
}

/// The response that will come to a request that waits.
pub type Waiting<'s> = std::thread::ScopedJoinHandle<'s, Response>;

impl Session<'_> {
    pub fn url(&self, call: &str) -> String {
        format!("/api/sessions/{}/{call}", self.id)
    }

    /// `POST /api/sessions/{id}/{call}`
    #[track_caller]
    pub fn post(&self, call: &str, body: Value) -> Response {
        self.world.post(&self.url(call), &self.token, body)
    }

    /// `GET /api/sessions/{id}/{call}`
    #[track_caller]
    pub fn get(&self, call: &str) -> Response {
        self.world.get(&self.url(call), &self.token)
    }

    #[track_caller]
    pub fn reserve(&self, body: Value) -> Response {
        self.post("files/reserve", body)
    }

    /// Reserves one key, which must be free.
    #[track_caller]
    pub fn hold(&self, key: &str) -> Value {
        self.reserve(json!({ "filePath": key })).ok()
    }

    /// Releases one key.
    #[track_caller]
    pub fn release(&self, key: &str) -> Value {
        self.post("files/release", json!({ "filePath": key })).ok()
    }

    #[track_caller]
    pub fn release_all(&self) {
        self.post("files/release-all", json!({})).ok();
    }

    #[track_caller]
    pub fn end(&self) -> Value {
        self.post("end", json!({})).ok()
    }

    /// Sends a reserve in a thread, and returns once the request is in the queue.
    #[track_caller]
    pub fn queue<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, body: Value) -> Waiting<'s> {
        let (reader, target) = (self.world.reader(), format!("/api/sessions/{}", self.id));
        let waits = || match self.world.get(&target, &reader) {
            response if response.status == 404 => 0,
            response => {
                let session = response.ok();
                session["waitingFor"].as_array().unwrap().len() as u64 + session["moreWaitingFor"].as_u64().unwrap_or(0)
            }
        };
        let before = waits();
        let waiting = scope.spawn(move || self.reserve(body));
        until("the request waits", || (waits() > before).then_some(()));
        waiting
    }
}
