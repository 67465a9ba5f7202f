//! Reads typed values from TOML and collects every problem, instead of stopping at the first.
//!
//! The reader takes each name it knows out of a [`TomlTable`]. Names that are left at the end are unknown, and are problems
//! too.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An error in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// The line of the file; `None` if the error is not in the file.
    pub line: Option<usize>,
    /// What is wrong, and what to do about it.
    pub sentence: String,
}

/// A configured value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigValue<T> {
    pub value: T,
    /// The line of the file; `None` if the value comes from a flag or an environment variable.
    pub line: Option<usize>,
}

impl<T> ConfigValue<T> {
    /// A value from a flag or an environment variable.
    pub fn from_flag(value: T) -> Self {
        ConfigValue { value, line: None }
    }
}

/// The whole file, and the problems found in it so far.
pub struct TomlDocument<'t> {
    text: &'t str,
    directory: &'t Path,
    problems: RefCell<Vec<ConfigProblem>>,
    /// Every name the reader knows, as `table.name`.
    pub names: RefCell<Vec<String>>,
    /// Names the reader does not know: line, table and name.
    unknown: RefCell<Vec<(usize, String, String)>>,
}

/// One table of the file.
pub struct TomlTable<'s, 't> {
    document: &'s TomlDocument<'t>,
    /// As `table.name`; empty for the top level.
    name: String,
    entries: Vec<TomlEntry<'t>>,
}

struct TomlEntry<'t> {
    name: String,
    line: usize,
    value: Spanned<DeValue<'t>>,
}

impl<'t> TomlDocument<'t> {
    /// `directory` is where the file is; relative paths in it start there.
    pub fn new(text: &'t str, directory: &'t Path) -> Self {
        TomlDocument {
            text,
            directory,
            problems: RefCell::default(),
            names: RefCell::default(),
            unknown: RefCell::default(),
        }
    }

    /// The top level. Text that is not TOML is a problem; the rest can still be read.
    pub fn root(&self) -> TomlTable<'_, 't> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let line = error.span().map_or(1, |span| self.line(&span));
            self.problem(Some(line), format!("this is not TOML: {}", error.message().trim_end_matches('.')));
        }
        TomlTable::new(self, String::new(), table.into_inner())
    }

    pub fn problem(&self, line: Option<usize>, sentence: impl Into<String>) {
        self.problems.borrow_mut().push(ConfigProblem { line, sentence: sentence.into() });
    }

    /// All problems, in the order of the file.
    pub fn finish(self) -> Vec<ConfigProblem> {
        let names = self.names.borrow();
        for (line, table, name) in self.unknown.borrow().iter() {
            let shown = joined(table, name);
            let sentence = match similar(&shown, &names).or_else(|| in_other_table(name, &names)) {
                Some(known) => format!("{shown} is not a setting; did you mean {known}?"),
                None => format!("{shown} is not a setting"),
            };
            self.problem(Some(*line), sentence);
        }
        drop(names);
        let mut problems = self.problems.into_inner();
        // If a line is not TOML, other problems on it, and a second one of that kind, only distract from it.
        let not_toml: Vec<_> =
            problems.iter().filter(|one| one.sentence.starts_with("this is not TOML")).cloned().collect();
        let keep = |one: &ConfigProblem| not_toml.contains(one) || !not_toml.iter().any(|other| other.line == one.line);
        problems.retain(keep);
        problems.sort();
        problems.dedup_by(|a, b| a.line == b.line && not_toml.contains(a) && not_toml.contains(b));
        problems
    }

    fn line(&self, span: &Range<usize>) -> usize {
        self.text[..span.start.min(self.text.len())].matches('\n').count() + 1
    }
}

impl<'s, 't> TomlTable<'s, 't> {
    fn new(document: &'s TomlDocument<'t>, name: String, table: DeTable<'t>) -> Self {
        let entry = |(name, value): (Spanned<std::borrow::Cow<'t, str>>, _)| {
            let line = document.line(&name.span());
            TomlEntry { name: name.into_inner().into_owned(), line, value }
        };
        TomlTable { document, name, entries: table.into_iter().map(entry).collect() }
    }

