//! Work packages: a YAML file that lists what a piece of work has to reserve.
//!
//! ```yaml
//! locks:
//!   files: [src/api/, "src/[id].ts"]
//!   keys: [db:migration-slot]
//!   ttl_minutes: 5
//!   reason: users move to v2
//! ```
//!
//! Everything outside of `locks` is ignored; below `locks` every mistake is reported, with its line. Paths are relative to
//! the top of the repository, wherever the file is.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::Exit;
use super::failure::Failure;
use super::yaml::{Problem, Value, YamlReader};
use crate::client::ClientError;
use crate::key::{Key, KeyRules, Kind};
use crate::local::Names;
use crate::text::terminal::clean;
use crate::wire::Code;
use crate::wire::limits::{REASON_CHARS_MAX, RESERVE_KEYS_MAX};

/// The largest file that is read, in bytes; 10,000 long paths fit.
const FILE_MAX: usize = 1 << 20;

/// The largest `ttl_minutes`: more than any server grants, and small enough to convert to seconds.
const TTL_MAX: i64 = 366 * 24 * 60;

/// A work package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    keys: Vec<String>,
    /// The line of each key.
    lines: HashMap<Key, usize>,
    ttl_minutes: Option<(i64, usize)>,
    reason: Option<String>,
}

/// The two lists of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyList {
    Files,
    Keys,
}

impl Package {
    /// Reads a file, or stdin if it is `-`. The failure lists every problem.
    pub fn read(file: &Path, as_json: bool) -> Result<Package, Failure> {
        let name = if file.as_os_str() == "-" { "stdin".to_owned() } else { clean(&file.display().to_string(), 300) };
        let unreadable = |why: String| Failure::new(Exit::Usage, why).for_program_as(as_json, "INVALID_PACKAGE");
        let mut bytes = Vec::new();
        let read = match name.as_str() {
            "stdin" => std::io::stdin().take(FILE_MAX as u64 + 1).read_to_end(&mut bytes),
            _ => File::open(file).and_then(|file| file.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes)),
        };
        if let Err(error) = read {
            return Err(unreadable(format!("cannot read the work package {name}: {error}")));
        }
        if bytes.len() > FILE_MAX {
            let sentence = format!("the work package {name} is larger than {FILE_MAX} bytes; is it the right file?");
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

    /// Parses text, and finds every problem.
    fn parse(bytes: &[u8]) -> Result<Package, Vec<Problem>> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
            vec![Problem { line, what: "it is not UTF-8".to_owned() }]
        })?;
        let mut reader = YamlReader::new(text);
        let mut package = None;
        match reader.next() {
            Some((Value::Mapping, _)) => top(&mut reader, &mut package),
            Some((other, line)) => {
                reader.problem(line, format!("expected a mapping with locks, found {}", kind_name(&other)));
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

    /// The problems of a text, each with its line.
    pub fn examine(bytes: &[u8]) -> Result<(), Vec<(usize, String)>> {
        let pairs = |problems: Vec<Problem>| problems.into_iter().map(|problem| (problem.line, problem.what)).collect();
        Package::parse(bytes).map(|_| ()).map_err(pairs)
    }

    /// The keys to reserve.
    pub fn names(&self) -> Names {
        Names::from_keys(self.keys.iter().cloned())
    }

    pub fn ttl_seconds(&self) -> Option<i64> {
        self.ttl_minutes.map(|(minutes, _)| minutes * 60)
    }

    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The line of the file that a refused time to live comes from.
    pub fn ttl_problem(&self, error: &ClientError) -> Option<String> {
        let (minutes, line) = self.ttl_minutes.filter(|_| error.code() == Some(Code::TtlOutOfRange))?;
        Some(format!(
            "line {line} of the work package: ttl_minutes is {minutes}; a running session renews what it holds"
        ))
    }
}

/// Finds `locks` among the other fields.
fn top(reader: &mut YamlReader<'_>, package: &mut Option<Package>) {
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
            reader.problem(line, format!("locks appears twice; the first is on line {first}"));
            reader.skip(&value);
        } else if value == Value::Mapping {
            first = Some(line);
            *package = Some(locks(reader, line));
        } else {
            first = Some(line);
            let what = kind_name(&value);
            reader.problem(
                value_line,
                format!("locks is {what} and should be a mapping with files, keys, ttl_minutes and reason"),
            );
            reader.skip(&value);
        }
    }
}

