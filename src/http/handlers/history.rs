//! `GET /api/history`: past events, the latest first.

use std::collections::{HashMap, HashSet};

use axum::response::Response;

use crate::engine::{Engine, Record, SessionId, Text, Timestamp};
use crate::http::background::at_low_priority;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::event_json::event_json;
use crate::http::extract::{QueryParams, list_reply};
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
pub async fn list(caller: Caller, query: QueryParams) -> ApiResult<Response> {
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
    let fold_case = caller.repo.policy().rules.fold_case;
    let query = HistoryQuery { key, fold_case, session, reservation: None, since, limit, cursor };
    // Before the history is read: the token of an ended session is not valid any more.
    let reply = read_state(&caller.repo.desk, caller.look(), |_, _| ()).await?;
    let HistoryPage { events, next, missing } = read_page(&caller, query).await?;
    // The desk only tells the names; it does not wait for the rest.
    let unnamed = events.iter().filter(|(_, name)| name.is_none()).filter_map(|(record, _)| record.event.session());
    let unnamed: HashSet<SessionId> = unnamed.cloned().collect();
    let look_up = |engine: &Engine, _| {
        let name = |id: SessionId| engine.session(&id)?.name.map(|name| (id, name));
        unnamed.into_iter().filter_map(name).collect::<HashMap<_, _>>()
    };
    let names = read_state(&caller.repo.desk, crate::engine::Actor::Reader, look_up).await?.value;
    let missing = missing.into_iter().map(|(first, last)| MissingEvents { first: first.0, last: last.0 }).collect();
    let (items, notices) = (events.len(), outcome::notices(reply.notices));
    let body = || {
        let named = |(record, name): (Record, Option<Text>)| {
            let known = name.or_else(|| names.get(record.event.session()?).cloned());
            event_json(&record, known)
        };
        let events = events.into_iter().map(named).collect();
        wire::HistoryReply { events, next_cursor: next, missing, notices }
    };
    Ok(list_reply(items, body).await)
}

/// Reads one page of records, off the threads that serve requests.
pub async fn read_page(caller: &Caller, query: HistoryQuery) -> ApiResult<HistoryPage> {
    let repo = caller.repo.clone();
    let read = move || repo.history.as_ref().map(|history| history.page(&query));
    let unreadable =
        || ApiError::new(Code::Unavailable, "the history cannot be read now; try again in a moment").retry_after(5);
    match tokio::task::spawn_blocking(|| at_low_priority(read)).await {
        Ok(Some(Ok(page))) => Ok(page),
        Ok(Some(Err(HistoryError::BadCursor))) => {
            Err(wire::BadBody::field("cursor", "must be the nextCursor of an earlier reply").into())
        }
        Ok(Some(Err(HistoryError::Unreadable(sentence)))) => {
            tracing::warn!(error = sentence, "the history could not be read");
            Err(unreadable())
        }
        Ok(None) => Ok(HistoryPage::default()),
        Err(_) => Err(unreadable()),
    }
}
