//! `check-conflicts`: what is in the way of a session, or of a caller without one.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::engine::{Actor, Command, Content, Engine, Few, Intent, KeyCheck, ObjectId, Outcome, SessionId, Text};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::conflict_list::ConflictList;
use crate::http::error::ApiResult;
use crate::http::extract::{At, CHECK_BODY_MAX, LONG_LIST_KEYS, LargeJson, QueryParams, without_blocking};
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::reply_text::{ListText, ReplyText};
use crate::http::request_fields::{key, mode, object_id, ttl};
use crate::http::submit::{read_state, submit};
use crate::key::Key;
use crate::wire::{self, Encoding};

/// Paths checked in one turn of the desk. The desk decides nothing else meanwhile, so a large check is cut into pieces of
/// about a millisecond. What is reserved between two pieces shows up in the later ones.
const PIECE_PATHS: usize = 2_000;

/// Check which reservations are in the way of a session.
///
/// 100,000 paths in one call are normal.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/check-conflicts",
    operation_id = "checkConflicts",
    tag = "Files",
    params(params::SessionAt),
    request_body = wire::Check,
    responses((status = 200, description = "The conflicts, in the order of the request.", body = wire::CheckReply), refusals::Check),
)]
pub async fn check(
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    LargeJson(body, _permit): LargeJson<wire::Check, CHECK_BODY_MAX>,
) -> ApiResult<Response> {
    let (actor, session) = caller.look_for(&id)?;
    check_paths(&app, &caller, actor, Some(session), body).await
}

/// Check which reservations are in the way of a session, with the paths in the URL.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/files/check-conflicts",
    operation_id = "checkConflictsByQuery",
    tag = "Files",
    params(params::SessionAt, params::Paths),
    responses((status = 200, description = "The conflicts, in the order of the request.", body = wire::CheckReply), refusals::CheckQuery),
)]
pub async fn check_query(
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    query: QueryParams,
) -> ApiResult<Response> {
    let (actor, session) = caller.look_for(&id)?;
    let mut paths = Vec::new();
    for (name, value) in &query.0 {
        match &**name {
            "paths" if value.is_empty() => {}
            "paths" => paths.extend(value.split(',').map(str::to_owned)),
            "path" => paths.push(value.clone()),
            _ => {}
        }
    }
    let named = query.0.iter().any(|(name, _)| name == "paths" || name == "path");
    if !named {
        return Err(wire::BadBody::field("paths", "is missing; send ?paths=a,b or repeat ?path=").into());
    }
    let word = |name: &str| query.one(name).map(|text| serde_json::json!({ name: text }));
    let read = |value: Option<serde_json::Value>| -> ApiResult<wire::Check> {
        let value = value.unwrap_or_else(|| serde_json::json!({}));
        Ok(wire::read(&serde_json::to_vec(&value).expect("plain data"))?)
    };
    let (mode, encoding) = (read(word("mode"))?.mode, read(word("encoding"))?.encoding);
    let intent = read(word("intent"))?.intent;
    let body = wire::Check { paths: Some(paths), mode, intent, encoding, ..wire::Check::default() };
    check_paths(&app, &caller, actor, Some(session), body).await
}

/// Check which paths are reserved, as a caller without a session.
#[utoipa::path(
    post,
    path = "/api/check-conflicts",
    operation_id = "checkConflictsAsNobody",
    tag = "Files",
    request_body = wire::Check,
    responses((status = 200, description = "Every reservation of these paths is a conflict.", body = wire::CheckReply), refusals::Check),
)]
pub async fn check_without_session(
    State(app): State<Arc<App>>,
    caller: Caller,
    LargeJson(body, _permit): LargeJson<wire::Check, CHECK_BODY_MAX>,
) -> ApiResult<Response> {
    check_paths(&app, &caller, caller.look(), None, body).await
}

async fn check_paths(
    app: &App,
    caller: &Caller,
    actor: Actor,
    session: Option<SessionId>,
    body: wire::Check,
) -> ApiResult<Response> {
    let check = ParsedCheck::read(app, caller, body)?;
    let text = check.run(caller, actor, session, caller.claims.feature.clone()).await?;
    Ok(text.into_response())
}

