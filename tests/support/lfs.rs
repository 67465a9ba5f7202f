//! A client of Git LFS locking that checks every reply: against the protocol's JSON schemas, and against what real clients
//! cannot bear.

use serde_json::{Value, json};

use super::http::{Connection, Response};
use super::world::World;

const MEDIA: &str = "application/vnd.git-lfs+json";

/// A caller of the locking calls below one address.
pub struct LfsClient<'w> {
    pub world: &'w World,
    /// `/lfs` or `/lfs/{repo}`.
    pub base: String,
    /// The value of `Authorization`; empty for none.
    pub authorization: String,
}

impl<'w> LfsClient<'w> {
    pub fn new(world: &'w World, token: &str) -> LfsClient<'w> {
        LfsClient { world, base: "/lfs".to_owned(), authorization: format!("Bearer {token}") }
    }

    pub fn at(self, base: &str) -> LfsClient<'w> {
        LfsClient { base: base.to_owned(), ..self }
    }

    #[track_caller]
    pub fn create(&self, path: &str) -> Response {
        self.call("POST", "/locks", Some(json!({ "path": path, "ref": { "name": "refs/heads/main" } })))
    }

    /// Locks a path, which must be free.
    #[track_caller]
    pub fn lock(&self, path: &str) -> Value {
        self.create(path).expect(201)["lock"].clone()
    }

    #[track_caller]
    pub fn list(&self, query: &str) -> Response {
        self.call("GET", &format!("/locks{query}"), None)
    }

    #[track_caller]
    pub fn verify(&self, body: Value) -> Response {
        self.call("POST", "/locks/verify", Some(body))
    }

    #[track_caller]
    pub fn unlock(&self, id: &str, force: bool) -> Response {
        let body = json!({ "force": force, "ref": { "name": "refs/heads/main" } });
        self.call("POST", &format!("/locks/{id}/unlock"), Some(body))
    }

    /// The paths of `ours` and `theirs`, over all pages.
    #[track_caller]
    pub fn verified(&self) -> (Vec<String>, Vec<String>) {
        let (mut ours, mut theirs, mut cursor) = (Vec::new(), Vec::new(), Value::Null);
        loop {
            let page = self.verify(json!({ "cursor": cursor, "limit": 0 })).ok();
            ours.extend(paths(&page["ours"]));
            theirs.extend(paths(&page["theirs"]));
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                return (ours, theirs);
            }
        }
    }

    /// One call on a connection of its own.
    #[track_caller]
    pub fn call(&self, method: &str, call: &str, body: Option<Value>) -> Response {
        self.call_over(&mut self.world.connect(), method, call, body)
    }

    #[track_caller]
    pub fn call_over(&self, connection: &mut Connection, method: &str, call: &str, body: Option<Value>) -> Response {
        let kind = format!("{MEDIA}; charset=utf-8");
        let mut headers = vec![("accept", MEDIA), ("content-type", &*kind), ("user-agent", "git-lfs/3.3.0")];
        if !self.authorization.is_empty() {
            headers.push(("authorization", &*self.authorization));
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let response = connection.call(method, &format!("{}{call}", self.base), &headers, &body).unwrap();
        check(method, call, &response);
        response
    }
}

/// The paths of a list of locks.
pub fn paths(locks: &Value) -> Vec<String> {
    locks.as_array().unwrap().iter().map(|lock| lock["path"].as_str().unwrap().to_owned()).collect()
}

/// What must be true of every reply: the schema of its call, and no status that a client takes for something else.
#[track_caller]
pub fn check(method: &str, call: &str, response: &Response) {
    assert_eq!(response.header("content-type"), Some(MEDIA), "{response}");
    let body = response.json();
    if response.status >= 400 {
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "no message: {response}");
        assert!(body["request_id"].is_string(), "{response}");
        assert!(response.header("www-authenticate").is_none(), "a browser would remember a password: {response}");
        assert_eq!(body.get("lock").is_some(), response.status == 409, "{response}");
        body.get("lock").into_iter().for_each(check_lock);
        if call == "/locks/verify" {
            assert!(![404, 501].contains(&response.status), "a client would switch its check off: {response}");
        }
        return;
    }
    assert!(body.get("message").is_none(), "a client would take this for a failure: {response}");
    let locks = |name: &str| {
        body[name].as_array().unwrap_or_else(|| panic!("no {name}: {response}")).iter().for_each(check_lock)
    };
    match (method, call.split('?').next().unwrap()) {
        ("GET", "/locks") => locks("locks"),
        ("POST", "/locks/verify") => ["ours", "theirs"].into_iter().for_each(locks),
        _ => check_lock(&body["lock"]),
    }
    if let Some(cursor) = body.get("next_cursor") {
        assert!(cursor.as_str().is_some_and(|cursor| !cursor.is_empty()), "{response}");
    }
}

/// A lock as the schemas describe it, and as clients need it.
#[track_caller]
fn check_lock(lock: &Value) {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let id = text(&lock["id"]).unwrap_or_else(|| panic!("no id: {lock}"));
    assert!(
        id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
        "clients put an id into a URL as it is: {lock}"
    );
    let path = text(&lock["path"]).unwrap_or_else(|| panic!("no path: {lock}"));
    assert!(!path.starts_with('/') && !path.ends_with('/'), "{lock}");
    let at = text(&lock["locked_at"]).unwrap_or_else(|| panic!("no time: {lock}"));
    assert!(at.contains('T') && at.parse::<jiff::Timestamp>().is_ok(), "not RFC 3339: {lock}");
    assert!(text(&lock["owner"]["name"]).is_some(), "a client crashes without an owner: {lock}");
}
