//! Patterns: their text, and what is known of them once they are compiled.
//!
//! The syntax is globset's with `literal_separator` and without escapes: a name with such characters in it is written
//! `file:`. globset turns a pattern into a regular expression, [`Table`] makes an automaton of that, and from then on
//! everything here is exact.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use globset::GlobBuilder;

use super::automaton::{DEAD, Limits, Table, TooComplex};
use super::meet;
use super::path;
use super::text::compared_text;

/// What a new pattern may cost. Two patterns of this size are compared in milliseconds, at the very worst.
pub(super) const NEW: Limits = Limits { states: 1_000, bytes: 512 << 10 };
/// What an old pattern out of a journal may cost: whatever can be built at all.
pub(super) const OLD: Limits = Limits { states: 60_000, bytes: 64 << 20 };

/// Braces inside braces; nobody writes four.
const BRACES_DEEP_MAX: usize = 8;
/// Choices in all braces of a pattern together; a longer list is better reserved as several keys.
const CHOICES_MAX: usize = 256;
/// As much of a common suffix as is worth comparing.
const SUFFIX_MAX_BYTES: usize = 32;

/// A compiled pattern.
pub struct Glob {
    table: Table,
    /// What every match begins with.
    prefix: Box<[u8]>,
    /// How much of `prefix` is whole directories.
    anchor_len: usize,
    suffix: Box<[u8]>,
    /// The shortest valid path that matches; `None` only for old patterns, as new ones that match nothing are refused.
    shortest: Option<Box<[u8]>>,
}

/// Where a walk through a pattern stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobState(u32);

impl Glob {
    /// Whether the path matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        path.starts_with(&self.prefix)
            && path.ends_with(&self.suffix)
            && self.step(self.start(), path).is_some_and(|state| self.accepts(state))
    }

    /// The literal directory all matches lie under, without its trailing slash; empty where there is none.
    pub fn anchor(&self) -> &[u8] {
        &self.prefix[..self.anchor_len]
    }

    /// Bytes every match ends with; a cheap way to say no.
    pub fn suffix(&self) -> &[u8] {
        &self.suffix
    }

    /// Whether every match lies under `path/`, so that the pattern can only mean it as a directory.
    pub fn claims_directory(&self, path: &[u8]) -> bool {
        self.prefix.strip_prefix(path).is_some_and(|rest| rest.first() == Some(&b'/'))
    }

    /// The beginning of a walk.
    pub fn start(&self) -> GlobState {
        GlobState(self.table.start().into())
    }

    /// Goes on over `bytes`; `None` when nothing that begins so can match.
    pub fn step(&self, state: GlobState, bytes: &[u8]) -> Option<GlobState> {
        let mut state = state.0 as u16;
        for &byte in bytes {
            if state == DEAD {
                break;
            }
            state = self.table.next(state, byte);
        }
        if state == DEAD { None } else { Some(GlobState(state.into())) }
    }

    /// Whether what was walked so far is a match.
    pub fn accepts(&self, state: GlobState) -> bool {
        self.table.accepts(state.0 as u16)
    }

    /// Whether some valid path matches both.
    pub fn meets(&self, other: &Glob) -> bool {
        self.example_with(other).is_some()
    }

    /// The shortest valid path that matches both.
    pub fn example_with(&self, other: &Glob) -> Option<Vec<u8>> {
        let prefix = self.prefix.len().min(other.prefix.len());
        let suffix = self.suffix.len().min(other.suffix.len());
        let may_meet = self.prefix[..prefix] == other.prefix[..prefix]
            && self.suffix[self.suffix.len() - suffix..] == other.suffix[other.suffix.len() - suffix..];
        if may_meet { meet::shortest(&self.table, &other.table) } else { None }
    }

    /// The shortest valid path that matches, if there is any.
    pub fn shortest_match(&self) -> Option<&[u8]> {
        self.shortest.as_deref()
    }

    /// How many states its automaton has.
    pub(super) fn states(&self) -> usize {
        self.table.states()
    }

    /// What it takes in memory, roughly.
    pub(super) fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.table.size_bytes() + self.prefix.len() + self.suffix.len()
    }

    /// Compiles a pattern in the form that is compared.
    pub(super) fn compile(pattern: &str, fold_case: bool, limits: Limits) -> Result<Arc<Glob>, String> {
        let parsed = GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(false)
            .case_insensitive(fold_case)
            .build()
            .map_err(|error| error.kind().to_string())?;
        let table = Table::build(parsed.regex(), fold_case, limits)
            .map_err(|TooComplex| "it is too complex; reserve several simpler patterns instead".to_owned())?;
        let prefix = table.common_prefix();
        let suffix = table.common_suffix(SUFFIX_MAX_BYTES);
        let shortest = meet::shortest(&table, &table);
        Ok(Arc::new(Glob {
            anchor_len: prefix.iter().rposition(|&b| b == b'/').unwrap_or(0),
            prefix: prefix.into(),
            suffix: suffix.into(),
            shortest: shortest.map(Vec::into_boxed_slice),
            table,
        }))
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Glob")
            .field("anchor", &String::from_utf8_lossy(self.anchor()))
            .field("suffix", &String::from_utf8_lossy(&self.suffix))
            .field("states", &self.table.states())
            .finish()
    }
}

/// Why some text is no pattern.
pub(super) enum BadPattern {
    /// It breaks a rule of paths.
    Path(path::Reason),
    /// It breaks a rule of patterns.
    Form(Cow<'static, str>),
}

impl From<path::Reason> for BadPattern {
    fn from(reason: path::Reason) -> Self {
        BadPattern::Path(reason)
    }
}

/// Checks the text of a pattern and folds its structure like that of a path; a slash at its end becomes `/**`.
pub(super) fn strict(pattern: &str) -> Result<Cow<'_, str>, BadPattern> {
    path::strict_text(pattern)?;
    if pattern.ends_with(char::is_whitespace) {
        return Err(BadPattern::Path("it ends with white space; take that off"));
    }
    check_limits(pattern)?;
    let folded = folded_structure(pattern);
    for component in components(&folded).filter(|component| component.is_literal) {
        path::strict_component(component.text)?;
    }
    Ok(folded)
}

/// `./`, `//`, inner `.` and a repeated `**` go away, and a slash at the end becomes `/**`.
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

/// The form in which a pattern is compared. Classes keep their case where they have ranges, because folding the ends of
/// `[A-z]` would change what lies between them; they are matched without case anyway.
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

/// What stands between two slashes of a pattern.
struct Component<'a> {
    text: &'a str,
    /// It is plain text outside all braces, so that the rules of paths hold for it.
    is_literal: bool,
    /// How many braces are open where it begins.
    depth: usize,
}

/// Cuts a pattern at its slashes, except for those inside a class.
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

/// The pattern before its first class, that class, and the rest; `None` where no class is left.
fn split_class(pattern: &str) -> Option<(&str, &str, &str)> {
    let start = pattern.find('[')?;
    let end = start + class_len(&pattern[start..])?;
    Some((&pattern[..start], &pattern[start..end], &pattern[end..]))
}

/// How long the class is that the text begins with; `None` where it is never closed.
/// A `]` that comes first, perhaps after the `!`, is one of its characters.
fn class_len(text: &str) -> Option<usize> {
    let negated = text[1..].starts_with(['!', '^']);
    let body = 1 + usize::from(negated);
    let first = text[body..].chars().next()?.len_utf8();
    let close = text[body + first..].find(']')?;
    Some(body + first + close + 1)
}
