//! The arguments of a tool call, as the API call they stand for. What is wrong with them is a sentence for the model.
//!
//! An argument that a tool does not have is refused, not ignored: a model that invents `force` must not believe in it.

use serde_json::{Map, Value};

use super::catalog::Tool;
use super::{PATHS_MAX, StatusQuery, ToolCall, UnlockAnswer, words};
use crate::wire::limits::{REASON_CHARS_MAX, WAIT_SECONDS_MAX};
use crate::wire::{self, Mode, Text};

/// How long `wait` waits if the call does not say, in seconds: less than the time after which clients give up on a tool.
pub const WAIT_SECONDS_DEFAULT: u32 = 50;

/// The arguments of a call.
pub type Arguments = Map<String, Value>;

/// What is wrong with the arguments.
pub type Parsed<T> = Result<T, String>;

/// Refuses an argument that the tool does not have.
pub fn check_names(tool: &Tool, given: &Arguments) -> Parsed<()> {
    let known = tool.argument_names();
    match given.keys().find(|name| !known.contains(&&***name)) {
        None => Ok(()),
        Some(unknown) => {
            let sentence =
                format!("{} has no argument {}; it has {}", tool.name, words::name(unknown), known.join(", "));
            Err(sentence)
        }
    }
}

pub fn reserve(given: &Arguments) -> Parsed<ToolCall> {
    Ok(ToolCall::Reserve(wire::Reserve {
        file_paths: Some(paths(given)?),
        mode: mode(given)?,
        reason: text(given, "reason")?.map(Into::into),
        ttl_seconds: number(given, "ttl_seconds")?,
        ..wire::Reserve::default()
    }))
}

pub fn wait(given: &Arguments) -> Parsed<ToolCall> {
    let seconds = number(given, "seconds")?.unwrap_or(WAIT_SECONDS_DEFAULT.into());
    if !(1..=i64::from(WAIT_SECONDS_MAX)).contains(&seconds) {
        return Err(format!("seconds must be 1 to {WAIT_SECONDS_MAX}"));
    }
    match reserve(given)? {
        ToolCall::Reserve(body) => Ok(ToolCall::Reserve(wire::Reserve { wait_seconds: Some(seconds), ..body })),
        other => Ok(other),
    }
}

pub fn allocate_ports(given: &Arguments) -> Parsed<ToolCall> {
    Ok(ToolCall::AllocatePorts(wire::AllocatePorts {
        count: number(given, "count")?,
        ttl_seconds: number(given, "ttl_seconds")?,
        purpose: text(given, "purpose")?.map(Into::into),
        ..wire::AllocatePorts::default()
    }))
}

pub fn release(given: &Arguments) -> Parsed<ToolCall> {
    let names_paths = given.contains_key("path") || given.contains_key("paths");
    match (flag(given, "all")?.unwrap_or(false), names_paths) {
        (true, false) => Ok(ToolCall::ReleaseAll),
        (true, true) => Err("all releases everything, so name no paths with it".to_owned()),
        (false, false) => Err("name what to release in paths, or set all to true".to_owned()),
        (false, true) => {
            Ok(ToolCall::Release(wire::Release { file_paths: Some(paths(given)?), ..wire::Release::default() }))
        }
    }
}

pub fn check(given: &Arguments) -> Parsed<ToolCall> {
    let (paths, mode) = (Some(paths(given)?), mode(given)?);
    Ok(ToolCall::Check(wire::Check { paths, mode, ..wire::Check::default() }))
}

pub fn status(given: &Arguments) -> Parsed<ToolCall> {
    let (prefix, mine) = (text(given, "prefix")?, flag(given, "mine")?.unwrap_or(false));
    Ok(ToolCall::Status(StatusQuery { prefix, mine }))
}

pub fn request_unlock(given: &Arguments) -> Parsed<ToolCall> {
    let file_path = required(given, "path")?;
    let reason: Text = required(given, "reason")?.into();
    Ok(ToolCall::RequestUnlock(wire::UnlockRequest { file_path, reason, encoding: None }))
}

pub fn answer_unlock(given: &Arguments) -> Parsed<ToolCall> {
    let request = required(given, "request_id")?;
    let (note, hand_over) = (text(given, "note")?, flag(given, "hand_over")?);
    let answer = match flag(given, "approve")?.ok_or("approve must be true or false")? {
        true if note.is_some() => return Err("a note goes with a rejection; approve without one".to_owned()),
        true => UnlockAnswer::Approve(wire::Approve { hand_over }),
        false if hand_over == Some(true) => return Err("hand_over goes with approve: true".to_owned()),
        false => UnlockAnswer::Reject(wire::Reject { note: note.map(Into::into) }),
    };
    Ok(ToolCall::AnswerUnlock { request, answer })
}

/// The paths of a call: `paths`, or `path` for one.
fn paths(given: &Arguments) -> Parsed<Vec<String>> {
    match (given.get("path"), given.get("paths")) {
        (Some(_), Some(_)) => Err("send path or paths, not both".to_owned()),
        (Some(_), None) => Ok(vec![required(given, "path")?]),
        (None, _) => texts(given, "paths")?.ok_or_else(|| "paths must name at least one path".to_owned()),
    }
}

/// A list of texts with at least one entry; none if there is no such argument.
pub fn texts(given: &Arguments, name: &str) -> Parsed<Option<Vec<String>>> {
    let wrong = || format!("{name} must be a list of 1 to {PATHS_MAX} texts");
    let list = match given.get(name) {
        None | Some(Value::Null) => return Ok(None),
        // Some models write a list of one as a text.
        Some(Value::String(text)) => return Ok(Some(vec![text.clone()])),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(wrong()),
    };
    if !(1..=PATHS_MAX).contains(&list.len()) {
        return Err(wrong());
    }
    list.iter().map(|one| one.as_str().map(str::to_owned).ok_or_else(wrong)).collect::<Parsed<_>>().map(Some)
}

pub fn required(given: &Arguments, name: &str) -> Parsed<String> {
    match text(given, name)? {
        Some(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(format!("{name} is missing")),
    }
}

pub fn text(given: &Arguments, name: &str) -> Parsed<Option<String>> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.chars().count() > limit(name) => {
            Err(format!("{name} is longer than {} characters", limit(name)))
        }
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name} must be a text")),
    }
}

/// The longest text of an argument, in characters. A path has the server's own limit, which is lower.
fn limit(name: &str) -> usize {
    if matches!(name, "reason" | "note" | "purpose") { REASON_CHARS_MAX } else { wire::limits::KEY_BYTES_MAX }
}

pub fn number(given: &Arguments, name: &str) -> Parsed<Option<i64>> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        // 60.0 is the same number to a model.
        Some(Value::Number(number)) => match number.as_i64().or_else(|| exact(number.as_f64()?)) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{name} must be a whole number")),
        },
        Some(_) => Err(format!("{name} must be a whole number")),
    }
}

fn exact(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
}

fn flag(given: &Arguments, name: &str) -> Parsed<Option<bool>> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(format!("{name} must be true or false")),
    }
}

fn mode(given: &Arguments) -> Parsed<Option<Mode>> {
    match text(given, "mode")?.as_deref() {
        None => Ok(None),
        Some("exclusive") => Ok(Some(Mode::Exclusive)),
        Some("shared" | "collaborative") => Ok(Some(Mode::Shared)),
        Some(_) => Err("mode must be exclusive or shared".to_owned()),
    }
}
