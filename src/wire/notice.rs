//! What a session should know, told along with the next answer to it.

use serde::{Deserialize, Serialize};

use super::{Text, Time, UnlockStatus};

/// One piece of news; `kind` says which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// Somebody asks this session to let go of something, and waits for its answer.
    UnlockRequested {
        /// The request.
        request_id: String,
        /// What should be let go.
        reservation_id: String,
        /// Its key.
        file_path: String,
        /// Who asks.
        requested_by: Text,
        /// Their display name.
        #[serde(default)]
        requested_by_name: Option<Text>,
        /// Why.
        reason: Text,
        /// Since when.
        requested_at: Time,
    },
    /// A request this session made is over.
    UnlockAnswered {
        /// The request.
        request_id: String,
        /// What should have been let go.
        file_path: String,
        /// How it ended.
        status: UnlockStatus,
        /// Who said so; nobody where the reservation ended first.
        #[serde(default)]
        responded_by: Option<Text>,
        /// What they added.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Text>,
    },
    /// Something this session held ended early.
    Released {
        /// The reservation.
        reservation_id: String,
        /// What is free again.
        file_path: String,
        /// How it ended: `expired`, `overridden`, `approved`.
        why: Text,
        /// Who did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Text>,
        /// What they said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
        /// When.
        at: Time,
    },
    /// The feature this session works on is paused.
    Paused {
        /// Which.
        feature: Text,
        /// Who paused it.
        reserved_by: Text,
        /// Their display name.
        #[serde(default)]
        reserved_by_name: Option<Text>,
        /// Why.
        #[serde(default)]
        reason: Option<Text>,
        /// Until when without renewal.
        expires_at: Time,
    },
    /// News of a kind that only a newer server knows; never sent.
    #[serde(other)]
    Unrecognized,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_stands_beside_the_facts() {
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
    fn news_of_an_unknown_kind_does_not_break_an_old_client() {
        let news: Vec<Notice> = serde_json::from_str(r#"[{"kind": "weather", "sky": {"blue": true}}]"#).unwrap();
        assert_eq!(news, [Notice::Unrecognized]);
    }
}
