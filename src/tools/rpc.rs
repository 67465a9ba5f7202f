//! JSON-RPC 2.0 as MCP uses it: one message at a time, no batches.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The codes of errors. From -32020 on they are those of MCP.
pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// The server cannot take this call now, or does not let this client make it.
pub const REFUSED: i64 = -32000;
pub const HEADER_MISMATCH: i64 = -32020;
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// The longest id of a request, in bytes. It is kept while a call waits.
const ID_BYTES_MAX: usize = 1024;

/// A message from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Request(Request),
    Notification(Notification),
    /// The reply to a request. This server makes none, so it is ignored.
    Reply,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// A string or a number.
    pub id: Value,
    pub method: String,
    pub params: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    pub method: String,
    pub params: Map<String, Value>,
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }
}

impl Request {
    /// The metadata of the request.
    pub fn meta(&self) -> Option<&Map<String, Value>> {
        self.params.get("_meta").and_then(Value::as_object)
    }

    pub fn result(&self, result: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id, "result": result })
    }

    pub fn error(&self, error: &RpcError) -> Value {
        error_reply(&self.id, error)
    }
}

/// The reply to a message that is no valid request. Its id is null if the message has no usable one.
pub fn error_reply(id: &Value, error: &RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// Reads one message. What is no valid message has an error as its reply.
pub fn read(bytes: &[u8]) -> Result<Message, Value> {
    let not_json = |error: serde_json::Error| {
        error_reply(&Value::Null, &RpcError::new(PARSE_ERROR, format!("the message is not JSON: {error}")))
    };
    let mut message = match serde_json::from_slice::<Value>(bytes).map_err(not_json)? {
        Value::Object(message) => message,
        Value::Array(_) => return Err(invalid(Value::Null, "batches are not supported; send one message at a time")),
        _ => return Err(invalid(Value::Null, "a message is a JSON object")),
    };
    let id = message.remove("id");
    let known_id = id.as_ref().filter(|id| is_id(id)).cloned().unwrap_or_default();
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid(known_id, "jsonrpc must be \"2.0\""));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => return Ok(Message::Reply),
        _ => return Err(invalid(known_id, "the message has no method")),
    };
    let params = match message.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(error_reply(&known_id, &RpcError::new(INVALID_PARAMS, "params must be an object"))),
    };
    match id {
        None => Ok(Message::Notification(Notification { method, params })),
        Some(id) if is_id(&id) => Ok(Message::Request(Request { id, method, params })),
        Some(_) => {
            Err(invalid(Value::Null, &format!("an id is a number, or a string of at most {ID_BYTES_MAX} bytes")))
        }
    }
}

fn is_id(id: &Value) -> bool {
    id.is_number() || id.as_str().is_some_and(|id| id.len() <= ID_BYTES_MAX)
}

fn invalid(id: Value, sentence: &str) -> Value {
    error_reply(&id, &RpcError::new(INVALID_REQUEST, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let request = read(br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).unwrap();
        let expected = Request { id: json!("a"), method: "ping".to_owned(), params: Map::new() };
        assert_eq!(request, Message::Request(expected));
        let notification = read(br#"{"jsonrpc":"2.0","method":"x","params":{"a":1}}"#).unwrap();
        assert!(matches!(notification, Message::Notification(Notification { params, .. }) if params["a"] == 1));
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Message::Reply));
    }

    #[test]
    fn bad_messages_have_an_error_with_the_id_they_named() {
        let wrong = |text: &str| {
            let reply = read(text.as_bytes()).unwrap_err();
            (reply["id"].clone(), reply["error"]["code"].as_i64().unwrap())
        };
        assert_eq!(wrong("{"), (Value::Null, PARSE_ERROR));
        assert_eq!(wrong("\u{0}"), (Value::Null, PARSE_ERROR));
        assert_eq!(wrong("[]"), (Value::Null, INVALID_REQUEST));
        assert_eq!(wrong("7"), (Value::Null, INVALID_REQUEST));
        assert_eq!(wrong(r#"{"id":7,"method":"ping"}"#), (json!(7), INVALID_REQUEST));
        assert_eq!(wrong(r#"{"jsonrpc":"2.0","id":7}"#), (json!(7), INVALID_REQUEST));
        assert_eq!(wrong(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), (Value::Null, INVALID_REQUEST));
        assert_eq!(wrong(r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}"#), (json!(7), INVALID_PARAMS));
        let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(ID_BYTES_MAX + 1));
        assert_eq!(wrong(&long_id), (Value::Null, INVALID_REQUEST));
        // Deep nesting is refused by the parser, not by the stack.
        assert_eq!(wrong(&"[".repeat(100_000)), (Value::Null, PARSE_ERROR));
    }
}
