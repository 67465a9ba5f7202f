//! Tools under the names, arguments and results of a lock coordinator whose prompts and clients agents already have:
//! `acquire_lock`, `release_lock`, `check_locks`.
//!
//! There a lock is held by an agent that names itself. Here it is held by a session: `agent_id` may name the caller's own,
//! and no other. The lock lasts `ttl_minutes` after the session's latest sign of life.

use serde_json::{Map, Value, json};

use super::arguments::{Arguments, Parsed, number, required, text, texts};
use super::catalog::{Effect, Tool, describe};
use super::facts::{SENTENCE_MAX, ToolResult, who};
use super::{LISTED_MAX, StatusQuery, ToolCall, ToolError, ToolReply, notices, schema, summary, words};
use crate::wire::{self, Code, ErrorBody, Time};

/// The longest a lock is held there, in minutes.
const TTL_MINUTES_MAX: u64 = 480;

/// How long if the call does not say.
const TTL_MINUTES_DEFAULT: i64 = 120;

/// The argument that names the agent.
const AGENT_ID: &str = "agent_id";

pub fn tools() -> [Tool; 3] {
    let acquire = "Same as reserve, for prompts that know this name. If another session holds the file, success is false \
                   and locked_by says who.";
    let release = "Same as release, for prompts that know this name.";
    let check = "Lists the locks on these files, or all locks; for prompts that know this name.";
    let who = json!({
        "agent_id": schema::text("Your own session; not needed."),
        "agent_type": schema::text("Ignored."),
        "session_id": schema::text("Ignored."),
    });
    let with = |more: Value| {
        let mut properties = more;
        properties.as_object_mut().expect("an object").extend(who.as_object().expect("an object").clone());
        properties
    };
    let path = schema::text("The file, or another key.");
    let taken = json!({
        "file_path": path,
        "reason": schema::text("What for; other sessions read it."),
        "ttl_minutes": schema::number("How long to hold it.", 1, TTL_MINUTES_MAX),
    });
    [
        Tool {
            name: "acquire_lock",
            description: describe(
                "acquire_lock",
                "Acquire a lock",
                acquire,
                Effect::Changes,
                (schema::arguments(with(taken), &["file_path"]), acquired_schema()),
            ),
            call: acquire_call,
            session_argument: Some(AGENT_ID),
            result: acquired,
            wrong,
        },
        Tool {
            name: "release_lock",
            description: describe(
                "release_lock",
                "Release a lock",
                release,
                Effect::Changes,
                (schema::arguments(with(json!({ "file_path": path })), &["file_path"]), acquired_schema()),
            ),
            call: release_call,
            session_argument: Some(AGENT_ID),
            result: released,
            wrong,
        },
        Tool {
            name: "check_locks",
            description: describe(
                "check_locks",
                "List locks",
                check,
                Effect::Reads,
                (schema::arguments(with(json!({ "file_paths": schema::texts() })), &[]), listed_schema()),
            ),
            call: check_call,
            session_argument: None,
            result: listed,
            wrong,
        },
    ]
}

fn acquire_call(given: &Arguments) -> Parsed<ToolCall> {
    let minutes = number(given, "ttl_minutes")?.unwrap_or(TTL_MINUTES_DEFAULT);
    Ok(ToolCall::Reserve(wire::Reserve {
        file_paths: Some(vec![required(given, "file_path")?]),
        reason: text(given, "reason")?.map(Into::into),
        while_session: Some(true),
        idle_seconds: Some(minutes.saturating_mul(60)),
        ..wire::Reserve::default()
    }))
}

fn release_call(given: &Arguments) -> Parsed<ToolCall> {
    let file_paths = Some(vec![required(given, "file_path")?]);
    Ok(ToolCall::Release(wire::Release { file_paths, ..wire::Release::default() }))
}

fn check_call(given: &Arguments) -> Parsed<ToolCall> {
    Ok(match texts(given, "file_paths")? {
        None => ToolCall::Status(StatusQuery::default()),
        paths => ToolCall::Check(wire::Check { paths, ..wire::Check::default() }),
    })
}

