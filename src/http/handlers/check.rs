//! `check-conflicts`: what is in the way of a session, or of a caller without one.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::engine::{
    Actor, Command, Content, Engine, Intent, KeyCheck, ObjectId, Outcome, Pair, Refusal, SessionId, Text, Timestamp,
};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::conflict_list::ConflictList;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, CHECK_BODY_MAX, LargeJson, QueryParams};
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::pattern_work::{COMPARE_ROUNDS, PatternWork, read_keys};
use crate::http::reply_text::{ListText, ReplyText};
use crate::http::request_fields::{HoldTime, few_enough, key, mode, object_id};
use crate::http::submit::{read_large_state, read_state, submit};
use crate::key::Key;
use crate::wire::{self, Code, Encoding};

/// Paths checked in one turn of the desk, and the work after which a turn takes no further path. The desk decides nothing
/// else meanwhile, so a large check is cut into pieces of a fraction of a millisecond. What is reserved between two pieces
/// shows up in the later ones.
const PIECE_PATHS: usize = 2_000;
const PIECE_WORK: u64 = 40_000;

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
            "paths" => {
                // The whole text may be the name of a file too, one with a comma.
                if value.contains(',') && is_held(&caller, value).await? {
                    paths.push(value.clone());
                }
                let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
                paths.extend(items.map(str::to_owned));
            }
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

/// Whether a session holds a key that is written exactly like this.
async fn is_held(caller: &Caller, text: &str) -> ApiResult<bool> {
    let Ok(key) = key(&caller.repo, &format!("file:{text}"), false) else { return Ok(false) };
    let state =
        read_state(&caller.repo.desk, Actor::Reader, move |engine, _| engine.entity(&key).lock.is_some()).await?;
    Ok(state.value)
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
    let check = ParsedCheck::read(app, caller, body).await?;
    let text = check.run(app, caller, actor, session, caller.claims.feature.clone()).await?;
    Ok(text.into_response())
}

/// A check whose paths and contents are read.
pub struct ParsedCheck {
    paths: Arc<[String]>,
    keys: Arc<[Key]>,
    /// For the patterns among them, if there are any.
    work: Option<PatternWork>,
    /// Of each path, if the request has them.
    blobs: Option<Arc<[ObjectId]>>,
    intent: Intent,
    record: bool,
    /// The question is whether a reserve with these keys would be granted, so its limits count too.
    is_reserve: bool,
}

impl ParsedCheck {
    pub async fn read(app: &App, caller: &Caller, mut body: wire::Check) -> ApiResult<ParsedCheck> {
        let (mut intent, percent) = (intent(&body), body.encoding == Some(Encoding::Percent));
        let (blobs, record) = (body.blobs.take(), body.record == Some(true));
        let held_in = mode(body.mode);
        let hold = HoldTime::read(body.ttl_seconds, body.while_session, body.idle_seconds)?;
        let paths = body.into_paths()?;
        if hold.is_some() {
            few_enough("paths", paths.len(), app.limits().keys_per_reserve)?;
        }
        let most = app.limits().keys_per_check;
        if paths.len() > most {
            let what = format!("has {} paths, and {most} is the most for one check", paths.len());
            return Err(wire::BadBody::field("paths", what).into());
        }
        let mut work = PatternWork::of(caller, paths.iter().map(String::as_str))?;
        let read = |text: &String| key(&caller.repo, text, percent);
        let keys = read_keys(app, &mut work, paths.iter(), read, |key| key).await?;
        if hold.is_some() {
            if let Intent::Reserve(mode) = intent {
                intent = Intent::ReserveNow(mode);
            }
            let policy = caller.repo.policy();
            for key in &*keys {
                policy.permit(key, held_in)?;
                hold.of(&policy, key)?;
            }
        }
        let blobs = blobs.map(|blobs| read_blobs(&blobs, paths.len())).transpose()?;
        // Whether anything is carried or remembered is about changes only.
        let blobs = blobs.filter(|_| intent == Intent::Change);
        let (paths, keys) = (paths.into(), keys.into_vec().into());
        let is_reserve = hold.is_some();
        Ok(ParsedCheck { paths, keys, work, record: record && blobs.is_some(), blobs, intent, is_reserve })
    }

