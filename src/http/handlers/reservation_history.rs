//! `GET /api/reservations/{reservationId}/history`: the states of one reservation.

use std::time::Duration;

use crate::engine::{Event, Record, ReservationId, Timestamp, Why};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, ApiResult};
use crate::http::event_json::{why_left, why_over};
use crate::http::extract::{At, Json};
use crate::http::handlers::history::read_page;
use crate::http::history_backend::HistoryQuery;
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, encoding, time};
use crate::http::submit::read_state;
use crate::wire::{self, Code, LockState, StateChange};

/// The most pages of the history that are searched. Each is of tens of thousands of records.
const PAGES_MAX: usize = 20;

/// The most records of interest on one page.
const PAGE_ITEMS: usize = 10_000;

/// An id is made at the door, a moment before the record that has it, and on another clock.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(3600);

/// Show the states of a reservation.
///
/// Each with the time at which it began, also of a request that waited and was never granted.
#[utoipa::path(
    get,
    path = "/api/reservations/{reservationId}/history",
    operation_id = "getReservationHistory",
    tag = "Monitoring and administration",
    params(params::ReservationAt),
    responses((status = 200, description = "The states, the oldest first.", body = wire::ReservationHistory), refusals::LookAtOne),
)]
pub async fn get(caller: Caller, At(id): At<String>) -> ApiResult<Json<wire::ReservationHistory>> {
    let reply = read_state(&caller.repo.desk, caller.look(), |_, _| ()).await?;
    let notices = outcome::notices(reply.notices);
    let missing = || ApiError::new(Code::NotFound, "there is no record of such a reservation");
    let id = ReservationId::parse(&id).ok_or_else(missing)?;
    let history = find(&caller, id).await?.ok_or_else(missing)?;
    Ok(Json(wire::ReservationHistory { notices, ..history }))
}

/// What is recorded about a reservation; none if there was no such one.
pub async fn find(caller: &Caller, id: ReservationId) -> ApiResult<Option<wire::ReservationHistory>> {
    let since = made_at(id).map(|made| Timestamp(made.0 - CLOCK_TOLERANCE.as_millis() as i64));
    let mut query = HistoryQuery { reservation: Some(id), since, limit: PAGE_ITEMS, ..HistoryQuery::default() };
    let (mut records, mut is_incomplete) = (Vec::new(), true);
    for _ in 0..PAGES_MAX {
        let page = read_page(caller, query.clone()).await?;
        let is_missing = !page.missing.is_empty();
        records.extend(page.events.into_iter().map(|(record, _)| record));
        query.cursor = page.next;
        // Nothing before the record that queued it is about it.
        let is_queued = |record: &Record| matches!(record.event, Event::Queued { .. }) && record.event.concerns(id);
        let has_begun = records.iter().any(is_queued);
        if query.cursor.is_none() || has_begun {
            is_incomplete = is_missing && !has_begun;
            break;
        }
    }
    records.reverse();
    Ok(history(id, &records).map(|history| wire::ReservationHistory { is_incomplete, ..history }))
}

/// When the id was made. It says so itself.
fn made_at(id: ReservationId) -> Option<Timestamp> {
    let (seconds, nanos) = id.0.get_timestamp()?.to_unix();
    Some(Timestamp(i64::try_from(seconds).ok()? * 1000 + i64::from(nanos / 1_000_000)))
}

/// The history that records tell, the oldest first. None if they tell nothing.
fn history(id: ReservationId, records: &[Record]) -> Option<wire::ReservationHistory> {
    let (mut about, mut waiter, mut states) = (None, None, Vec::new());
    for record in records {
        let mut add = |state, why: Option<&str>| {
            states.push(StateChange { state, at: time(record.at), seq: record.seq.0, why: why.map(Into::into) });
        };
        match &record.event {
            Event::Queued { session, wants, .. } => {
                let Some(want) = wants.iter().find(|want| want.id == id) else { continue };
                (about, waiter) = (Some((session, &want.key)), Some(record.seq.into()));
                add(LockState::Waiting, None);
            }
            Event::Left { waiter: left, why, .. } if waiter == Some(*left) => {
                add(LockState::Failed, Some(why_left(*why)));
            }
            Event::Reserved { id: other, session, key, .. } if *other == id => {
                about = Some((session, key));
                add(LockState::Acquired, None);
            }
            Event::Released { id: other, session, key, why } if *other == id => {
                about = Some((session, key));
                match why {
                    Why::Expired => add(LockState::Expired, None),
                    why => add(LockState::Released, Some(why_over(why))),
                }
            }
            _ => {}
        }
    }
    let (session, key) = about?;
    Some(wire::ReservationHistory {
        reservation_id: id.to_string(),
        file_path: key.shown(),
        session_id: session.as_str().into(),
        states,
        is_incomplete: false,
        encoding: encoding(key),
        notices: Vec::new(),
    })
}