fn locks(reader: &mut YamlReader<'_>, begin: usize) -> Package {
    let mut package = Package::default();
    let mut fields: Vec<(String, usize)> = Vec::new();
    while let Some((key, line)) = reader.next() {
        if key == Value::End {
            break;
        }
        reader.skip(&key);
        let Some((value, value_line)) = reader.next() else { break };
        let Value::Text(field) = key else {
            reader.problem(line, format!("{} is no field of locks", kind_name(&key)));
            reader.skip(&value);
            continue;
        };
        if let Some((_, first)) = fields.iter().find(|(name, _)| *name == field) {
            reader.problem(line, format!("{field} appears twice; the first is on line {first}"));
            reader.skip(&value);
            continue;
        }
        match field.as_str() {
            "files" => list(reader, &value, value_line, KeyList::Files, &mut package),
            "keys" => list(reader, &value, value_line, KeyList::Keys, &mut package),
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
                reader.problem(line, unknown_field(&field));
                reader.skip(&value);
            }
        }
        fields.push((field, line));
    }
    let has_lists = fields.iter().any(|(name, _)| name == "files" || name == "keys");
    if package.keys.is_empty() && (!has_lists || reader.problems.is_empty()) {
        reader.problem(begin, "locks is empty; list something under files or keys");
    }
    if package.keys.len() > RESERVE_KEYS_MAX {
        let count = package.keys.len();
        reader.problem(begin, format!("locks lists {count} keys, but one request can have at most {RESERVE_KEYS_MAX}"));
    }
    package
}

fn list(reader: &mut YamlReader<'_>, value: &Value, line: usize, list: KeyList, package: &mut Package) {
    let name = if list == KeyList::Files { "files" } else { "keys" };
    if *value != Value::List {
        return wrong(reader, name, value, line, "a list");
    }
    while let Some((item, line)) = reader.next() {
        match item {
            Value::End => return,
            // Beyond the limit keys are only counted: to check a pattern takes time.
            Value::Text(text) if package.keys.len() >= RESERVE_KEYS_MAX => package.keys.push(text),
            Value::Text(text) => match parse_key(&text, list, package) {
                Ok(key) => {
                    package.lines.insert(key, line);
                    package.keys.push(text);
                }
                Err(what) => reader.problem(line, what),
            },
            Value::Number(number) => {
                reader.problem(line, format!("{number} is a number; if it is a name, write it in quotes"));
            }
            other => {
                reader.problem(line, format!("{name} must list text, but this is {}", kind_name(&other)));
                reader.skip(&other);
            }
        }
    }
}

/// Parses a key as the server will.
fn parse_key(text: &str, list: KeyList, package: &Package) -> Result<Key, String> {
    let mut rules = KeyRules::default();
    // Only the server knows which purposes are configured.
    rules.purposes.extend(text.rsplit_once(':').map(|(_, purpose)| purpose.to_owned()));
    let key = Key::parse(text, &rules).map_err(|bad| bad.to_string())?;
    match (list, key.kind()) {
        (KeyList::Files, Kind::Path | Kind::Glob) | (KeyList::Keys, Kind::Logical | Kind::Uri) => {}
        (KeyList::Files, _) => return Err(format!("{text:?} is not a file; put it under keys")),
        (KeyList::Keys, _) => return Err(format!("{text:?} is a file or a pattern; put it under files")),
    }
    match package.lines.get(&key) {
        Some(first) => Err(format!("{text:?} appears twice; the first is on line {first}")),
        None => Ok(key),
    }
}

/// Names the field that was probably meant, or all of them.
fn unknown_field(field: &str) -> String {
    const FIELDS: [&str; 4] = ["files", "keys", "ttl_minutes", "reason"];
    let similarity = |known: &&str| strsim::jaro_winkler(known, field);
    let closest = FIELDS.into_iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    match closest.filter(|closest| similarity(closest) > 0.8) {
        Some(closest) => format!("locks has no field {field:?}; did you mean {closest}?"),
        None => format!("locks has no field {field:?}; it has files, keys, ttl_minutes and reason"),
    }
}

fn wrong(reader: &mut YamlReader<'_>, field: &str, value: &Value, line: usize, expected: &str) {
    reader.problem(line, format!("{field} is {} and should be {expected}", kind_name(value)));
    reader.skip(value);
}

fn kind_name(value: &Value) -> &'static str {
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