    /// Takes out a table inside this one; an empty table if there is none.
    pub fn table(&mut self, name: &str) -> TomlTable<'s, 't> {
        let shown = self.shown(name);
        let found = self.take(name).map(|entry| (entry.line, entry.value.into_inner()));
        let table = match found {
            None => DeTable::new(),
            Some((_, DeValue::Table(table))) => table,
            Some((line, _)) => {
                self.document.problem(Some(line), format!("{shown} must be a table, written [{shown}]"));
                DeTable::new()
            }
        };
        TomlTable::new(self.document, shown, table)
    }

    /// The names that were not taken out yet, each with its line.
    pub fn names(&self) -> Vec<ConfigValue<String>> {
        let name = |entry: &TomlEntry<'t>| ConfigValue { value: entry.name.clone(), line: Some(entry.line) };
        self.entries.iter().map(name).collect()
    }

    /// Takes out a string that is not empty.
    pub fn text(&mut self, name: &'static str) -> Option<ConfigValue<String>> {
        self.read(name, "a string in quotes", |value| match value {
            DeValue::String(text) if !text.is_empty() => Ok(text.into_owned()),
            DeValue::String(_) => Err("must not be empty; remove the line instead".to_owned()),
            _ => Err(String::new()),
        })
    }

    /// Takes out one of these words.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<ConfigValue<T>> {
        let all: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let all = all.join(" or ");
        self.read(name, &all, |value| match &value {
            DeValue::String(text) => {
                words.iter().find(|(word, _)| word == text).map(|(_, value)| *value).ok_or_else(String::new)
            }
            _ => Err(String::new()),
        })
    }

    /// Takes out a path. A relative path starts at the directory of the file.
    pub fn path(&mut self, name: &'static str) -> Option<ConfigValue<PathBuf>> {
        let directory = self.document.directory;
        self.text(name).map(|path| ConfigValue { value: directory.join(path.value), line: path.line })
    }

    /// Takes out `true` or `false`.
    pub fn flag(&mut self, name: &'static str) -> Option<ConfigValue<bool>> {
        self.read(name, "true or false", |value| match value {
            DeValue::Boolean(flag) => Ok(flag),
            _ => Err(String::new()),
        })
    }

    /// Takes out a whole number in a range.
    pub fn number(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<ConfigValue<u64>> {
        let (min, max) = (*range.start(), *range.end());
        self.read(name, &format!("a whole number from {min} to {max}"), |value| match value {
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) if (i128::from(min)..=i128::from(max)).contains(&number) => Ok(number as u64),
                _ => Err(format!("is {number}, but must be from {min} to {max}")),
            },
            _ => Err(String::new()),
        })
    }

    /// Takes out a list of strings that are not empty, each with its line.
    pub fn texts(&mut self, name: &'static str) -> Option<Vec<ConfigValue<String>>> {
        let document = self.document;
        let list = self.read(name, "a list of strings, such as [\"a\", \"b\"]", |value| {
            let DeValue::Array(array) = value else { return Err(String::new()) };
            let texts = array.into_iter().map(|value| {
                let line = Some(document.line(&value.span()));
                match value.into_inner() {
                    DeValue::String(text) if !text.is_empty() => Ok(ConfigValue { value: text.into_owned(), line }),
                    _ => Err(String::new()),
                }
            });
            texts.collect()
        });
        list.map(|list| list.value)
    }

    /// Reports the names that were not taken out as unknown.
    pub fn finish(self) {
        let unknown = self.entries.iter().map(|entry| (entry.line, self.name.clone(), entry.name.clone()));
        self.document.unknown.borrow_mut().extend(unknown);
    }

    /// Takes out a value. An empty error text from `read` means that the value is not of this `kind`.
    fn read<T>(
        &mut self,
        name: &'static str,
        kind: &str,
        read: impl FnOnce(DeValue<'t>) -> Result<T, String>,
    ) -> Option<ConfigValue<T>> {
        let entry = self.take(name)?;
        match read(entry.value.into_inner()) {
            Ok(value) => Some(ConfigValue { value, line: Some(entry.line) }),
            Err(error) => {
                let error = if error.is_empty() { format!("must be {kind}") } else { error };
                self.document.problem(Some(entry.line), format!("{} {error}", self.shown(name)));
                None
            }
        }
    }

    fn take(&mut self, name: &str) -> Option<TomlEntry<'t>> {
        self.document.names.borrow_mut().push(self.shown(name));
        let at = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(at))
    }

    fn shown(&self, name: &str) -> String {
        joined(&self.name, name)
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{line}: {}", self.sentence),
            None => f.write_str(&self.sentence),
        }
    }
}

