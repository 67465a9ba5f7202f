//! A TOML table that is asked for what it says, and that keeps a list of everything that is wrong with it.
//!
//! Whoever reads goes on after a mistake, so that one look finds them all. What nobody asked for is unknown.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something that is wrong, and the line it is on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Nothing where it did not come from the file.
    pub line: Option<usize>,
    /// What, and what to do about it.
    pub sentence: String,
}

/// A value, and the line it came from; nothing where it came from a flag or a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<T> {
    /// What was said.
    pub value: T,
    /// Where.
    pub line: Option<usize>,
}

impl<T> Told<T> {
    /// On the command line, or in the environment.
    pub fn elsewhere(value: T) -> Self {
        Told { value, line: None }
    }
}

/// The file a table came from.
pub struct Source<'t> {
    text: &'t str,
    directory: &'t Path,
    problems: RefCell<Vec<Problem>>,
    /// Every name anybody asked for, with its table in front.
    pub names: RefCell<Vec<String>>,
    /// Names nobody asked for: line, table and name.
    unknown: RefCell<Vec<(usize, String, String)>>,
}

/// One table of the file.
pub struct Sheet<'s, 't> {
    source: &'s Source<'t>,
    /// With the tables it is in, and nothing for the whole file.
    name: String,
    entries: Vec<Entry<'t>>,
}

struct Entry<'t> {
    name: String,
    line: usize,
    value: Spanned<DeValue<'t>>,
}

impl<'t> Source<'t> {
    /// A file in this directory, which relative paths in it start from.
    pub fn new(text: &'t str, directory: &'t Path) -> Self {
        Source { text, directory, problems: RefCell::default(), names: RefCell::default(), unknown: RefCell::default() }
    }

    /// The whole file as a table. What cannot be read is a problem, and the rest is there.
    pub fn sheet(&self) -> Sheet<'_, 't> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let line = error.span().map_or(1, |span| self.line(&span));
            self.problem(Some(line), format!("this is not TOML: {}", error.message().trim_end_matches('.')));
        }
        Sheet::new(self, String::new(), table.into_inner())
    }

    /// Adds to the list.
    pub fn problem(&self, line: Option<usize>, sentence: impl Into<String>) {
        self.problems.borrow_mut().push(Problem { line, sentence: sentence.into() });
    }

    /// Everything that is wrong, in the order of the file.
    pub fn finish(self) -> Vec<Problem> {
        let names = self.names.borrow();
        for (line, table, name) in self.unknown.borrow().iter() {
            let shown = joined(table, name);
            let sentence = match nearest(&shown, &names).or_else(|| elsewhere(name, &names)) {
                Some(meant) => format!("{shown} is not known; did you mean {meant}?"),
                None => format!("{shown} is not known"),
            };
            self.problem(Some(*line), sentence);
        }
        drop(names);
        let mut problems = self.problems.into_inner();
        // Of a line that is no TOML, what was understood of it is not worth a word.
        let garbled: Vec<_> =
            problems.iter().filter(|one| one.sentence.starts_with("this is not TOML")).cloned().collect();
        let told = |one: &Problem| garbled.contains(one) || !garbled.iter().any(|other| other.line == one.line);
        problems.retain(told);
        problems.sort();
        problems.dedup_by(|a, b| a.line == b.line && garbled.contains(a) && garbled.contains(b));
        problems
    }

    fn line(&self, span: &Range<usize>) -> usize {
        self.text[..span.start.min(self.text.len())].matches('\n').count() + 1
    }
}

impl<'s, 't> Sheet<'s, 't> {
    fn new(source: &'s Source<'t>, name: String, table: DeTable<'t>) -> Self {
        let entry = |(name, value): (Spanned<std::borrow::Cow<'t, str>>, _)| {
            let line = source.line(&name.span());
            Entry { name: name.into_inner().into_owned(), line, value }
        };
        Sheet { source, name, entries: table.into_iter().map(entry).collect() }
    }

    /// A table in this one.
    pub fn table(&mut self, name: &'static str) -> Sheet<'s, 't> {
        let shown = self.shown(name);
        let found = self.take(name).map(|entry| (entry.line, entry.value.into_inner()));
        let table = match found {
            None => DeTable::new(),
            Some((_, DeValue::Table(table))) => table,
            Some((line, _)) => {
                self.source.problem(Some(line), format!("{shown} must be a table, written [{shown}]"));
                DeTable::new()
            }
        };
        Sheet::new(self.source, shown, table)
    }

    /// Some text.
    pub fn text(&mut self, name: &'static str) -> Option<Told<String>> {
        self.ask(name, "text in quotes", |value| match value {
            DeValue::String(text) if !text.is_empty() => Ok(text.into_owned()),
            DeValue::String(_) => Err("must not be empty; leave it out instead".to_owned()),
            _ => Err(String::new()),
        })
    }

