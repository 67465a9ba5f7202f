//! Both generations of MCP: the one that begins with `initialize` (up to 2025-11-25), and the one without a handshake
//! (2026-07-28), where every request names its version.
//!
//! A server keeps nothing between two requests: what a request needs to say about itself, it says in its metadata.

use serde_json::{Map, Value, json};

use super::arguments;
use super::catalog::{self, Tool};
use super::facts::{NoticeFact, SENTENCE_MAX, ToolResult};
use super::rpc::{self, Request, RpcError};
use super::{ToolCall, ToolError, ToolReply, notices, words};
use crate::wire::{Notice, Time};

/// The version without a handshake.
const STATELESS_VERSION: &str = "2026-07-28";

/// The versions with a handshake, the newest first.
const HANDSHAKE_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// How long a client may keep the list of tools, in milliseconds. It changes only with the program.
const LIST_FRESH_MS: u64 = 3_600_000;

/// The longest name of a client that is used, in characters.
const CLIENT_NAME_MAX: usize = 40;

/// How a request was made, and so how its result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// After a handshake.
    Handshake,
    /// The request names its version.
    Stateless,
}

/// What to do with a request.
#[derive(Debug)]
pub enum Action {
    /// The result is known.
    Reply(Value),
    Use(ToolUse),
}

/// A tool that a request uses.
#[derive(Debug)]
pub struct ToolUse {
    tool: &'static Tool,
    /// The API call to make; or the result at once, if the arguments are wrong.
    pub call: Result<ToolCall, ToolResult>,
    /// The session that the call names, if it does.
    pub session: Option<String>,
    generation: Generation,
}

/// What else to say with a result.
#[derive(Debug, Default)]
pub struct Aside {
    /// Notices that another process of the session received.
    pub notices: Vec<Notice>,
    /// Sentences of this program.
    pub notes: Vec<String>,
}

impl Aside {
    fn facts(self) -> Vec<NoticeFact> {
        let note =
            |note: String| NoticeFact { kind: "note", summary: words::clean(&note, SENTENCE_MAX), request_id: None };
        notices::facts(&self.notices).into_iter().chain(self.notes.into_iter().map(note)).collect()
    }
}

impl ToolUse {
    /// The result of the request, from the reply to the API call. `session` is the session that made it, `now` the
    /// server's clock.
    pub fn result(&self, session: Option<&str>, reply: Result<ToolReply, ToolError>, aside: Aside, now: Time) -> Value {
        let result = match &self.call {
            Ok(call) => (self.tool.result)(call, session, reply, now),
            Err(wrong) => wrong.clone(),
        };
        self.written(result.with_notices(aside.facts()))
    }

    /// The result of a request whose API call could not be made: for this reason, or because its arguments are wrong.
    pub fn failed(&self, sentence: &str) -> Value {
        self.written(match &self.call {
            Ok(_) => (self.tool.wrong)(None, sentence),
            Err(wrong) => wrong.clone(),
        })
    }

    /// The result of a call that names another session than the one it would be made as.
    pub fn misnamed(&self, own: &str) -> Option<Value> {
        let (named, argument) = (self.session.as_deref()?, self.tool.session_argument?);
        let sentence =
            format!("{argument} names {}, and your session is {}; leave it out", words::id(named), words::id(own));
        (named != own).then(|| self.written((self.tool.wrong)(Some("FORBIDDEN"), &sentence)))
    }

    fn written(&self, result: ToolResult) -> Value {
        self.generation.complete(result.into_value())
    }
}

impl Generation {
    /// The generation of a request; an error if it names a version that this server does not have.
    pub fn of(request: &Request) -> Result<Generation, RpcError> {
        let meta = request.meta();
        let version = match meta.and_then(|meta| meta.get(VERSION_KEY)) {
            None if request.method == "server/discover" => {
                return Err(missing(VERSION_KEY));
            }
            None => return Ok(Generation::Handshake),
            Some(Value::String(version)) => version,
            Some(_) => return Err(missing(VERSION_KEY)),
        };
        if request.method == "initialize" || HANDSHAKE_VERSIONS.contains(&&**version) {
            return Ok(Generation::Handshake);
        }
        if version != STATELESS_VERSION {
            return Err(unsupported(version));
        }
        match meta.and_then(|meta| meta.get(CAPABILITIES_KEY)) {
            Some(Value::Object(_)) => Ok(Generation::Stateless),
            _ => Err(missing(CAPABILITIES_KEY)),
        }
    }

    /// Adds what every result of the generation has.
    fn complete(self, mut result: Value) -> Value {
        if let (Generation::Stateless, Some(result)) = (self, result.as_object_mut()) {
            result.insert("resultType".to_owned(), "complete".into());
            result.insert("_meta".to_owned(), json!({ SERVER_KEY: server_info() }));
        }
        result
    }