fn joined(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// The known name that is most similar, if it differs by at most two letters.
fn similar<'n>(name: &str, names: &'n [String]) -> Option<&'n str> {
    let plain = name.replace('_', "-").to_ascii_lowercase();
    let (distance, known) = names.iter().map(|known| (strsim::levenshtein(&plain, known), &**known)).min()?;
    (distance <= 2).then_some(known)
}

/// The same name in another table.
fn in_other_table<'n>(name: &str, names: &'n [String]) -> Option<&'n str> {
    let same = |known: &&String| known.rsplit('.').next() == Some(name);
    names.iter().find(same).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, read: impl FnOnce(&mut TomlTable<'_, '_>)) -> Vec<String> {
        let document = TomlDocument::new(text, Path::new("/etc"));
        let mut table = document.root();
        read(&mut table);
        table.finish();
        document.finish().iter().map(ConfigProblem::to_string).collect()
    }

    #[test]
    fn every_problem_is_reported_with_its_line() {
        let text = "a = 7\nb = \"x\"\n\nlisen = \"x\"\n[t]\nc = 99\nd = -1\nzzzzzz = 1\n";
        let found = problems(text, |table| {
            table.text("a");
            table.number("b", 0..=5);
            table.text("listen");
            let mut t = table.table("t");
            t.number("c", 1..=98);
            t.number("d", 0..=98);
            t.finish();
        });
        let expected = [
            "1: a must be a string in quotes",
            "2: b must be a whole number from 0 to 5",
            "4: lisen is not a setting; did you mean listen?",
            "6: t.c is 99, but must be from 1 to 98",
            "7: t.d is -1, but must be from 0 to 98",
            "8: t.zzzzzz is not a setting",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn text_that_is_not_toml_does_not_hide_other_problems() {
        let found = problems("a = \nb = 3\nc = [1\n", |table| {
            table.text("a");
            table.text("b");
        });
        assert!(found.iter().any(|line| line.starts_with("1: this is not TOML")), "{found:?}");
        assert!(found.contains(&"2: b must be a string in quotes".to_owned()), "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("3: this is not TOML")), "{found:?}");
    }

    #[test]
    fn relative_paths_start_at_the_directory_of_the_file() {
        let document = TomlDocument::new("a = \"x/y\"\nb = \"/z\"\n", Path::new("/etc/dibs"));
        let mut table = document.root();
        assert_eq!(table.path("a").unwrap().value, Path::new("/etc/dibs/x/y"));
        assert_eq!(table.path("b"), Some(ConfigValue { value: "/z".into(), line: Some(2) }));
        assert_eq!(table.path("c"), None);
    }

    #[test]
    fn a_misspelled_name_gets_a_suggestion() {
        let names = ["listen", "limits", "secret-file", "limits.connections"].map(str::to_owned);
        assert_eq!(similar("listne", &names), Some("listen"));
        assert_eq!(similar("Secret_File", &names), Some("secret-file"));
        assert_eq!(similar("colour", &names), None);
        assert_eq!(in_other_table("connections", &names), Some("limits.connections"));
    }
}
