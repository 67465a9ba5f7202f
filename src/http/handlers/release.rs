//! `POST …/files/release` and `POST …/files/release-all`.

use std::sync::Arc;

use axum::extract::State;

use crate::desk::Reply;
use crate::engine::{Command, Few, Outcome};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::{At, Json, KEYS_BODY_MAX, LargeJson};
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::request_fields::{named_key, named_keys};
use crate::http::submit::{begin, submit};
use crate::key::Key;
use crate::wire::limits::RELEASED_PATHS_MAX;
use crate::wire::{self, Code, OneOrMany};

/// Release one key, or several.
///
/// Releasing a key that no session holds is not an error. If another session holds one of the keys, the call is refused and
/// nothing is released.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/release",
    operation_id = "release",
    tag = "Files",
    params(params::SessionAt),
    request_body = wire::Release,
    responses((status = 200, description = "The session does not hold the keys any more.", body = wire::Released), refusals::Release),
)]
pub async fn release(
    State(app): State<Arc<App>>,
    caller: Caller,
    At(id): At<String>,
    LargeJson(body, _permit): LargeJson<wire::Release, KEYS_BODY_MAX>,
) -> ApiResult<Json<wire::Released>> {
    let (actor, session) = caller.act_for(&id)?;
    let keys = named_keys(&app, &caller, body.one_or_many()?, body.encoding).await?;
    let reply = submit(&caller.repo, actor, Command::Release { session, keys }).await?;
    released(reply)
}

/// The same for one plain key: everything but the reply of the desk is known at once. None if the request is another one or is
/// wrong, and nothing was done.
pub fn release_plain_key(
    caller: &Caller,
    id: &str,
    body: &wire::Release,
) -> Option<impl Future<Output = ApiResult<Json<wire::Released>>> + Send + use<>> {
    let OneOrMany::One(text) = body.one_or_many().ok()? else { return None };
    if Key::is_pattern(text) || body.encoding.is_some() {
        return None;
    }
    let (actor, session) = caller.act_for(id).ok()?;
    let keys = Few::from_iter([named_key(&caller.repo, text, false).ok()?]);
    let pending = begin(&caller.repo, actor, Command::Release { session, keys });
    Some(async move { released(pending?.receive().await?) })
}

fn released(reply: Reply) -> ApiResult<Json<wire::Released>> {
    let ReleasedKeys { count, lapsed, notices, .. } = ReleasedKeys::of(reply)?;
    let expired: Vec<String> = lapsed.iter().map(Key::shown).collect();
    let code = (!expired.is_empty()).then_some(Code::LockTimeout);
    Ok(Json(wire::Released { ok: true, released: count > 0, released_count: count, code, expired, notices }))
}

/// Release everything that the session holds.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/files/release-all",
    operation_id = "releaseAll",
    tag = "Files",
    params(params::SessionAt),
    request_body = Option<wire::EmptyBody>,
    responses((status = 200, description = "The keys that were released.", body = wire::ReleasedAll), refusals::Act),
)]
pub async fn release_all(
    caller: Caller,
    At(id): At<String>,
    Json(_): Json<wire::EmptyBody>,
) -> ApiResult<Json<wire::ReleasedAll>> {
    let (actor, session) = caller.act_for(&id)?;
    let reply = submit(&caller.repo, actor, Command::ReleaseAll { session }).await?;
    let ReleasedKeys { keys, count: released_count, notices, .. } = ReleasedKeys::of(reply)?;
    let released_paths = keys.iter().take(RELEASED_PATHS_MAX).map(Key::shown).collect();
    Ok(Json(wire::ReleasedAll { released_count, released_paths, notices }))
}

/// What a release achieved.
struct ReleasedKeys {
    /// The first keys that were released.
    keys: Few<Key>,
    count: u64,
    /// Keys that had expired before.
    lapsed: Few<Key>,
    notices: Vec<wire::Notice>,
}

impl ReleasedKeys {
    fn of(reply: Reply) -> ApiResult<ReleasedKeys> {
        let notices = outcome::notices(reply.notices);
        match reply.outcome {
            Ok(Outcome::Released { keys, count }) => {
                Ok(ReleasedKeys { keys, count: count as u64, lapsed: Few::new(), notices })
            }
            Ok(Outcome::ReleasedLate { released, lapsed }) => {
                Ok(ReleasedKeys { count: released.len() as u64, keys: released, lapsed, notices })
            }
            other => Err(not_done(other, reply.now).with_notices(notices)),
        }
    }
}
