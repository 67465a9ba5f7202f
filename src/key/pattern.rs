//! The text of patterns: their limits, their structure, and the form in which they are compared.
//!
//! The syntax is that of globset with `literal_separator` and without escapes: a name with special characters is written
//! with `file:`. What a pattern matches is decided in [`super::glob`].

use std::borrow::Cow;

use super::path;
use super::text::compared_text;

/// The deepest nesting of braces; real patterns rarely have more than two levels.
const BRACES_DEEP_MAX: usize = 8;
/// The most choices in all braces of a pattern together. A longer list should be several keys.
const CHOICES_MAX: usize = 256;

/// Why a text is not a pattern.
pub(super) enum BadPattern {
    /// It violates a rule for paths.
    Path(path::Reason),
    /// It violates a rule for patterns.
    Form(Cow<'static, str>),
}

impl From<path::Reason> for BadPattern {
    fn from(reason: path::Reason) -> Self {
        BadPattern::Path(reason)
    }
}

/// Checks the text of a pattern and normalizes its structure like that of a path; a slash at the end becomes `/**`.
pub(super) fn strict(pattern: &str) -> Result<Cow<'_, str>, BadPattern> {
    path::strict_text(pattern)?;
    if pattern.ends_with(char::is_whitespace) {
        return Err(BadPattern::Path("it ends with white space; remove that"));
    }
    check_limits(pattern)?;
    let folded = folded_structure(pattern);
    if path::is_too_deep(folded.as_bytes()) {
        return Err(BadPattern::Path(path::TOO_DEEP));
    }
    if path::has_drive_letter(&folded) {
        return Err(BadPattern::Path(path::DRIVE_LETTER));
    }
    for component in components(&folded).filter(|component| component.is_literal) {
        path::strict_component(component.text)?;
    }
    Ok(folded)
}

/// Removes `./`, `//`, inner `.` and a repeated `**`, and turns a slash at the end into `/**`.
pub(super) fn folded_structure(pattern: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(pattern.len() + 2);
    let mut after_stars = false;
    let directory =
        if pattern.ends_with('/') { Some(Component { text: "**", is_literal: false, depth: 0 }) } else { None };
    for component in components(pattern).chain(directory) {
        let stars = component.text == "**" && component.depth == 0;
        if component.text.is_empty() || component.text == "." || stars && after_stars {
            continue;
        }
        if !out.is_empty() {
            out.push('/');
        }
        out.push_str(component.text);
        after_stars = stars;
    }
    if out == pattern { Cow::Borrowed(pattern) } else { Cow::Owned(out) }
}

/// The form in which a pattern is compared. Classes with ranges keep their case, because folding the ends of `[A-z]` would
/// change what is between them; they are matched without case anyway.
pub(super) fn compared(pattern: &str, fold_case: bool) -> Cow<'_, str> {
    if !pattern.contains('[') {
        return compared_text(pattern, fold_case);
    }
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, class, after)) = split_class(rest) {
        out.push_str(&compared_text(before, fold_case));
        if fold_case && !class.contains('-') {
            out.push_str(&class.to_ascii_lowercase());
        } else {
            out.push_str(class);
        }
        rest = after;
    }
    out.push_str(&compared_text(rest, fold_case));
    if out == pattern { Cow::Borrowed(pattern) } else { Cow::Owned(out) }
}

fn check_limits(pattern: &str) -> Result<(), BadPattern> {
    let mut rest = pattern;
    let (mut depth, mut choices) = (0usize, 0usize);
    loop {
        let (before, class, after) = split_class(rest).unwrap_or((rest, "", ""));
        if !class.is_ascii() {
            let reason = "a class like [ab] takes ASCII characters only; write a choice like {é,è} instead";
            return Err(BadPattern::Form(reason.into()));
        }
        for byte in before.bytes() {
            match byte {
                b'{' => (depth, choices) = (depth + 1, choices + 1),
                b'}' => depth = depth.saturating_sub(1),
                b',' if depth > 0 => choices += 1,
                _ => {}
            }
            if depth > BRACES_DEEP_MAX {
                return Err(BadPattern::Form(format!("braces are nested more than {BRACES_DEEP_MAX} deep").into()));
            }
        }
        if choices > CHOICES_MAX {
            let reason = format!("its braces hold more than {CHOICES_MAX} choices; reserve several patterns instead");
            return Err(BadPattern::Form(reason.into()));
        }
        if after.is_empty() {
            return Ok(());
        }
        rest = after;
    }
}

/// The text between two slashes of a pattern.
struct Component<'a> {
    text: &'a str,
    /// Plain text outside all braces, to which the rules for paths apply.
    is_literal: bool,
    /// How many braces are open at its start.
    depth: usize,
}

/// Splits a pattern at its slashes, except for those inside a class.
fn components(pattern: &str) -> impl Iterator<Item = Component<'_>> {
    let mut rest = Some(pattern);
    let mut depth = 0usize;
    std::iter::from_fn(move || {
        let text = rest?;
        let depth_before = depth;
        let (mut at, mut is_literal) = (0, depth == 0);
        let bytes = text.as_bytes();
        while at < bytes.len() && bytes[at] != b'/' {
            match bytes[at] {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                b'[' => at += class_len(&text[at..]).map_or(0, |len| len - 1),
                _ => {}
            }
            is_literal &= !b"*?[]{}".contains(&bytes[at]);
            at += 1;
        }
        rest = text.get(at + 1..);
        Some(Component { text: &text[..at], is_literal, depth: depth_before })
    })
}

/// Splits a pattern after the last slash before its first special character, into a directory and a pattern inside it.
pub(super) fn split_directory(pattern: &str) -> (&str, &str) {
    // A closing brace without an opening one is an error, and errors are found in the second part.
    let literal = pattern.find(['*', '?', '[', '{', '}']).unwrap_or(pattern.len());
    pattern.split_at(pattern[..literal].rfind('/').map_or(0, |slash| slash + 1))
}

/// The text before the first class, that class, and the rest; `None` if there is no class.
fn split_class(pattern: &str) -> Option<(&str, &str, &str)> {
    let start = pattern.find('[')?;
    let end = start + class_len(&pattern[start..])?;
    Some((&pattern[..start], &pattern[start..end], &pattern[end..]))
}

/// The length of the class at the start of the text; `None` if it is not closed. A `]` right at its start, or after the
/// `!`, is one of its characters.
fn class_len(text: &str) -> Option<usize> {
    let negated = text[1..].starts_with(['!', '^']);
    let body = 1 + usize::from(negated);
    let first = text[body..].chars().next()?.len_utf8();
    let close = text[body + first..].find(']')?;
    Some(body + first + close + 1)
}
