//! An MCP client over stdin and stdout, and the messages of both generations of the protocol.

use serde_json::{Value, json};

use super::process::Process;

/// A client of a `git dibs mcp` process.
pub struct StdioClient {
    pub process: Process,
    next_id: u64,
}

impl StdioClient {
    pub fn new(process: Process) -> StdioClient {
        StdioClient { process, next_id: 1 }
    }

    /// Sends one message.
    pub fn send(&mut self, message: &Value) {
        self.process.send(format!("{message}\n"));
    }

    /// The next message of the server.
    #[track_caller]
    pub fn receive(&mut self) -> Value {
        let line = self.process.line();
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error}: {line:?}, {}", self.process.stderr().text()))
    }

    /// Sends a request and returns its id.
    pub fn begin(&mut self, method: &str, params: Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a request and receives the reply to it.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let reply = self.receive();
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }

    /// Uses a tool. Returns its structured content, after a look at what must be true of every result.
    #[track_caller]
    pub fn tool(&mut self, name: &str, arguments: Value) -> Value {
        facts(&self.request("tools/call", json!({ "name": name, "arguments": arguments })))
    }
}

/// The structured content of a reply to a tool call. What it says, the text says too.
#[track_caller]
pub fn facts(reply: &Value) -> Value {
    let result = &reply["result"];
    assert!(result.is_object(), "no result: {reply}");
    let facts = result["structuredContent"].clone();
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {reply}"));
    for fact in texts(&facts) {
        assert!(text.contains(&fact), "{fact:?} is not in the text: {reply}");
    }
    let is_error = facts["status"] == "error" || facts["reason"] == "error";
    assert_eq!(result["isError"], json!(is_error), "{reply}");
    facts
}

/// Every text and number that a model must find in both forms.
fn texts(facts: &Value) -> Vec<String> {
    let skipped = ["status", "success", "action", "reason", "kind", "message", "file_path"];
    match facts {
        Value::Object(all) => {
            all.iter().filter(|(name, _)| !skipped.contains(&&***name)).flat_map(|(_, value)| texts(value)).collect()
        }
        Value::Array(all) => all.iter().flat_map(texts).collect(),
        Value::String(text) => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// Parameters of the newer generation, in which every request says what it is.
pub fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "probe", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}
