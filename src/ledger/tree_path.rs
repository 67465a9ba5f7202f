//! Where a key is in the ledger's tree.
//!
//! A path is where it is in the repository, so that git's own commands find it. Everything else is in [`OWN`] under its
//! percent-encoded text: patterns, logical names, URIs, and paths that a tree cannot contain as they are.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::key::{Key, Kind};
use crate::text::percent;

/// The ledger's own directory, at the top of the tree.
pub const OWN: &str = ".dibs";

/// The file with the events of a commit, one per line.
pub const EVENTS: &str = ".dibs/events";

/// The longest file name in [`OWN`]. File systems allow no longer names, and the tree should be possible to check out.
const NAME_MAX_BYTES: usize = 255;

/// The deepest path. Git itself refuses trees beyond some depth.
const DEPTH_MAX: usize = 256;

/// The path of a key in the tree. If there are entries below it, the key is at [`set_aside`] instead.
pub fn of(key: &Key) -> Vec<u8> {
    let spelling = key.spelling();
    match key.kind() {
        Kind::Path if can_be_in_place(spelling) && !key.is_inside_dot_git() => spelling.to_vec(),
        Kind::Path => set_aside(spelling),
        Kind::Glob => own("glob", spelling),
        Kind::Logical => own("name", spelling),
        Kind::Uri => own("uri", spelling),
    }
}

/// The path in [`OWN`] for a key whose own path cannot be used in the tree: there are entries below it, or git does not
/// allow the name.
pub fn set_aside(path: &[u8]) -> Vec<u8> {
    own("path", path)
}

fn own(kind: &str, text: &[u8]) -> Vec<u8> {
    let mut name = encoded(text);
    if name.len() > NAME_MAX_BYTES {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text);
        let hash = git2::Oid::from_bytes(hash.as_ref()).expect("SHA-1 has twenty bytes").to_string();
        // Not inside a `%XX`, so that the rest can be decoded.
        let mut end = NAME_MAX_BYTES - hash.len() - 1;
        while name.as_bytes()[end - 1] == b'%' || name.as_bytes()[end - 2] == b'%' {
            end -= 1;
        }
        name = format!("{}~{hash}", &name[..end]);
    }
    format!("{OWN}/{kind}/{name}").into_bytes()
}

/// Text as one file name. Encodes every character that is special to git or to a file system.
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

/// Whether a path can be at its own place in the tree without git reading its blob as something else.
fn can_be_in_place(path: &[u8]) -> bool {
    let mut depth = 0;
    for part in path.split(|&b| b == b'/') {
        depth += 1;
        if part.is_empty() || part == b"." || part == b".." || depth > DEPTH_MAX || is_special(part) {
            return false;
        }
    }
    !path.split(|&b| b == b'/').next().is_some_and(|first| first.eq_ignore_ascii_case(OWN.as_bytes()))
}

/// Whether git reads files of this name, or of a name that some file system treats as the same (`.gitmodules`,
/// `GITMOD~1`). A few other names match too; that does no harm.
fn is_special(name: &[u8]) -> bool {
    let visible = name.iter().filter(|b| b.is_ascii()).map(u8::to_ascii_lowercase);
    let mut start = [0; 5];
    start.iter_mut().zip(visible).for_each(|(to, from)| *to = from);
    matches!(&start, b".gitm" | b".gita") || (start.starts_with(b"gi") && name.contains(&b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyRules;

    fn path_of(text: &str) -> String {
        let key = Key::parse_percent(text, &KeyRules::default()).unwrap();
        String::from_utf8(of(&key)).unwrap()
    }

    #[test]
    fn paths_are_in_place_and_everything_else_is_in_the_own_directory() {
        for path in ["src/a.rs", "a b", ".github/x", "dibs/x", "src/.dibs/x", "file:src/[id].ts", "git/a~1"] {
            assert_eq!(path_of(path), path.strip_prefix("file:").unwrap_or(path), "{path}");
        }
        assert_eq!(path_of("src/"), ".dibs/glob/src%2F**");
        assert_eq!(path_of("src/**/*.rs"), ".dibs/glob/src%2F**%2F*.rs");
        assert_eq!(path_of("db:schema:users"), ".dibs/name/db:schema:users");
        assert_eq!(path_of("api:GET /v1/users"), ".dibs/name/api:GET %2Fv1%2Fusers");
        assert_eq!(path_of("github://acme/app/42"), ".dibs/uri/github:%2F%2Facme%2Fapp%2F42");
        assert_eq!(path_of("file:.dibs/events"), ".dibs/path/%2Edibs%2Fevents");
        assert_eq!(path_of("file:.DIBS"), ".dibs/path/%2EDIBS");
        assert_eq!(path_of(".gitmodules"), ".dibs/path/%2Egitmodules");
        assert_eq!(path_of("a/.GitAttributes"), ".dibs/path/a%2F.GitAttributes");
        assert_eq!(path_of("gitmod~1"), ".dibs/path/gitmod%7E1");
        assert_eq!(path_of("file:.g%E2%80%8Citm"), ".dibs/path/%2Eg%E2%80%8Citm");
        // No call reserves these any more, but journals of earlier versions have them.
        assert_eq!(path_of("file:%2egit/config"), ".dibs/path/%2Egit%2Fconfig");
        assert_eq!(path_of("file:a/.GI%54"), ".dibs/path/a%2F.GIT");
        assert_eq!(of(&Key::literal(b"caf\xe9", &KeyRules::default()).unwrap()), b"caf\xe9");
    }

    #[test]
    fn long_and_deep_names_are_shortened_and_still_differ() {
        let long = format!("{}/**", "x".repeat(250));
        // Journals of earlier versions may have keys of this depth.
        let deep = vec!["d"; 2000].join("/");
        let recalled = |text: &str| String::from_utf8(of(&Key::recall(text, false).unwrap())).unwrap();
        for (text, other) in [(&long, format!("{long}/*.rs")), (&deep, format!("{deep}/e"))] {
            let (one, two) = (recalled(text), recalled(&other));
            assert!(one != two && one.starts_with(OWN), "{one}");
            assert!(one.split('/').all(|part| part.len() <= 255), "{one}");
        }
        let percent = recalled(&format!("file:{}", "%E9/".repeat(300).trim_end_matches('/')));
        assert!(percent.contains("%E9%2F~") || percent.contains("%E9~"), "{percent}");
    }
}
