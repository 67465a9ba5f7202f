//! Rules for paths: which ones a repository can have, and all spellings of `.git`, which git itself refuses.
//!
//! [`strict`] checks what people write. [`lenient`] checks names from git, which may be more unusual.

use std::borrow::Cow;

/// The longest path, pattern or name; Linux has the same limit for paths.
pub(super) const TEXT_MAX_BYTES: usize = 4096;

/// The longest component; common file systems have the same limit.
pub(super) const COMPONENT_MAX_BYTES: usize = 255;

/// The most components of a path or a name. Each of them takes memory of its own.
pub(super) const COMPONENTS_MAX: usize = 255;

/// Why a text is not a path, as the second half of a sentence.
pub(super) type Reason = &'static str;

const EMPTY: Reason = "it is empty; the whole repository is \"**\"";
const ABSOLUTE: Reason = "it is absolute; write it relative to the top of the repository";
const PARENT: Reason = "it has a \"..\" component; write the path without it, relative to the top of the repository";
pub(super) const DRIVE_LETTER: Reason = "it starts with a drive letter; write it relative to the top of the repository";
pub(super) const DOT_GIT: Reason = "\".git\" belongs to git itself, in any case and spelling";
const TOO_LONG: Reason = "it is longer than 4,096 bytes";
pub(super) const TOO_DEEP: Reason = "it has more than 255 components";

/// Checks a path that a person wrote and normalizes its structure: removes `./`, `//` and inner `.`. Removes a slash at
/// the end too; the caller has checked it before.
pub(super) fn strict(text: &str) -> Result<Cow<'_, str>, Reason> {
    strict_text(text)?;
    let mut folds = false;
    let (mut last, mut from, mut depth) = ("", 0, 0);
    // A plain byte loop: components are short, and this is the hottest loop of the module.
    while from <= text.len() {
        let to = text.as_bytes()[from..].iter().position(|&b| b == b'/').map_or(text.len(), |len| from + len);
        let component = &text[from..to];
        from = to + 1;
        if component.is_empty() || component == "." {
            folds = true;
            continue;
        }
        strict_component(component)?;
        last = component;
        depth += 1;
    }
    if depth > COMPONENTS_MAX {
        return Err(TOO_DEEP);
    }
    if last.is_empty() {
        return Err(EMPTY);
    }
    if last.ends_with(char::is_whitespace) {
        return Err("it ends with white space; remove that");
    }
    let path = if folds { Cow::Owned(fold(text)) } else { Cow::Borrowed(text) };
    if has_drive_letter(&path) { Err(DRIVE_LETTER) } else { Ok(path) }
}

/// The part of [`strict`] that applies to the text as a whole; patterns use it too.
pub(super) fn strict_text(text: &str) -> Result<(), Reason> {
    if text.len() > TEXT_MAX_BYTES {
        return Err(TOO_LONG);
    }
    if text.starts_with('/') {
        return Err(ABSOLUTE);
    }
    // No early exit, which is faster because nearly every text is valid.
    let is_bad = |byte: u8| byte == b'\\' || byte.is_ascii_control();
    if text.bytes().fold(false, |found, byte| found | is_bad(byte)) {
        return Err(match text.bytes().find(|&byte| is_bad(byte)) {
            Some(b'\\') => "it contains a backslash; separate components with \"/\"",
            _ => "it contains a control byte",
        });
    }
    Ok(())
}

/// The part of [`strict`] that applies to one component; `.` and empty ones were removed before.
pub(super) fn strict_component(component: &str) -> Result<(), Reason> {
    if component == ".." {
        return Err(PARENT);
    }
    if component.len() > COMPONENT_MAX_BYTES {
        return Err("it has a component longer than 255 bytes");
    }
    if is_dot_git(component) {
        return Err(DOT_GIT);
    }
    Ok(())
}

/// Accepts a name as git can have it in a tree: any bytes but NUL, as long as it stays inside the repository.
pub(super) fn lenient(name: &[u8]) -> Result<Cow<'_, [u8]>, Reason> {
    if name.first() == Some(&b'/') {
        return Err(ABSOLUTE);
    }
    if name.contains(&0) {
        return Err("it contains a NUL byte");
    }
    let is_kept = |component: &&[u8]| !component.is_empty() && component != b".";
    let components = || name.split(|&b| b == b'/');
    if components().any(|component| component == b"..") {
        return Err(PARENT);
    }
    if components().all(|component| is_kept(&component)) {
        return Ok(Cow::Borrowed(name));
    }
    let kept: Vec<&[u8]> = components().filter(is_kept).collect();
    if kept.is_empty() { Err(EMPTY) } else { Ok(Cow::Owned(kept.join(&b'/'))) }
}

