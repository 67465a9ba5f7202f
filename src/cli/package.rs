//! Work packages: a YAML file that says what a piece of work needs.
//!
//! ```yaml
//! locks:
//!   files: [src/api/, "src/[id].ts"]
//!   keys: [db:migration-slot]
//!   ttl_minutes: 5
//!   reason: users move to v2
//! ```
//!
//! Whatever else is in the file is somebody else's; below `locks` every mistake is told, with its line. Paths are from the
//! top of the repository, wherever the file lies.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::Exit;
use super::failure::Failure;
use super::names::Names;
use super::yaml::{Problem, Reader, Value};
use crate::client::ClientError;
use crate::key::{Key, KeyRules, Kind};
use crate::text::terminal::clean;
use crate::wire::Code;
use crate::wire::limits::{REASON_CHARS_MAX, RESERVE_KEYS_MAX};

/// The largest file, in bytes; 10,000 long paths fit, and nobody writes more by hand.
const FILE_MAX: usize = 1 << 20;

/// The longest time, in minutes: more than any server grants, and safe to count in seconds.
const TTL_MAX: i64 = 366 * 24 * 60;

/// What a piece of work needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    keys: Vec<String>,
    /// The line each is on.
    lines: HashMap<Key, usize>,
    ttl_minutes: Option<(i64, usize)>,
    reason: Option<String>,
}

/// Which of the two lists an entry is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Files,
    Keys,
}

impl Package {
    /// Reads a file, or stdin where it is `-`. What is wrong with it is one failure with every problem in it.
    pub fn read(file: &Path, as_json: bool) -> Result<Package, Failure> {
        let name = if file.as_os_str() == "-" { "stdin".to_owned() } else { clean(&file.display().to_string(), 300) };
        let unreadable = |why: String| Failure::new(Exit::Usage, why).for_program_as(as_json, "INVALID_PACKAGE");
        let mut bytes = Vec::new();
        let read = match name.as_str() {
            "stdin" => std::io::stdin().take(FILE_MAX as u64 + 1).read_to_end(&mut bytes),
            _ => File::open(file).and_then(|file| file.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes)),
        };
        if let Err(error) = read {
            return Err(unreadable(format!("the work package {name} cannot be read: {error}")));
        }
        if bytes.len() > FILE_MAX {
            let sentence =
                format!("the work package {name} is larger than {FILE_MAX} bytes, and is not read; is it one?");
            return Err(unreadable(sentence));
        }
        Package::parse(&bytes).map_err(|problems| {
            let count =
                if problems.len() == 1 { "a problem".to_owned() } else { format!("{} problems", problems.len()) };
            let mut sentence = format!("the work package {name} has {count}, and nothing was done:");
            for problem in &problems {
                sentence.push_str(&format!("\n  line {}: {}", problem.line, clean(&problem.what, 600)));
            }
            let shown: Vec<_> = problems.iter().map(|p| json!({ "line": p.line, "problem": p.what })).collect();
            let document = json!({ "error": sentence, "code": "INVALID_PACKAGE", "problems": shown });
            let document = as_json.then(|| document.to_string().into_bytes());
            Failure { document, ..Failure::new(Exit::Usage, sentence) }
        })
    }

    /// Reads text, and tells every problem there is.
    fn parse(bytes: &[u8]) -> Result<Package, Vec<Problem>> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
            vec![Problem { line, what: "it is not UTF-8".to_owned() }]
        })?;
        let mut reader = Reader::new(text);
        let mut package = None;
        match reader.next() {
            Some((Value::Mapping, _)) => top(&mut reader, &mut package),
            Some((other, line)) => {
                reader.problem(line, format!("{} stands here, and a mapping with locks should", described(&other)));
                reader.skip(&other);
            }
            None => {}
        }
        if package.is_none() && reader.problems.is_empty() {
            reader.problem(1, "locks is missing; see git dibs reserve --help");
        }
        let problems = reader.finish();
        match package {
            Some(package) if problems.is_empty() => Ok(package),
            _ => Err(problems),
        }
    }

    /// What is wrong with a text, by its lines.
    pub fn examine(bytes: &[u8]) -> Result<(), Vec<(usize, String)>> {
        let told = |problems: Vec<Problem>| problems.into_iter().map(|problem| (problem.line, problem.what)).collect();
        Package::parse(bytes).map(|_| ()).map_err(told)
    }

    /// What to reserve.
    pub fn names(&self) -> Names {
        Names::written(self.keys.iter().cloned())
    }

    /// For how long.
    pub fn ttl_seconds(&self) -> Option<i64> {
        self.ttl_minutes.map(|(minutes, _)| minutes * 60)
    }

    /// What for.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// What a refusal has to do with a line of the file.
    pub fn ttl_problem(&self, error: &ClientError) -> Option<String> {
        let (minutes, line) = self.ttl_minutes.filter(|_| error.code() == Some(Code::TtlOutOfRange))?;
        Some(format!(
            "line {line} of the work package: ttl_minutes is {minutes}; a running session renews what it holds"
        ))
    }
}

