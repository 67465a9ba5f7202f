//! Reservations in lists, and the override that takes one away from its holder.

use axum::response::Response;

use crate::engine::{Actor, Command, Engine, Outcome, Refusal, ReservationId, Seq, SessionId};
use crate::http::background::without_blocking;
use crate::http::caller::Caller;
use crate::http::conflict_list::reason_in_list;
use crate::http::error::{ApiError, ApiResult};
use crate::http::extract::{At, Json, LONG_REPLY_ITEMS, QueryParams, list_reply};
use crate::http::handlers::reservation_history;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, not_done};
use crate::http::request_fields::reason;
use crate::http::submit::{read_state, submit};
use crate::key::{Key, KeyPrefix};
use crate::wire::{self, Code};

/// Reservations on one page if the request names no limit.
const PAGE_ITEMS: u32 = 100;

/// The same for the reservations of one session: as many as one call reserves.
const OWN_PAGE_ITEMS: u32 = 10_000;

/// List what a session holds.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/reserved-files",
    operation_id = "listReservedFiles",
    tag = "Files",
    params(params::SessionAt, params::PageParams),
    responses((status = 200, description = "One page of its reservations, the oldest first.", body = wire::ReservationList), refusals::LookAtOne),
)]
pub async fn reserved_files(caller: Caller, At(id): At<String>, query: QueryParams) -> ApiResult<Response> {
    let (actor, session) = caller.look_for(&id)?;
    let limit = query.page_size(OWN_PAGE_ITEMS)?;
    let after = Seq(query.number("cursor", 0, u64::MAX)?.unwrap_or(0));
    let filter = Filter { session: Some(session), prefix: None };
    let page = read_page(&caller, actor, after, limit, filter).await?;
    if !page.knows_session {
        let sentence = format!("there is no session {id:?} in this repository");
        return Err(ApiError::new(Code::NotFound, sentence).with_notices(page.list.notices));
    }
    Ok(reply(wire::ReservationList { seq: None, server_time: None, ..page.list }).await)
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
pub async fn reservations(caller: Caller, query: QueryParams) -> ApiResult<Response> {
    Ok(reply(list(&caller, &query).await?).await)
}

/// The reservations that a query asks for.
pub async fn list(caller: &Caller, query: &QueryParams) -> ApiResult<wire::ReservationList> {
    let limit = query.page_size(PAGE_ITEMS)?;
    let after = Seq(query.number("cursor", 0, u64::MAX)?.unwrap_or(0));
    let prefix = query.one("prefix").map(|text| KeyPrefix::new(text, caller.repo.policy().rules.fold_case));
    let session = match query.one("session").map(SessionId::parse) {
        // No session has such an id, so none holds anything.
        Some(None) => return read_nothing(caller).await,
        session => session.flatten(),
    };
    Ok(read_page(caller, caller.look(), after, limit, Filter { session, prefix }).await?.list)
}

async fn reply(list: wire::ReservationList) -> Response {
    list_reply(list.reservations.len(), || list).await
}

/// Which reservations a list has.
#[derive(Clone)]
struct Filter {
    session: Option<SessionId>,
    /// What their keys start with.
    prefix: Option<KeyPrefix>,
}

struct ReservationPage {
    list: wire::ReservationList,
    /// The session of the filter exists.
    knows_session: bool,
}

/// Reads one page. The desk is visited several times if the list is long, and decides other requests in between. The page
/// has every record up to its `seq`, which is that of the first visit, and may have later ones: events after `seq` tell of
/// those too.
async fn read_page(
    caller: &Caller,
    actor: Actor,
    after: Seq,
    limit: usize,
    filter: Filter,
) -> ApiResult<ReservationPage> {
    let mut page = ReservationPage { list: wire::ReservationList::default(), knows_session: true };
    let (mut after, mut actor) = (after, actor);
    loop {
        let (left, filter) = (limit - page.list.reservations.len(), filter.clone());
        let view = move |engine: &Engine, now| {
            let wanted = |key: &Key| filter.prefix.as_ref().is_none_or(|prefix| prefix.matches(key));
            let scan = engine.scan_reservations(after, filter.session.as_ref(), left, wanted);
            (scan, engine.head(), now, filter.session.is_none_or(|session| engine.has_session(&session)))
        };
        let reply = read_state(&caller.repo.desk, actor, view).await?;
        let (scan, head, now, knows_session) = reply.value;
        if page.list.seq.is_none() {
            page.list.seq = Some(head.0);
            page.list.server_time = Some(outcome::time(now));
            page.knows_session = knows_session;
        }
        page.list.notices.extend(outcome::notices(reply.notices));
        let reservations = &mut page.list.reservations;
        without_blocking(scan.found.len() > LONG_REPLY_ITEMS, || {
            for (holder, grant) in &scan.found {
                let info = outcome::reservation_info(holder, grant);
                let reason = reason_in_list(reservations.len(), info.reason);
                reservations.push(wire::Reservation { reason, ..info });
            }
        })
        .await;
        if scan.has_more {
            page.list.next_cursor = page.list.reservations.last().map(|last| last.fence.to_string());
            return Ok(page);
        }
        let Some(next) = scan.next else { return Ok(page) };
        // The call was one sign of life.
        (after, actor) = (next, Actor::Reader);
    }
}

/// A page without reservations.
async fn read_nothing(caller: &Caller) -> ApiResult<wire::ReservationList> {
    let reply = read_state(&caller.repo.desk, caller.look(), |engine, now| (engine.head(), now)).await?;
    let ((head, now), notices) = (reply.value, outcome::notices(reply.notices));
    let server_time = Some(outcome::time(now));
    Ok(wire::ReservationList { seq: Some(head.0), server_time, notices, ..wire::ReservationList::default() })
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
    let missing = || ApiError::new(Code::NotFound, "there is no such reservation");
    let id = ReservationId::parse(&id).ok_or_else(missing)?;
    let reply = submit(&caller.repo, actor, Command::Override { id, reason }).await?;
    let count = match reply.outcome {
        Ok(Outcome::Released { count, .. }) => count as u64,
        // It has ended before. A client whose connection broke asks again.
        Err(Refusal::UnknownReservation) if reservation_history::find(&caller, id).await?.is_some() => 0,
        other => return Err(not_done(other, reply.now)),
    };
    let (code, expired, notices) = (None, Vec::new(), Vec::new());
    Ok(Json(wire::Released { ok: true, released: count > 0, released_count: count, code, expired, notices }))
}
