//! YAML as work packages need it: values with their lines, and a problem for everything that is not plain.
//!
//! A parser of its own rather than a reader into structures: those stop at the first mistake and forget the lines.
//! Anchors, aliases and tags are refused wherever they stand, so nothing in a file can be other than what is written
//! there, or larger.

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

/// Something wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where, counted from 1.
    pub line: usize,
    /// What, as it goes on after the line.
    pub what: String,
}

/// A value, as far as anybody looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// Anything else that stands alone, as in "a truth value".
    Other(&'static str),
    /// A list begins; its items and [`Value::End`] follow.
    List,
    /// A mapping begins; its keys, each with its value, and [`Value::End`] follow.
    Mapping,
    /// A list or mapping ends.
    End,
}

/// Reads one value after the other, and collects what is wrong on the way.
pub struct Reader<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    /// What was found so far.
    pub problems: Vec<Problem>,
    is_over: bool,
}

impl<'a> Reader<'a> {
    /// Begins to read.
    pub fn new(text: &'a str) -> Reader<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Reader { text, parser: Parser::new_from_str(text), problems: Vec::new(), is_over: false }
    }

    /// Notes that something is wrong.
    pub fn problem(&mut self, line: usize, what: impl Into<String>) {
        self.problems.push(Problem { line, what: what.into() });
    }

    /// The next value and its line; nothing at the end of the document, or where it stops being YAML.
    pub fn next(&mut self) -> Option<(Value, usize)> {
        while !self.is_over {
            let (event, line) = match self.parser.next_event()? {
                Ok((event, span)) => (event, span.start.line()),
                Err(error) => {
                    self.is_over = true;
                    self.no_yaml(error.marker().line(), error.info());
                    return None;
                }
            };
            let value = match event {
                Event::Scalar(text, style, anchor, tag) => {
                    self.plain_only(line, anchor, tag.is_some());
                    scalar(&text, style)
                }
                Event::SequenceStart(anchor, tag) => {
                    self.plain_only(line, anchor, tag.is_some());
                    Value::List
                }
                Event::MappingStart(anchor, tag) => {
                    self.plain_only(line, anchor, tag.is_some());
                    Value::Mapping
                }
                Event::SequenceEnd | Event::MappingEnd => Value::End,
                Event::Alias(_) => {
                    self.problem(line, "an alias (*name) is not read here; write the value itself");
                    Value::Other("an alias")
                }
                Event::StreamEnd => return None,
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => continue,
            };
            return Some((value, line));
        }
        None
    }

    /// Passes over the rest of a value that has begun.
    pub fn skip(&mut self, begun: &Value) {
        // Counted, not recursive: how deep it is, is up to whoever wrote the file.
        let mut open = usize::from(matches!(begun, Value::List | Value::Mapping));
        while open > 0 {
            match self.next() {
                Some((Value::List | Value::Mapping, _)) => open += 1,
                Some((Value::End, _)) => open -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Reads to the end; a second document is one too many.
    pub fn finish(mut self) -> Vec<Problem> {
        if let Some((value, line)) = self.next() {
            self.problem(line, "a second document begins here; a work package is one document");
            self.skip(&value);
            while self.next().is_some() {}
        }
        self.problems.sort();
        self.problems.dedup();
        self.problems
    }

    fn plain_only(&mut self, line: usize, anchor: usize, tagged: bool) {
        if anchor != 0 {
            self.problem(line, "an anchor (&name) is not read here; write the value where it is needed");
        }
        if tagged {
            self.problem(line, "a tag (!name) is not read here; take it off");
        }
    }

    /// Says why reading stops; tabs are the usual reason, and then each line with one is named.
    fn no_yaml(&mut self, line: usize, why: &str) {
        let indented = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        let tabbed = self.text.lines().zip(1..).filter(|(text, _)| text[..indented(text)].contains('\t'));
        let tabbed: Vec<usize> = tabbed.map(|(_, number)| number).collect();
        for &number in &tabbed {
            self.problem(number, "a tab at its beginning; YAML is indented with spaces");
        }
        if !tabbed.contains(&line) {
            self.problem(line, format!("from here on it is not YAML ({why})"));
        }
    }
}

/// What a scalar is, by the rules of YAML's core schema.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::Text(text.to_owned());
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Other("nothing"),
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Value::Other("a truth value"),
        _ if is_whole => text.parse().map_or(Value::Other("a number"), Value::Number),
        _ if is_number(text) => Value::Other("a number"),
        _ => Value::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let based = |prefix: &str, base: u32| {
        text.strip_prefix(prefix).is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_digit(base)))
    };
    let looks_like_one = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    based("0x", 16) || based("0o", 8) || (looks_like_one && text.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_what_yaml_says_they_are() {
        let plain = |text| scalar(text, ScalarStyle::Plain);
        assert_eq!(plain("src/a.rs"), Value::Text("src/a.rs".to_owned()));
        assert_eq!(plain("30"), Value::Number(30));
        assert_eq!(plain("-3"), Value::Number(-3));
        for text in ["1.5", "1e3", ".5", "0x1f", "0o7", "99999999999999999999"] {
            assert_eq!(plain(text), Value::Other("a number"), "{text}");
        }
        for text in ["", "~", "null"] {
            assert_eq!(plain(text), Value::Other("nothing"), "{text}");
        }
        assert_eq!(plain("true"), Value::Other("a truth value"));
        for text in ["yes", "no", "on", ".", "-", "+", "infinity", "nan", "1.2.3", "0x", "v1"] {
            assert_eq!(plain(text), Value::Text(text.to_owned()), "{text}");
        }
        assert_eq!(scalar("30", ScalarStyle::DoubleQuoted), Value::Text("30".to_owned()));
    }

    #[test]
    fn no_nesting_is_too_deep() {
        for text in ["[".repeat(1 << 20), "- ".repeat(1 << 19), "{a: ".repeat(1 << 18), "? ".repeat(1 << 19)] {
            let mut reader = Reader::new(&text);
            if let Some((value, _)) = reader.next() {
                reader.skip(&value);
            }
            reader.finish();
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[-a:{}\\[\\]&*!|>'\"#%@`,?\n\t ]{0,60}") {
            let mut reader = Reader::new(&text);
            while reader.next().is_some() {}
            reader.finish();
        }
    }
}
