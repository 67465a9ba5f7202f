//! What happened, one at a time: the data of `GET /api/events`.
//!
//! The same words as everywhere: what an event tells of a reservation has the names that the lists use for it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Encoding, Mode, Notice, SessionState, Text, Time, UnlockStatus};

/// One event: a record, as everybody in the repository may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The record's number; also the event's `id`.
    pub seq: u64,
    /// When.
    pub at: Time,
    /// What, with the verb as `event`.
    #[serde(flatten)]
    pub happened: Happened,
}

/// What happened. The list may grow, and so may what is told of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Happened {
    /// A session came to life.
    #[schema(rename_all = "camelCase")]
    Opened {
        /// Which.
        #[schema(value_type = String)]
        session_id: Text,
        /// Its display name.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        name: Option<Text>,
        /// The feature it works on.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        feature: Option<Text>,
    },
    /// A session an admin had made was used for the first time.
    #[schema(rename_all = "camelCase")]
    Bound {
        /// Which.
        #[schema(value_type = String)]
        session_id: Text,
    },
    /// A session ended. What it held was released by the events before this one.
    #[schema(rename_all = "camelCase")]
    Ended {
        /// Which.
        #[schema(value_type = String)]
        session_id: Text,
        /// How.
        state: SessionState,
    },
    /// A key was granted.
    #[schema(rename_all = "camelCase")]
    Reserved {
        /// The reservation.
        reservation_id: String,
        /// What is held.
        file_path: String,
        /// Its holder.
        #[schema(value_type = String)]
        session_id: Text,
        /// How.
        mode: Mode,
        /// What for.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reason: Option<Text>,
        /// Since when.
        reserved_at: Time,
        /// Until when without renewal. Renewals are no events.
        expires_at: Time,
        /// How long a renewal lasts.
        ttl_seconds: u64,
        /// The number of the grant.
        fence: u64,
        /// How the name is written, where that is not plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// The holder changed how, how long or what for.
    #[schema(rename_all = "camelCase")]
    Amended {
        /// The reservation.
        reservation_id: String,
        /// What is held.
        file_path: String,
        /// Its holder.
        #[schema(value_type = String)]
        session_id: Text,
        /// How, from now on.
        mode: Mode,
        /// What for, from now on.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reason: Option<Text>,
        /// How long a renewal lasts, from now on.
        ttl_seconds: u64,
        /// How the name is written, where that is not plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A reservation is over.
    #[schema(rename_all = "camelCase")]
    Released {
        /// The reservation.
        reservation_id: String,
        /// What is free again.
        file_path: String,
        /// Who held it.
        #[schema(value_type = String)]
        session_id: Text,
        /// How it ended: `released`, `expired`, `ended`, `overridden`, `approved`, `unheard`.
        #[schema(value_type = String)]
        why: Text,
        /// Who took it away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        by: Option<Text>,
        /// What they said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        reason: Option<Text>,
        /// The unlock request that was approved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// How the name is written, where that is not plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A request began to wait; `seq` is its place in the queue.
    #[schema(rename_all = "camelCase")]
    Queued {
        /// Who waits.
        #[schema(value_type = String)]
        session_id: Text,
        /// For all of these.
        file_paths: Vec<String>,
        /// How.
        mode: Mode,
        /// What for.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reason: Option<Text>,
        /// How the names that need it are written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// A wait ended with a grant: the events that follow.
    #[schema(rename_all = "camelCase")]
    Seated {
        /// Who waited.
        #[schema(value_type = String)]
        session_id: Text,
        /// The wait, by the `seq` that queued it.
        waiter: u64,
    },
    /// A wait ended without a grant.
    #[schema(rename_all = "camelCase")]
    Left {
        /// Who waited.
        #[schema(value_type = String)]
        session_id: Text,
        /// The wait, by the `seq` that queued it.
        waiter: u64,
        /// Why: `timedOut`, `gone`, `stopped`, `ended`, `version`, `paused`, `deadlock`.
        #[schema(value_type = String)]
        why: Text,
    },
    /// How many requests were refused so far.
    #[schema(rename_all = "camelCase")]
    Counted {
        /// Because somebody else holds or waits for a key.
        conflicts_detected: u64,
        /// Because the wait would have closed a circle.
        deadlocks_refused: u64,
    },
    /// Somebody asked the holder to let go.
    #[schema(rename_all = "camelCase")]
    UnlockRequested {
        /// The request.
        request_id: String,
        /// What should be let go.
        reservation_id: String,
        /// Its key.
        file_path: String,
        /// Who asks.
        #[schema(value_type = String)]
        requested_by: Text,
        /// Why.
        #[schema(value_type = String)]
        reason: Text,
        /// How the name is written, where that is not plain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// An unlock request is over.
    #[schema(rename_all = "camelCase")]
    UnlockAnswered {
        /// The request.
        request_id: String,
        /// How it ended.
        status: UnlockStatus,
        /// Who said so; nobody where the reservation ended first.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        responded_by: Option<Text>,
        /// What they added.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        note: Option<Text>,
    },
    /// Something only a newer server knows; never sent.
    #[serde(other)]
    Unrecognized,
}

impl Happened {
    /// The verb, as the event's name and in its data.
    pub fn verb(&self) -> &'static str {
        match self {
            Happened::Opened { .. } => "opened",
            Happened::Bound { .. } => "bound",
            Happened::Ended { .. } => "ended",
            Happened::Reserved { .. } => "reserved",
            Happened::Amended { .. } => "amended",
            Happened::Released { .. } => "released",
            Happened::Queued { .. } => "queued",
            Happened::Seated { .. } => "seated",
            Happened::Left { .. } => "left",
            Happened::Counted { .. } => "counted",
            Happened::UnlockRequested { .. } => "unlockRequested",
            Happened::UnlockAnswered { .. } => "unlockAnswered",
            Happened::Unrecognized => "unrecognized",
        }
    }
}

/// The data of the event `reset`: the stream cannot go on where the reader was. Whoever wants to know what is held
/// asks at `reload`, and goes on with the events after the `seq` of that answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reset {
    /// `tooOld` where the journal does not reach back so far, `unknown` where there never was such a record.
    #[schema(value_type = String)]
    pub why: Text,
    /// Where to ask what is held.
    #[schema(value_type = String)]
    pub reload: Text,
    /// The stream goes on after this record.
    pub after: u64,
}

/// The data of the event `notices`: what the session that follows should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notices {
    /// As with any other answer.
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
            happened: Happened::Reserved {
                reservation_id: "res_1".to_owned(),
                file_path: "src/a.rs".to_owned(),
                session_id: "ana".into(),
                mode: Mode::Exclusive,
                reason: None,
                reserved_at: Time(0),
                expires_at: Time(60_000),
                ttl_seconds: 60,
                fence: 7,
                encoding: None,
            },
        };
        let json = r#"{"seq":7,"at":"1970-01-01T00:00:00.000Z","event":"reserved","reservationId":"res_1","filePath":"src/a.rs","sessionId":"ana","mode":"exclusive","reason":null,"reservedAt":"1970-01-01T00:00:00.000Z","expiresAt":"1970-01-01T00:01:00.000Z","ttlSeconds":60,"fence":7}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), json);
        assert_eq!(serde_json::from_str::<Event>(json).unwrap(), event);
        assert_eq!(event.happened.verb(), "reserved");
    }

    #[test]
    fn an_event_of_an_unknown_kind_does_not_break_an_old_client() {
        let json = r#"{"seq": 8, "at": "1970-01-01T00:00:00.000Z", "event": "painted", "colour": {"deep": "blue"}}"#;
        let event: Event = serde_json::from_str(json).unwrap();
        assert_eq!((event.seq, event.happened), (8, Happened::Unrecognized));
    }
}
