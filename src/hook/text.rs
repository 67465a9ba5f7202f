//! Words on a terminal: names, reasons and paths from elsewhere, made harmless and readable.

use std::time::Duration;

/// Text somebody else wrote, fit for a terminal: nothing in it can move a cursor, change a colour or hide a line.
/// Longer than `max` characters it is cut.
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

/// A path as git stores it, fit for a terminal. Bytes that are no UTF-8 appear as `\xff`.
pub fn path(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_clean(&mut out, c));
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

/// A path as an argument on a shell's command line that names exactly this path to git-dibs, wherever in the repository
/// it is typed.
pub fn argument(bytes: &[u8]) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-' | b'+' | b'@' | b'%' | b',');
    let literal = bytes.iter().any(|b| matches!(b, b'*' | b'?' | b'[' | b']' | b'{' | b'}' | b':' | b'\\' | b'!'));
    let literal = literal || bytes.starts_with(b"-") || bytes.ends_with(b"/");
    // Git tells a hook too little of where its caller stands: nothing with `git -C`, in an alias or on a server.
    let prefix = if literal { ":/file:" } else { ":/" };
    if bytes.iter().copied().all(plain) {
        return format!("{prefix}{}", String::from_utf8_lossy(bytes));
    }
    let harmless = |text: &str| text.chars().all(|c| !is_harmful(c));
    match std::str::from_utf8(bytes) {
        Ok(text) if harmless(text) => format!("'{prefix}{}'", text.replace('\'', r"'\''")),
        _ => {
            let escaped = |b: &u8| match b {
                b'\'' | b'\\' => format!("\\{}", *b as char),
                0x20..=0x7e => (*b as char).to_string(),
                other => format!("\\x{other:02x}"),
            };
            format!("$'{prefix}{}'", bytes.iter().map(escaped).collect::<String>())
        }
    }
}

/// A length of time, roughly: two units at most.
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

/// Control characters, and those that reorder or hide the text around them.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        assert_eq!(clean("ana\x1b[31m\n\u{9b}2J\u{202e}x", 99), "ana\\x1b[31m\\n\\x9b2J\\u{202e}x");
        assert_eq!(clean("für alle 日本", 99), "für alle 日本");
        assert_eq!(clean("abcdef", 3), "abc…");
        assert_eq!(path(b"a\xffb\n\"c\" d"), "a\\xffb\\n\"c\" d");
    }

    #[test]
    fn an_argument_survives_a_shell() {
        assert_eq!(argument(b"src/a.rs"), ":/src/a.rs");
        assert_eq!(argument(b"src/[id].ts"), "':/file:src/[id].ts'");
        assert_eq!(argument(b"it's here"), "':/it'\\''s here'");
        assert_eq!(argument(b"-rf"), ":/file:-rf");
        assert_eq!(argument(b"C:x"), "':/file:C:x'");
        for name in
            [&b"a b"[..], b"it's", b"new\nline", b"\xff\xfe", b"$(rm -rf x)", b"back\\slash", b"-n", b"#x", b"~"]
        {
            let script = format!("printf %s {}", argument(name));
            let out = std::process::Command::new("bash").args(["-c", &script]).output().unwrap().stdout;
            let out = out.strip_prefix(b":/").expect("from the top");
            let out = out.strip_prefix(b"file:").unwrap_or(out);
            assert_eq!(out, name, "{script}");
        }
    }

    #[test]
    fn time_is_told_in_two_units_at_most() {
        let told = |seconds| time_left(Duration::from_secs(seconds));
        assert_eq!(told(0), "less than a second");
        assert_eq!(told(59), "59 s");
        assert_eq!(told(60), "1 min");
        assert_eq!(told(250), "4 min 10 s");
        assert_eq!(told(1805), "30 min");
        assert_eq!(told(7200), "2 h");
        assert_eq!(told(28_799), "7 h 59 min");
    }
}