/// Looks for `locks` among the rest.
fn top(reader: &mut Reader<'_>, package: &mut Option<Package>) {
    let mut first = None;
    while let Some((key, line)) = reader.next() {
        if key == Value::End {
            return;
        }
        reader.skip(&key);
        let Some((value, value_line)) = reader.next() else { return };
        if key != Value::Text("locks".to_owned()) {
            reader.skip(&value);
        } else if let Some(first) = first {
            reader.problem(line, format!("locks is here a second time; the first is on line {first}"));
            reader.skip(&value);
        } else if value == Value::Mapping {
            first = Some(line);
            *package = Some(locks(reader, line));
        } else {
            first = Some(line);
            let what = described(&value);
            reader.problem(
                value_line,
                format!("locks is {what} and should be a mapping with files, keys, ttl_minutes and reason"),
            );
            reader.skip(&value);
        }
    }
}

fn locks(reader: &mut Reader<'_>, begin: usize) -> Package {
    let mut package = Package::default();
    let mut fields: Vec<(String, usize)> = Vec::new();
    while let Some((key, line)) = reader.next() {
        if key == Value::End {
            break;
        }
        reader.skip(&key);
        let Some((value, value_line)) = reader.next() else { break };
        let Value::Text(field) = key else {
            reader.problem(line, format!("{} is no field of locks", described(&key)));
            reader.skip(&value);
            continue;
        };
        if let Some((_, first)) = fields.iter().find(|(name, _)| *name == field) {
            reader.problem(line, format!("{field} is here a second time; the first is on line {first}"));
            reader.skip(&value);
            continue;
        }
        match field.as_str() {
            "files" => list(reader, &value, value_line, List::Files, &mut package),
            "keys" => list(reader, &value, value_line, List::Keys, &mut package),
            "ttl_minutes" => match value {
                Value::Number(minutes @ 1..=TTL_MAX) => package.ttl_minutes = Some((minutes, value_line)),
                Value::Number(minutes) => {
                    reader.problem(value_line, format!("ttl_minutes is {minutes} and should be 1 to {TTL_MAX}"));
                }
                other => wrong(reader, "ttl_minutes", &other, value_line, "a whole number"),
            },
            "reason" => match value {
                Value::Text(text) if text.chars().count() > REASON_CHARS_MAX => {
                    reader.problem(value_line, format!("reason is longer than {REASON_CHARS_MAX} characters"));
                }
                Value::Text(text) => package.reason = Some(text).filter(|text| !text.trim().is_empty()),
                other => wrong(reader, "reason", &other, value_line, "text"),
            },
            _ => {
                let known = "files, keys, ttl_minutes and reason";
                reader.problem(line, format!("there is no field {field:?} in locks; there are {known}"));
                reader.skip(&value);
            }
        }
        fields.push((field, line));
    }
    let has_lists = fields.iter().any(|(name, _)| name == "files" || name == "keys");
    if package.keys.is_empty() && (!has_lists || reader.problems.is_empty()) {
        reader.problem(begin, "locks names nothing; list something under files or keys");
    }
    if package.keys.len() > RESERVE_KEYS_MAX {
        let count = package.keys.len();
        reader
            .problem(begin, format!("locks names {count} things, and {RESERVE_KEYS_MAX} is the most for one request"));
    }
    package
}

fn list(reader: &mut Reader<'_>, value: &Value, line: usize, list: List, package: &mut Package) {
    let name = if list == List::Files { "files" } else { "keys" };
    if *value != Value::List {
        return wrong(reader, name, value, line, "a list");
    }
    while let Some((item, line)) = reader.next() {
        match item {
            Value::End => return,
            // Beyond the limit they are only counted: checking patterns costs time.
            Value::Text(text) if package.keys.len() >= RESERVE_KEYS_MAX => package.keys.push(text),
            Value::Text(text) => match checked(&text, list, package) {
                Ok(key) => {
                    package.lines.insert(key, line);
                    package.keys.push(text);
                }
                Err(what) => reader.problem(line, what),
            },
            Value::Number(number) => {
                reader.problem(line, format!("{number} is a number; write it in quotes if something is called so"));
            }
            other => {
                reader.problem(line, format!("{} stands in {name}, and text should", described(&other)));
                reader.skip(&other);
            }
        }
    }
}

/// One thing to reserve, checked as the server will check it.
fn checked(text: &str, list: List, package: &Package) -> Result<Key, String> {
    let mut rules = KeyRules::default();
    // Which purposes there are is the server's to say.
    rules.purposes.extend(text.rsplit_once(':').map(|(_, purpose)| purpose.to_owned()));
    let key = Key::parse(text, &rules).map_err(|bad| bad.to_string())?;
    match (list, key.kind()) {
        (List::Files, Kind::Path | Kind::Glob) | (List::Keys, Kind::Logical | Kind::Uri) => {}
        (List::Files, _) => return Err(format!("{text:?} is not a file; put it under keys")),
        (List::Keys, _) => return Err(format!("{text:?} is a file or a pattern; put it under files")),
    }
    match package.lines.get(&key) {
        Some(first) => Err(format!("{text:?} is here a second time; the first is on line {first}")),
        None => Ok(key),
    }
}

fn wrong(reader: &mut Reader<'_>, field: &str, value: &Value, line: usize, expected: &str) {
    reader.problem(line, format!("{field} is {} and should be {expected}", described(value)));
    reader.skip(value);
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "text",
        Value::Number(_) => "a number",
        Value::Other(what) => what,
        Value::List => "a list",
        Value::Mapping => "a mapping",
        Value::End => "an end",
    }
}

#[cfg(test)]
mod tests;
