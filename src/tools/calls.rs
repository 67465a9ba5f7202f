//! The API call that a tool stands for, and what can come back.

use crate::wire::{self, Encoding, ErrorBody};

/// How long a reservation outlasts the latest sign of life of its session, in seconds, unless the call says otherwise.
const IDLE_SECONDS: i64 = 15 * 60;

/// An API call. A door makes it for the session of the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolCall {
    /// `reserve`, and with `wait_seconds` also `wait`.
    Reserve(wire::Reserve),
    Release(wire::Release),
    ReleaseAll,
    Check(wire::Check),
    Status(StatusQuery),
    RequestUnlock(wire::UnlockRequest),
    AnswerUnlock {
        request: String,
        answer: UnlockAnswer,
    },
}

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusQuery {
    /// Only keys that start with this.
    pub prefix: Option<String>,
    /// Only what the caller's own session holds.
    pub mine: bool,
}

/// The answer to an unlock request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnlockAnswer {
    Approve(wire::Approve),
    Reject(wire::Reject),
}

/// The reply to a [`ToolCall`].
#[derive(Debug, Clone, PartialEq)]
pub enum ToolReply {
    Reserved(wire::ReserveReply),
    Released(wire::Released),
    ReleasedAll(wire::ReleasedAll),
    Checked(wire::CheckReply),
    /// One page of reservations, and the requests to and from the session, if there is one.
    Listed {
        held: wire::ReservationList,
        requests: wire::UnlockRequests,
    },
    Unlock(wire::UnlockRequestInfo),
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The server refused the call.
    Refused(Box<ErrorBody>),
    /// The call could not be made, or its reply did not arrive.
    Failed(String),
}

impl ToolCall {
    /// The paths that the call names, and how they are encoded.
    pub fn paths_mut(&mut self) -> Option<(&mut [String], &mut Option<Encoding>)> {
        match self {
            ToolCall::Reserve(body) => Some((body.file_paths.as_deref_mut()?, &mut body.encoding)),
            ToolCall::Release(body) => Some((body.file_paths.as_deref_mut()?, &mut body.encoding)),
            ToolCall::Check(body) => Some((body.paths.as_deref_mut()?, &mut body.encoding)),
            ToolCall::RequestUnlock(body) => Some((std::slice::from_mut(&mut body.file_path), &mut body.encoding)),
            ToolCall::ReleaseAll | ToolCall::Status(_) | ToolCall::AnswerUnlock { .. } => None,
        }
    }

    /// Reserves for as long as the session gives signs of life, unless the call says for how long: every tool call is one.
    /// For callers that no process keeps alive, because a model does not renew.
    pub fn hold_while_session(&mut self) {
        if let ToolCall::Reserve(body) = self
            && body.ttl_seconds.is_none()
            && body.while_session.is_none()
        {
            (body.while_session, body.idle_seconds) = (Some(true), Some(IDLE_SECONDS));
        }
    }

    /// How the paths of the call are encoded.
    pub fn encoding(&self) -> Option<Encoding> {
        match self {
            ToolCall::Reserve(body) => body.encoding,
            ToolCall::Release(body) => body.encoding,
            ToolCall::Check(body) => body.encoding,
            ToolCall::RequestUnlock(body) => body.encoding,
            ToolCall::ReleaseAll | ToolCall::Status(_) | ToolCall::AnswerUnlock { .. } => None,
        }
    }

    /// How long the call may wait in the server's queue, in seconds.
    pub fn wait_seconds(&self) -> u64 {
        match self {
            ToolCall::Reserve(body) => body.wait_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0),
            _ => 0,
        }
    }
}
