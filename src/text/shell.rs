//! Quoting: text as one word of a shell's command line.

use super::terminal::is_harmful;

/// The bytes as one word of a POSIX shell script, always in single quotes.
pub fn quote(bytes: &[u8]) -> Vec<u8> {
    let mut word = vec![b'\''];
    for &byte in bytes {
        if byte == b'\'' {
            word.extend_from_slice(b"'\\''");
        } else {
            word.push(byte);
        }
    }
    word.push(b'\'');
    word
}

/// The text as a word to show in a suggested command: quoted only where a shell needs it. `None` if the text has
/// characters that are not safe to show on a terminal.
pub fn word(text: &str) -> Option<String> {
    if text.chars().any(is_harmful) {
        return None;
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@%,:=".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return Some(text.to_owned());
    }
    Some(in_single_quotes(text))
}

/// A path of the repository as a command-line argument that names exactly this path to git-dibs, in whatever
/// directory of the repository it is typed.
pub fn path_argument(path: &[u8]) -> String {
    let is_plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-' | b'+' | b'@' | b'%' | b',');
    let is_special = |b: &u8| matches!(b, b'*' | b'?' | b'[' | b']' | b'{' | b'}' | b':' | b'\\' | b'!');
    let is_literal = path.iter().any(is_special) || path.starts_with(b"-") || path.ends_with(b"/");
    // A hook does not know its caller's directory (`git -C`, an alias, a server), so the path starts at the top.
    let prefix = if is_literal { ":/file:" } else { ":/" };
    if path.iter().copied().all(is_plain) {
        return format!("{prefix}{}", String::from_utf8_lossy(path));
    }
    match std::str::from_utf8(path) {
        Ok(text) if !text.chars().any(is_harmful) => in_single_quotes(&format!("{prefix}{text}")),
        _ => {
            let escape = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", *byte as char),
                0x20..=0x7e => (*byte as char).to_string(),
                other => format!("\\x{other:02x}"),
            };
            format!("$'{prefix}{}'", path.iter().map(escape).collect::<String>())
        }
    }
}

fn in_single_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_argument_survives_a_shell() {
        assert_eq!(path_argument(b"src/a.rs"), ":/src/a.rs");
        assert_eq!(path_argument(b"src/[id].ts"), "':/file:src/[id].ts'");
        assert_eq!(path_argument(b"it's here"), "':/it'\\''s here'");
        assert_eq!(path_argument(b"-rf"), ":/file:-rf");
        assert_eq!(path_argument(b"C:x"), "':/file:C:x'");
        for name in
            [&b"a b"[..], b"it's", b"new\nline", b"\xff\xfe", b"$(rm -rf x)", b"back\\slash", b"-n", b"#x", b"~"]
        {
            let script = format!("printf %s {}", path_argument(name));
            let out = std::process::Command::new("bash").args(["-c", &script]).output().unwrap().stdout;
            let out = out.strip_prefix(b":/").expect("it starts at the top");
            let out = out.strip_prefix(b"file:").unwrap_or(out);
            assert_eq!(out, name, "{script}");
        }
    }

    #[test]
    fn a_word_survives_a_shell() {
        for text in ["src/a.rs", "a b", "it's", "$(x)", "", "src/**", ":/a", "file:[x]", "~", "#"] {
            for word in [word(text).unwrap(), String::from_utf8(quote(text.as_bytes())).unwrap()] {
                let script = format!("printf %s {word}");
                let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
                assert_eq!(String::from_utf8(out).unwrap(), text, "{script}");
            }
        }
        assert_eq!(word("a\nb"), None);
    }
}
