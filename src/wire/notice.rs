//! What a session should know, told along with the next answer to it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Text, Time, UnlockStatus};

/// One piece of news; `kind` says which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// Somebody asks this session to let go of something, and waits for its answer.
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
        /// Their display name.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        requested_by_name: Option<Text>,
        /// Why.
        #[schema(value_type = String)]
        reason: Text,
        /// Since when.
        requested_at: Time,
    },
    /// A request this session made is over.
    #[schema(rename_all = "camelCase")]
    UnlockAnswered {
        /// The request.
        request_id: String,
        /// What should have been let go.
        file_path: String,
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
    /// Something this session held ended early.
    #[schema(rename_all = "camelCase")]
    Released {
        /// The reservation.
        reservation_id: String,
        /// What is free again.
        file_path: String,
        /// How it ended: `expired`, `overridden`, `approved`.
        #[schema(value_type = String)]
        why: Text,
        /// Who did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        by: Option<Text>,
        /// What they said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        reason: Option<Text>,
        /// When.
        at: Time,
    },
    /// The feature this session works on is paused.
    #[schema(rename_all = "camelCase")]
    Paused {
        /// Which.
        #[schema(value_type = String)]
        feature: Text,
        /// Who paused it.
        #[schema(value_type = String)]
        reserved_by: Text,
        /// Their display name.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
        reserved_by_name: Option<Text>,
        /// Why.
        #[serde(default)]
        #[schema(value_type = Option<String>, required = true)]
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
