//! A tool's API call, made with the handlers of the API.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::{check, ports, release, reservations, reserve, unlock_requests};
use crate::http::app::App;
use crate::http::byte_budget::BytePermit;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json, LargeJson, QueryParams};
use crate::tools::{LISTED_MAX, StatusQuery, ToolCall, ToolReply, UnlockAnswer};
use crate::wire::{self, Code};

/// Makes the call for this session. Without one, a call can only look.
pub async fn make(app: Arc<App>, caller: Caller, session: Option<String>, call: ToolCall) -> ApiResult<ToolReply> {
    let Some(session) = session else { return look(app, caller, call).await };
    let id = At(session.clone());
    Ok(match call {
        ToolCall::Reserve(body) => {
            let permit = BytePermit::default();
            ToolReply::Reserved(reserve::reserve_keys(app, caller, &session, body, permit).await?)
        }
        ToolCall::Release(body) => ToolReply::Released(release::release(State(app), caller, id, large(body)).await?.0),
        ToolCall::ReleaseAll => {
            ToolReply::ReleasedAll(release::release_all(caller, id, Json(wire::EmptyBody {})).await?.0)
        }
        ToolCall::Check(body) => {
            ToolReply::Checked(read(check::check(State(app), caller, id, large(body)).await?).await?)
        }
        ToolCall::Status(query) => {
            let requests = unlock_requests::list(caller.clone(), id).await?.0;
            ToolReply::Listed { held: list(caller, query, Some(session)).await?, requests }
        }
        ToolCall::RequestUnlock(body) => {
            ToolReply::Unlock(read(unlock_requests::ask(State(app), caller, id, Json(body)).await?).await?)
        }
        ToolCall::AllocatePorts(body) => ToolReply::Ports(ports::allocate(caller, id, Json(body)).await?.0),
        ToolCall::AnswerUnlock { request, answer } => ToolReply::Unlock(match answer {
            UnlockAnswer::Approve(how) => unlock_requests::approve(caller, At((session, request)), Json(how)).await?.0,
            UnlockAnswer::Reject(how) => unlock_requests::reject(caller, At((session, request)), Json(how)).await?.0,
        }),
    })
}

/// Makes a call of a caller without a session.
async fn look(app: Arc<App>, caller: Caller, call: ToolCall) -> ApiResult<ToolReply> {
    match call {
        ToolCall::Check(body) => {
            let response = check::check_without_session(State(app), caller, large(body)).await?;
            Ok(ToolReply::Checked(read(response).await?))
        }
        ToolCall::Status(query) if !query.mine => {
            Ok(ToolReply::Listed { held: list(caller, query, None).await?, requests: wire::UnlockRequests::default() })
        }
        _ => {
            let sentence = "this tool needs a session; use a session's token, or name the session with /mcp?session=ID";
            Err(ApiError::new(Code::Forbidden, sentence))
        }
    }
}

async fn list(caller: Caller, query: StatusQuery, session: Option<String>) -> ApiResult<wire::ReservationList> {
    let mut pairs = vec![("limit".to_owned(), LISTED_MAX.to_string())];
    pairs.extend(query.prefix.map(|prefix| ("prefix".to_owned(), prefix)));
    pairs.extend(session.filter(|_| query.mine).map(|session| ("session".to_owned(), session)));
    reservations::list(&caller, &QueryParams(pairs)).await
}

/// The body of a tool call is counted as a whole.
pub fn large<T, const MAX: usize>(body: T) -> LargeJson<T, MAX> {
    LargeJson(body, BytePermit::default())
}

/// Reads a reply that its handler has already written.
pub async fn read<T: DeserializeOwned>(response: Response) -> ApiResult<T> {
    let incomplete = || ApiError::new(Code::Unavailable, "the reply could not be read").retry_after(1);
    let bytes = response.into_body().collect().await.map_err(|_| incomplete())?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|_| incomplete())
}
