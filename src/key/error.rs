//! Errors for text that is not a key, and their messages.

use super::text::quoted;
use super::{KeyRules, name, path};

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// A path that git refuses, or that cannot be in a repository.
    #[error("{0}")]
    Path(String),
    /// A logical key, resource URI or pattern with wrong syntax.
    #[error("{0}")]
    Form(String),
    /// An unknown namespace.
    #[error("{0}")]
    Namespace(String),
}

pub(super) fn bad_path(text: &str, reason: path::Reason) -> BadKey {
    BadKey::Path(format!("{} is not a path that can be reserved: {reason}.", quoted(text)))
}

pub(super) fn bad_pattern(text: &str, reason: &str) -> BadKey {
    BadKey::Form(format!(
        "{} is not a pattern that can be reserved: {reason}; for a file with this name, write {}.",
        quoted(text),
        quoted(&format!("file:{}", text.trim_end_matches('/'))),
    ))
}

pub(super) fn unknown_namespace(text: &str, word: &str, rules: &KeyRules) -> BadKey {
    let known = name::NAMESPACES.into_iter().chain(rules.plain_namespaces.iter().map(String::as_str));
    let known = known.collect::<Vec<_>>().join(", ");
    BadKey::Namespace(format!(
        "{} cannot be reserved: there is no namespace {} (the namespaces are {known}); for a file with this name, write {}.",
        quoted(text),
        quoted(word),
        quoted(&format!("file:{text}")),
    ))
}
