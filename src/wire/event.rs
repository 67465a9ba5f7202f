//! One event: the data of `GET /api/events`, the rows of `GET /api/history` and of `git dibs log`.
//!
//! Fields have the names that the lists of reservations and sessions use for the same things.
//! `http/event_json.rs` makes these from the engine's records.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Encoding, Mode, Notice, SessionState, Text, Time, UnlockStatus};

/// One event: a record as every session of the repository may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The number of the record. In the event stream it is also the event's `id`.
    pub seq: u64,
    /// When the record was written.
    pub at: Time,
    /// The display name of the session that acted, in the history, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session_name: Option<Text>,
    /// What happened; `event` is the verb.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened. New kinds, and new fields of a kind, may be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventKind {
    /// A session started.
    #[schema(rename_all = "camelCase")]
    Opened {
        #[schema(value_type = String)]
        session_id: Text,
        /// The display name of the session.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        name: Option<Text>,
        /// The feature the session works on.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        feature: Option<Text>,
    },
    /// A session that an admin created made its first call.
    #[schema(rename_all = "camelCase")]
    Bound {
        #[schema(value_type = String)]
        session_id: Text,
    },
    /// A session that had ended started again, with nothing.
    #[schema(rename_all = "camelCase")]
    Reopened {
        #[schema(value_type = String)]
        session_id: Text,
        /// The display name of the session.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        name: Option<Text>,
        /// The feature the session works on.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        feature: Option<Text>,
    },
    /// A session ended, and with it everything that it held. The events of the releases follow; no request is blocked by
    /// these keys any more.
    #[schema(rename_all = "camelCase")]
    Ended {
        #[schema(value_type = String)]
        session_id: Text,
        state: SessionState,
    },
    /// A session released everything that it held, and that was much. The events of the releases follow; no request is
    /// blocked by these keys any more.
    #[schema(rename_all = "camelCase")]
    ReleasedAll {
        #[schema(value_type = String)]
        session_id: Text,
    },
    /// A key was reserved.
    #[schema(rename_all = "camelCase")]
    Reserved {
        reservation_id: String,
        /// The key, as the holder wrote it.
        file_path: String,
        /// The holder.
        #[schema(value_type = String)]
        session_id: Text,
        mode: Mode,
        /// What the holder reserved it for.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reason: Option<Text>,
        reserved_at: Time,
        /// When it expires unless it is renewed. A renewal is not an event.
        expires_at: Time,
        /// How long the reservation, and each renewal, lasts.
        ttl_seconds: u64,
        /// It lasts while the session gives signs of life, and `ttlSeconds` without one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        while_session: bool,
        /// The fencing number of the reservation, the same as `seq`.
        fence: u64,
        /// Set when `filePath` is percent-encoded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// The holder changed the mode, the TTL or the reason of a reservation.
    #[schema(rename_all = "camelCase")]
    Amended {
        reservation_id: String,
        /// The key, as the holder wrote it.
        file_path: String,
        /// The holder.
        #[schema(value_type = String)]
        session_id: Text,
        /// The new mode.
        mode: Mode,
        /// The new reason.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reason: Option<Text>,
        /// How long each renewal lasts from now on.
        ttl_seconds: u64,
        /// From now on it lasts while the session gives signs of life, and `ttlSeconds` without one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        while_session: bool,
        /// Set when `filePath` is percent-encoded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A reservation ended.
    #[schema(rename_all = "camelCase")]
    Released {
        reservation_id: String,
        /// The key, as the holder wrote it.
        file_path: String,
        /// The former holder.
        #[schema(value_type = String)]
        session_id: Text,
        /// Why it ended: `released`, `expired`, `ended` (with its session), `overridden`, `approved` (an unlock request)
        /// or `unheard` (the grant could not be delivered to the client).
        #[schema(value_type = String)]
        why: Text,
        /// The admin who overrode it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        by: Option<Text>,
        /// The admin's reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        reason: Option<Text>,
        /// The unlock request that was approved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Set when `filePath` is percent-encoded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A request joined the queue; `seq` is its position.
    #[schema(rename_all = "camelCase")]
    Queued {
        /// The session that waits.
        #[schema(value_type = String)]
        session_id: Text,
        /// The keys it waits for. It gets all of them at once. A long list is shortened.
        file_paths: Vec<String>,
        /// The ids that their reservations will have. A request that is refused in the end has a history under them too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reservation_ids: Vec<String>,
        /// How many more keys it waits for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more_file_paths: Option<u64>,
        mode: Mode,
        /// What they are wanted for.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reason: Option<Text>,
        /// Set when at least one of `filePaths` is percent-encoded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A queued request was granted; the `reserved` events that follow are its reservations.
    #[schema(rename_all = "camelCase")]
    Seated {
        /// The session that waited.
        #[schema(value_type = String)]
        session_id: Text,
        /// The `seq` of the `queued` event.
        waiter: u64,
    },
    /// A queued request left the queue without a grant.
    #[schema(rename_all = "camelCase")]
    Left {
        /// The session that waited.
        #[schema(value_type = String)]
        session_id: Text,
        /// The `seq` of the `queued` event, which has the ids of the reservations.
        waiter: u64,
        /// Why: `timedOut`, `gone` (the client disconnected), `stopped` (the server), `ended` (the session), `version`,
        /// `paused` or `deadlock`.
        #[schema(value_type = String)]
        why: Text,
    },
    /// How many requests were refused so far. Not part of the history.
    #[schema(rename_all = "camelCase")]
    Counted {
        /// Refused because another session holds a key or is ahead in the queue.
        conflicts_detected: u64,
        /// Refused because waiting would have closed a cycle.
        deadlocks_refused: u64,
    },
    /// A session asked the holder of a reservation to release it.
    #[schema(rename_all = "camelCase")]
    UnlockRequested {
        request_id: String,
        reservation_id: String,
        /// The key of the reservation.
        file_path: String,
        /// The session that asks.
        #[schema(value_type = String)]
        requested_by: Text,
        #[schema(value_type = String)]
        reason: Text,
        /// Set when `filePath` is percent-encoded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// An unlock request was answered, withdrawn, or became moot.
    #[schema(rename_all = "camelCase")]
    UnlockAnswered {
        request_id: String,
        status: UnlockStatus,
        /// The session that answered, or the name of the admin who did; null if the reservation ended first.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        responded_by: Option<Text>,
        /// An admin answered in the place of the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_admin: bool,
        /// What it added to its answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        note: Option<Text>,
        /// The session that asked got the reservation with the answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        handed_over: bool,
    },
    /// A session committed new content at paths that it holds. Not part of the history.
    #[schema(rename_all = "camelCase")]
    Committed {
        #[schema(value_type = String)]
        session_id: Text,
        /// How many contents are new. A path may have several.
        path_count: u64,
    },
    /// An earlier copy of the journal was restored. The events between `lastKept` and this one are undone.
    #[schema(rename_all = "camelCase")]
    Restored {
        /// How often that has happened. The numbers of events from here on are at least `generation` × 2^40.
        generation: u64,
        /// The last event that is still in force.
        last_kept: u64,
    },
    /// A kind that only a newer server knows. Clients read it; no server sends it.
    #[serde(other)]
    Unrecognized,
}

impl EventKind {
    /// The name of the kind in JSON.
    pub fn verb(&self) -> &'static str {
        match self {
            EventKind::Opened { .. } => "opened",
            EventKind::Bound { .. } => "bound",
            EventKind::Reopened { .. } => "reopened",
            EventKind::Ended { .. } => "ended",
            EventKind::ReleasedAll { .. } => "releasedAll",
            EventKind::Reserved { .. } => "reserved",
            EventKind::Amended { .. } => "amended",
            EventKind::Released { .. } => "released",
            EventKind::Queued { .. } => "queued",
            EventKind::Seated { .. } => "seated",
            EventKind::Left { .. } => "left",
            EventKind::Counted { .. } => "counted",
            EventKind::UnlockRequested { .. } => "unlockRequested",
            EventKind::UnlockAnswered { .. } => "unlockAnswered",
            EventKind::Committed { .. } => "committed",
            EventKind::Restored { .. } => "restored",
            EventKind::Unrecognized => "unrecognized",
        }
    }
}

/// The data of the event `reset`: the stream cannot continue where the reader was. To learn what is held now, the
/// reader asks at `reload`, and then follows the events after the `seq` of that answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reset {
    /// `tooOld`: the journal no longer has that record. `unknown`: there never was such a record. `restored`: an earlier
    /// copy of the journal was restored since, and that record may be undone.
    #[schema(value_type = String)]
    pub why: Text,
    /// The path that lists what is held now.
    #[schema(value_type = String)]
    pub reload: Text,
    /// The stream continues after this record.
    pub after: u64,
}

/// The data of the event `notices`: what the session that follows the stream should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notices {
    pub notices: Vec<Notice>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_like_the_rest_of_the_api() {
        let event = Event {
            seq: 7,
            at: Time(0),
            session_name: None,
            kind: EventKind::Reserved {
                reservation_id: "res_1".to_owned(),
                file_path: "src/a.rs".to_owned(),
                session_id: "ana".into(),
                mode: Mode::Exclusive,
                reason: None,
                reserved_at: Time(0),
                expires_at: Time(60_000),
                ttl_seconds: 60,
                while_session: false,
                fence: 7,
                encoding: None,
            },
        };
        let json = r#"{"seq":7,"at":"1970-01-01T00:00:00.000Z","event":"reserved","reservationId":"res_1","filePath":"src/a.rs","sessionId":"ana","mode":"exclusive","reason":null,"reservedAt":"1970-01-01T00:00:00.000Z","expiresAt":"1970-01-01T00:01:00.000Z","ttlSeconds":60,"fence":7}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), json);
        assert_eq!(serde_json::from_str::<Event>(json).unwrap(), event);
        assert_eq!(event.kind.verb(), "reserved");
    }

    #[test]
    fn an_event_of_an_unknown_kind_does_not_break_an_old_client() {
        let json = r#"{"seq": 8, "at": "1970-01-01T00:00:00.000Z", "event": "painted", "colour": {"deep": "blue"}}"#;
        let event: Event = serde_json::from_str(json).unwrap();
        assert_eq!((event.seq, event.kind), (8, EventKind::Unrecognized));
    }
}
