//! Asking the server which reservations a change touches.

use std::time::{Duration, Instant};

use crate::client::{ClientError, Limits, QuickCall, QuickReply, quick_check};
use crate::git::Path;
use crate::local::{DiscoverError, ServerAccess};
use crate::text::percent;
use crate::wire::{self, Code};

/// The longest path that the server accepts. A longer one can neither be checked out nor reserved.
const PATH_MAX_BYTES: usize = wire::limits::KEY_BYTES_MAX;

/// The server has at least this much time to reply, however late it is asked.
pub const ASK_TIME_MIN: Duration = Duration::from_millis(500);

/// Why there is no reply from the server. Each variant carries a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// No server is known, or it did not reply in time.
    #[error("{0}")]
    Unreachable(String),
    /// The token is missing, unreadable, expired or not accepted.
    #[error("{0}")]
    Unauthorized(String),
    /// The token's session has ended.
    #[error("{0}")]
    SessionEnded(String),
    /// The reply is not one that a git-dibs server sends.
    #[error("{0}")]
    BadReply(String),
}

impl From<DiscoverError> for CheckError {
    fn from(error: DiscoverError) -> CheckError {
        match error {
            DiscoverError::BadToken { .. } => CheckError::Unauthorized(error.to_string()),
            _ => CheckError::Unreachable(error.to_string()),
        }
    }
}

impl From<ClientError> for CheckError {
    fn from(error: ClientError) -> CheckError {
        let sentence = error.to_string();
        match &error {
            ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => CheckError::Unreachable(sentence),
            ClientError::Garbage { .. } => CheckError::BadReply(sentence),
            ClientError::Refused { status, body, .. } => match (body.code, status) {
                (Code::SessionEnded, _) => CheckError::SessionEnded(sentence),
                (Code::Unavailable, _) => CheckError::Unreachable(sentence),
                (_, 401 | 403) => CheckError::Unauthorized(sentence),
                _ => CheckError::BadReply(sentence),
            },
        }
    }
}

impl From<std::io::Error> for CheckError {
    fn from(error: std::io::Error) -> CheckError {
        CheckError::Unreachable(format!("cannot use the network: {error}"))
    }
}

/// The request: may these paths be changed?
pub fn question(paths: &[Path]) -> wire::Check {
    // Always `file:` and percent-encoded, because a path from git may look like a pattern or not be UTF-8.
    let names = paths.iter().filter(|path| path.len() <= PATH_MAX_BYTES);
    wire::Check {
        paths: Some(names.map(|path| format!("file:{}", percent::encode(path))).collect()),
        intent: Some(wire::Intent::Change),
        encoding: Some(wire::Encoding::Percent),
        ..wire::Check::default()
    }
}

/// Asks the server, until the deadline or the client's own time limit, but for at least [`ASK_TIME_MIN`]. A server that
/// failed a moment ago has only the time `limit`.
///
/// If the server does not accept the caller's token, it is asked again as for a person without a session, and `access`
/// says so afterwards: a bad token must never be weaker than none.
pub fn ask(
    access: &mut ServerAccess,
    question: &wire::Check,
    deadline: Instant,
    limit: Option<Duration>,
) -> Result<wire::CheckReply, CheckError> {
    let start = Instant::now();
    let deadline = match limit {
        Some(limit) => start + limit,
        None => deadline.clamp(start + ASK_TIME_MIN, start + Limits::default().total),
    };
    // To the tenth of a second, because people read it.
    let time_left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        Duration::from_millis(((left.as_secs_f64() * 10.0).round() as u64 * 100).max(100))
    };
    if let Some(endpoint) = access.endpoints.first() {
        let limits = Limits { total: time_left(), ..Limits::default() };
        let (credential, repo) = (access.credential.as_ref(), access.repo.as_deref());
        let session = access.session.as_deref();
        match quick_check(QuickCall { endpoint, credential, session, repo }, question, limits) {
            QuickReply::Success(reply) => return Ok(reply),
            QuickReply::TimedOut => {
                return Err(ClientError::TimedOut { at: endpoint.to_string(), limit: limits.total }.into());
            }
            QuickReply::Unclear => {}
        }
    }
    // The quick exchange knows only success; the full client finds out what is wrong and has a sentence for it.
    let check = |access: &ServerAccess| -> Result<Result<wire::CheckReply, ClientError>, CheckError> {
        let limits = Limits { total: time_left(), ..Limits::default() };
        Ok(access.client(limits)?.check(access.session.as_deref(), question))
    };
    match check(access)? {
        Err(error) if access.reject_token(&error) => Ok(check(access)??),
        Err(error) => match (&access.token_problem, CheckError::from(error)) {
            // There is no other token, and the reason is that this one cannot be used.
            (Some(problem), CheckError::Unauthorized(_)) if access.credential.is_none() => {
                Err(CheckError::Unauthorized(problem.clone()))
            }
            (_, error) => Err(error),
        },
        Ok(reply) => Ok(reply),
    }
}