/// Whether a text has more than [`COMPONENTS_MAX`] components.
pub(super) fn is_too_deep(text: &[u8]) -> bool {
    // Each component takes two bytes at least, so most texts need no counting.
    text.len() >= 2 * COMPONENTS_MAX && text.iter().filter(|&&b| b == b'/').count() >= COMPONENTS_MAX
}

/// Refuses a name from git that is too long or too deep. Separate from [`lenient`], which must accept what is in old journals.
pub(super) fn check_length(name: &[u8]) -> Result<(), Reason> {
    match name {
        name if name.len() > TEXT_MAX_BYTES => Err(TOO_LONG),
        name if is_too_deep(name) => Err(TOO_DEEP),
        _ => Ok(()),
    }
}

/// `C:` and anything after it.
pub(super) fn has_drive_letter(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for component in text.split('/').filter(|c| !c.is_empty() && *c != ".") {
        if !out.is_empty() {
            out.push('/');
        }
        out.push_str(component);
    }
    out
}

/// Whether a file system that git protects would treat the component as `.git`.
pub(super) fn is_dot_git(component: &str) -> bool {
    // Nearly every component ends here: all such spellings begin with one of these, or with non-ASCII.
    let first = component.as_bytes().first();
    let suspicious = matches!(first, Some(b'.' | b'g' | b'G' | 0x80..));
    suspicious && (is_ntfs_dot_git(component) || is_hfs_dot_git(component))
}

/// NTFS ignores dots and spaces at the end, has `git~1` as the short name of `.git`, and starts a stream name at `:`.
fn is_ntfs_dot_git(component: &str) -> bool {
    let starts = |name: &str| component.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let rest = if starts(".git") {
        &component[4..]
    } else if starts("git~1") {
        &component[5..]
    } else {
        return false;
    };
    let rest = rest.trim_start_matches(['.', ' ']);
    rest.is_empty() || rest.starts_with([':', '\\'])
}

/// HFS+ ignores some code points everywhere, and ignores case.
fn is_hfs_dot_git(component: &str) -> bool {
    let mut seen = component.chars().filter(|&c| !is_hfs_ignored(c));
    ".git".chars().all(|wanted| seen.next().is_some_and(|c| c.eq_ignore_ascii_case(&wanted))) && seen.next().is_none()
}

fn is_hfs_ignored(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_is_normalized() {
        for (text, folded) in [
            ("src/a.rs", "src/a.rs"),
            ("./src/a.rs", "src/a.rs"),
            ("src//a.rs", "src/a.rs"),
            ("src/./a.rs", "src/a.rs"),
            (".//./src/.//a.rs", "src/a.rs"),
            ("src/.", "src"),
            ("...", "..."),
            ("a b/c d", "a b/c d"),
            (".github/x", ".github/x"),
            ("src/a:b", "src/a:b"),
        ] {
            assert_eq!(strict(text).unwrap(), folded);
        }
    }

    #[test]
    fn every_spelling_of_dot_git_is_recognized() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".gIt",
            ".git.",
            ".git..",
            ".git ",
            ".git . .",
            "git~1",
            "GIT~1",
            "git~1.",
            "git~1 ",
            ".git::$INDEX_ALLOCATION",
            ".git:stream",
            ".git.:x",
            ".git :x",
            "git~1:x",
            "git~1::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            "\u{200c}.git",
            ".git\u{200d}",
            ".\u{202a}g\u{202e}I\u{206a}t\u{206f}",
            "\u{feff}.GIT\u{feff}",
        ] {
            assert!(is_dot_git(name), "{name:?}");
        }
        for name in [
            ".gitignore",
            ".github",
            ".gitmodules",
            "git",
            "git~2",
            "git~10",
            "git~1x",
            ".git.x",
            ".git x",
            ".gitx",
            ".gi",
            "x.git",
            "gita",
            ".g",
            "agit~1",
            ".g\u{200b}it",
            ".git~1",
            "git~",
            "é.git",
            ".gît",
        ] {
            assert!(!is_dot_git(name), "{name:?}");
        }
    }

    #[test]
    fn names_from_git_are_accepted_unchanged() {
        for name in [&b"a\\b"[..], b"a ", b"a\nb", b"\xff\xfe", b"C:x", b"db:x", b"a*", b".git/x", b"...", b"-f"] {
            assert_eq!(lenient(name).unwrap(), name);
        }
        assert_eq!(lenient(b"./a//b/").unwrap(), &b"a/b"[..]);
        for name in [&b""[..], b".", b"..", b"/a", b"a/../b", b"a\0b", b"./", b"./."] {
            assert!(lenient(name).is_err(), "{name:?}");
        }
    }
}
