//! From YAML to packages.

use super::contracts::Contracts;
use super::{Package, TTL_MINUTES_MAX, TTL_MINUTES_MIN, overlaps};
use crate::cli::yaml::{Problem, Value, YamlReader};
use crate::key::{Key, KeyRules, Kind};
use crate::wire::limits::{REASON_CHARS_MAX, RESERVE_KEYS_MAX};

/// The most packages one file may list.
const PACKAGES_MAX: usize = 1_000;

/// The fields that may name a package.
const NAME_FIELDS: [&str; 3] = ["package_id", "id", "name"];

/// The two lists of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyList {
    Files,
    Keys,
}

/// The packages of a file, which may be one without a name. Finds every problem.
pub(super) fn packages(bytes: &[u8]) -> Result<Vec<Package>, Vec<Problem>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
        vec![Problem { line, what: "it is not UTF-8".to_owned() }]
    })?;
    let mut reader = YamlReader::new(text);
    let mut file = WorkFile::default();
    match reader.next() {
        Some((Value::Mapping, _)) => file.read(&mut reader),
        Some((other, line)) => {
            reader.problem(line, format!("expected a mapping with locks, found {}", kind_name(&other)));
            reader.skip(&other);
        }
        None => {}
    }
    let packages: Vec<Package> = file.locks.into_iter().chain(file.packages).collect();
    if packages.is_empty() && reader.problems.is_empty() {
        reader.problem(1, "locks is missing; see git dibs reserve --help");
    }
    for package in &packages {
        file.contracts.check(package, &mut reader);
    }
    overlaps::check(&packages, &mut reader);
    match reader.finish() {
        problems if problems.is_empty() => Ok(packages),
        problems => Err(problems),
    }
}

/// The fields of a file that matter.
#[derive(Default)]
struct WorkFile {
    locks: Option<Package>,
    packages: Vec<Package>,
    contracts: Contracts,
}

impl WorkFile {
    fn read(&mut self, reader: &mut YamlReader<'_>) {
        let mut fields = Fields::default();
        while let Some((field, value, line, value_line)) = next_field(reader) {
            let is_known = matches!(&*field, "locks" | "packages" | "contracts");
            if is_known && fields.is_repeated(reader, &field, line) {
                reader.skip(&value);
                continue;
            }
            match &*field {
                "locks" => self.locks = locks(reader, &value, line, value_line),
                "packages" => self.read_list(reader, &value, value_line),
                "contracts" => self.contracts.read(reader, &value),
                _ => reader.skip(&value),
            }
        }
        if let (Some(line), Some(_)) = (fields.line("packages"), fields.line("locks")) {
            reader.problem(line, "a file has either locks or packages; move locks into one of the packages");
        }
    }

    fn read_list(&mut self, reader: &mut YamlReader<'_>, value: &Value, line: usize) {
        if *value != Value::List {
            return wrong(reader, "packages", value, line, "a list");
        }
        while let Some((item, line)) = reader.next() {
            match item {
                Value::End => break,
                Value::Mapping if self.packages.len() < PACKAGES_MAX => self.read_package(reader, line),
                Value::Mapping => {
                    reader.problem(line, format!("a file can list at most {PACKAGES_MAX} packages"));
                    reader.skip(&item);
                }
                other => wrong(reader, "a package", &other, line, "a mapping with a name and locks"),
            }
        }
        if self.packages.is_empty() && reader.problems.is_empty() {
            reader.problem(line, "packages is empty; list at least one package");
        }
    }

