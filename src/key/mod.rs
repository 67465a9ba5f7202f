//! What can be reserved, and whether two of those things overlap.
//!
//! Nothing in here knows who holds what, a file system or a repository: text comes in, a [`Key`] goes out.
//! Start at [`Key::parse`] for what people type, [`Key::literal`] for file names out of git, and
//! [`Key::overlaps`] for the one question everything else is built on.
//!
//! In reading order: `form` tells the forms of keys apart, `path` and `name` know their rules, `pattern` the text of
//! globs; `glob` is a compiled one, made by `build` into a `table`, and `meet` finds what two tables have in common.

mod bad;
mod build;
mod cache;
mod form;
mod glob;
mod meet;
mod name;
mod path;
mod pattern;
mod table;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use bad::BadKey;
use bad::{bad_path, bad_pattern, unknown_namespace};
use build::Limits;
use form::{Form, is_plain_path, is_plain_pattern};
pub use glob::{Glob, GlobState, PATTERN_STATES_MAX};
pub use name::NAMESPACES;
use pattern::BadPattern;
use smallvec::SmallVec;
use text::compared;

use crate::text::percent;

/// What a repository says about its keys: how text is compared and which words are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRules {
    /// Compare paths without regard to case (`core.ignorecase`).
    pub fold_case: bool,
    /// Purposes allowed in `feature:<id>:<purpose>`.
    pub purposes: Vec<String>,
}

impl Default for KeyRules {
    fn default() -> Self {
        Self { fold_case: false, purposes: vec!["pause".to_owned()] }
    }
}

/// The four ways a key claims names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One path in the repository.
    Path,
    /// Every path a pattern matches; a directory is the pattern `dir/**`.
    Glob,
    /// A name outside the file tree, such as `db:migration-slot`.
    Logical,
    /// `<scheme>://<rest>`.
    Uri,
}

/// One thing that can be reserved. Cheap to clone; equal when it is the same thing, however it was spelled.
#[derive(Clone)]
pub struct Key(Arc<Parts>);

struct Parts {
    /// What is compared: for a path its bytes, for everything else its text, namespace and scheme included. Most are
    /// short enough to lie right here.
    canonical: SmallVec<[u8; 48]>,
    /// What only some keys have; most are plain paths, spelled as they are compared.
    more: Option<Box<More>>,
    kind: Kind,
}

/// The part of a key that a plain path does without.
struct More {
    /// As the holder spelled it, where that is not `canonical`.
    spelled: Option<Box<[u8]>>,
    /// The compiled pattern, for a [`Kind::Glob`].
    glob: Option<Glob>,
}

