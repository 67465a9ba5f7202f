//! What happened. Whoever keeps the past is handed in; nothing in here knows where it is kept.

use super::ask::look;
use super::caller::Caller;
use super::error::{ApiError, ApiResult};
use super::files;
use super::happened::{why_left, why_over};
use super::openapi::{params, refusals};
use super::outcome::{self, mode, time};
use super::parts::{Asked, Json};
use crate::engine::{Engine, Event, Record, Seq, SessionId, Text, Timestamp, UnlockAnswer, Why};
use crate::key::Key;
use crate::wire::{self, Code, Encoding, HistoryEvent, Missing, Time};

/// Events on one page where the request says nothing, and at most.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1000;

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
    responses((status = 200, description = "One page of it.", body = wire::History), refusals::CheckQuery),
)]
pub async fn list(caller: Caller, asked: Asked) -> ApiResult<Json<wire::History>> {
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
    let limit = asked.number("limit", 1, PAGE_MAX)?.unwrap_or(PAGE) as usize;
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
            told(&record, known)
        };
        events.into_iter().map(name).collect::<Vec<_>>()
    };
    let named = look(&caller.repo.desk, crate::engine::Actor::Reader, name).await?;
    let missing = missing.into_iter().map(|(first, last)| Missing { first: first.0, last: last.0 }).collect();
    let notices = outcome::notices(seen.notices);
    Ok(Json(wire::History { events: named.value, next_cursor: next, missing, notices }))
}

/// One event as a client sees it.
pub fn told(record: &Record, name: Option<Text>) -> HistoryEvent {
    let about = |key: &Key| (Some(key.shown()), key.is_percent().then_some(Encoding::Percent));
    let plain = HistoryEvent {
        seq: record.seq.0,
        at: time(record.at),
        session_id: record.event.session().map(|session| session.as_str().into()),
        session_name: name,
        ..HistoryEvent::default()
    };
    match &record.event {
        Event::Opened { .. } => HistoryEvent { event: "opened".into(), ..plain },
        Event::Bound { .. } => HistoryEvent { event: "bound".into(), ..plain },
        Event::Ended { state, .. } => {
            let why = Some(outcome::end_state(*state).as_str().into());
            HistoryEvent { event: "ended".into(), why, ..plain }
        }
        Event::Reserved { id, key, mode: how, ttl, reason, .. }
        | Event::Amended { id, key, mode: how, ttl, reason, .. } => {
            let (file_path, encoding) = about(key);
            let event = if matches!(record.event, Event::Reserved { .. }) { "reserved" } else { "amended" };
            HistoryEvent {
                event: event.into(),
                file_path,
                encoding,
                mode: Some(mode(*how)),
                reason: reason.clone(),
                ttl_seconds: Some(ttl.0),
                reservation_id: Some(id.to_string()),
                ..plain
            }
        }
        Event::Released { id, key, why, .. } => {
            let (file_path, encoding) = about(key);
            let reservation_id = Some(id.to_string());
            let released = HistoryEvent { event: "released".into(), file_path, encoding, reservation_id, ..plain };
            let because = Some(why_over(why).into());
            match why {
                // A release that was asked for needs no reason.
                Why::Released => released,
                Why::Expired | Why::Ended | Why::Unheard => HistoryEvent { why: because, ..released },
                Why::Overridden { by, reason } => {
                    HistoryEvent { why: because, by: Some(by.clone()), reason: Some(reason.clone()), ..released }
                }
                Why::Approved { request } => {
                    HistoryEvent { why: because, request_id: Some(request.to_string()), ..released }
                }
            }
        }
        Event::Queued { wants, mode: how, reason, .. } => HistoryEvent {
            event: "queued".into(),
            file_paths: wants.iter().map(|want| want.key.shown()).collect(),
            encoding: wants.iter().any(|want| want.key.is_percent()).then_some(Encoding::Percent),
            mode: Some(mode(*how)),
            reason: reason.clone(),
            ..plain
        },
        Event::Seated { .. } => HistoryEvent { event: "seated".into(), ..plain },
        Event::Left { why, .. } => HistoryEvent { event: "left".into(), why: Some(why_left(*why).into()), ..plain },
        Event::Counted { .. } => HistoryEvent { event: "counted".into(), ..plain },
        Event::UnlockRequested { request, reservation, key, reason, .. } => {
            let (file_path, encoding) = about(key);
            HistoryEvent {
                event: "unlockRequested".into(),
                file_path,
                encoding,
                reason: Some(reason.clone()),
                reservation_id: Some(reservation.to_string()),
                request_id: Some(request.to_string()),
                ..plain
            }
        }
        Event::UnlockAnswered { request, answer, note, .. } => HistoryEvent {
            event: "unlockAnswered".into(),
            request_id: Some(request.to_string()),
            why: Some(answered(*answer).into()),
            reason: note.clone(),
            ..plain
        },
    }
}

fn answered(answer: UnlockAnswer) -> &'static str {
    match answer {
        UnlockAnswer::Approved => "approved",
        UnlockAnswer::Rejected => "rejected",
        UnlockAnswer::Withdrawn => "withdrawn",
        UnlockAnswer::Moot => "moot",
    }
}
