//! Printing: data goes to stdout, messages go to stderr.
//!
//! Everything that is printed passes [`clean_lines`], so no text of a server or a repository can control the terminal, also
//! if a command forgets to clean it. A command still cleans each name itself, because a name may have a line feed.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::client::Endpoint;
pub use crate::local::describe::count;
use crate::text::terminal::{clean, clean_lines, is_harmful};

/// Writes data to stdout.
pub fn data(text: &str) -> io::Result<()> {
    program_text(&clean_lines(text))
}

/// Writes text that this program has made alone: a script, a manual page. A closed pipe is not an error: the reader has
/// seen enough.
pub fn program_text(text: &str) -> io::Result<()> {
    write(text).map(drop)
}

/// Writes text to stdout at once. False if nothing reads it any more.
fn write(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write the answer: {error}"))),
        Ok(()) => Ok(true),
    }
}

/// Writes data of a command that goes on. False if nothing reads it any more.
pub fn live_data(text: &str) -> io::Result<bool> {
    write(&clean_lines(text))
}

/// The same for one JSON document.
pub fn live_document(bytes: &[u8]) -> io::Result<bool> {
    write(&document_text(bytes))
}

/// The same for text that replaces the one before: on a terminal it takes its place, elsewhere it follows after an empty
/// line. What does not fit the terminal is left out.
pub fn live_screen(text: &str) -> io::Result<bool> {
    let text = clean_lines(text);
    if !io::stdout().is_terminal() {
        return write(&format!("{text}\n"));
    }
    let height = terminal_size::terminal_size().map_or(usize::MAX, |(_, terminal_size::Height(rows))| rows.into());
    let lines: Vec<&str> = text.lines().collect();
    // One line is for the cursor, and one for what is left out.
    let shown = if lines.len() < height { lines.len() } else { height.saturating_sub(2) };
    let rest = match lines.len() - shown {
        0 => String::new(),
        rest => format!("{rest} more\n"),
    };
    let shown: String = lines[..shown].iter().map(|line| format!("{line}\n")).collect();
    // To the top left corner, and nothing below.
    write(&format!("\x1b[H\x1b[J{shown}{rest}"))
}

/// Writes one JSON document and a line feed.
pub fn document(bytes: &[u8]) -> io::Result<()> {
    program_text(&document_text(bytes))
}

/// One JSON document and a line feed. Characters that would control a terminal are written as escapes, which mean the same
/// in JSON.
fn document_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            // Line feeds are outside of strings, and harmless.
            '\n' => line.push(c),
            c if is_harmful(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| line.push_str(&format!("\\u{unit:04x}")));
            }
            c => line.push(c),
        }
    }
    line.push('\n');
    line
}

/// Writes a message to stderr. If stderr is closed, the message is dropped.
pub fn say(sentence: &str) {
    let _ = io::stderr().write_all(format!("git-dibs: {}\n", clean_lines(sentence)).as_bytes());
}

/// Stderr, for a hook's messages.
pub struct CleanStderr;

impl Write for CleanStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(clean_lines(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Formats rows under a heading, in columns that fit the terminal.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    table_with_whole(heading, rows, &[])
}

/// The same, where the cells of the `whole` columns are never broken into several lines.
pub fn table_with_whole(heading: &[&str], rows: Vec<Vec<String>>, whole: &[usize]) -> String {
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
    // A cell never begins a new line.
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(|cell| clean(&cell, usize::MAX))));
    for (n, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if whole.contains(&n) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The addresses of a server, for a message.
pub fn addresses(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" or ")
}