/// How a key lies among the names, for an index over many keys.
#[derive(Clone, Copy, Debug)]
pub enum Claim<'a> {
    /// Exactly this path, `/`-separated.
    Path(&'a [u8]),
    /// Every path the pattern matches.
    Glob(&'a Glob),
    /// Exactly this name, which is not a path.
    Name(&'a [u8]),
    /// Every name that continues this one after a `/` (`flag:billing/*` is below `flag:billing`).
    Below(&'a [u8]),
}

/// Two keys meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// A path both match, where a glob takes part; shown like any path.
    pub example: Option<String>,
}

impl Key {
    /// Reads what a person or a client wrote.
    pub fn parse(text: &str, rules: &KeyRules) -> Result<Key, BadKey> {
        match Form::of(text) {
            Form::File(path) if path.ends_with('/') && path.len() > 1 => {
                Err(bad_path(text, "\"file:\" names one path, not a directory; take off the slash at its end"))
            }
            Form::File(path) | Form::Path(path) => match path::strict(path) {
                Ok(path) => Ok(Key::path(path.as_bytes(), rules.fold_case)),
                Err(reason) => Err(bad_path(text, reason)),
            },
            Form::Glob(pattern) => match pattern::strict(pattern).and_then(|folded| Key::new_pattern(&folded, rules)) {
                Ok(key) => Ok(key),
                Err(BadPattern::Path(reason)) => Err(bad_path(text, reason)),
                Err(BadPattern::Form(reason)) => Err(bad_pattern(text, &reason)),
            },
            Form::Logical(namespace) => Ok(Key::logical(&name::logical(text, namespace, rules)?, rules.fold_case)),
            Form::Uri(scheme) => Ok(Key::uri(&name::uri(text, scheme)?)),
            Form::Other(word) => Err(unknown_namespace(text, word)),
        }
    }

    /// Reads text whose `file:` part carries each bad byte as `%XX` and a literal `%` as `%25`.
    pub fn parse_percent(text: &str, rules: &KeyRules) -> Result<Key, BadKey> {
        let Form::File(coded) = Form::of(text) else { return Key::parse(text, rules) };
        let Some(name) = percent::decode(coded) else {
            return Err(bad_path(text, "a \"%\" is followed by two hexadecimal digits, and stands for itself as %25"));
        };
        Key::literal(&name, rules)
    }

    /// A file name out of git, byte for byte: no glob, no namespace.
    pub fn literal(path: &[u8], rules: &KeyRules) -> Result<Key, BadKey> {
        let checked = path::check_length(path).and_then(|()| path::lenient(path));
        match checked {
            Ok(path) => Ok(Key::path(&path, rules.fold_case)),
            Err(reason) => Err(bad_path(&String::from_utf8_lossy(path), reason)),
        }
    }

    /// Text that [`Key::recall`] turns into this key again; what journals keep.
    pub fn text(&self) -> String {
        self.kept().into_owned()
    }

    fn kept(&self) -> Cow<'_, str> {
        // In here every `file:` is percent-encoded, so that control characters are safe wherever the text is kept.
        match (self.0.kind, std::str::from_utf8(self.spelled())) {
            (Kind::Path, Ok(path)) if is_plain_path(path) && !path.bytes().any(|b| b.is_ascii_control()) => {
                Cow::Borrowed(path)
            }
            (Kind::Path, _) => Cow::Owned(format!("file:{}", percent::encode(self.spelled()))),
            _ => Cow::Owned(self.shown()),
        }
    }

    /// Reads [`Key::text`] back. Accepts whatever an older version accepted, so that journals always load.
    pub fn recall(text: &str, fold_case: bool) -> Result<Key, BadKey> {
        let name = match Form::of(text) {
            Form::Logical(_) | Form::Other(_) => return Ok(Key::logical(text, fold_case)),
            Form::Uri(_) => return Ok(Key::uri(text)),
            Form::Glob(pattern) => {
                let key = Key::pattern(&pattern::folded_structure(pattern), fold_case, glob::OLD);
                return key.map_err(|reason| bad_pattern(text, &reason));
            }
            Form::File(coded) => percent::decode(coded).unwrap_or(Cow::Borrowed(coded.as_bytes())),
            Form::Path(path) => Cow::Borrowed(path.as_bytes()),
        };
        match path::lenient(&name) {
            Ok(path) => Ok(Key::path(&path, fold_case)),
            Err(reason) => Err(bad_path(text, reason)),
        }
    }

    /// The same key as a repository compares it that folds case, or does not.
    pub fn folded(&self, fold_case: bool) -> Key {
        let spelled = self.spelled();
        match self.0.kind {
            Kind::Path => Key::path(spelled, fold_case),
            Kind::Logical => Key::logical(&String::from_utf8_lossy(spelled), fold_case),
            Kind::Uri => self.clone(),
            // It was compiled before, so it can be compiled again; if not, comparing it as it is beats losing it.
            Kind::Glob => {
                Key::pattern(&String::from_utf8_lossy(spelled), fold_case, glob::OLD).unwrap_or_else(|_| self.clone())
            }
        }
    }

    /// The way it claims names.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// How it lies among the names, in the form that is compared.
    #[inline]
    pub fn claim(&self) -> Claim<'_> {
        match self.0.kind {
            Kind::Path => Claim::Path(&self.0.canonical),
            Kind::Uri => Claim::Name(&self.0.canonical),
            Kind::Logical => match name::below(&self.0.canonical) {
                Some(above) => Claim::Below(above),
                None => Claim::Name(&self.0.canonical),
            },
            Kind::Glob => {
                let glob = self.0.more.as_ref().and_then(|more| more.glob.as_ref());
                Claim::Glob(glob.expect("a glob is compiled when it is made"))
            }
        }
    }

    /// As the holder wrote it, structure folded (`./a//b` is `a/b`, `src/` is `src/**`).
    /// Where that would be read as something else, a path has `file:` in front and a pattern `./`.
    pub fn shown(&self) -> String {
        match (self.0.kind, std::str::from_utf8(self.spelled())) {
            (Kind::Path, Ok(path)) if !is_plain_path(path) => format!("file:{path}"),
            (Kind::Glob, Ok(pattern)) if !is_plain_pattern(pattern) => format!("./{pattern}"),
            (_, Ok(text)) => text.to_owned(),
            (_, Err(_)) => format!("file:{}", percent::encode(self.spelled())),
        }
    }

    /// Its bytes as the holder wrote it, structure folded; for a path, the name git knows.
    pub fn spelling(&self) -> &[u8] {
        self.spelled()
    }

    /// Whether [`Key::shown`] is percent-encoded because the name is not UTF-8.
    pub fn is_percent(&self) -> bool {
        self.0.kind == Kind::Path && std::str::from_utf8(self.spelled()).is_err()
    }

    /// Whether some name could match both keys; symmetric.
    pub fn overlaps(&self, other: &Key) -> Option<Overlap> {
        let (example, meets) = match (self.claim(), other.claim()) {
            (Claim::Path(a), Claim::Path(b)) => (None, a == b || is_under(a, b) || is_under(b, a)),
            (Claim::Path(path), Claim::Glob(glob)) => return self.overlaps_glob(path, glob),
            (Claim::Glob(glob), Claim::Path(path)) => return other.overlaps_glob(path, glob),
            (Claim::Glob(a), Claim::Glob(b)) => match a.example_with(b) {
                Some(path) => (Some(shown_path(&path)), true),
                None => (None, false),
            },
            (Claim::Name(a), Claim::Name(b)) => (None, self.0.kind == other.0.kind && a == b),
            (Claim::Name(name), Claim::Below(above)) | (Claim::Below(above), Claim::Name(name)) => {
                (None, self.0.kind == other.0.kind && is_under(name, above))
            }
            (Claim::Below(a), Claim::Below(b)) => (None, a == b || is_under(a, b) || is_under(b, a)),
            // A path and a name never meet: one is in the file tree, the other is not.
            (Claim::Path(_) | Claim::Glob(_), _) | (_, Claim::Path(_) | Claim::Glob(_)) => (None, false),
        };
        meets.then_some(Overlap { example })
    }

    fn overlaps_glob(&self, path: &[u8], glob: &Glob) -> Option<Overlap> {
        if glob.matches(path) {
            return Some(Overlap { example: Some(self.shown()) });
        }
        // Whoever claims the directory claims that the path is one, and then it is not a file.
        glob.claims_directory(path).then(|| Overlap { example: glob.shortest_match().map(|path| shown_path(&path)) })
    }

    fn path(name: &[u8], fold_case: bool) -> Key {
        Key::new(Kind::Path, name, compared(name, fold_case).as_deref(), None)
    }

    fn logical(text: &str, fold_case: bool) -> Key {
        Key::new(Kind::Logical, text.as_bytes(), Some(name::compared_logical(text, fold_case).as_bytes()), None)
    }

    fn uri(text: &str) -> Key {
        Key::new(Kind::Uri, text.as_bytes(), compared(text.as_bytes(), false).as_deref(), None)
    }

    fn new_pattern(pattern: &str, rules: &KeyRules) -> Result<Key, BadPattern> {
        let key =
            Key::pattern(pattern, rules.fold_case, glob::NEW).map_err(|reason| BadPattern::Form(reason.into()))?;
        match key.claim() {
            Claim::Glob(glob) if !glob.matches_any() => {
                Err(BadPattern::Form("no path that can be reserved matches it".into()))
            }
            _ => Ok(key),
        }
    }

    fn pattern(pattern: &str, fold_case: bool, limits: Limits) -> Result<Key, String> {
        let canonical = pattern::compared(pattern, fold_case);
        let glob = Glob::compile(&canonical, fold_case, limits)?;
        Ok(Key::new(Kind::Glob, pattern.as_bytes(), Some(canonical.as_bytes()), Some(glob)))
    }

    fn new(kind: Kind, spelled: &[u8], canonical: Option<&[u8]>, glob: Option<Glob>) -> Key {
        let canonical = canonical.unwrap_or(spelled);
        let spelled = (spelled != canonical).then(|| spelled.into());
        let more = (spelled.is_some() || glob.is_some()).then(|| Box::new(More { spelled, glob }));
        Key(Arc::new(Parts { canonical: SmallVec::from_slice(canonical), more, kind }))
    }

    fn spelled(&self) -> &[u8] {
        self.0.more.as_ref().and_then(|more| more.spelled.as_deref()).unwrap_or(&self.0.canonical)
    }
}

/// Whether `name` lies below `above`, at a slash.
fn is_under(name: &[u8], above: &[u8]) -> bool {
    name.len() > above.len() && name[above.len()] == b'/' && name.starts_with(above)
}

fn shown_path(path: &[u8]) -> String {
    Key::path(path, false).shown()
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.kind == other.0.kind && self.0.canonical == other.0.canonical)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.kind.hash(state);
        self.0.canonical.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.text())
    }
}

impl serde::Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.kept())
    }
}

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A visitor reads the text where it lies; a journal has millions of them.
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl serde::de::Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a key")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Key, E> {
        Key::recall(text, false).map_err(E::custom)
    }
}

#[cfg(test)]
mod checks;
#[cfg(test)]
mod tests;