/// A check whose paths and contents are read.
pub struct ParsedCheck {
    paths: Arc<[String]>,
    keys: Few<Key>,
    /// Of each path, if the request has them.
    blobs: Option<Arc<[ObjectId]>>,
    intent: Intent,
    record: bool,
}

impl ParsedCheck {
    pub fn read(app: &App, caller: &Caller, mut body: wire::Check) -> ApiResult<ParsedCheck> {
        let (intent, percent) = (intent(&body), body.encoding == Some(Encoding::Percent));
        let (blobs, record) = (body.blobs.take(), body.record == Some(true));
        let (held_in, ttl_seconds) = (mode(body.mode), body.ttl_seconds);
        let paths = body.into_paths()?;
        let most = app.limits().keys_per_check;
        if paths.len() > most {
            let what = format!("has {} paths, and {most} is the most for one check", paths.len());
            return Err(wire::BadBody::field("paths", what).into());
        }
        let read = |text: &String| key(&caller.repo, text, percent);
        let keys =
            without_blocking(paths.len() > LONG_LIST_KEYS, || paths.iter().map(read).collect::<ApiResult<Few<_>>>())?;
        if ttl_seconds.is_some() {
            let policy = caller.repo.policy();
            for key in &*keys {
                policy.permit(key, held_in)?;
                ttl(ttl_seconds, policy.bounds(key))?;
            }
        }
        let blobs = blobs.map(|blobs| read_blobs(&blobs, paths.len())).transpose()?;
        // Whether anything is carried or remembered is about changes only.
        let blobs = blobs.filter(|_| intent == Intent::Change);
        Ok(ParsedCheck { paths: paths.into(), keys, record: record && blobs.is_some(), blobs, intent })
    }

    /// Checks for a session, or for a caller without one. `feature` is the one that the token of the session names. The
    /// result is a [`wire::CheckReply`] as text.
    pub async fn run(
        self,
        caller: &Caller,
        actor: Actor,
        session: Option<SessionId>,
        feature: Option<Text>,
    ) -> ApiResult<ReplyText> {
        let ParsedCheck { paths, keys, blobs, intent, record } = self;
        let record = record && !matches!(actor, Actor::Reader);
        let mut keys = keys.into_iter();
        let mut reply = CheckText::new();
        let mut first = 0;
        loop {
            let piece: Vec<Key> = keys.by_ref().take(PIECE_PATHS).collect();
            let count = piece.len();
            let view = {
                let (session, feature, blobs) = (session.clone(), feature.clone(), blobs.clone());
                move |engine: &Engine, now| {
                    let check = |(key, position): (&Key, usize)| match &blobs {
                        Some(blobs) => engine.check_content(session.as_ref(), position, key, blobs[position]),
                        None => engine.check(session.as_ref(), position, key, intent),
                    };
                    let checks: Vec<KeyCheck> = piece.iter().zip(first..).map(check).collect();
                    let pause = session.and_then(|session| engine.paused(&session, feature.as_ref()));
                    (piece, checks, pause, now)
                }
            };
            // The session made one call, however many pieces it takes: only the first is a sign of life and gets its
            // notices.
            let looker = if first == 0 { actor.clone() } else { Actor::Reader };
            let state = read_state(&caller.repo.desk, looker, view).await?;
            let (piece, checks, pause, now) = state.value;
            let mut own = Vec::new();
            for ((key, check), position) in piece.into_iter().zip(checks).zip(first..) {
                reply.add(&check, position, &paths);
                if let Some(blobs) = blobs.as_ref().filter(|_| record && check.held && check.conflicts.is_empty()) {
                    own.push(Content { key, blob: blobs[position] });
                }
            }
            reply.notices.extend(outcome::notices(state.notices));
            if let Some(session) = session.clone().filter(|_| !own.is_empty()) {
                let command = Command::RecordCommit { session, contents: own };
                let reply = submit(&caller.repo, actor.clone(), command).await?;
                let Ok(Outcome::Done) = reply.outcome else { return Err(not_done(reply.outcome, reply.now)) };
            }
            first += count;
            if keys.len() == 0 {
                return Ok(reply.finish(pause.map(outcome::pause), outcome::time(now)));
            }
        }
    }
}

