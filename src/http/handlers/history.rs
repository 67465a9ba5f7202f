//! `GET /api/history`: past events, the latest first.

use crate::engine::{Engine, Record, SessionId, Text, Timestamp};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::event_json::event_json;
use crate::http::extract::{Json, QueryParams};
use crate::http::history_backend::{HistoryError, HistoryPage, HistoryQuery};
use crate::http::openapi::{params, refusals};
use crate::http::outcome;
use crate::http::request_fields::key;
use crate::http::submit::read_state;
use crate::wire::{self, Code, MissingEvents, Time};

/// Events on one page if the request names no limit.
const PAGE_ITEMS: u32 = 100;

/// List past events, the latest first.
///
/// A page may be short or empty and still not be the last one: continue while there is a `nextCursor`.
#[utoipa::path(
    get,
    path = "/api/history",
    operation_id = "getHistory",
    tag = "Monitoring and administration",
    params(params::HistoryQuery),
    responses((status = 200, description = "One page of the history.", body = wire::HistoryReply), refusals::CheckQuery),
)]
pub async fn list(caller: Caller, query: QueryParams) -> ApiResult<Json<wire::HistoryReply>> {
    let percent = match query.one("encoding") {
        None => false,
        Some("percent") => true,
        Some(_) => return Err(wire::BadBody::field("encoding", "must be percent").into()),
    };
    let key = query.one("path").map(|path| key(&caller.repo, path, percent)).transpose()?;
    let session = match query.one("session") {
        Some(id) => match SessionId::parse(id) {
            Some(session) => Some(session),
            None => return Err(wire::BadBody::field("session", "is not a session id").into()),
        },
        None => None,
    };
    let since = query.time("since")?.map(|Time(ms)| Timestamp(ms));
    let limit = query.page_size(PAGE_ITEMS)?;
    let cursor = query.one("cursor").map(str::to_owned);
    let query = HistoryQuery { key, fold_case: caller.repo.policy().rules.fold_case, session, since, limit, cursor };
    // Before the history is read: the token of an ended session is not valid any more.
    let reply = read_state(&caller.repo.desk, caller.look(), |_, _| ()).await?;
    let repo = caller.repo.clone();
    let read = move || repo.history.as_ref().map(|history| history.page(&query));
    let page = tokio::task::spawn_blocking(read).await;
    let page = match page {
        Ok(Some(Ok(page))) => page,
        Ok(Some(Err(HistoryError::BadCursor))) => {
            return Err(wire::BadBody::field("cursor", "must be the nextCursor of an earlier reply").into());
        }
        Ok(Some(Err(HistoryError::Unreadable(sentence)))) => {
            tracing::warn!(error = sentence, "the history could not be read");
            return Err(ApiError::new(Code::Unavailable, "the history cannot be read now; try again in a moment")
                .retry_after(5));
        }
        Ok(None) => HistoryPage::default(),
        Err(_) => {
            return Err(ApiError::new(Code::Unavailable, "the history cannot be read now; try again in a moment")
                .retry_after(5));
        }
    };
    let HistoryPage { events, next, missing } = page;
    let name = |engine: &Engine, _| {
        let name = |(record, name): (Record, Option<Text>)| {
            let known = name.or_else(|| engine.session(record.event.session()?)?.name);
            event_json(&record, known)
        };
        events.into_iter().map(name).collect::<Vec<_>>()
    };
    let named = read_state(&caller.repo.desk, crate::engine::Actor::Reader, name).await?;
    let missing = missing.into_iter().map(|(first, last)| MissingEvents { first: first.0, last: last.0 }).collect();
    let notices = outcome::notices(reply.notices);
    Ok(Json(wire::HistoryReply { events: named.value, next_cursor: next, missing, notices }))
}
