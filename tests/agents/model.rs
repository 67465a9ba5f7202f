//! A model on loopback that follows a script.
//!
//! A prompt names its script: `[[script:main]]`. The answer to a request is the call whose number is the count of tool
//! results in the conversation, so retries and subagents need no state here; after the last call the model says "done".

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::calls::Call;
use crate::dialect::{Dialect, Reply, Say};

/// One request to the model.
#[derive(Debug, Clone)]
pub struct Request {
    /// The script that its prompt names; empty if none.
    pub script: String,
    /// What the tools have answered so far.
    pub results: Vec<String>,
    /// Everything the model was sent, as text.
    pub text: String,
    /// What was held when the request came, as `SESSION PATH`.
    pub held: Vec<String>,
}

type Scripts = BTreeMap<String, Vec<Call>>;
type Probe = Box<dyn Fn() -> Vec<String> + Send + Sync>;

struct Shared {
    scripts: Scripts,
    probe: Probe,
    requests: Mutex<Vec<Request>>,
}

pub struct Model {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    // Dropped last: it ends the server.
    _runtime: tokio::runtime::Runtime,
}

impl Model {
    /// Starts it. `probe` is asked at each request what is held.
    pub fn start(scripts: Scripts, probe: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Model {
        let shared = Arc::new(Shared { scripts, probe: Box::new(probe), requests: Mutex::default() });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Model { address, shared, _runtime: runtime }
    }

    /// The requests of the conversation that follows this script.
    pub fn requests(&self, script: &str) -> Vec<Request> {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().filter(|request| request.script == script).cloned().collect()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, uri: Uri, body: Bytes) -> Response {
    let path = uri.to_string();
    let Some(dialect) = Dialect::of(&path) else { return other(&path) };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reply = tokio::task::spawn_blocking(move || shared.reply(dialect, &path, &body)).await;
    match reply.expect("the reply is made") {
        Reply::Document(document) => axum::Json(document).into_response(),
        Reply::Events(events) => {
            let line = |(name, data): (Option<&str>, String)| {
                let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
                format!("{name}data: {data}\n\n")
            };
            let text: String = events.into_iter().map(line).collect();
            ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
        }
    }
}

/// What agents ask besides: which models there are, how many tokens a text has.
fn other(path: &str) -> Response {
    if path.contains("count") {
        return axum::Json(json!({ "input_tokens": 10, "totalTokens": 10 })).into_response();
    }
    if path.contains("models") {
        let model = json!({ "id": "fake", "object": "model", "created": 0, "owned_by": "x" });
        return axum::Json(json!({ "object": "list", "data": [model], "models": [] })).into_response();
    }
    StatusCode::NOT_FOUND.into_response()
}

impl Shared {
    fn reply(&self, dialect: Dialect, path: &str, body: &Value) -> Reply {
        let conversation = dialect.conversation(body);
        let script = conversation.prompts.iter().rev().find_map(|prompt| script_in(prompt)).unwrap_or_default();
        let held = if conversation.has_tools { (self.probe)() } else { Vec::new() };
        let call = self.scripts.get(&script).and_then(|calls| calls.get(conversation.results.len()));
        let say = match call.filter(|_| conversation.has_tools) {
            Some(call) => Say::Call(call.clone()),
            None => Say::Text("done".to_owned()),
        };
        let mut requests = self.requests.lock().unwrap();
        let id = requests.len();
        // A request without tools is about the conversation, not a part of it.
        let script = if conversation.has_tools { script } else { String::new() };
        requests.push(Request { script, results: conversation.results, text: body.to_string(), held });
        drop(requests);
        dialect.reply(path, body, &say, id)
    }
}

/// The name in the last `[[script:NAME]]`.
fn script_in(prompt: &str) -> Option<String> {
    let (_, rest) = prompt.rsplit_once("[[script:")?;
    Some(rest.split_once("]]")?.0.to_owned())
}
