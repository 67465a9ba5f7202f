//! Notices: what a session should know. They come with the next answer to the session.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Text, Time, UnlockStatus};

/// One notice; `kind` says which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// Another session asks this one to release a reservation, and waits for an answer.
    #[schema(rename_all = "camelCase")]
    UnlockRequested {
        request_id: String,
        reservation_id: String,
        /// The key of the reservation.
        file_path: String,
        /// The session that asks.
        #[schema(value_type = String)]
        requested_by: Text,
        /// The display name of that session.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        requested_by_name: Option<Text>,
        #[schema(value_type = String)]
        reason: Text,
        requested_at: Time,
    },
    /// An unlock request of this session was answered, or became moot.
    #[schema(rename_all = "camelCase")]
    UnlockAnswered {
        request_id: String,
        /// The key that the request was about.
        file_path: String,
        status: UnlockStatus,
        /// The session that answered; null if the reservation ended first.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        responded_by: Option<Text>,
        /// What it added to its answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        note: Option<Text>,
    },
    /// A reservation of this session ended before the session released it.
    #[schema(rename_all = "camelCase")]
    Released {
        reservation_id: String,
        /// The key of the reservation.
        file_path: String,
        /// Why it ended: `expired`, `overridden`, `approved`.
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
        /// When it ended.
        at: Time,
    },
    /// Reservations of this session have expired since it was last told. It does not hold them any more.
    #[schema(rename_all = "camelCase")]
    Expired {
        /// How many.
        expired_count: u64,
        /// The newest of their keys, at most 20.
        expired_paths: Vec<String>,
    },
    /// This session did not call for so long that it was lost. It starts anew and holds nothing.
    #[schema(rename_all = "camelCase")]
    Lost {
        /// When it was lost.
        lost_at: Time,
        /// How many of its reservations had expired or were released by then.
        released_count: u64,
        /// The newest of their keys, at most 20.
        released_paths: Vec<String>,
    },
    /// The feature this session works on is paused.
    #[schema(rename_all = "camelCase")]
    Paused {
        #[schema(value_type = String)]
        feature: Text,
        /// The session that paused it.
        #[schema(value_type = String)]
        reserved_by: Text,
        /// The display name of that session.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reserved_by_name: Option<Text>,
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reason: Option<Text>,
        /// When the pause expires unless it is renewed.
        expires_at: Time,
    },
    /// There are more notices than are listed here.
    #[schema(rename_all = "camelCase")]
    More {
        /// How many more notices there are that are sent once. The next answers have them.
        notices: u64,
        /// How many more unlock requests wait for an answer of this session. `GET …/unlock-requests` lists them all.
        unlock_requests: u64,
    },
    /// A kind that only a newer server knows. Clients read it; no server sends it.
    #[serde(other)]
    Unrecognized,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_beside_the_facts() {
        let notice = Notice::Released {
            reservation_id: "res_1".to_owned(),
            file_path: "src/a.rs".to_owned(),
            why: "overridden".into(),
            by: Some("ops".into()),
            reason: Some("release night".into()),
            at: Time(0),
        };
        let json = r#"{"kind":"released","reservationId":"res_1","filePath":"src/a.rs","why":"overridden","by":"ops","reason":"release night","at":"1970-01-01T00:00:00.000Z"}"#;
        assert_eq!(serde_json::to_string(&notice).unwrap(), json);
        assert_eq!(serde_json::from_str::<Notice>(json).unwrap(), notice);
    }

    #[test]
    fn a_notice_of_an_unknown_kind_does_not_break_an_old_client() {
        let news: Vec<Notice> = serde_json::from_str(r#"[{"kind": "weather", "sky": {"blue": true}}]"#).unwrap();
        assert_eq!(news, [Notice::Unrecognized]);
    }
}