    /// The same for a result that a client may keep.
    fn complete_kept(self, mut result: Value) -> Value {
        if let (Generation::Stateless, Some(result)) = (self, result.as_object_mut()) {
            result.insert("ttlMs".to_owned(), LIST_FRESH_MS.into());
            result.insert("cacheScope".to_owned(), "public".into());
        }
        self.complete(result)
    }
}

/// Whether the version in a header is one that this server has.
pub fn is_known_version(version: &str) -> bool {
    version == STATELESS_VERSION || HANDSHAKE_VERSIONS.contains(&version)
}

/// Whether requests of this version repeat their method and the name of the tool in headers.
pub fn repeats_method_in_headers(version: &str) -> bool {
    version == STATELESS_VERSION
}

/// The version that a request names for itself.
pub fn named_version(request: &Request) -> Option<&str> {
    request.meta()?.get(VERSION_KEY)?.as_str()
}

/// The error for a version that this server does not have.
pub fn unsupported(version: &str) -> RpcError {
    let message = format!("this server does not speak MCP version {}", words::name(version));
    let data = json!({ "supported": versions(), "requested": version });
    RpcError { data: Some(data), ..RpcError::new(rpc::UNSUPPORTED_VERSION, message) }
}

/// Answers a request, or says which tool it uses. `instructions` is what a model should know about the server.
pub fn answer(request: &Request, instructions: &str) -> Result<Action, RpcError> {
    let generation = Generation::of(request)?;
    Ok(match &*request.method {
        "initialize" => Action::Reply(initialize(&request.params, instructions)),
        "server/discover" => Action::Reply(generation.complete_kept(discover(instructions))),
        "ping" => Action::Reply(generation.complete(json!({}))),
        "tools/list" => Action::Reply(generation.complete_kept(json!({ "tools": catalog::list() }))),
        "tools/call" => Action::Use(tool_use(&request.params, generation)?),
        other => {
            let message = format!("there is no method {}", words::name(other));
            return Err(RpcError::new(rpc::METHOD_NOT_FOUND, message));
        }
    })
}

/// The id of the request that a notification cancels.
pub fn cancelled_request(notification: &rpc::Notification) -> Option<&Value> {
    (notification.method == "notifications/cancelled").then(|| notification.params.get("requestId")).flatten()
}

/// What the client calls itself, if the request says it: in `initialize`, and in the metadata of the newer generation.
pub fn client_name(request: &Request) -> Option<String> {
    let info = request.params.get("clientInfo").or_else(|| request.meta()?.get(CLIENT_KEY))?;
    let name = info.get("name")?.as_str()?.trim();
    (!name.is_empty()).then(|| words::clean(name, CLIENT_NAME_MAX))
}

fn initialize(params: &Map<String, Value>, instructions: &str) -> Value {
    let requested = params.get("protocolVersion").and_then(Value::as_str);
    // A client that asks for another version gets the newest one, and decides itself whether it can go on.
    let version = HANDSHAKE_VERSIONS.into_iter().find(|known| Some(*known) == requested);
    json!({
        "protocolVersion": version.unwrap_or(HANDSHAKE_VERSIONS[0]),
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": instructions,
    })
}

fn discover(instructions: &str) -> Value {
    json!({
        "supportedVersions": versions(),
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": instructions,
    })
}

fn tool_use(params: &Map<String, Value>, generation: Generation) -> Result<ToolUse, RpcError> {
    let invalid = |sentence: String| RpcError::new(rpc::INVALID_PARAMS, sentence);
    let Some(name) = params.get("name").and_then(Value::as_str) else {
        return Err(invalid("params.name must be the name of a tool".to_owned()));
    };
    let Some(tool) = catalog::find(name) else {
        let known: Vec<&str> = catalog::names().collect();
        return Err(invalid(format!("there is no tool {}; there are {}", words::name(name), known.join(", "))));
    };
    let empty = Map::new();
    let given = match params.get("arguments") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(given)) => given,
        Some(_) => return Err(invalid("params.arguments must be an object".to_owned())),
    };
    let session = tool.session_argument.map_or(Ok(None), |name| arguments::text(given, name));
    let call = arguments::check_names(tool, given).and_then(|()| Ok(((tool.call)(given)?, session?)));
    let (call, session) = match call {
        Ok((call, session)) => (Ok(call), session),
        Err(wrong) => (Err((tool.wrong)(Some("INVALID_REQUEST"), &wrong)), None),
    };
    Ok(ToolUse { tool, call, session, generation })
}

fn missing(key: &str) -> RpcError {
    RpcError::new(rpc::INVALID_PARAMS, format!("the request must have {key} in params._meta"))
}

fn versions() -> Vec<&'static str> {
    std::iter::once(STATELESS_VERSION).chain(HANDSHAKE_VERSIONS).collect()
}

fn capabilities() -> Value {
    json!({ "tools": { "listChanged": false } })
}

fn server_info() -> Value {
    json!({ "name": "git-dibs", "title": "git-dibs file reservations", "version": env!("CARGO_PKG_VERSION") })
}
