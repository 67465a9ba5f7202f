//! What can be reserved, and whether two keys overlap.
//!
//! Pure: text comes in, a [`Key`] goes out. There are no holders, no file system and no repository here.
//! Start at [`Key::parse`] for what people type, [`Key::literal`] for file names from git, and [`Key::overlaps`] for the
//! question that everything else is built on.
//!
//! In reading order: `form` distinguishes the forms of keys; `path`, `name` and `pattern` have the rules for their text;
//! `glob` is a compiled pattern; `build` compiles one into a `table`; `overlap` finds a path that two tables both accept;
//! `cache` keeps compiled patterns, and `meeting` which of them overlap.

mod build;
mod cache;
mod error;
mod form;
mod glob;
mod meeting;
mod name;
mod overlap;
mod path;
mod pattern;
mod prefix;
mod table;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use build::Limits;
pub use error::BadKey;
use error::{bad_path, bad_pattern, unknown_namespace};
use form::{Form, is_plain_path, is_plain_pattern};
pub use glob::{Glob, GlobState, PATTERN_STATES_MAX};
pub use name::{NAMESPACES, PORT};
use pattern::BadPattern;
pub use prefix::KeyPrefix;
use smallvec::SmallVec;
use text::compared;

use crate::text::percent;

/// The settings of a repository for its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRules {
    /// Compare paths without regard to case (`core.ignorecase`).
    pub fold_case: bool,
    /// Purposes allowed in `feature:<id>:<purpose>`.
    pub purposes: Vec<String>,
    /// What may follow `db:`: a word, or `schema:*` for names in a kind of things.
    pub db_forms: Vec<String>,
    /// Namespaces besides [`NAMESPACES`] whose names have no rules of their own, such as `task`.
    pub plain_namespaces: Vec<String>,
}

impl Default for KeyRules {
    fn default() -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            fold_case: false,
            purposes: texts(&["pause"]),
            db_forms: texts(&["migration-slot", "schema:*"]),
            plain_namespaces: Vec::new(),
        }
    }
}

impl KeyRules {
    /// Rules that accept a text if some configuration could. Only a server knows its configuration.
    pub fn any_configuration(text: &str) -> KeyRules {
        let mut rules = KeyRules::default();
        rules.purposes.extend(text.rsplit_once(':').map(|(_, purpose)| purpose.to_owned()));
        rules.db_forms.extend(text.strip_prefix("db:").map(name::db_form));
        if let Form::Other(word) = Form::of(text) {
            rules.plain_namespaces.push(word.to_owned());
        }
        rules
    }
}

/// The four kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One path in the repository.
    Path,
    /// Every path a pattern matches, and the path that is written like the pattern; a directory is the pattern `dir/**`.
    Glob,
    /// A name outside the file tree, such as `db:migration-slot`.
    Logical,
    /// `<scheme>://<rest>`.
    Uri,
}

/// One thing that can be reserved. Cheap to clone. Two keys are equal if they mean the same thing, also when they are
/// spelled differently.
#[derive(Clone)]
pub struct Key(Arc<Parts>);

struct Parts {
    /// The form that is compared: the bytes of a path, otherwise the text with its namespace or scheme. Most are short
    /// enough to be stored inline.
    canonical: SmallVec<[u8; 48]>,
    /// What only some keys need. Most keys are plain paths that are spelled as they are compared.
    more: Option<Box<More>>,
    kind: Kind,
}

/// The parts of a key that a plain path does not have.
struct More {
    /// The spelling of the holder, where it is not `canonical`.
    spelled: Option<Box<[u8]>>,
    /// The compiled pattern, for a [`Kind::Glob`].
    glob: Option<Glob>,
}

