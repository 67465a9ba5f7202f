//! What changes without a record: deadlines of renewed reservations, and when sessions last called.
//!
//! Streams with `?live=1` get it as an event without an id, at most once a second. One task per repository collects it for
//! all of them, and ends with the last of them. A stream that is too slow for an event misses it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::broadcast;

use super::app::Repository;
use super::error::ApiResult;
use super::event_texts::write_event;
use super::outcome::time;
use super::submit::read_state;
use crate::engine::{Actor, ReservationId, SessionId, Timestamp};
use crate::wire;

/// How often changes are collected.
const INTERVAL: Duration = Duration::from_secs(1);

/// The reservations and sessions in one event. Further ones are left out; their clients ask for them when they are due.
const RESERVATIONS_MAX: usize = 2_000;
const SESSIONS_MAX: usize = 2_000;

/// The deadlines that are remembered, to send only those that changed.
const REMEMBERED_MAX: usize = 50_000;

/// The events that a slow stream may be behind.
const BEHIND_MAX: usize = 4;

/// The live events of one repository.
#[derive(Default)]
pub struct LiveEvents(Mutex<Option<broadcast::Sender<Bytes>>>);

impl LiveEvents {
    /// Begins to follow what changes after `now`. The first follower starts the task that collects.
    pub fn follow(repo: &Arc<Repository>, now: Timestamp) -> broadcast::Receiver<Bytes> {
        let mut sender = repo.live.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref().filter(|sender| sender.receiver_count() > 0) {
            return sender.subscribe();
        }
        let (new, receiver) = broadcast::channel(BEHIND_MAX);
        tokio::spawn(collect(repo.clone(), new.clone(), now));
        *sender = Some(new);
        receiver
    }
}

/// Sends what changed, every second, until no stream follows or the server stops.
async fn collect(repo: Arc<Repository>, sender: broadcast::Sender<Bytes>, mut since: Timestamp) {
    let mut deadlines = HashMap::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        if sender.receiver_count() == 0 {
            return;
        }
        let Ok((live, until)) = changes(&repo, since, &mut deadlines).await else { return };
        since = until;
        if !live.reservations.is_empty() || !live.sessions.is_empty() {
            let mut text = Vec::new();
            write_event(&mut text, None, "live", &live);
            let _ = sender.send(text.into());
        }
    }
}

/// The sessions that called after `since`, and their reservations with a new deadline; and the time until which this is so.
async fn changes(
    repo: &Repository,
    since: Timestamp,
    deadlines: &mut HashMap<ReservationId, Timestamp>,
) -> ApiResult<(wire::Live, Timestamp)> {
    let (mut slice, mut seen, mut until) = (Some(0), Vec::new(), since);
    while let Some(start) = slice {
        let read = move |engine: &crate::engine::Engine, now| {
            let mut found = Vec::new();
            let next = engine.seen_since(start, since, &mut found);
            (found, next, now)
        };
        let (found, next, now) = read_state(&repo.desk, Actor::Reader, read).await?.value;
        // What is seen in an earlier slice meanwhile comes with the next event.
        if start == 0 {
            until = now;
        }
        seen.extend(found);
        slice = next;
    }
    seen.truncate(SESSIONS_MAX);
    let sessions: Vec<SessionId> = seen.iter().map(|(session, _)| session.clone()).collect();
    let read = move |engine: &crate::engine::Engine, _| {
        let mut found: Vec<(ReservationId, Timestamp)> = Vec::new();
        for session in &sessions {
            found.extend(engine.deadlines(session, RESERVATIONS_MAX - found.len()));
        }
        found
    };
    let found = read_state(&repo.desk, Actor::Reader, read).await?.value;
    if deadlines.len() > REMEMBERED_MAX {
        deadlines.clear();
    }
    let is_new = |(id, expires): &(ReservationId, Timestamp)| deadlines.insert(*id, *expires) != Some(*expires);
    let reservations = found
        .into_iter()
        .filter(is_new)
        .map(|(id, expires)| wire::LiveReservation { reservation_id: id.to_string(), expires_at: time(expires) });
    let reservations = reservations.collect();
    let sessions = seen
        .into_iter()
        .map(|(session, at)| wire::LiveSession { session_id: session.as_str().into(), last_seen_at: time(at) });
    Ok((wire::Live { server_time: time(until), reservations, sessions: sessions.collect() }, until))
}
