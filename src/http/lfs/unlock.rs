//! Removing a lock: the session's own, or with force that of another.

use axum::response::{IntoResponse, Response};

use super::calls::{lock, reservation};
use super::holder::Holder;
use super::lock_id::LockId;
use super::policy::LfsForce;
use super::protocol::BasicUser;
use crate::engine::{Actor, Command, Grant, KeyName, Outcome, SessionName};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json};
use crate::http::outcome::{not_done, session_label};
use crate::http::submit::submit;
use crate::key::Kind;
use crate::text::shell;
use crate::token::Scope;
use crate::wire::Code;
use crate::wire::lfs::{LockReply, Unlock};

/// The reason in the history and in the notice to the holder.
const FORCED: &str = "git lfs unlock --force";

/// `POST …/locks/{id}/unlock`.
pub async fn unlock(
    caller: Caller,
    user: BasicUser,
    At(parts): At<Vec<(String, String)>>,
    Json(body): Json<Unlock>,
) -> ApiResult<Response> {
    let holder = Holder::of(&caller, &user)?;
    let id = parts.into_iter().rev().find(|(name, _)| name == "id").map(|(_, id)| id).unwrap_or_default();
    let missing =
        || ApiError::new(Code::NotFound, format!("there is no lock {id:?}; it may have been removed or have expired"));
    let id = LockId::parse(&id).ok_or_else(missing)?;
    let (owner, grant) = reservation(&caller, caller.look(), id).await?.ok_or_else(missing)?;
    if id.file.is_some() || grant.key.kind() != Kind::Path {
        return Err(part_of_reservation(&owner, &grant));
    }
    let lock = lock(&owner, &grant);
    let (actor, command) = if owner.session == holder.session {
        (holder.actor, Command::Release { session: owner.session, keys: [KeyName::from(grant.key)].into() })
    } else {
        let actor = may_force(&caller, &holder, &owner, &grant, body.force == Some(true))?;
        (actor, Command::Override { id: grant.id, reason: FORCED.into() })
    };
    let reply = submit(&caller.repo, actor, command).await?;
    match reply.outcome {
        Ok(Outcome::Released { count: 1.., .. }) => Ok(Json(LockReply { lock }).into_response()),
        Ok(Outcome::Released { .. } | Outcome::ReleasedLate { .. }) => Err(missing()),
        other => Err(not_done(other, reply.now)),
    }
}

fn part_of_reservation(owner: &SessionName, grant: &Grant) -> ApiError {
    let (key, who) = (grant.key.shown(), session_label(owner));
    let sentence = format!(
        "this file is held by {who} through {key:?} ({}), which is not a Git LFS lock; its holder releases it with: \
         git dibs release {}",
        grant.id,
        shell::word(&key).unwrap_or_default(),
    );
    ApiError::new(Code::Forbidden, sentence)
}

/// Who removes the lock of another session.
fn may_force(caller: &Caller, holder: &Holder, owner: &SessionName, grant: &Grant, force: bool) -> ApiResult<Actor> {
    let (path, who) = (String::from_utf8_lossy(grant.key.spelling()), session_label(owner));
    let anyone = caller.repo.policy().lfs.force == LfsForce::Anyone;
    let may = caller.claims.scope == Scope::Admin || anyone;
    let sentence = match (force, may) {
        (true, true) => {
            let by = SessionName { session: holder.session.clone(), name: caller.claims.name.clone() };
            return Ok(Actor::Admin(session_label(&by).into()));
        }
        (false, true) => format!("\"{path}\" is locked by {who}; to remove that lock: git lfs unlock --force"),
        (_, false) => format!("\"{path}\" is locked by {who}; only its holder or an admin can remove the lock"),
    };
    Err(ApiError::new(Code::Forbidden, sentence))
}
