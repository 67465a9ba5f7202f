//! `GET /api/stats`.

use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::Json;
use crate::http::openapi::refusals;
use crate::http::outcome;
use crate::http::submit::read_state;
use crate::wire;

/// Statistics of the repository.
#[utoipa::path(
    get,
    path = "/api/stats",
    operation_id = "getStats",
    tag = "Monitoring and administration",
    responses((status = 200, description = "As of now.", body = wire::Stats), refusals::Look),
)]
pub async fn stats(caller: Caller) -> ApiResult<Json<wire::Stats>> {
    let reply = read_state(&caller.repo.desk, caller.look(), |engine, _| engine.numbers()).await?;
    let (numbers, notices) = (reply.value, outcome::notices(reply.notices));
    let totals = numbers.totals;
    let average_hold_time = match totals.over {
        0 => 0.0,
        over => totals.held_ms as f64 / 1000.0 / over as f64,
    };
    Ok(Json(wire::Stats {
        total_locks: totals.granted,
        active_locks: numbers.reservations as u64,
        expired_locks: totals.expired,
        conflicts_detected: totals.conflicts_detected(),
        average_hold_time,
        waiters: numbers.waiters as u64,
        sessions: numbers.sessions as u64,
        notices,
    }))
}
