//! Reservations in lists, and the override that takes one away from its holder.

use crate::engine::{Command, Engine, Grant, Outcome, ReservationId, Seq, SessionId, SessionName};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json, QueryParams};
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::request_fields::reason;
use crate::http::submit::{read_state, submit};
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
    responses((status = 200, description = "All of its reservations, the oldest first.", body = wire::ReservationList), refusals::LookAtOne),
)]
pub async fn reserved_files(caller: Caller, At(id): At<String>) -> ApiResult<Json<wire::ReservationList>> {
    let (actor, session) = caller.look_for(&id)?;
    let view = move |engine: &Engine, _| {
        let name = engine.session(&session)?.name;
        let holder = SessionName { session, name };
        let grants = engine.held(&holder.session);
        Some(grants.iter().map(|grant| outcome::reservation_info(&holder, grant)).collect())
    };
    let reply = read_state(&caller.repo.desk, actor, view).await?;
    let missing = || ApiError::new(Code::NotFound, format!("there is no session {id:?} in this repository"));
    let reservations = reply.value.ok_or_else(missing)?;
    let notices = outcome::notices(reply.notices);
    Ok(Json(wire::ReservationList { reservations, next_cursor: None, seq: None, notices }))
}

/// List all reservations of the repository.
#[utoipa::path(
    get,
    path = "/api/reservations",
    operation_id = "listReservations",
    tag = "Monitoring and administration",
    params(params::ReservationQuery, params::PageParams),
    responses((status = 200, description = "One page of reservations, the oldest first.", body = wire::ReservationList), refusals::Look),
)]
pub async fn reservations(caller: Caller, query: QueryParams) -> ApiResult<Json<wire::ReservationList>> {
    let limit = query.page_size(PAGE_ITEMS)?;
    let after = Seq(query.number("cursor", 0, u64::MAX)?.unwrap_or(0));
    let prefix = query.one("prefix").map(str::to_owned);
    let session = query.one("session").map(str::to_owned);
    let view = move |engine: &Engine, _| {
        let wanted = |grant: &Grant| prefix.as_ref().is_none_or(|prefix| starts_with(&grant.key, prefix));
        let list = |holdings: &mut dyn Iterator<Item = (SessionName, Grant)>| -> Vec<_> {
            let page = holdings.filter(|(_, grant)| wanted(grant)).take(limit + 1);
            page.map(|(holder, grant)| outcome::reservation_info(&holder, &grant)).collect()
        };
        let mut page = match session {
            Some(id) => match SessionId::parse(&id).and_then(|id| engine.session(&id)) {
                Some(view) => {
                    let holder = SessionName { session: view.id, name: view.name };
                    let grants = engine.held(&holder.session).into_iter().filter(|grant| grant.fence > after);
                    list(&mut grants.map(|grant| (holder.clone(), grant)))
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
    let reply = read_state(&caller.repo.desk, caller.look(), view).await?;
    Ok(Json(wire::ReservationList { notices: outcome::notices(reply.notices), ..reply.value }))
}

/// Whether a key starts with this text. The `file:` in front of a path does not count.
pub fn starts_with(key: &Key, prefix: &str) -> bool {
    let shown = key.shown();
    shown.starts_with(prefix) || shown.strip_prefix("file:").is_some_and(|path| path.starts_with(prefix))
}

/// End a reservation of another session.
///
/// Needs scope `admin`. The holder gets a notice with the admin's name and reason, and the history keeps both.
#[utoipa::path(
    delete,
    path = "/api/reservations/{reservationId}",
    operation_id = "takeAway",
    tag = "Monitoring and administration",
    params(params::ReservationAt),
    request_body = wire::Override,
    responses((status = 200, description = "The reservation has ended.", body = wire::Released), refusals::Override),
)]
pub async fn take_away(
    caller: Caller,
    At(id): At<String>,
    Json(body): Json<wire::Override>,
) -> ApiResult<Json<wire::Released>> {
    let actor = caller.act_as_admin()?;
    let Some(reason) = reason(Some(&body.reason))? else {
        return Err(wire::BadBody::field("reason", "must not be empty").into());
    };
    let missing = || ApiError::new(Code::NotFound, "there is no such reservation, or it has ended");
    let id = ReservationId::parse(&id).ok_or_else(missing)?;
    let reply = submit(&caller.repo, actor, Command::Override { id, reason }).await?;
    match reply.outcome {
        Ok(Outcome::Released(keys)) => {
            let released_count = keys.len() as u64;
            Ok(Json(wire::Released { ok: true, released: true, released_count, notices: Vec::new() }))
        }
        other => Err(not_done(other, reply.now)),
    }
}
