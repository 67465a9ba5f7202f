//! How an event becomes JSON: the one conversion from the engine's records to [`wire::Event`].
//!
//! The event stream, the history and `git dibs log` all show what this makes.

use super::outcome::{encoding, end_state, mode, time, unlock_status};
use crate::engine::{Event, LeftWhy, Record, SessionId, Text, Want, Why};
use crate::wire::{self, EventKind};

/// The most that one event lists of the keys of a queued request, in bytes.
const PATHS_BYTES_MAX: usize = 16 * 1024;

/// The record as every session of the repository may see it: without the owner of a session, which is part of a token.
///
/// `session_name` is the display name of the session that acted, for the history.
pub fn event_json(record: &Record, session_name: Option<Text>) -> wire::Event {
    wire::Event { seq: record.seq.0, at: time(record.at), session_name, kind: kind(record) }
}

fn kind(record: &Record) -> EventKind {
    let id = |session: &SessionId| session.as_str().into();
    match &record.event {
        Event::Opened { session, name, feature, owner: _ } => {
            EventKind::Opened { session_id: id(session), name: name.clone(), feature: feature.clone() }
        }
        Event::Bound { session, owner: _ } => EventKind::Bound { session_id: id(session) },
        Event::Reopened { session, name, feature, owner: _ } => {
            EventKind::Reopened { session_id: id(session), name: name.clone(), feature: feature.clone() }
        }
        Event::Ended { session, state } => EventKind::Ended { session_id: id(session), state: end_state(*state) },
        Event::ReleasedAll { session } => EventKind::ReleasedAll { session_id: id(session) },
        Event::Reserved { id: reservation, session, key, mode: how, ttl, reason } => EventKind::Reserved {
            reservation_id: reservation.to_string(),
            file_path: key.shown(),
            session_id: id(session),
            mode: mode(*how),
            reason: reason.clone(),
            reserved_at: time(record.at),
            expires_at: time(record.at.after(ttl.duration())),
            ttl_seconds: ttl.seconds().into(),
            while_session: ttl.is_while_session(),
            fence: record.seq.0,
            encoding: encoding(key),
        },
        Event::Amended { id: reservation, session, key, mode: how, ttl, reason } => EventKind::Amended {
            reservation_id: reservation.to_string(),
            file_path: key.shown(),
            session_id: id(session),
            mode: mode(*how),
            reason: reason.clone(),
            ttl_seconds: ttl.seconds().into(),
            while_session: ttl.is_while_session(),
            encoding: encoding(key),
        },
        Event::Released { id: reservation, session, key, why } => {
            let (by, reason, request_id) = match why {
                Why::Overridden { by, reason } => (Some(by.clone()), Some(reason.clone()), None),
                Why::Approved { request } => (None, None, Some(request.to_string())),
                Why::Released | Why::Expired | Why::Ended | Why::Unheard => (None, None, None),
            };
            EventKind::Released {
                reservation_id: reservation.to_string(),
                file_path: key.shown(),
                session_id: id(session),
                why: why_over(why).into(),
                by,
                reason,
                request_id,
                encoding: encoding(key),
            }
        }
        Event::Queued { session, wants, mode: how, reason, if_version: _ } => {
            let mut bytes = 0;
            let fits = |want: &&Want| {
                bytes += want.key.text_bytes();
                bytes <= PATHS_BYTES_MAX
            };
            let listed: Vec<&Want> = wants.iter().take_while(fits).collect();
            let more = wants.len() - listed.len();
            EventKind::Queued {
                session_id: id(session),
                file_paths: listed.iter().map(|want| want.key.shown()).collect(),
                reservation_ids: listed.iter().map(|want| want.id.to_string()).collect(),
                more_file_paths: (more > 0).then_some(more as u64),
                mode: mode(*how),
                reason: reason.clone(),
                encoding: listed.iter().find_map(|want| encoding(&want.key)),
            }
        }
        Event::Seated { waiter, session } => EventKind::Seated { session_id: id(session), waiter: waiter.0 },
        Event::Left { waiter, session, why } => {
            EventKind::Left { session_id: id(session), waiter: waiter.0, why: why_left(*why).into() }
        }
        Event::Counted { conflicts, deadlocks } => {
            EventKind::Counted { conflicts_detected: conflicts + deadlocks, deadlocks_refused: *deadlocks }
        }
        Event::UnlockRequested { request, reservation, key, session, reason } => EventKind::UnlockRequested {
            request_id: request.to_string(),
            reservation_id: reservation.to_string(),
            file_path: key.shown(),
            requested_by: id(session),
            reason: reason.clone(),
            encoding: encoding(key),
        },
        Event::UnlockAnswered { request, answer, by, admin, note, handed_over } => EventKind::UnlockAnswered {
            request_id: request.to_string(),
            status: unlock_status(Some(*answer)),
            responded_by: by.as_ref().map(id).or_else(|| admin.clone()),
            by_admin: admin.is_some(),
            note: note.clone(),
            handed_over: *handed_over,
        },
        Event::Committed { session, contents } => {
            EventKind::Committed { session_id: id(session), path_count: contents.len() as u64 }
        }
        Event::Restored { generation, kept } => EventKind::Restored { generation: *generation, last_kept: kept.0 },
    }
}

/// Why a reservation ended, as one word of the contract.
pub fn why_over(why: &Why) -> &'static str {
    match why {
        Why::Released => "released",
        Why::Expired => "expired",
        Why::Ended => "ended",
        Why::Overridden { .. } => "overridden",
        Why::Approved { .. } => "approved",
        Why::Unheard => "unheard",
    }
}

/// Why a queued request left the queue, as one word of the contract.
pub fn why_left(why: LeftWhy) -> &'static str {
    match why {
        LeftWhy::TimedOut => "timedOut",
        LeftWhy::Gone => "gone",
        LeftWhy::Stopped => "stopped",
        LeftWhy::Ended => "ended",
        LeftWhy::Version => "version",
        LeftWhy::Paused => "paused",
        LeftWhy::Deadlock => "deadlock",
    }
}
