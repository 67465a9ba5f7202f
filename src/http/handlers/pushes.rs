//! Announced pushes: a session announces what it is about to push, and the hook of a git server asks who it was.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::check::ParsedCheck;
use crate::engine::{ANNOUNCED_PER_SESSION_MAX, Actor, Command, Outcome, RefUpdate};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::{At, CHECK_BODY_MAX, Json, KEYS_BODY_MAX, LargeJson};
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::reply_text::ReplyText;
use crate::http::request_fields::object_id;
use crate::http::submit::submit;
use crate::wire;
use crate::wire::limits::{CLAIM_UPDATES_MAX, PUSH_UPDATES_MAX, REF_BYTES_MAX};

// Everything that a session announced can be claimed by one push.
const _: () = assert!(CLAIM_UPDATES_MAX == ANNOUNCED_PER_SESSION_MAX);

/// Announce a push.
///
/// A git server sees ref names and object ids, but not which session pushes. The session announces them right before its
/// push; the announcement can be claimed once, within 60 seconds.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/pushes",
    operation_id = "announcePush",
    tag = "Pushes",
    params(params::SessionAt),
    request_body = wire::AnnouncePush,
    responses((status = 200, description = "Until when the announcement can be claimed.", body = wire::PushAnnounced), refusals::AnnouncePush),
)]
pub async fn announce(
    caller: Caller,
    At(id): At<String>,
    LargeJson(body, _permit): LargeJson<wire::AnnouncePush, KEYS_BODY_MAX>,
) -> ApiResult<Json<wire::PushAnnounced>> {
    let (actor, session) = caller.act_for(&id)?;
    let updates = read_updates(&body.updates, PUSH_UPDATES_MAX)?;
    let reply = submit(&caller.repo, actor, Command::AnnouncePush { session, updates }).await?;
    let notices = outcome::notices(reply.notices);
    match reply.outcome {
        Ok(Outcome::Announced { until }) => Ok(Json(wire::PushAnnounced { expires_at: outcome::time(until), notices })),
        other => Err(not_done(other, reply.now).with_notices(notices)),
    }
}

/// Find out which session announced a push.
///
/// For the hook of a git server. The session must have announced all of the updates. They are not announced any more
/// afterwards. With `check`, the answer also has the conflicts of that session, or of a caller without a session if none
/// announced the push.
#[utoipa::path(
    post,
    path = "/api/pushes/claim",
    operation_id = "claimPush",
    tag = "Pushes",
    request_body = wire::ClaimPush,
    responses((status = 200, description = "The session that announced the push, if one did.", body = wire::ClaimReply), refusals::Check),
)]
pub async fn claim(
    State(app): State<Arc<App>>,
    caller: Caller,
    LargeJson(body, _permit): LargeJson<wire::ClaimPush, CHECK_BODY_MAX>,
) -> ApiResult<Response> {
    let updates = read_updates(&body.updates, CLAIM_UPDATES_MAX)?;
    if updates.is_empty() {
        return Err(wire::BadBody::field("updates", "must name at least one update").into());
    }
    // Parsed first, so that a bad path does not use up the announcement.
    let check = match body.check {
        Some(check) => Some(ParsedCheck::read(&app, &caller, check).await?),
        None => None,
    };
    let reply = submit(&caller.repo, caller.look(), Command::ClaimPush { updates }).await?;
    let notices = outcome::notices(reply.notices);
    let pusher = match reply.outcome {
        Ok(Outcome::Claimed(pusher)) => pusher,
        other => return Err(not_done(other, reply.now).with_notices(notices)),
    };
    let session = pusher.as_ref().map(|pusher| pusher.session.clone());
    let check = match check {
        Some(check) => Some(check.run(&app, &caller, Actor::Reader, session, None).await?),
        None => None,
    };
    let session_id = pusher.as_ref().map(|pusher| pusher.session.as_str().into());
    let (name, feature) = pusher.map_or((None, None), |pusher| (pusher.name, pusher.feature));
    let reply = wire::ClaimReply { session_id, name, feature, check: None, notices };
    Ok(match check {
        Some(check) => with_check(&reply, check).into_response(),
        None => Json(reply).into_response(),
    })
}

/// The reply with a check that is text already, as its first field.
fn with_check(reply: &wire::ClaimReply, check: ReplyText) -> ReplyText {
    let mut text = ReplyText::default();
    text.push_str("{\"check\":");
    text.append(check);
    let rest = serde_json::to_string(reply).expect("replies are plain data");
    match rest.strip_prefix('{') {
        Some("}") | None => text.push_str("}"),
        Some(fields) => {
            text.push_str(",");
            text.push_str(fields);
        }
    }
    text
}

fn read_updates(updates: &[wire::RefUpdate], most: usize) -> ApiResult<Vec<RefUpdate>> {
    if updates.len() > most {
        let what = format!("has {} updates, and {most} is the most for one call", updates.len());
        return Err(wire::BadBody::field("updates", what).into());
    }
    let read = |(position, update): (usize, &wire::RefUpdate)| {
        let field = |name: &str| format!("updates[{position}].{name}");
        if update.name.is_empty() || update.name.len() > REF_BYTES_MAX {
            let what = format!("must have 1 to {REF_BYTES_MAX} bytes");
            return Err(wire::BadBody::field(&field("ref"), what).into());
        }
        Ok(RefUpdate {
            name: update.name.as_str().into(),
            old: object_id(&field("old"), &update.old)?,
            new: object_id(&field("new"), &update.new)?,
        })
    };
    updates.iter().enumerate().map(read).collect()
}
