//! Where a key lies in the ledger's tree.
//!
//! A file lies where it lies in the repository, so that git's own commands find it. Everything else lies in [`OWN`]
//! under its percent-encoded text: patterns, names, URIs, and those paths that no tree can hold as they are.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::key::{Key, Kind};
use crate::text::percent;

/// The directory at the top of the tree that is the ledger's own.
pub const OWN: &str = ".dibs";

/// The events of a commit, a line each.
pub const EVENTS: &str = ".dibs/events";

/// The longest name in [`OWN`]: what a file system takes, so that the tree can be checked out.
const NAME_MAX_BYTES: usize = 255;

/// Directories a path may have above it. Git itself gives up at some depth.
const DEPTH_MAX: usize = 256;

/// The shelf of a key, as a path in the tree.
pub fn of(key: &Key) -> Vec<u8> {
    let spelling = key.spelling();
    match key.kind() {
        Kind::Path if fits(spelling) => spelling.to_vec(),
        Kind::Path => set_aside(spelling),
        Kind::Glob => own("glob", spelling),
        Kind::Logical => own("name", spelling),
        Kind::Uri => own("uri", spelling),
    }
}

/// Where a path goes that cannot stay where it is: something else is held below it, or git would take it amiss.
pub fn set_aside(path: &[u8]) -> Vec<u8> {
    own("path", path)
}

fn own(kind: &str, text: &[u8]) -> Vec<u8> {
    let mut name = encoded(text);
    if name.len() > NAME_MAX_BYTES {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text);
        let hash = git2::Oid::from_bytes(hash.as_ref()).expect("SHA-1 has twenty bytes").to_string();
        // Not inside a `%XX`, so that what is left still reads.
        let mut end = NAME_MAX_BYTES - hash.len() - 1;
        while name.as_bytes()[end - 1] == b'%' || name.as_bytes()[end - 2] == b'%' {
            end -= 1;
        }
        name = format!("{}~{hash}", &name[..end]);
    }
    format!("{OWN}/{kind}/{name}").into_bytes()
}

/// Text as one name of a tree: what is left as it is means nothing to git or to a file system, at the beginning or later.
fn encoded(text: &[u8]) -> String {
    let mut name = String::with_capacity(text.len() + 8);
    for (at, &byte) in text.iter().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b" !#$&'()*+,-.:;=?@[]^_{|}".contains(&byte);
        if plain && !(at == 0 && matches!(byte, b'.' | b'-')) {
            name.push(char::from(byte));
        } else {
            name.push_str(percent::escape(byte));
        }
    }
    name
}

/// Whether a path can lie in a tree where it lies in the repository, and nobody minds what is in its blob.
fn fits(path: &[u8]) -> bool {
    let mut depth = 0;
    for part in path.split(|&b| b == b'/') {
        depth += 1;
        if part.is_empty() || part == b"." || part == b".." || depth > DEPTH_MAX || is_special(part) {
            return false;
        }
    }
    !path.split(|&b| b == b'/').next().is_some_and(|first| first.eq_ignore_ascii_case(OWN.as_bytes()))
}

/// Whether git reads files of this name, or one that some file system takes for it (`.gitmodules`, `GITMOD~1`); the key's
/// own rules refuse `.git` in all its disguises, and it is no loss to take a few names more.
fn is_special(name: &[u8]) -> bool {
    let seen = name.iter().filter(|b| b.is_ascii()).map(u8::to_ascii_lowercase);
    let mut start = [0; 5];
    start.iter_mut().zip(seen).for_each(|(to, from)| *to = from);
    matches!(&start, b".gitm" | b".gita") || (start.starts_with(b"gi") && name.contains(&b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyRules;

    fn shelf(text: &str) -> String {
        let key = Key::parse_percent(text, &KeyRules::default()).unwrap();
        String::from_utf8(of(&key)).unwrap()
    }

    #[test]
    fn files_stay_where_they_are_and_nothing_else_can_be_taken_for_one() {
        for path in ["src/a.rs", "a b", ".github/x", "dibs/x", "src/.dibs/x", "file:src/[id].ts", "git/a~1"] {
            assert_eq!(shelf(path), path.strip_prefix("file:").unwrap_or(path), "{path}");
        }
        assert_eq!(shelf("src/"), ".dibs/glob/src%2F**");
        assert_eq!(shelf("src/**/*.rs"), ".dibs/glob/src%2F**%2F*.rs");
        assert_eq!(shelf("db:schema:users"), ".dibs/name/db:schema:users");
        assert_eq!(shelf("api:GET /v1/users"), ".dibs/name/api:GET %2Fv1%2Fusers");
        assert_eq!(shelf("github://acme/app/42"), ".dibs/uri/github:%2F%2Facme%2Fapp%2F42");
        assert_eq!(shelf("file:.dibs/events"), ".dibs/path/%2Edibs%2Fevents");
        assert_eq!(shelf("file:.DIBS"), ".dibs/path/%2EDIBS");
        assert_eq!(shelf(".gitmodules"), ".dibs/path/%2Egitmodules");
        assert_eq!(shelf("a/.GitAttributes"), ".dibs/path/a%2F.GitAttributes");
        assert_eq!(shelf("gitmod~1"), ".dibs/path/gitmod%7E1");
        assert_eq!(shelf("file:.g%E2%80%8Citm"), ".dibs/path/%2Eg%E2%80%8Citm");
        assert_eq!(of(&Key::literal(b"caf\xe9", &KeyRules::default()).unwrap()), b"caf\xe9");
    }

    #[test]
    fn long_and_deep_names_are_short_and_still_differ() {
        let long = format!("{}/**", "x".repeat(250));
        let deep = vec!["d"; 2000].join("/");
        for (text, other) in [(&long, format!("{long}/*.rs")), (&deep, format!("{deep}/e"))] {
            let (one, two) = (shelf(text), shelf(&other));
            assert!(one != two && one.starts_with(OWN), "{one}");
            assert!(one.split('/').all(|part| part.len() <= 255), "{one}");
        }
        let percent = format!("file:{}", "%E9/".repeat(300).trim_end_matches('/'));
        assert!(shelf(&percent).contains("%E9%2F~") || shelf(&percent).contains("%E9~"), "{}", shelf(&percent));
    }
}
