//! Text from other people (names, reasons, paths) made safe to show on a terminal or in a log.
//!
//! What comes out cannot move the cursor, change a colour, reorder or hide the text around it, or begin a new line.

use std::borrow::Cow;
use std::time::Duration;

/// Escapes every harmful character. Text longer than `max` characters is cut and ends in `…`.
pub fn clean(text: &str, max: usize) -> String {
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == max {
            out.push('…');
            break;
        }
        push_clean(&mut out, c);
    }
    out
}

/// Another person's text in double quotes, which it cannot leave; escaped and cut as by [`clean`].
pub fn quoted(text: &str, max: usize) -> String {
    format!("\"{}\"", clean(&text.replace('"', "'"), max))
}

/// Escapes a path as git stores it. A byte that is not part of UTF-8 text becomes `\xff`.
pub fn path(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_clean(&mut out, c));
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

/// Escapes every harmful character of text that may have several lines. Only line feeds and tabs stay as they are.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    let is_layout = |c: char| c == '\n' || c == '\t';
    if !text.chars().any(|c| is_harmful(c) && !is_layout(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_layout(c) { out.push(c) } else { push_clean(&mut out, c) }
    }
    Cow::Owned(out)
}

/// A duration for a person: at most two units, rounded down.
pub fn time_left(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => "less than a second".to_owned(),
        1..60 => format!("{seconds} s"),
        60..600 if !seconds.is_multiple_of(60) => format!("{} min {} s", seconds / 60, seconds % 60),
        60..3600 => format!("{} min", seconds / 60),
        _ if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn push_clean(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c if is_harmful(c) && (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if is_harmful(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
        c => out.push(c),
    }
}

/// A control character, or one that reorders or hides the text around it.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmful_characters_are_escaped() {
        assert_eq!(clean("ana\x1b[31m\n\u{9b}2J\u{202e}x", 99), "ana\\x1b[31m\\n\\x9b2J\\u{202e}x");
        assert_eq!(clean("für alle 日本", 99), "für alle 日本");
        assert_eq!(clean("abcdef", 3), "abc…");
        assert_eq!(quoted("a \"b\"\n", 9), "\"a 'b'\\n\"");
        assert_eq!(clean_lines("a\tb\nc\x1b[2Jd\r\u{202e}"), "a\tb\nc\\x1b[2Jd\\r\\u{202e}");
        assert_eq!(path(b"a\xffb\n\"c\" d"), "a\\xffb\\n\"c\" d");
    }

    #[test]
    fn a_duration_has_at_most_two_units() {
        let shown = |seconds| time_left(Duration::from_secs(seconds));
        assert_eq!(shown(0), "less than a second");
        assert_eq!(shown(59), "59 s");
        assert_eq!(shown(60), "1 min");
        assert_eq!(shown(250), "4 min 10 s");
        assert_eq!(shown(1805), "30 min");
        assert_eq!(shown(7200), "2 h");
        assert_eq!(shown(28_799), "7 h 59 min");
    }
}