/// A [`wire::CheckReply`] that is written while the paths are checked. The conflicts come first, so that a client that
/// gets only a part of the reply knows of them.
struct CheckText {
    list: ConflictList,
    conflicts: ListText,
    clear: ListText,
    held: ListText,
    carried: ListText,
    notices: Vec<wire::Notice>,
}

impl CheckText {
    fn new() -> Self {
        let [conflicts, clear, held, carried] = std::array::from_fn(|_| ListText::new());
        Self { list: ConflictList::default(), conflicts, clear, held, carried, notices: Vec::new() }
    }

    fn add(&mut self, check: &KeyCheck, position: usize, paths: &[String]) {
        if !check.conflicts.is_empty() {
            return self.list.add(&check.conflicts, paths, |conflict| self.conflicts.push(&conflict));
        }
        let path = &paths[position];
        self.clear.push(path);
        if check.held {
            self.held.push(path);
        }
        if check.carried {
            self.carried.push(path);
        }
    }

    fn finish(self, paused: Option<wire::Paused>, server_time: wire::Time) -> ReplyText {
        let mut text = ReplyText::default();
        self.conflicts.write_to(&mut text, "{\"conflicts\":[");
        self.clear.write_to(&mut text, ",\"clear\":[");
        self.held.write_to(&mut text, ",\"held\":[");
        if !self.carried.is_empty {
            self.carried.write_to(&mut text, ",\"carried\":[");
        }
        if let Some(paused) = paused {
            text.push_str(",\"paused\":");
            text.push_json(&paused);
        }
        text.push_str(",\"serverTime\":");
        text.push_json(&server_time);
        if !self.notices.is_empty() {
            text.push_str(",\"notices\":");
            text.push_json(&self.notices);
        }
        text.push_str("}");
        text
    }
}

/// The contents of a check, one for each path.
fn read_blobs(texts: &[String], paths: usize) -> ApiResult<Arc<[ObjectId]>> {
    if texts.len() != paths {
        let what = format!("has {} object ids for {paths} paths; send one for each path", texts.len());
        return Err(wire::BadBody::field("blobs", what).into());
    }
    let read = |(position, text): (usize, &String)| object_id(&format!("blobs[{position}]"), text);
    texts.iter().enumerate().map(read).collect()
}

fn intent(check: &wire::Check) -> Intent {
    match check.intent {
        None => Intent::Reserve(mode(check.mode)),
        Some(wire::Intent::Change) => Intent::Change,
        Some(wire::Intent::Look) => Intent::Look,
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::wire::{CheckReply, Notice, Paused, Time};

    #[tokio::test]
    async fn the_written_reply_is_the_reply_of_the_contract() {
        let lost = Notice::Lost { lost_at: Time(1), released_count: 1, released_paths: vec!["a".to_owned()] };
        let paused = Paused {
            feature: "F".into(),
            reserved_by: "bo".into(),
            reserved_by_name: None,
            reason: None,
            expires_at: Time(2),
        };
        let paths = ["a".to_owned(), "b\"\u{7}".to_owned()];
        for (notices, paused, carried) in [(vec![], None, false), (vec![lost], Some(paused), true)] {
            let mut text = CheckText::new();
            text.notices = notices.clone();
            for position in 0..2 {
                let check = KeyCheck { conflicts: Vec::new(), held: position == 1, carried };
                text.add(&check, position, &paths);
            }
            let reply = CheckReply {
                clear: paths.to_vec(),
                held: paths[1..].to_vec(),
                carried: if carried { paths.to_vec() } else { Vec::new() },
                paused: paused.clone(),
                server_time: Some(Time(3)),
                notices,
                ..CheckReply::default()
            };
            let body = text.finish(paused, Time(3)).into_response().into_body();
            let written = body.collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&written), serde_json::to_string(&reply).unwrap());
        }
    }
}
