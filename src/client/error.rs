//! The ways a call can fail, each a sentence.

use std::time::Duration;

use crate::wire::{Code, ErrorBody};

/// Why there is no answer, or none that was hoped for.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientError {
    /// Nobody answers there; the call has not happened, unless the connection broke while it did.
    Unreachable {
        /// Where.
        at: String,
        /// What happened instead.
        why: String,
    },
    /// Somebody listens there and did not answer in time; the call may have happened.
    TimedOut {
        /// Where.
        at: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The server says no.
    Refused {
        /// The HTTP status.
        status: u16,
        /// Why, for people and programs.
        body: Box<ErrorBody>,
        /// When it makes sense to ask again.
        retry_after: Option<Duration>,
    },
    /// What came back is not what a git-dibs server says.
    Garbage {
        /// Where.
        at: String,
        /// What came, as in "a web page".
        what: String,
    },
}

impl ClientError {
    /// The code of a refusal.
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Refused { body, .. } => Some(body.code),
            _ => None,
        }
    }
}

impl std::error::Error for ClientError {}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Unreachable { at, why } => {
                write!(f, "no server answers at {at} ({why}); is git dibs serve running?")
            }
            ClientError::TimedOut { at, limit } => {
                write!(f, "the server at {at} did not answer within {} s", limit.as_secs_f64())
            }
            ClientError::Refused { body, .. } => f.write_str(&body.error),
            ClientError::Garbage { at, what } => {
                write!(f, "the server at {at} sent {what}; is that a git-dibs server?")
            }
        }
    }
}