    /// Checks for a session, or for a caller without one. `feature` is the one that the token of the session names. The
    /// result is a [`wire::CheckReply`] as text.
    pub async fn run(
        self,
        app: &App,
        caller: &Caller,
        actor: Actor,
        session: Option<SessionId>,
        feature: Option<Text>,
    ) -> ApiResult<ReplyText> {
        let ParsedCheck { paths, keys, mut work, blobs, intent, record, is_reserve } = self;
        let record = record && !matches!(actor, Actor::Reader);
        let mut reply = CheckText::new();
        let (mut first, mut rounds, mut is_first_call, mut is_large) = (0, 0, true, false);
        loop {
            let view = {
                let (session, feature) = (session.clone(), feature.clone());
                let (mut keys, mut blobs, mut skipped) = (keys.clone(), blobs.clone(), first);
                if is_large {
                    // It may wait for a while, also after its client has gone, so it keeps no more than it needs.
                    (keys, skipped) = ([keys[first].clone()].into(), 0);
                    blobs = blobs.map(|blobs| [blobs[first]].into());
                }
                move |engine: &Engine, now| {
                    let mut piece = Piece::default();
                    for (at, position) in (skipped..keys.len()).zip(first..).take(PIECE_PATHS) {
                        let (key, blob) = (&keys[at], blobs.as_ref().map(|blobs| blobs[at]));
                        let (checked, report) = engine.measured(is_large, |engine| match blob {
                            Some(blob) => engine.check_content(session.as_ref(), position, key, blob),
                            None => engine.check(session.as_ref(), position, key, intent),
                        });
                        piece.work += report.spent;
                        if report.is_exhausted || !report.uncompared.is_empty() {
                            (piece.is_exhausted, piece.uncompared) = (report.is_exhausted, report.uncompared);
                            break;
                        }
                        piece.checks.push(checked);
                        if piece.work > PIECE_WORK {
                            break;
                        }
                    }
                    let pause = session.as_ref().and_then(|session| engine.paused(session, feature.as_ref()));
                    // As in a reserve: a pause counts before the limits, and these before conflicts.
                    let is_limited = is_reserve && first == 0 && !is_large && pause.is_none();
                    let room = if is_limited { engine.room_for(session.as_ref(), &keys) } else { Ok(()) };
                    (piece, pause, room, now)
                }
            };
            // The session made one call, however many pieces it takes: only the first is a sign of life and gets its
            // notices.
            let looker = if is_first_call { actor.clone() } else { Actor::Reader };
            is_first_call = false;
            let state = match is_large {
                true => read_large_state(&caller.repo.desk, looker, view).await?,
                false => read_state(&caller.repo.desk, looker, view).await?,
            };
            let (Piece { checks, work: spent, is_exhausted, uncompared }, pause, room, now) = state.value;
            if let Err(refusal) = room {
                return Err(outcome::refusal(refusal, now).with_notices(outcome::notices(state.notices)));
            }
            let done = checks.len();
            // Contents that the session is about to commit at paths it holds.
            let mut own = Vec::new();
            for (check, position) in checks.into_iter().zip(first..) {
                reply.add(&check, position, &paths);
                if let Some(blobs) = blobs.as_ref().filter(|_| record && check.held && check.conflicts.is_empty()) {
                    own.push(Content { key: keys[position].clone(), blob: blobs[position] });
                }
            }
            reply.notices.extend(outcome::notices(state.notices));
            if let Some(session) = session.clone().filter(|_| !own.is_empty()) {
                let command = Command::RecordCommit { session, contents: own };
                let recorded = submit(&caller.repo, actor.clone(), command).await?;
                reply.notices.extend(outcome::notices(recorded.notices));
                let Ok(Outcome::Done) = recorded.outcome else {
                    return Err(not_done(recorded.outcome, recorded.now).with_notices(reply.notices));
                };
            }
            first += done;
            // The next path alone takes long: it gets a turn of its own.
            let is_too_large = is_exhausted && is_large && done == 0;
            is_large = is_exhausted;
            if is_too_large {
                let error = ApiError::new(Code::InvalidRequest, outcome::TOO_MUCH_WORK);
                return Err(error.with_notices(reply.notices));
            }
            if first == keys.len() {
                return Ok(reply.finish(pause.map(outcome::pause), outcome::time(now)));
            }
            rounds = if done > 0 || is_large { 0 } else { rounds + 1 };
            if let Some(work) = &mut work {
                work.add(spent)?;
                if rounds == COMPARE_ROUNDS {
                    return Err(not_done(Err(Refusal::Uncompared(uncompared)), Timestamp::default()));
                }
                if !uncompared.is_empty() {
                    work.compare(app, uncompared).await?;
                }
            }
        }
    }
}

/// What one turn of the desk has checked.
#[derive(Default)]
struct Piece {
    /// Of the next paths, in their order.
    checks: Vec<KeyCheck>,
    work: u64,
    /// The next path takes too much work.
    is_exhausted: bool,
    /// The next path must be compared with these first.
    uncompared: Vec<Pair>,
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
