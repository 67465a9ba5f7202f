//! The tools: their names, what they are for, their arguments and their results.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::arguments::{self, Arguments, Parsed, WAIT_SECONDS_DEFAULT};
use super::facts::{Facts, SENTENCE_MAX, ToolResult};
use super::words::clean;
use super::{ToolCall, ToolError, ToolReply, coordinator, schema, summary};
use crate::wire::Time;
use crate::wire::limits::{PORTS_MAX, WAIT_SECONDS_MAX};

/// One tool.
pub struct Tool {
    pub name: &'static str,
    /// As `tools/list` shows it.
    pub description: Value,
    pub call: fn(&Arguments) -> Parsed<ToolCall>,
    /// The argument that may name the session of the call.
    pub session_argument: Option<&'static str>,
    /// The result, from the call, the session that made it, the reply, and the server's clock.
    pub result: fn(&ToolCall, Option<&str>, Result<ToolReply, ToolError>, Time) -> ToolResult,
    /// The result of a call that could not be made, from a code and a sentence.
    pub wrong: fn(Option<&'static str>, &str) -> ToolResult,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Tool {
    /// The names of its arguments.
    pub fn argument_names(&self) -> Vec<&str> {
        let properties = self.description["inputSchema"]["properties"].as_object();
        properties.into_iter().flat_map(|all| all.keys().map(String::as_str)).collect()
    }
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let mut tools =
        vec![reserve(), release(), check(), status(), wait(), request_unlock(), answer_unlock(), allocate_ports()];
    tools.extend(coordinator::tools());
    tools
});

pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

/// Every tool, as `tools/list` shows it.
pub fn list() -> Vec<&'static Value> {
    TOOLS.iter().map(|tool| &tool.description).collect()
}

/// What a tool does to reservations, as a hint to the client.
#[derive(Clone, Copy)]
pub enum Effect {
    /// It only looks.
    Reads,
    /// It changes what the caller's own session holds or asks for. The same call again changes nothing more.
    Changes,
}

