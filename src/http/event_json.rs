//! Records as everybody in the repository may see them, and which of them a follower wants.

use super::handlers::reservations::begins_with;
use super::outcome::{encoding, end_state, mode, time, unlock_status};
use crate::engine::{Event, LeftWhy, Record, SessionId, Why};
use crate::wire::{self, Happened};

/// Which events a follower wants.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only what this session does or what happens to it.
    pub session: Option<SessionId>,
    /// Only what is about keys that begin so.
    pub prefix: Option<String>,
}

impl Wanted {
    /// Whether this is one of them. What is about no session, or no key, is not for those who asked for one.
    pub fn includes(&self, event: &Event) -> bool {
        let of_session = |wanted: &SessionId| event.session() == Some(wanted);
        let of_prefix = |prefix: &String| event.keys().any(|key| begins_with(key, prefix));
        self.session.as_ref().is_none_or(of_session) && self.prefix.as_ref().is_none_or(of_prefix)
    }
}

/// A record as an event. Who owns a session stays between its owner and the server.
pub fn event(record: &Record) -> wire::Event {
    wire::Event { seq: record.seq.0, at: time(record.at), happened: happened(record) }
}

fn happened(record: &Record) -> Happened {
    let id = |session: &SessionId| session.as_str().into();
    match &record.event {
        Event::Opened { session, name, feature, owner: _ } => {
            Happened::Opened { session_id: id(session), name: name.clone(), feature: feature.clone() }
        }
        Event::Bound { session, owner: _ } => Happened::Bound { session_id: id(session) },
        Event::Ended { session, state } => Happened::Ended { session_id: id(session), state: end_state(*state) },
        Event::Reserved { id: reservation, session, key, mode: how, ttl, reason } => Happened::Reserved {
            reservation_id: reservation.to_string(),
            file_path: key.shown(),
            session_id: id(session),
            mode: mode(*how),
            reason: reason.clone(),
            reserved_at: time(record.at),
            expires_at: time(record.at.after(ttl.duration())),
            ttl_seconds: ttl.0.into(),
            fence: record.seq.0,
            encoding: encoding(key),
        },
        Event::Amended { id: reservation, session, key, mode: how, ttl, reason } => Happened::Amended {
            reservation_id: reservation.to_string(),
            file_path: key.shown(),
            session_id: id(session),
            mode: mode(*how),
            reason: reason.clone(),
            ttl_seconds: ttl.0.into(),
            encoding: encoding(key),
        },
        Event::Released { id: reservation, session, key, why } => {
            let (by, reason, request_id) = match why {
                Why::Overridden { by, reason } => (Some(by.clone()), Some(reason.clone()), None),
                Why::Approved { request } => (None, None, Some(request.to_string())),
                Why::Released | Why::Expired | Why::Ended | Why::Unheard => (None, None, None),
            };
            Happened::Released {
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
        Event::Queued { session, wants, mode: how, reason, if_version: _ } => Happened::Queued {
            session_id: id(session),
            file_paths: wants.iter().map(|want| want.key.shown()).collect(),
            mode: mode(*how),
            reason: reason.clone(),
            encoding: wants.iter().find_map(|want| encoding(&want.key)),
        },
        Event::Seated { waiter, session } => Happened::Seated { session_id: id(session), waiter: waiter.0 },
        Event::Left { waiter, session, why } => {
            Happened::Left { session_id: id(session), waiter: waiter.0, why: why_left(*why).into() }
        }
        Event::Counted { conflicts, deadlocks } => {
            Happened::Counted { conflicts_detected: *conflicts, deadlocks_refused: *deadlocks }
        }
        Event::UnlockRequested { request, reservation, key, session, reason } => Happened::UnlockRequested {
            request_id: request.to_string(),
            reservation_id: reservation.to_string(),
            file_path: key.shown(),
            requested_by: id(session),
            reason: reason.clone(),
            encoding: encoding(key),
        },
        Event::UnlockAnswered { request, answer, by, note } => Happened::UnlockAnswered {
            request_id: request.to_string(),
            status: unlock_status(Some(*answer)),
            responded_by: by.as_ref().map(id),
            note: note.clone(),
        },
    }
}

/// Why a reservation is over, in a word.
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

/// Why a wait is over, in a word.
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
