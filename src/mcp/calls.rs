//! A tool's API call, made over HTTP.

use crate::client::{Client, ClientError, ReservationFilter};
use crate::tools::{LISTED_MAX, ToolCall, ToolError, ToolReply, UnlockAnswer};
use crate::wire;

/// Makes the call for this session. Without one, a call can only look.
pub fn make(client: &mut Client, session: Option<&str>, call: &ToolCall) -> Result<ToolReply, ClientError> {
    let id = session.unwrap_or_default();
    Ok(match call {
        ToolCall::Reserve(body) => ToolReply::Reserved(client.reserve(id, body)?),
        ToolCall::Release(body) => ToolReply::Released(client.release(id, body)?),
        ToolCall::ReleaseAll => ToolReply::ReleasedAll(client.release_all(id)?),
        ToolCall::Check(body) => ToolReply::Checked(client.check(session, body)?),
        ToolCall::Status(query) => {
            let own = session.filter(|_| query.mine).map(str::to_owned);
            let filter = ReservationFilter { prefix: query.prefix.clone(), session: own };
            let held = client.oldest_reservations(&filter, LISTED_MAX)?;
            let requests = session.map(|session| client.unlock_requests(session)).transpose()?.unwrap_or_default();
            ToolReply::Listed { held, requests }
        }
        ToolCall::RequestUnlock(body) => ToolReply::Unlock(client.request_unlock(id, body)?),
        ToolCall::AnswerUnlock { request, answer: UnlockAnswer::Approve(how) } => {
            ToolReply::Unlock(client.approve_unlock(id, request, how)?)
        }
        ToolCall::AnswerUnlock { request, answer: UnlockAnswer::Reject(how) } => {
            ToolReply::Unlock(client.reject_unlock(id, request, how)?)
        }
    })
}

/// Whether the call changes something, and so needs a session.
pub fn needs_session(call: &ToolCall) -> bool {
    match call {
        ToolCall::Check(_) => false,
        ToolCall::Status(query) => query.mine,
        _ => true,
    }
}

/// The error of a call, for a result.
pub fn tool_error(error: ClientError) -> ToolError {
    match error {
        ClientError::Refused { body, .. } => ToolError::Refused(body),
        other => ToolError::Failed(other.to_string()),
    }
}

/// Whether the server no longer accepts the token, or the session of it.
pub fn is_rejected(error: &ClientError) -> bool {
    use wire::Code;
    matches!(error.code(), Some(Code::Unauthenticated | Code::SessionEnded))
}
