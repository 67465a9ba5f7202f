//! Keys, sessions and reasons as they are shown to people. Text from elsewhere is made safe for a terminal and cut.

use crate::text::percent;
use crate::text::terminal::{clean, path};
use crate::wire::Encoding;

/// The longest name, key or session id that is shown, in characters.
pub const NAME_MAX: usize = 200;

/// The longest reason that is shown, in characters.
const REASON_MAX: usize = 200;

/// A key as the HTTP API writes it. `encoding` tells whether its `file:` part is percent-encoded.
pub fn key(text: &str, encoding: Option<Encoding>) -> String {
    let coded = text.strip_prefix("file:").filter(|_| encoding.is_some());
    match coded.and_then(percent::decode) {
        Some(bytes) => path(&bytes),
        None => clean(text, NAME_MAX),
    }
}

/// A session: its name and id, or only the id if it has no name.
pub fn session(id: &str, name: Option<&str>) -> String {
    match name {
        Some(name) if name != id => format!("{} ({})", clean(name, NAME_MAX), clean(id, NAME_MAX)),
        _ => clean(id, NAME_MAX),
    }
}

/// A reason with a colon before it; empty if there is none.
pub fn colon_reason(reason: Option<&str>) -> String {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    reason.map_or_else(String::new, |reason| format!(": {}", clean(reason, REASON_MAX)))
}

/// A reason alone, for a table.
pub fn reason(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| clean(reason.trim(), REASON_MAX))
}

/// Whether a key may cover more than one name: a directory or a pattern.
pub fn covers_several(key: &str) -> bool {
    !key.starts_with("file:") && (key.ends_with('/') || key.contains(['*', '?', '[', '{']))
}

/// A key that is released as a whole: `all of src/**`, or `src/a.rs`.
pub fn whole(key: &str, encoding: Option<Encoding>) -> String {
    let all_of = if covers_several(key) { "all of " } else { "" };
    format!("{all_of}{}", self::key(key, encoding))
}

/// `1 path`, `2 paths`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_or_a_pattern_covers_several_names() {
        assert!(["src/", "src/**", "a?", "[ab].rs", "flag:billing/*"].iter().all(|key| covers_several(key)));
        assert!(!["src/a.rs", "file:src/[id].ts", "db:slot"].iter().any(|key| covers_several(key)));
    }

    #[test]
    fn names_that_are_not_utf8_are_shown_as_bytes() {
        assert_eq!(key("file:caf%E9 100%25", Some(Encoding::Percent)), "caf\\xe9 100%");
        assert_eq!(key("file:src/[id].ts", None), "file:src/[id].ts");
        assert_eq!(key("a%25", Some(Encoding::Percent)), "a%25");
    }
}