    fn read_package(&mut self, reader: &mut YamlReader<'_>, begin: usize) {
        let (mut package, mut name, mut fields) = (None, None, Fields::default());
        while let Some((field, value, line, value_line)) = next_field(reader) {
            let is_name = NAME_FIELDS.contains(&&*field);
            if (is_name || field == "locks") && fields.is_repeated(reader, &field, line) {
                reader.skip(&value);
                continue;
            }
            match (&*field, &value) {
                ("locks", _) => package = locks(reader, &value, line, value_line),
                (_, Value::Text(text)) if is_name => {
                    // The first of the fields counts: a package may have an id and a title for people.
                    let rank = NAME_FIELDS.iter().position(|known| *known == field);
                    if name.as_ref().is_none_or(|(known, _)| rank < *known) {
                        name = Some((rank, text.clone()));
                    }
                }
                (_, other) if is_name => wrong(reader, &field, other, value_line, "text"),
                _ => reader.skip(&value),
            }
        }
        let Some((_, name)) = name.filter(|(_, name)| !name.trim().is_empty()) else {
            return reader.problem(begin, "the package has no name; give it a package_id");
        };
        if self.packages.iter().any(|other| other.name.as_ref() == Some(&name)) {
            reader.problem(begin, format!("there are two packages called {name:?}"));
        }
        match package {
            Some(package) => self.packages.push(Package { name: Some(name), ..package }),
            None if fields.line("locks").is_none() => reader.problem(begin, format!("package {name:?} has no locks")),
            None => {}
        }
    }
}

/// The fields that were read, each with its line.
#[derive(Default)]
struct Fields(Vec<(String, usize)>);

impl Fields {
    fn line(&self, field: &str) -> Option<usize> {
        self.0.iter().find(|(name, _)| name == field).map(|(_, line)| *line)
    }

    /// Remembers a field. It is a problem if it was read before.
    fn is_repeated(&mut self, reader: &mut YamlReader<'_>, field: &str, line: usize) -> bool {
        let Some(first) = self.line(field) else {
            self.0.push((field.to_owned(), line));
            return false;
        };
        reader.problem(line, format!("{field} appears twice; the first is on line {first}"));
        true
    }
}

/// The next field of a mapping: its name, its value, and the line of each. None at the end. A field whose name is not text
/// has the name "".
pub(super) fn next_field(reader: &mut YamlReader<'_>) -> Option<(String, Value, usize, usize)> {
    let (key, line) = reader.next().filter(|(key, _)| *key != Value::End)?;
    reader.skip(&key);
    let (value, value_line) = reader.next()?;
    let name = if let Value::Text(name) = key { name } else { String::new() };
    Some((name, value, line, value_line))
}

fn locks(reader: &mut YamlReader<'_>, value: &Value, begin: usize, value_line: usize) -> Option<Package> {
    if *value != Value::Mapping {
        wrong(reader, "locks", value, value_line, "a mapping with files, keys, ttl_minutes and reason");
        return None;
    }
    let mut package = Package::default();
    let mut fields = Fields::default();
    while let Some((field, value, line, value_line)) = next_field(reader) {
        if field.is_empty() {
            reader.problem(line, "this is no field of locks");
            reader.skip(&value);
            continue;
        }
        if fields.is_repeated(reader, &field, line) {
            reader.skip(&value);
            continue;
        }
        match field.as_str() {
            "files" => list(reader, &value, value_line, KeyList::Files, &mut package),
            "keys" => list(reader, &value, value_line, KeyList::Keys, &mut package),
            "ttl_minutes" => match value {
                Value::Number(minutes @ TTL_MINUTES_MIN..=TTL_MINUTES_MAX) => {
                    package.ttl_minutes = Some((minutes, value_line));
                }
                Value::Number(minutes) => {
                    let bounds = format!("{TTL_MINUTES_MIN} to {TTL_MINUTES_MAX}");
                    reader.problem(value_line, format!("ttl_minutes is {minutes} and should be {bounds}"));
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
    }
    let has_lists = fields.line("files").or(fields.line("keys")).is_some();
    if package.keys.is_empty() && (!has_lists || reader.problems.is_empty()) {
        reader.problem(begin, "locks is empty; list something under files or keys");
    }
    if package.keys.len() > RESERVE_KEYS_MAX {
        let count = package.keys.len();
        reader.problem(begin, format!("locks lists {count} keys, but one request can have at most {RESERVE_KEYS_MAX}"));
    }
    Some(package)
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
    let key = Key::parse(text, &KeyRules::any_configuration(text)).map_err(|bad| bad.to_string())?;
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

pub(super) fn wrong(reader: &mut YamlReader<'_>, field: &str, value: &Value, line: usize, expected: &str) {
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