fn acquired(call: &ToolCall, _: Option<&str>, reply: Result<ToolReply, ToolError>, _: Time) -> ToolResult {
    let path = named_path(call);
    match reply {
        Ok(ToolReply::Reserved(reply)) => {
            let Some(one) = reply.clone().into_reservations().into_iter().next() else {
                return wrong(None, "no reservation");
            };
            let notices = match reply {
                wire::ReserveReply::One(one) => one.notices,
                wire::ReserveReply::Many(many) => many.notices,
            };
            let path = words::key(&one.file_path, one.encoding);
            let text = format!("{path} is locked for you until {}.", one.expires_at);
            let action = if one.is_new() { "acquired" } else { "refreshed" };
            let facts = json!({ "success": true, "action": action, "file_path": path, "expires_at": one.expires_at });
            finish(facts, text, &notices)
        }
        Ok(_) => wrong(None, "the reply is not that of a reservation"),
        Err(error) => refused(&path, error),
    }
}

fn released(call: &ToolCall, _: Option<&str>, reply: Result<ToolReply, ToolError>, _: Time) -> ToolResult {
    let path = named_path(call);
    match reply {
        Ok(ToolReply::Released(reply)) => {
            let done = if reply.released { "released" } else { "not_held" };
            let text = match reply.released {
                true => format!("{path} is no longer locked by you."),
                false => format!("You held no lock on {path}, so nothing changed."),
            };
            finish(json!({ "success": true, "action": done, "file_path": path }), text, &reply.notices)
        }
        Ok(_) => wrong(None, "the reply is not that of a release"),
        Err(error) => refused(&path, error),
    }
}

fn listed(call: &ToolCall, session: Option<&str>, reply: Result<ToolReply, ToolError>, now: Time) -> ToolResult {
    let lock = |path: String, by: &str, name: Option<&str>, reason: Option<&str>, until: Time| {
        json!({ "file_path": path, "locked_by": words::id(by), "locked_by_name": name.map(words::name),
            "lock_reason": words::theirs(reason), "expires_at": until })
    };
    let (locks, notices): (Vec<Value>, _) = match reply {
        Ok(ToolReply::Checked(reply)) => {
            let conflicts = reply.conflicts.iter().take(LISTED_MAX).map(|one| {
                let path = summary::conflict_fact(one, call.encoding(), now).path;
                lock(path, &one.reserved_by, one.reserved_by_name.as_deref(), one.reason.as_deref(), one.expires_at)
            });
            let own = reply.held.iter().take(LISTED_MAX).map(|path| {
                let path = words::key(path, call.encoding());
                json!({ "file_path": path, "locked_by": session.map(words::id) })
            });
            (conflicts.chain(own).collect(), reply.notices)
        }
        Ok(ToolReply::Listed { held, requests }) => {
            let one = |one: &wire::Reservation| {
                let (path, name) = (words::key(&one.file_path, one.encoding), one.session_name.as_deref());
                lock(path, &one.session_id, name, one.reason.as_deref(), one.expires_at)
            };
            let notices = held.notices.iter().chain(&requests.notices).cloned().collect();
            (held.reservations.iter().take(LISTED_MAX).map(one).collect(), notices)
        }
        Ok(_) => return wrong(None, "the reply is not a list"),
        Err(error) => return refused("", error),
    };
    let mut text = match locks.len() {
        0 => "There are no locks.".to_owned(),
        n => format!("{}:", words::count(n, "lock")),
    };
    for lock in &locks {
        let field = |name: &str| lock[name].as_str().unwrap_or_default();
        let by = who(field("locked_by"), lock["locked_by_name"].as_str());
        text.push_str(&format!("\n- {} locked by {by}", field("file_path")));
        if lock["expires_at"].is_string() {
            text.push_str(&format!(" until {}", field("expires_at")));
        }
        if lock["lock_reason"].is_string() {
            text.push_str(&format!("; reason in their words: \"{}\"", field("lock_reason")));
        }
    }
    finish(json!({ "locks": locks }), text, &notices)
}

