//! YAML for work packages: values with their lines, and a problem for everything that is not plain.
//!
//! Reads the parser's events rather than whole structures, because a deserializer stops at the first mistake and does not
//! keep the lines. Anchors, aliases and tags are refused everywhere, so a file means exactly what is written in it and
//! cannot grow.

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

/// Something wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Counted from 1.
    pub line: usize,
    /// The text after "line 3: ".
    pub what: String,
}

/// A value, or the start or end of a list or mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    /// A whole number.
    Number(i64),
    /// Any other scalar, described: "a truth value".
    Other(&'static str),
    /// A list begins; its items and [`Value::End`] follow.
    List,
    /// A mapping begins; its keys, each with its value, and [`Value::End`] follow.
    Mapping,
    /// A list or mapping ends.
    End,
}

/// Reads one value after the other, and collects the problems.
pub struct YamlReader<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    pub problems: Vec<Problem>,
    is_over: bool,
}

impl<'a> YamlReader<'a> {
    pub fn new(text: &'a str) -> YamlReader<'a> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        YamlReader { text, parser: Parser::new_from_str(text), problems: Vec::new(), is_over: false }
    }

    pub fn problem(&mut self, line: usize, what: impl Into<String>) {
        self.problems.push(Problem { line, what: what.into() });
    }

    /// The next value and its line; none at the end, or if the rest is not YAML.
    pub fn next(&mut self) -> Option<(Value, usize)> {
        while !self.is_over {
            let (event, line) = match self.parser.next_event()? {
                Ok((event, span)) => (event, span.start.line()),
                Err(error) => {
                    self.is_over = true;
                    self.not_yaml(error.marker().line(), error.info());
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
                    self.problem(line, "an alias (*name) is not allowed here; write the value itself");
                    Value::Other("an alias")
                }
                Event::StreamEnd => return None,
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => continue,
            };
            return Some((value, line));
        }
        None
    }

    /// Skips the rest of a value that was started.
    pub fn skip(&mut self, started: &Value) {
        // Counted, not recursive: a file may be nested as deeply as it likes.
        let mut open = usize::from(matches!(started, Value::List | Value::Mapping));
        while open > 0 {
            match self.next() {
                Some((Value::List | Value::Mapping, _)) => open += 1,
                Some((Value::End, _)) => open -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Reads to the end and returns the problems. A second document is a problem.
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
            self.problem(line, "an anchor (&name) is not allowed here; write the value where it is needed");
        }
        if tagged {
            self.problem(line, "a tag (!name) is not allowed here; remove it");
        }
    }

    /// Reports why the rest is not YAML. Tabs are the usual reason; then each line with a tab is reported.
    fn not_yaml(&mut self, line: usize, why: &str) {
        let indented = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
        let tabbed = self.text.lines().zip(1..).filter(|(text, _)| text[..indented(text)].contains('\t'));
        let tabbed: Vec<usize> = tabbed.map(|(_, number)| number).collect();
        for &number in &tabbed {
            self.problem(number, "it starts with a tab; YAML is indented with spaces");
        }
        if !tabbed.contains(&line) {
            self.problem(line, format!("this is not YAML ({why})"));
        }
    }
}

/// The value of a scalar, by the rules of YAML's core schema.
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
    fn deep_nesting_does_not_overflow_the_stack() {
        for text in ["[".repeat(1 << 20), "- ".repeat(1 << 19), "{a: ".repeat(1 << 18), "? ".repeat(1 << 19)] {
            let mut reader = YamlReader::new(&text);
            if let Some((value, _)) = reader.next() {
                reader.skip(&value);
            }
            reader.finish();
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-a:{}\\[\\]&*!|>'\"#%@`,?\n\t ]{0,60}") {
            let mut reader = YamlReader::new(&text);
            while reader.next().is_some() {}
            reader.finish();
        }
    }
}
