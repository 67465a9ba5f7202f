//! Decides which form of key a text has. The only place that looks at prefixes.

use super::{name, path};

/// The form of a text, decided by its prefix and by pattern characters.
pub(super) enum Form<'a> {
    /// The path after `file:`.
    File(&'a str),
    /// A resource URI of this scheme.
    Uri(&'a str),
    /// A logical key in this namespace.
    Logical(&'a str),
    /// An unknown word before a colon.
    Other(&'a str),
    /// A pattern, or a directory.
    Glob(&'a str),
    /// A path, valid or not.
    Path(&'a str),
}

impl Form<'_> {
    pub(super) fn of(text: &str) -> Form<'_> {
        if let Some(word) = leading_word(text) {
            let rest = &text[word.len() + 1..];
            return match word {
                "file" => Form::File(rest),
                _ if path::has_drive_letter(text) => Form::Path(text),
                _ if rest.starts_with("//") && is_scheme(word) => Form::Uri(word),
                _ if word == name::PORT || name::NAMESPACES.contains(&word) => Form::Logical(word),
                _ => Form::Other(word),
            };
        }
        let has_pattern = text.bytes().fold(false, |found, b| found | matches!(b, b'*' | b'?' | b'[' | b'{'));
        let is_directory = text.ends_with('/') && text.split('/').any(|c| !c.is_empty() && c != ".");
        if has_pattern || is_directory { Form::Glob(text) } else { Form::Path(text) }
    }
}

/// The word before a `:` at the beginning of the text.
fn leading_word(text: &str) -> Option<&str> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '+' | '.' | '_' | '-');
    let end = text.find(|c| !is_word(c))?;
    let begins = |word: &str| word.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    Some(&text[..end]).filter(|word| begins(word) && text.as_bytes()[end] == b':')
}

/// Whether a word can be the scheme of a URI.
pub(super) fn is_scheme(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.is_ascii()
}

/// Whether a path is parsed as a path without `file:` in front.
pub(super) fn is_plain_path(path: &str) -> bool {
    matches!(Form::of(path), Form::Path(_)) && !path::has_drive_letter(path)
}

/// Whether a pattern is parsed as a pattern without `./` in front.
pub(super) fn is_plain_pattern(pattern: &str) -> bool {
    matches!(Form::of(pattern), Form::Glob(_))
}
