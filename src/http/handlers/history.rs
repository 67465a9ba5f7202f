//! What happened. Whoever keeps the past is handed in; nothing in here knows where it is kept.

use crate::engine::{Engine, Record, Seq, SessionId, Text, Timestamp};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::event_json::event_json;
use crate::http::extract::{Asked, Json};
use crate::http::handlers::files;
use crate::http::openapi::{params, refusals};
use crate::http::outcome;
use crate::http::submit::look;
use crate::key::Key;
use crate::wire::{self, Code, MissingEvents, Time};

/// Events on one page if the request names no limit.
const PAGE_ITEMS: u32 = 100;

/// Knows what happened in one repository.
pub trait Past: Send + Sync {
    /// One page of it, the latest first. May take its time.
    fn page(&self, query: &PastQuery) -> Result<PastPage, PastTrouble>;

    /// How far the ledger is, where one is written.
    fn ledger(&self) -> Option<wire::LedgerHealth>;
}

/// What somebody wants to know.
#[derive(Debug, Clone, Default)]
pub struct PastQuery {
    /// Only what could be about this key.
    pub key: Option<Key>,
    /// That key is compared without regard to case.
    pub fold_case: bool,
    /// Only what this session did.
    pub session: Option<SessionId>,
    /// Only what happened since.
    pub since: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
    /// As an earlier page gave it.
    pub cursor: Option<String>,
}

/// Some events, the latest first.
#[derive(Debug, Default)]
pub struct PastPage {
    /// With what their sessions were called, where that is known.
    pub events: Vec<(Record, Option<Text>)>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// What nobody has any more.
    pub missing: Vec<(Seq, Seq)>,
}

/// Why there is no page.
#[derive(Debug)]
pub enum PastTrouble {
    /// The cursor is none of ours.
    Cursor,
    /// A sentence.
    Unreadable(String),
}

/// What happened, the latest first.
///
/// A page may be short or even empty and still not be the last: go on while there is a `nextCursor`.
#[utoipa::path(
    get,
    path = "/api/history",
    operation_id = "getHistory",
    tag = "Looking and operating",
    params(params::Past),
    responses((status = 200, description = "One page of it.", body = wire::HistoryReply), refusals::CheckQuery),
)]
pub async fn list(caller: Caller, asked: Asked) -> ApiResult<Json<wire::HistoryReply>> {
    let percent = match asked.one("encoding") {
        None => false,
        Some("percent") => true,
        Some(_) => return Err(wire::BadBody::field("encoding", "must be percent").into()),
    };
    let key = asked.one("path").map(|path| files::key(&caller.repo, path, percent)).transpose()?;
    let session = match asked.one("session") {
        Some(id) => match SessionId::parse(id) {
            Some(session) => Some(session),
            None => return Err(wire::BadBody::field("session", "is not a session id").into()),
        },
        None => None,
    };
    let since = match asked.one("since").map(Time::parse) {
        Some(Some(Time(ms))) => Some(Timestamp(ms)),
        Some(None) => return Err(wire::BadBody::field("since", "must be a time in RFC 3339").into()),
        None => None,
    };
    let limit = asked.page_size(PAGE_ITEMS)?;
    let cursor = asked.one("cursor").map(str::to_owned);
    let query = PastQuery { key, fold_case: caller.repo.policy().rules.fold_case, session, since, limit, cursor };
    // Before anything is read: a session that has ended may not look any more.
    let seen = look(&caller.repo.desk, caller.look(), |_, _| ()).await?;
    let repo = caller.repo.clone();
    let read = move || repo.past.as_ref().map(|past| past.page(&query));
    let page = tokio::task::spawn_blocking(read).await;
    let page = match page {
        Ok(Some(Ok(page))) => page,
        Ok(Some(Err(PastTrouble::Cursor))) => {
            return Err(wire::BadBody::field("cursor", "must be as an earlier answer gave it").into());
        }
        Ok(Some(Err(PastTrouble::Unreadable(sentence)))) => {
            tracing::warn!(error = sentence, "the history could not be read");
            return Err(ApiError::new(Code::Unavailable, "the history cannot be read just now").retry_after(5));
        }
        Ok(None) => PastPage::default(),
        Err(_) => return Err(ApiError::new(Code::Unavailable, "the history cannot be read just now").retry_after(5)),
    };
    let PastPage { events, next, missing } = page;
    let name = |engine: &Engine, _| {
        let name = |(record, name): (Record, Option<Text>)| {
            let known = name.or_else(|| engine.session(record.event.session()?)?.name);
            event_json(&record, known)
        };
        events.into_iter().map(name).collect::<Vec<_>>()
    };
    let named = look(&caller.repo.desk, crate::engine::Actor::Reader, name).await?;
    let missing = missing.into_iter().map(|(first, last)| MissingEvents { first: first.0, last: last.0 }).collect();
    let notices = outcome::notices(seen.notices);
    Ok(Json(wire::HistoryReply { events: named.value, next_cursor: next, missing, notices }))
}