    /// One of these words.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<Told<T>> {
        let all: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let all = all.join(" or ");
        self.ask(name, &all, |value| match &value {
            DeValue::String(text) => {
                words.iter().find(|(word, _)| word == text).map(|(_, meant)| *meant).ok_or_else(String::new)
            }
            _ => Err(String::new()),
        })
    }

    /// A path; a relative one starts where the file is.
    pub fn path(&mut self, name: &'static str) -> Option<Told<PathBuf>> {
        let directory = self.source.directory;
        self.text(name).map(|told| Told { value: directory.join(told.value), line: told.line })
    }

    /// Yes or no.
    pub fn flag(&mut self, name: &'static str) -> Option<Told<bool>> {
        self.ask(name, "true or false", |value| match value {
            DeValue::Boolean(flag) => Ok(flag),
            _ => Err(String::new()),
        })
    }

    /// A whole number in a range.
    pub fn number(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<Told<u64>> {
        let (min, max) = (*range.start(), *range.end());
        self.ask(name, &format!("a whole number from {min} to {max}"), |value| match value {
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) if (i128::from(min)..=i128::from(max)).contains(&number) => Ok(number as u64),
                _ => Err(format!("is {number}, and must be from {min} to {max}")),
            },
            _ => Err(String::new()),
        })
    }

    /// A list of texts, each with its line.
    pub fn texts(&mut self, name: &'static str) -> Option<Vec<Told<String>>> {
        let source = self.source;
        let told = self.ask(name, "a list of texts, like [\"a\", \"b\"]", |value| {
            let DeValue::Array(array) = value else { return Err(String::new()) };
            let texts = array.into_iter().map(|value| {
                let line = Some(source.line(&value.span()));
                match value.into_inner() {
                    DeValue::String(text) if !text.is_empty() => Ok(Told { value: text.into_owned(), line }),
                    _ => Err(String::new()),
                }
            });
            texts.collect()
        });
        told.map(|told| told.value)
    }

    /// Whatever nobody asked for is not known.
    pub fn finish(self) {
        let unknown = self.entries.iter().map(|entry| (entry.line, self.name.clone(), entry.name.clone()));
        self.source.unknown.borrow_mut().extend(unknown);
    }

    /// The value, where there is one of the right kind. An empty complaint means it is of another kind.
    fn ask<T>(
        &mut self,
        name: &'static str,
        kind: &str,
        read: impl FnOnce(DeValue<'t>) -> Result<T, String>,
    ) -> Option<Told<T>> {
        let entry = self.take(name)?;
        match read(entry.value.into_inner()) {
            Ok(value) => Some(Told { value, line: Some(entry.line) }),
            Err(complaint) => {
                let complaint = if complaint.is_empty() { format!("must be {kind}") } else { complaint };
                self.source.problem(Some(entry.line), format!("{} {complaint}", self.shown(name)));
                None
            }
        }
    }

    fn take(&mut self, name: &'static str) -> Option<Entry<'t>> {
        self.source.names.borrow_mut().push(self.shown(name));
        let at = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(at))
    }

    fn shown(&self, name: &str) -> String {
        joined(&self.name, name)
    }
}

impl fmt::Display for Problem {
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

/// The name that was probably meant: one that differs by a letter or two.
fn nearest<'n>(name: &str, names: &'n [String]) -> Option<&'n str> {
    let plain = name.replace('_', "-").to_ascii_lowercase();
    let near = names.iter().map(|known| (distance(&plain, known), &**known)).min()?;
    (near.0 <= 2).then_some(near.1)
}

/// The same name in another table.
fn elsewhere<'n>(name: &str, names: &'n [String]) -> Option<&'n str> {
    let same = |known: &&String| known.rsplit('.').next() == Some(name);
    names.iter().find(same).map(String::as_str)
}

/// How many letters must be changed, added or left out to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, read: impl FnOnce(&mut Sheet<'_, '_>)) -> Vec<String> {
        let source = Source::new(text, Path::new("/etc"));
        let mut sheet = source.sheet();
        read(&mut sheet);
        sheet.finish();
        source.finish().iter().map(Problem::to_string).collect()
    }

    #[test]
    fn every_mistake_is_found_with_its_line() {
        let text = "a = 7\nb = \"x\"\n\nlisen = \"x\"\n[t]\nc = 99\nd = -1\nzzzzzz = 1\n";
        let found = problems(text, |sheet| {
            sheet.text("a");
            sheet.number("b", 0..=5);
            sheet.text("listen");
            let mut t = sheet.table("t");
            t.number("c", 1..=98);
            t.number("d", 0..=98);
            t.finish();
        });
        let expected = [
            "1: a must be text in quotes",
            "2: b must be a whole number from 0 to 5",
            "4: lisen is not known; did you mean listen?",
            "6: t.c is 99, and must be from 1 to 98",
            "7: t.d is -1, and must be from 0 to 98",
            "8: t.zzzzzz is not known",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_toml_does_not_hide_the_rest() {
        let found = problems("a = \nb = 3\nc = [1\n", |sheet| {
            sheet.text("a");
            sheet.text("b");
        });
        assert!(found.iter().any(|line| line.starts_with("1: this is not TOML")), "{found:?}");
        assert!(found.contains(&"2: b must be text in quotes".to_owned()), "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("3: this is not TOML")), "{found:?}");
    }

    #[test]
    fn paths_start_where_the_file_is() {
        let source = Source::new("a = \"x/y\"\nb = \"/z\"\n", Path::new("/etc/dibs"));
        let mut sheet = source.sheet();
        assert_eq!(sheet.path("a").unwrap().value, Path::new("/etc/dibs/x/y"));
        assert_eq!(sheet.path("b"), Some(Told { value: "/z".into(), line: Some(2) }));
        assert_eq!(sheet.path("c"), None);
    }

    #[test]
    fn words_of_a_kind_are_told_apart() {
        let names = ["listen", "limits", "secret-file", "limits.connections"].map(str::to_owned);
        assert_eq!(nearest("listne", &names), Some("listen"));
        assert_eq!(nearest("Secret_File", &names), Some("secret-file"));
        assert_eq!(nearest("colour", &names), None);
        assert_eq!(elsewhere("connections", &names), Some("limits.connections"));
        assert_eq!((distance("", "ab"), distance("abc", "abc"), distance("kitten", "sitting")), (2, 0, 3));
    }
}
