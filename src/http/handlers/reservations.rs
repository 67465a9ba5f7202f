//! Reservations in lists, and the override that takes one away from its holder.

use crate::engine::{Command, Engine, Grant, Outcome, Person, ReservationId, Seq, SessionId};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json, QueryParams};
use crate::http::handlers::files;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::submit::{decide, look};
use crate::key::Key;
use crate::wire::{self, Code};

/// Reservations on one page if the request names no limit.
const PAGE_ITEMS: u32 = 100;

/// List what a session holds.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/reserved-files",
    operation_id = "listReservedFiles",
    tag = "Files",
    params(params::SessionAt),
    responses((status = 200, description = "All of it, the oldest first.", body = wire::ReservationList), refusals::LookAtOne),
)]
pub async fn reserved_files(caller: Caller, At(id): At<String>) -> ApiResult<Json<wire::ReservationList>> {
    let (actor, session) = caller.look_for(&id)?;
    let see = move |engine: &Engine, _| {
        let name = engine.session(&session)?.name;
        let holder = Person { session, name };
        let held = engine.held(&holder.session);
        Some(held.iter().map(|grant| outcome::listed(&holder, grant)).collect())
    };
    let seen = look(&caller.repo.desk, actor, see).await?;
    let missing = || ApiError::new(Code::NotFound, format!("there is no session {id:?} in this repository"));
    let reservations = seen.value.ok_or_else(missing)?;
    let notices = outcome::notices(seen.notices);
    Ok(Json(wire::ReservationList { reservations, next_cursor: None, seq: None, notices }))
}

/// List what everybody holds.
#[utoipa::path(
    get,
    path = "/api/reservations",
    operation_id = "listReservations",
    tag = "Looking and operating",
    params(params::Reservations, params::Page),
    responses((status = 200, description = "One page of it, the oldest first.", body = wire::ReservationList), refusals::Look),
)]
pub async fn reservations(caller: Caller, query: QueryParams) -> ApiResult<Json<wire::ReservationList>> {
    let limit = query.page_size(PAGE_ITEMS)?;
    let after = Seq(query.number("cursor", 0, u64::MAX)?.unwrap_or(0));
    let prefix = query.one("prefix").map(str::to_owned);
    let session = query.one("session").map(str::to_owned);
    let see = move |engine: &Engine, _| {
        let wanted = |grant: &Grant| prefix.as_ref().is_none_or(|prefix| starts_with(&grant.key, prefix));
        let list = |holdings: &mut dyn Iterator<Item = (Person, Grant)>| -> Vec<_> {
            let page = holdings.filter(|(_, grant)| wanted(grant)).take(limit + 1);
            page.map(|(holder, grant)| outcome::listed(&holder, &grant)).collect()
        };
        let mut page = match session {
            Some(id) => match SessionId::parse(&id).and_then(|id| engine.session(&id)) {
                Some(view) => {
                    let holder = Person { session: view.id, name: view.name };
                    let held = engine.held(&holder.session).into_iter().filter(|grant| grant.fence > after);
                    list(&mut held.map(|grant| (holder.clone(), grant)))
                }
                None => Vec::new(),
            },
            None => list(&mut engine.reservations(after)),
        };
        let more = page.len() > limit;
        page.truncate(limit);
        let next_cursor = page.last().filter(|_| more).map(|last| last.fence.to_string());
        let seq = Some(engine.head().0);
        wire::ReservationList { reservations: page, next_cursor, seq, notices: Vec::new() }
    };
    let seen = look(&caller.repo.desk, caller.look(), see).await?;
    Ok(Json(wire::ReservationList { notices: outcome::notices(seen.notices), ..seen.value }))
}

/// Whether a key starts with this text. The `file:` in front of a path does not count.
pub fn starts_with(key: &Key, prefix: &str) -> bool {
    let shown = key.shown();
    shown.starts_with(prefix) || shown.strip_prefix("file:").is_some_and(|path| path.starts_with(prefix))
}

/// Take a reservation away from its holder.
///
/// Needs scope `admin`. The holder is told who did it and why, and the history keeps it.
#[utoipa::path(
    delete,
    path = "/api/reservations/{reservationId}",
    operation_id = "takeAway",
    tag = "Looking and operating",
    params(params::ReservationAt),
    request_body = wire::Override,
    responses((status = 200, description = "It is not held any more.", body = wire::Released), refusals::TakeAway),
)]
pub async fn take_away(
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::Override>,
) -> ApiResult<Json<wire::Released>> {
    let actor = caller.act_as_admin()?;
    let Some(reason) = files::reason(Some(&body.reason))? else {
        return Err(wire::BadBody::field("reason", "must not be empty").into());
    };
    let missing = || ApiError::new(Code::NotFound, "there is no such reservation, or it is over");
    let id = ReservationId::parse(&id).ok_or_else(missing)?;
    let reply = decide(&caller.repo, actor, Command::Override { id, reason }).await?;
    match reply.outcome {
        Ok(Outcome::Released(keys)) => {
            let released_count = keys.len() as u64;
            Ok(Json(wire::Released { ok: true, released: true, released_count, notices: Vec::new() }))
        }
        other => Err(not_done(other, reply.now)),
    }
}