/// A refusal in the coordinator's words. Only what the caller cannot expect is an error.
fn refused(path: &str, error: ToolError) -> ToolResult {
    let body = match error {
        ToolError::Failed(sentence) => return wrong(None, &sentence),
        ToolError::Refused(body) => *body,
    };
    let notices = summary::notices_in(&body);
    let reason = match body.code {
        Code::ResourceLocked | Code::LockNotHeld => "locked_by_other",
        Code::InvalidPath | Code::InvalidKey => "invalid_file_path",
        Code::TtlOutOfRange => "ttl_out_of_range",
        Code::OperationNotPermitted => "operation_not_permitted",
        Code::FeaturePaused => "feature_paused",
        code => return wrong(Some(code.as_str()), &body.error).with_notices(notices::facts(&notices)),
    };
    let by = body.reserved_by.as_deref().map(words::id);
    let their_reason = words::theirs(first_reason(&body));
    let mut text = match &by {
        Some(by) => format!("{path} is locked by {by}: success is false."),
        None => format!("Nothing was locked: {}", words::clean(&why(&body), SENTENCE_MAX)),
    };
    if let Some(until) = body.expires_at {
        text.push_str(&format!(" It expires at {until} unless it is renewed."));
    }
    if let Some(theirs) = &their_reason {
        text.push_str(&format!(" Reason in their words: \"{theirs}\"."));
    }
    let mut facts = json!({ "success": false, "reason": reason, "file_path": path });
    let more = [
        ("locked_by", by.map(Value::from)),
        ("lock_reason", their_reason.map(Value::from)),
        ("expires_at", body.expires_at.map(|time| time.to_string().into())),
        ("message", Some(text.clone().into())),
    ];
    let facts_map = facts.as_object_mut().expect("an object");
    facts_map.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    finish(facts, text, &notices)
}

/// What is wrong, in the arguments of these tools: a lock has minutes, and the API call has seconds.
fn why(body: &ErrorBody) -> String {
    match (body.code, body.min, body.max) {
        (Code::TtlOutOfRange, Some(min), Some(max)) => {
            format!("ttl_minutes must be {} to {}", (min + 59).max(60) / 60, max / 60)
        }
        _ => body.error.clone(),
    }
}

/// The reason of the reservation in the way.
fn first_reason(body: &ErrorBody) -> Option<&str> {
    let first = body.conflicts.as_ref().and_then(|conflicts| conflicts.first());
    body.reason.as_deref().or_else(|| first?.reason.as_deref())
}

/// The result of a call that could not be made.
fn wrong(code: Option<&'static str>, sentence: &str) -> ToolResult {
    let mut text = words::clean(sentence, SENTENCE_MAX);
    let mut facts = json!({ "success": false, "reason": "error", "message": text });
    if let Some(code) = code {
        facts["code"] = code.into();
        text.push_str(&format!("\nCode: {code}"));
    }
    ToolResult::new(facts, text, true)
}

fn finish(facts: Value, text: String, notices: &[wire::Notice]) -> ToolResult {
    ToolResult::new(facts, text, false).with_notices(notices::facts(notices))
}

/// The path that the call names.
fn named_path(call: &ToolCall) -> String {
    let paths = match call {
        ToolCall::Reserve(body) => &body.file_paths,
        ToolCall::Release(body) => &body.file_paths,
        _ => return String::new(),
    };
    paths.iter().flatten().next().map(|path| words::key(path, call.encoding())).unwrap_or_default()
}

fn acquired_schema() -> Value {
    let words = ["reason", "action", "file_path", "expires_at", "locked_by", "lock_reason", "message", "code"];
    let mut properties: Map<String, Value> = Map::new();
    properties.insert("success".to_owned(), json!({ "type": "boolean" }));
    properties.extend(words.into_iter().map(|name| (name.to_owned(), json!({ "type": "string" }))));
    json!({ "type": "object", "properties": properties, "required": ["success"] })
}

fn listed_schema() -> Value {
    let nullable = json!({ "type": ["string", "null"] });
    let lock = json!({ "type": "object", "properties": {
        "file_path": { "type": "string" }, "locked_by": nullable, "locked_by_name": nullable,
        "lock_reason": nullable, "expires_at": { "type": "string" } } });
    json!({ "type": "object", "properties": { "locks": schema::list(lock) } })
}