/// Which names a key covers, for an index over many keys.
#[derive(Clone, Copy, Debug)]
pub enum Claim<'a> {
    /// Exactly this path, `/`-separated.
    Path(&'a [u8]),
    /// Every path the pattern matches.
    Glob(&'a Glob),
    /// Exactly this name, which is not a path.
    Name(&'a [u8]),
    /// Every name below this one: `flag:billing/*` is `Below("flag:billing")`.
    Below(&'a [u8]),
}

/// That two keys overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// A path that both match, if one of them is a pattern; formatted like any path.
    pub example: Option<String>,
}

impl Key {
    /// Parses what a person or a client wrote.
    pub fn parse(text: &str, rules: &KeyRules) -> Result<Key, BadKey> {
        match Form::of(text) {
            Form::File(path) if path.ends_with('/') && path.len() > 1 => {
                Err(bad_path(text, "\"file:\" is for one path, not for a directory; remove the slash at the end"))
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
            Form::Other(word) if rules.plain_namespaces.iter().any(|known| known == word) => {
                Ok(Key::logical(name::plain(text, word)?, rules.fold_case))
            }
            Form::Other(word) => Err(unknown_namespace(text, word, rules)),
        }
    }

    /// Whether [`Key::parse`] takes this text for a pattern or a directory.
    pub fn is_pattern(text: &str) -> bool {
        matches!(Form::of(text), Form::Glob(_))
    }

    /// Parses text whose `file:` part has each byte that is not UTF-8 as `%XX`, and a literal `%` as `%25`. Every name that
    /// a tree of git can have is accepted, and `.git`, which some trees of others have.
    pub fn parse_percent(text: &str, rules: &KeyRules) -> Result<Key, BadKey> {
        let Form::File(coded) = Form::of(text) else { return Key::parse(text, rules) };
        let Some(name) = percent::decode(coded) else {
            return Err(bad_path(
                text,
                "a \"%\" must be followed by two hexadecimal digits; write a literal \"%\" as %25",
            ));
        };
        Key::literal(&name, rules)
    }

    /// A file name from git, byte for byte: never a pattern, never a namespace.
    pub fn literal(path: &[u8], rules: &KeyRules) -> Result<Key, BadKey> {
        let checked = path::check_length(path).and_then(|()| path::lenient(path));
        match checked {
            Ok(path) => Ok(Key::path(&path, rules.fold_case)),
            Err(reason) => Err(bad_path(&String::from_utf8_lossy(path), reason)),
        }
    }

    /// Text that [`Key::recall`] turns into this key again. Journals store it.
    pub fn text(&self) -> String {
        self.kept().into_owned()
    }

    /// About how many bytes its texts take in memory.
    pub fn text_bytes(&self) -> usize {
        let spelled = self.0.more.as_ref().and_then(|more| more.spelled.as_ref());
        self.0.canonical.len() + spelled.map_or(0, |spelled| spelled.len())
    }

    fn kept(&self) -> Cow<'_, str> {
        // Every `file:` is percent-encoded in this form, so that stored text has no control characters.
        match (self.0.kind, std::str::from_utf8(self.spelled())) {
            (Kind::Path, Ok(path)) if is_plain_path(path) && !path.bytes().any(|b| b.is_ascii_control()) => {
                Cow::Borrowed(path)
            }
            (Kind::Path, _) => Cow::Owned(format!("file:{}", percent::encode(self.spelled()))),
            _ => Cow::Owned(self.shown()),
        }
    }

    /// Parses [`Key::text`]. Accepts everything that older versions accepted, so that journals always load.
    pub fn recall(text: &str, fold_case: bool) -> Result<Key, BadKey> {
        let name = match Form::of(text) {
            // Older versions took any other word for the beginning of a path.
            Form::Other(word) if !form::is_scheme(word) => Cow::Borrowed(text.as_bytes()),
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

    /// The same key for a repository that folds case, or does not.
    pub fn folded(&self, fold_case: bool) -> Key {
        let spelled = self.spelled();
        match self.0.kind {
            Kind::Path => Key::path(spelled, fold_case),
            Kind::Logical => Key::logical(&String::from_utf8_lossy(spelled), fold_case),
            Kind::Uri => self.clone(),
            // It was compiled before, so it can be compiled again. If not, an unfolded key is better than none.
            Kind::Glob => {
                Key::pattern(&String::from_utf8_lossy(spelled), fold_case, glob::OLD).unwrap_or_else(|_| self.clone())
            }
        }
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Which names it covers, in the form that is compared.
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
                Claim::Glob(glob.expect("a pattern is compiled when its key is created"))
            }
        }
    }

    /// The holder's spelling with its structure normalized (`./a//b` is `a/b`, `src/` is `src/**`). A path that would be
    /// parsed as something else gets `file:` in front, such a pattern gets `./`.
    pub fn shown(&self) -> String {
        match (self.0.kind, std::str::from_utf8(self.spelled())) {
            (Kind::Path, _) if self.is_percent() => format!("file:{}", percent::encode(self.spelled())),
            (Kind::Path, Ok(path)) if !is_plain_path(path) => format!("file:{path}"),
            (Kind::Glob, Ok(pattern)) if !is_plain_pattern(pattern) => format!("./{pattern}"),
            (_, Ok(text)) => text.to_owned(),
            (_, Err(_)) => String::from_utf8_lossy(self.spelled()).into_owned(),
        }
    }

    /// The bytes of the holder's spelling with its structure normalized. For a path, this is git's name of the file.
    pub fn spelling(&self) -> &[u8] {
        self.spelled()
    }

    /// Whether [`Key::shown`] is percent-encoded: git can have such a name, but it is not UTF-8, or no path that
    /// [`Key::parse`] accepts.
    pub fn is_percent(&self) -> bool {
        let is_accepted = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|path| path::strict(path).is_ok());
        self.0.kind == Kind::Path && !is_accepted(self.spelled())
    }

    /// Refuses a path that no tree of git can contain.
    pub fn check_dot_git(&self) -> Result<(), BadKey> {
        if self.is_inside_dot_git() { Err(bad_path(&self.shown(), path::DOT_GIT)) } else { Ok(()) }
    }

    /// Whether a path has a component that git takes for its own directory.
    pub fn is_inside_dot_git(&self) -> bool {
        let is_dot_git = |component: &[u8]| std::str::from_utf8(component).is_ok_and(path::is_dot_git);
        self.0.kind == Kind::Path && self.spelled().split(|&b| b == b'/').any(is_dot_git)
    }

    /// Whether some name could match both keys. Symmetric.
    pub fn overlaps(&self, other: &Key) -> Option<Overlap> {
        let (example, overlaps) = match (self.claim(), other.claim()) {
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
            // A path and a name never overlap: one is in the file tree, the other is not.
            (Claim::Path(_) | Claim::Glob(_), _) | (_, Claim::Path(_) | Claim::Glob(_)) => (None, false),
        };
        overlaps.then_some(Overlap { example })
    }

    /// Finds out whether two patterns overlap, so that [`Key::overlaps`] knows it. Returns how much work that was.
    pub fn compare(&self, other: &Key) -> u64 {
        match (self.claim(), other.claim()) {
            (Claim::Glob(a), Claim::Glob(b)) => a.compare(b).1,
            _ => 0,
        }
    }

    fn overlaps_glob(&self, path: &[u8], glob: &Glob) -> Option<Overlap> {
        if glob.matches(path) {
            return Some(Overlap { example: Some(self.shown()) });
        }
        // A pattern below `path/` needs `path` to be a directory, and the other key says it is a file.
        glob.claims_directory(path).then(|| Overlap { example: glob.match_below(path).map(|path| shown_path(&path)) })
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
            Claim::Glob(glob) if !glob.matches_others() => {
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

/// Whether `name` is below `above`, at a slash.
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
        // A visitor reads the text in place, without a copy; a journal has millions of keys.
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
