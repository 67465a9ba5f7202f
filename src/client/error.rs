//! The ways a call can fail. Each reads as a sentence.

use std::time::Duration;

use crate::wire::{Code, ErrorBody};

/// Why a call failed.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientError {
    /// No server answers at this address. The call had no effect, unless the connection broke during it.
    Unreachable { at: String, why: String },
    /// Only the repository names this address, and another user runs the server there. Nothing was sent.
    OtherUser { at: String },
    /// A server accepted the connection and did not reply in time. The call may have had its effect.
    TimedOut { at: String, limit: Duration },
    /// The caller cancelled the call. It may have had its effect.
    Cancelled,
    /// The server refused the call.
    Refused {
        /// The HTTP status.
        status: u16,
        body: Box<ErrorBody>,
        /// When to try again, if the server told it.
        retry_after: Option<Duration>,
    },
    /// The reply is not one that a git-dibs server sends.
    Garbage {
        at: String,
        /// What was received, such as "a web page".
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
            ClientError::OtherUser { at } => write!(
                f,
                "another user runs the server at {at}, and only this repository names that address, so nothing was sent \
                 there; if you trust it: export DIBS_URL={at}"
            ),
            ClientError::TimedOut { at, limit } => {
                write!(f, "the server at {at} did not reply within {} s", limit.as_secs_f64())
            }
            ClientError::Cancelled => f.write_str("the call was cancelled"),
            ClientError::Refused { body, .. } => f.write_str(&body.error),
            ClientError::Garbage { at, what } => {
                write!(f, "the server at {at} sent {what}; is that a git-dibs server?")
            }
        }
    }
}
