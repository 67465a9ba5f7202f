//! The contracts of a work package: a key `contract:PATH` must be one of its files, or generated from them.
//!
//! ```yaml
//! contracts:
//!   openapi: {primary: openapi/v1.yaml, files: [openapi/v1.yaml]}
//!   generated: {models: src/generated/models.py, types_dir: web/generated/}
//! ```

use super::Package;
use super::parse::{next_field, wrong};
use crate::cli::yaml::{Value, YamlReader};

/// The paths under `contracts`, without `./` and slashes at the end.
#[derive(Default)]
pub(super) struct Contracts {
    /// `openapi.files` and `openapi.primary`.
    files: Vec<String>,
    /// Every text under a field called `generated`: a file, or a directory of files.
    generated: Vec<String>,
}

impl Contracts {
    /// Reads the value of `contracts`.
    pub fn read(&mut self, reader: &mut YamlReader<'_>, value: &Value) {
        if *value != Value::Mapping {
            return reader.skip(value);
        }
        while let Some((field, value, ..)) = next_field(reader) {
            match (&*field, &value) {
                ("openapi", Value::Mapping) => self.read_openapi(reader),
                ("generated", _) => texts(reader, value, &mut self.generated),
                _ => reader.skip(&value),
            }
        }
    }

    fn read_openapi(&mut self, reader: &mut YamlReader<'_>) {
        while let Some((field, value, _, line)) = next_field(reader) {
            match (&*field, &value) {
                ("files", Value::List) | ("primary", Value::Text(_)) => texts(reader, value, &mut self.files),
                ("files", _) => wrong(reader, "contracts.openapi.files", &value, line, "a list"),
                ("generated", _) => texts(reader, value, &mut self.generated),
                _ => reader.skip(&value),
            }
        }
    }

    /// Reports every key of a contract that is not listed.
    pub fn check(&self, package: &Package, reader: &mut YamlReader<'_>) {
        for (key, line) in &package.lines {
            let shown = key.shown();
            let Some(path) = shown.strip_prefix("contract:") else { continue };
            let is_generated = |entry: &String| {
                path.strip_prefix(&**entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if !self.files.iter().any(|file| file == path) && !self.generated.iter().any(is_generated) {
                let what =
                    "is neither listed in contracts.openapi.files nor a generated artifact (contracts.generated)";
                reader.problem(*line, format!("{shown:?} {what}"));
            }
        }
    }
}

/// Collects every text in a value.
fn texts(reader: &mut YamlReader<'_>, started: Value, found: &mut Vec<String>) {
    let mut add = |text: String| {
        let text = text.trim_start_matches("./").trim_end_matches('/');
        if !text.is_empty() {
            found.push(text.to_owned());
        }
    };
    let mut open = match started {
        Value::Text(text) => return add(text),
        Value::List | Value::Mapping => 1,
        _ => return,
    };
    while open > 0 {
        match reader.next() {
            Some((Value::List | Value::Mapping, _)) => open += 1,
            Some((Value::End, _)) => open -= 1,
            Some((Value::Text(text), _)) => add(text),
            Some(_) => {}
            None => return,
        }
    }
}
