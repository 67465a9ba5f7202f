//! What can be reserved, and whether two of those things overlap.
//!
//! Nothing in here knows who holds what, a file system or a repository: text comes in, a [`Key`] goes out.
//! Start at [`Key::parse`] for what people type, [`Key::literal`] for file names out of git, and
//! [`Key::overlaps`] for the one question everything else is built on.

use std::fmt;
use std::sync::Arc;

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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    kind: Kind,
    canonical: Arc<[u8]>,
}

/// How a key lies among the names, for an index over many keys.
#[derive(Clone, Copy)]
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

/// Text that names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The path is one git would refuse, or that cannot be in a repository.
    #[error("{0}")]
    Path(String),
    /// A logical key, resource URI or pattern does not follow its form.
    #[error("{0}")]
    Form(String),
    /// `word:` in front of something, and no such namespace.
    #[error("{0}")]
    Namespace(String),
}

impl Key {
    /// Reads what a person or a client wrote.
    pub fn parse(text: &str, _rules: &KeyRules) -> Result<Key, BadKey> {
        if text.is_empty() {
            return Err(BadKey::Path("the path is empty".to_owned()));
        }
        Ok(Key { kind: Kind::Path, canonical: text.as_bytes().into() })
    }

    /// Reads text whose `file:` part carries each bad byte as `%XX` and a literal `%` as `%25`.
    pub fn parse_percent(text: &str, rules: &KeyRules) -> Result<Key, BadKey> {
        Key::parse(text, rules)
    }

    /// A file name out of git, byte for byte: no glob, no namespace.
    pub fn literal(path: &[u8], _rules: &KeyRules) -> Result<Key, BadKey> {
        Ok(Key { kind: Kind::Path, canonical: path.into() })
    }

    /// Text that [`Key::recall`] turns into this key again; what journals keep.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.canonical).into_owned()
    }

    /// Reads [`Key::text`] back. Accepts whatever an older version accepted, so that journals always load.
    pub fn recall(text: &str, fold_case: bool) -> Result<Key, BadKey> {
        let _ = fold_case;
        Key::parse(text, &KeyRules::default())
    }

    /// The same key as a repository compares it that folds case, or does not.
    pub fn folded(&self, fold_case: bool) -> Key {
        let _ = fold_case;
        self.clone()
    }

    /// The way it claims names.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How it lies among the names, in the form that is compared.
    pub fn claim(&self) -> Claim<'_> {
        Claim::Path(&self.canonical)
    }

    /// As the holder wrote it, structure folded (`./a//b` is `a/b`, `src/` is `src/**`).
    pub fn shown(&self) -> String {
        self.text()
    }

    /// Whether [`Key::shown`] is percent-encoded because the name is not UTF-8.
    pub fn is_percent(&self) -> bool {
        false
    }

    /// Whether some name could match both keys; symmetric.
    pub fn overlaps(&self, other: &Key) -> Option<Overlap> {
        (self == other).then_some(Overlap { example: None })
    }
}

/// A compiled pattern.
pub struct Glob {}

/// Where a walk through a pattern stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobState(u32);

impl Glob {
    /// Whether the path matches.
    pub fn matches(&self, _path: &[u8]) -> bool {
        false
    }

    /// The literal directory all matches lie under, without its trailing slash; empty where there is none.
    pub fn anchor(&self) -> &[u8] {
        b""
    }

    /// Bytes every match ends with; a cheap way to say no.
    pub fn suffix(&self) -> &[u8] {
        b""
    }

    /// Whether every match lies under `path/`, so that the pattern can only mean it as a directory.
    pub fn claims_directory(&self, _path: &[u8]) -> bool {
        false
    }

    /// The beginning of a walk.
    pub fn start(&self) -> GlobState {
        GlobState(0)
    }

    /// Goes on over `bytes`; `None` when nothing that begins so can match.
    pub fn step(&self, _state: GlobState, _bytes: &[u8]) -> Option<GlobState> {
        None
    }

    /// Whether what was walked so far is a match.
    pub fn accepts(&self, _state: GlobState) -> bool {
        false
    }

    /// Whether some valid path matches both.
    pub fn meets(&self, _other: &Glob) -> bool {
        false
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.text())
    }
}

impl serde::Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Key::recall(&text, false).map_err(serde::de::Error::custom)
    }
}
