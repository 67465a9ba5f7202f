//! Words and tables for people, and the two ways out: data to stdout, talk to stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};

use crate::client::Endpoint;
use crate::text::percent;
use crate::text::terminal::{clean, is_harmful, path, time_left};
use crate::wire::{Conflict, Encoding, Mode, Paused};

/// The most of a name, key or session id that is shown, in characters.
const NAME_MAX: usize = 200;

/// The most of a reason that is shown, in characters.
const REASON_MAX: usize = 200;

/// More conflicts than this help nobody; the rest is counted.
const CONFLICTS_MAX: usize = 20;

/// Writes data. A reader that has seen enough and left is no failure.
pub fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write the answer: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Writes one JSON document on a line of its own. JSON lets characters through that draw on a terminal; as escapes they
/// mean the same.
pub fn document(bytes: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            // The line feeds of a document in several lines are outside its strings, and harmless.
            '\n' => line.push(c),
            c if is_harmful(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| line.push_str(&format!("\\u{unit:04x}")));
            }
            c => line.push(c),
        }
    }
    line.push('\n');
    data(&line)
}

/// Says something. When nobody listens, nothing is lost.
pub fn say(sentence: &str) {
    let _ = io::stderr().write_all(format!("git-dibs: {sentence}\n").as_bytes());
}

/// Says text that has its line feeds and its name in it already.
pub fn pass_on(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Rows under a heading, in columns that fit the terminal.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heading.iter().copied());
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(width), _)) if io::stdout().is_terminal() => {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        _ => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A key as the wire writes it, for a person. `encoding` says whether its `file:` part is percent-encoded.
pub fn key(text: &str, encoding: Option<Encoding>) -> String {
    let coded = text.strip_prefix("file:").filter(|_| encoding.is_some());
    match coded.and_then(percent::decode) {
        Some(bytes) => path(&bytes),
        None => clean(text, NAME_MAX),
    }
}

/// A session, by its name where it has one.
pub fn person(session: &str, name: Option<&str>) -> String {
    match name {
        Some(name) if name != session => format!("{} ({})", clean(name, NAME_MAX), clean(session, NAME_MAX)),
        _ => clean(session, NAME_MAX),
    }
}

/// A reason after a colon, where there is one.
pub fn because(reason: Option<&str>) -> String {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    reason.map_or_else(String::new, |reason| format!(": {}", clean(reason, REASON_MAX)))
}

/// A reason alone, for a table.
pub fn reason(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| clean(text.trim(), REASON_MAX))
}

/// Conflicts, a line each, as many as help. `asked` is how the request wrote its names, `left` how long a moment is away.
pub fn conflicts(all: &[Conflict], asked: Option<Encoding>, left: impl Fn(crate::wire::Time) -> Duration) -> String {
    let mut lines = String::new();
    for conflict in all.iter().take(CONFLICTS_MAX) {
        let wanted = key(&conflict.file_path, asked.or(conflict.encoding));
        let held = key(&conflict.key, conflict.encoding);
        let who = person(&conflict.reserved_by, conflict.reserved_by_name.as_deref());
        let verb = if conflict.waiting { "waited for first by" } else { "held by" };
        let shared = if conflict.mode == Mode::Shared { ", shared" } else { "" };
        let through = match held == wanted || held.strip_prefix("file:") == Some(&wanted) {
            true => String::new(),
            false => format!(" through {held}"),
        };
        let example = match &conflict.example {
            Some(example) if *example != wanted && *example != held => {
                format!(" (both match {})", key(example, conflict.encoding))
            }
            _ => String::new(),
        };
        let left =
            if conflict.waiting { String::new() } else { format!(", {} left", time_left(left(conflict.expires_at))) };
        let queue = match conflict.queue_length {
            Some(1) => ", 1 waiting".to_owned(),
            Some(n) if n > 1 => format!(", {n} waiting"),
            _ => String::new(),
        };
        let why = because(conflict.reason.as_deref());
        lines.push_str(&format!("  {wanted}: {verb} {who}{through}{example}{shared}{left}{queue}{why}\n"));
    }
    if all.len() > CONFLICTS_MAX {
        lines.push_str(&format!("  and {} more\n", all.len() - CONFLICTS_MAX));
    }
    lines
}

/// A pause, in a sentence.
pub fn paused(pause: &Paused, left: impl Fn(crate::wire::Time) -> Duration) -> String {
    format!(
        "your feature {} is paused by {}, {} left{}",
        clean(&pause.feature, NAME_MAX),
        person(&pause.reserved_by, pause.reserved_by_name.as_deref()),
        time_left(left(pause.expires_at)),
        because(pause.reason.as_deref()),
    )
}

/// The ways to a server, in a few words.
pub fn ways(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" or ")
}

/// `1 path`, `2 paths`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HeldBy, Time};

    fn conflict() -> Conflict {
        Conflict {
            file_path: "src/a.rs".to_owned(),
            key: "src/**".to_owned(),
            reserved_by: "sess_1".into(),
            reserved_by_name: Some("ana\u{1b}[2J".into()),
            mode: Mode::Exclusive,
            reason: Some("moving\nthings".into()),
            expires_at: Time(60_000),
            held_by: HeldBy { session_id: "sess_1".into(), reserved_at: Time(0) },
            example: Some("src/a.rs".to_owned()),
            waiting: false,
            queue_length: Some(2),
            encoding: None,
        }
    }

    fn told(conflict: Conflict) -> String {
        conflicts(&[conflict], None, |until| Duration::from_millis(until.0.unsigned_abs()))
    }

    #[test]
    fn a_conflict_says_who_how_long_and_why_and_draws_nothing() {
        let line = "  src/a.rs: held by ana\\x1b[2J (sess_1) through src/**, 1 min left, 2 waiting: moving\\nthings\n";
        assert_eq!(told(conflict()), line);
        let plain = Conflict {
            key: "src/a.rs".to_owned(),
            example: None,
            reserved_by_name: None,
            reason: None,
            queue_length: None,
            mode: Mode::Shared,
            ..conflict()
        };
        assert_eq!(told(plain), "  src/a.rs: held by sess_1, shared, 1 min left\n");
        let waiting = Conflict { waiting: true, queue_length: None, reason: None, ..conflict() };
        assert!(told(waiting).contains("waited for first by ana"));
    }

    #[test]
    fn names_that_are_no_text_are_shown_as_bytes() {
        assert_eq!(key("file:caf%E9 100%25", Some(Encoding::Percent)), "caf\\xe9 100%");
        assert_eq!(key("file:src/[id].ts", None), "file:src/[id].ts");
        assert_eq!(key("a%25", Some(Encoding::Percent)), "a%25");
    }
}
