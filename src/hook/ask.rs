//! What a hook asks the server, and what it may hear.
//!
//! Only the shapes: the question itself travels through whatever [`super::main`] was given.

use std::time::Duration;

use crate::git::Path;

use super::identity::Identity;

/// The question: may this caller change these paths now?
pub type Ask<'a> = dyn FnOnce(&Identity, &[Path]) -> Result<Answer, AskError> + 'a;

/// What the server said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Paths somebody else holds. One path may appear several times, once per holder.
    pub conflicts: Vec<Conflict>,
    /// Paths the caller holds.
    pub held: Vec<Path>,
    /// The caller's feature is paused.
    pub paused: Option<Pause>,
    /// The caller's session; none for a person without one.
    pub me: Option<String>,
}

/// A path that somebody else holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflict {
    /// The path that was asked about.
    pub path: Path,
    /// The session that holds it.
    pub holder: String,
    /// How that session calls itself.
    pub holder_name: Option<String>,
    /// Why it is held.
    pub reason: Option<String>,
    /// How long it stays held if nobody renews it.
    pub expires_in: Option<Duration>,
    /// What is reserved, as the holder wrote it: the path itself or a pattern that covers it.
    pub key: String,
    /// A path both match, where the question was a pattern too.
    pub example: Option<String>,
}

/// Work on the caller's feature is to rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pause {
    /// Who paused it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// Why there is no answer. Each carries a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nobody answered, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// The token is missing, unreadable, expired or not accepted.
    #[error("{0}")]
    Unauthorized(String),
    /// The session of the token has ended.
    #[error("{0}")]
    Ended(String),
    /// Something answered, but not as git-dibs does.
    #[error("{0}")]
    Broken(String),
}
