//! Looking at everything held, and taking it away from its holder.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::ask::{decide, look};
use super::caller::Caller;
use super::error::{ApiError, ApiResult};
use super::files;
use super::openapi::{params, refusals};
use super::outcome::{self, not_done};
use super::parts::{Asked, At, Json};
use crate::desk::SubmitError;
use crate::engine::{Command, Engine, Grant, Outcome, ReservationId, Seq, SessionId, SessionName};
use crate::key::Key;
use crate::wire::{self, Code};

/// The most reservations on one page.
const PAGE_MAX: u64 = 1000;

/// Reservations on one page where the request says nothing.
const PAGE: u64 = 100;

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
        let holder = SessionName { session, name };
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
pub async fn reservations(caller: Caller, asked: Asked) -> ApiResult<Json<wire::ReservationList>> {
    let limit = asked.number("limit", 1, PAGE_MAX)?.unwrap_or(PAGE) as usize;
    let after = Seq(asked.number("cursor", 0, u64::MAX)?.unwrap_or(0));
    let prefix = asked.one("prefix").map(str::to_owned);
    let session = asked.one("session").map(str::to_owned);
    let see = move |engine: &Engine, _| {
        let wanted = |grant: &Grant| prefix.as_ref().is_none_or(|prefix| begins_with(&grant.key, prefix));
        let list = |holdings: &mut dyn Iterator<Item = (SessionName, Grant)>| -> Vec<_> {
            let page = holdings.filter(|(_, grant)| wanted(grant)).take(limit + 1);
            page.map(|(holder, grant)| outcome::listed(&holder, &grant)).collect()
        };
        let mut page = match session {
            Some(id) => match SessionId::parse(&id).and_then(|id| engine.session(&id)) {
                Some(view) => {
                    let holder = SessionName { session: view.id, name: view.name };
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

/// A path begins with what it begins with, whether or not it needs a `file:` in front to be read as one.
pub fn begins_with(key: &Key, prefix: &str) -> bool {
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

/// Figures of the repository.
#[utoipa::path(
    get,
    path = "/api/stats",
    operation_id = "getStats",
    tag = "Looking and operating",
    responses((status = 200, description = "As of now.", body = wire::Stats), refusals::Look),
)]
pub async fn stats(caller: Caller) -> ApiResult<Json<wire::Stats>> {
    let seen = look(&caller.repo.desk, caller.look(), |engine, _| engine.numbers()).await?;
    let (numbers, notices) = (seen.value, outcome::notices(seen.notices));
    let totals = numbers.totals;
    let average_hold_time = match totals.over {
        0 => 0.0,
        over => totals.held_ms as f64 / 1000.0 / over as f64,
    };
    Ok(Json(wire::Stats {
        total_locks: totals.granted,
        active_locks: numbers.reservations as u64,
        expired_locks: totals.expired,
        conflicts_detected: totals.conflicts,
        average_hold_time,
        waiters: numbers.waiters as u64,
        sessions: numbers.sessions as u64,
        notices,
    }))
}

/// Whether the process runs.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "healthz",
    tag = "Looking and operating",
    responses((status = 200, description = "It runs.", body = wire::Health), refusals::Anybody),
    security(()),
)]
pub async fn healthz(State(app): State<Arc<App>>) -> Json<wire::Health> {
    Json(health(&app, "ok"))
}

/// Whether every desk decides.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "Looking and operating",
    responses((status = 200, description = "All of them do.", body = wire::Health), refusals::Anybody),
    security(()),
)]
pub async fn readyz(State(app): State<Arc<App>>) -> Response {
    if app.is_stopping() {
        return ApiError::from(SubmitError::Stopped).into_response();
    }
    for repo in app.repositories.values() {
        if let Err(error) = look(&repo.desk, crate::engine::Actor::Reader, |_, _| ()).await {
            return error.into_response();
        }
    }
    let all = app.repositories.values().filter_map(|repo| repo.past.as_ref()?.ledger());
    let ledger = all.max_by_key(|ledger| (!ledger.ok, ledger.seconds_behind, ledger.records_behind));
    Json(wire::Health { ledger, ..health(&app, "ready") }).into_response()
}

fn health(app: &App, status: &str) -> wire::Health {
    let now = Some(wire::Time((app.wall_clock)() * 1000));
    wire::Health { status: status.into(), version: env!("CARGO_PKG_VERSION").into(), now, ledger: None }
}