/// A description of a tool for `tools/list`.
pub fn describe(name: &str, title: &str, text: &str, effect: Effect, (input, output): (Value, Value)) -> Value {
    let reads = matches!(effect, Effect::Reads);
    json!({
        "name": name,
        "title": title,
        "description": text,
        "inputSchema": input,
        "outputSchema": output,
        "annotations": {
            "title": title,
            "readOnlyHint": reads,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    })
}

fn own(name: &'static str, description: Value, call: fn(&Arguments) -> Parsed<ToolCall>) -> Tool {
    let wrong = |code: Option<&'static str>, sentence: &str| Facts::error(code, clean(sentence, SENTENCE_MAX)).into();
    Tool { name, description, call, session_argument: None, result: summary::result, wrong }
}

fn reserve() -> Tool {
    let text = "Reserve files before you change them; all of them or none. Paths are relative to the repository: \
                src/a.rs, src/api/ (all below it), src/**/*.rs, or a name such as db:schema:users. If another session \
                holds one, nothing is reserved, and the result says who, for how long, and what to do. Reserving again \
                what you hold renews it.";
    let input = schema::arguments(holding(json!({})), &[]);
    let output = schema::result(
        &["reserved", "conflict", "paused"],
        json!({ "reservations": schema::reservations(), "more_reservations": { "type": "boolean" },
            "conflicts": schema::conflicts(), "more_conflicts": schema::whole() }),
    );
    own("reserve", describe("reserve", "Reserve files", text, Effect::Changes, (input, output)), arguments::reserve)
}

fn wait() -> Tool {
    let text = "Wait in a fair queue until all of these files are free, and reserve them. Returns as soon as they are \
                reserved, or with status timed_out; then call it again to go on waiting.";
    let seconds =
        schema::number(&format!("How long to wait; default {WAIT_SECONDS_DEFAULT}."), 1, WAIT_SECONDS_MAX.into());
    let input = schema::arguments(holding(json!({ "seconds": seconds })), &[]);
    let output = schema::result(
        &["reserved", "timed_out", "deadlock", "paused", "conflict"],
        json!({ "reservations": schema::reservations(), "more_reservations": { "type": "boolean" },
            "conflicts": schema::conflicts(), "more_conflicts": schema::whole(),
            "cycle": schema::list(schema::object(&[("session", "string"), ("holds", "string"), ("wants", "string")])) }),
    );
    own("wait", describe("wait", "Wait for files", text, Effect::Changes, (input, output)), arguments::wait)
}

fn release() -> Tool {
    let text =
        "Release what you reserved, so that other sessions can change it. Releasing what you do not hold is no error.";
    let input = schema::arguments(
        with_paths(json!({ "all": schema::flag("Release everything that you hold; then name no paths.") })),
        &[],
    );
    let output =
        schema::result(&["released"], json!({ "released_count": schema::whole(), "released": schema::texts() }));
    own("release", describe("release", "Release files", text, Effect::Changes, (input, output)), arguments::release)
}

fn check() -> Tool {
    let text = "Ask who is in the way of a change to these files. Reserves nothing.";
    let input = schema::arguments(with_paths(json!({ "mode": mode() })), &[]);
    let output = schema::result(
        &["clear", "conflict", "paused"],
        json!({ "conflicts": schema::conflicts(), "more_conflicts": schema::whole(), "clear": schema::texts(),
            "more_clear": schema::whole(), "yours": schema::texts() }),
    );
    own("check", describe("check", "Check files", text, Effect::Reads, (input, output)), arguments::check)
}

fn status() -> Tool {
    let text = "List who holds what, and the unlock requests that are open to you and by you.";
    let properties = json!({
        "prefix": schema::text("Only paths that start with this."),
        "mine": schema::flag("Only what you hold."),
    });
    let output = schema::result(
        &["listed"],
        json!({ "reservations": schema::reservations(), "more_reservations": { "type": "boolean" },
            "requests_to_you": schema::list(schema::request()), "requests_by_you": schema::list(schema::request()) }),
    );
    let input = schema::arguments(properties, &[]);
    own("status", describe("status", "Show reservations", text, Effect::Reads, (input, output)), arguments::status)
}

fn request_unlock() -> Tool {
    let text = "Ask the holder of a path to release it. The answer comes as a notice with a later result.";
    let properties = json!({
        "path": schema::text("The path that you need."),
        "reason": schema::text("Why you need it; the holder reads it."),
    });
    let input = schema::arguments(properties, &["path", "reason"]);
    let output = schema::result(&["requested"], json!({ "request": schema::request() }));
    let description = describe("request_unlock", "Ask for a file", text, Effect::Changes, (input, output));
    own("request_unlock", description, arguments::request_unlock)
}

fn answer_unlock() -> Tool {
    let text = "Answer another session's request for a path that you hold. Approve only when your work on it is \
                committed or no longer needed.";
    let properties = json!({
        "request_id": schema::text("The id from the notice or from status."),
        "approve": schema::flag("true releases the path, false keeps it."),
        "hand_over": schema::flag("With approve: give it directly to the session that asked."),
        "note": schema::text("With a rejection: why; the other session reads it."),
    });
    let input = schema::arguments(properties, &["request_id", "approve"]);
    let output = schema::result(
        &["approved", "rejected", "withdrawn", "moot", "pending"],
        json!({ "request": schema::request() }),
    );
    let description = describe("answer_unlock", "Answer a request", text, Effect::Changes, (input, output));
    own("answer_unlock", description, arguments::answer_unlock)
}

fn allocate_ports() -> Tool {
    let text = "Get ports of your own for servers that you start; no other session has them. Calling it again gives the \
                same ports for longer. env has a variable for each and a compose project name.";
    let properties = json!({
        "count": schema::number("How many; the default is right for most.", 1, PORTS_MAX.into()),
        "ttl_seconds": schema::number("How long to keep them without another call.", 1, 28_800),
        "purpose": schema::text("What for; other sessions read it."),
        "session_id": schema::text("Your own session; not needed."),
    });
    let input = schema::arguments(properties, &[]);
    let output = schema::result(
        &["allocated", "paused"],
        json!({ "ports": schema::list(schema::whole()),
            "env": { "type": "object", "additionalProperties": { "type": "string" } } }),
    );
    let description = describe("allocate_ports", "Allocate ports", text, Effect::Changes, (input, output));
    Tool { session_argument: Some("session_id"), ..own("allocate_ports", description, arguments::allocate_ports) }
}

/// The arguments that name paths, and these.
fn with_paths(more: Value) -> Value {
    let mut properties = json!({
        "paths": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": super::PATHS_MAX,
            "description": "The paths." },
        "path": schema::text("One path, instead of paths."),
    });
    let all = properties.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    properties
}

/// The arguments of a call that reserves, and these.
fn holding(more: Value) -> Value {
    let mut properties = with_paths(json!({
        "reason": schema::text("What for; other sessions read it."),
        "mode": mode(),
        "ttl_seconds": schema::number("How long to hold it without renewal; the default is right for most.", 1, 28_800),
    }));
    let all = properties.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    properties
}

fn mode() -> Value {
    json!({ "type": "string", "enum": ["exclusive", "shared"], "description": "Default exclusive." })
}
