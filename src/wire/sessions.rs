//! Sessions: create, list, heartbeat, end.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::deserialize::{Misspelled, not_ttl_minutes, not_ttl_seconds, whole, word};
use super::{Notice, Text, Time};

/// `POST /api/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateSession {
    /// Required if the token is for several repositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub repo: Option<Text>,
    /// Default: an id that the server chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    pub session_id: Option<Text>,
    /// The display name of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub name: Option<Text>,
    /// The feature that the session works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub feature: Option<Text>,
    /// How long the token is valid. Default: one day.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
    /// The address that the token names as its server: `http://`, `https://` or `unix:`. The commands and hooks of git-dibs
    /// send a token only to its server. Default: the address that the server is configured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 255, pattern = "^(https?://|unix:/)[!-~]+$")]
    pub url: Option<Text>,
    #[serde(default, rename = "ttl_minutes", skip_serializing, deserialize_with = "not_ttl_minutes")]
    #[schema(ignore)]
    pub ttl_minutes: Misspelled,
    #[serde(default, rename = "ttl_seconds", skip_serializing, deserialize_with = "not_ttl_seconds")]
    #[schema(ignore)]
    pub other_ttl_seconds: Misspelled,
}

/// A new session and its token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionCreated {
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Not part of the `Debug` output.
    pub token: String,
    /// When the token expires.
    pub expires_at: Time,
}

impl std::fmt::Debug for SessionCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionCreated")
            .field("session_id", &self.session_id)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// How a client may end a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndState {
    /// Its work is done.
    #[default]
    Completed,
    /// Its work failed.
    Failed,
    /// It was stopped from outside.
    Stopped,
}

impl<'de> Deserialize<'de> for EndState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(
            deserializer,
            &[("completed", EndState::Completed), ("failed", EndState::Failed), ("stopped", EndState::Stopped)],
        )
    }
}

/// `POST /api/sessions/{id}/end`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndSession {
    /// Default: completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EndState>,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// It has not ended.
    Active,
    /// Its work is done.
    Completed,
    /// Its work failed.
    Failed,
    /// It was stopped from outside.
    Stopped,
    /// It sent no sign of life for too long.
    Lost,
}

impl SessionState {
    /// Every state with its word in JSON.
    pub const WORDS: &[(&str, SessionState)] = &[
        SessionState::Active.with_word(),
        SessionState::Completed.with_word(),
        SessionState::Failed.with_word(),
        SessionState::Stopped.with_word(),
        SessionState::Lost.with_word(),
    ];

    const fn with_word(self) -> (&'static str, SessionState) {
        (self.as_str(), self)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            SessionState::Active => "active",
            SessionState::Completed => "completed",
            SessionState::Failed => "failed",
            SessionState::Stopped => "stopped",
            SessionState::Lost => "lost",
        }
    }
}

impl<'de> Deserialize<'de> for SessionState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, SessionState::WORDS)
    }
}

/// The answer to `POST /api/sessions/{id}/end`. A repeated call gets the first answer again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    pub state: SessionState,
    /// How many reservations were released.
    pub released_count: u64,
    /// Their keys, at most 10,000 of them.
    pub released_paths: Vec<String>,
}

/// The answer to `POST /api/sessions/{id}/heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// How many reservations were renewed for another full TTL.
    pub renewed_count: u64,
    /// When the first of them expires, or the session itself if it holds nothing.
    pub expires_at: Time,
    /// What the session should know. Always present, because most sessions learn it from a heartbeat.
    #[serde(default)]
    #[schema(required = true)]
    pub notices: Vec<Notice>,
}

/// One session, as every session of the repository may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    #[schema(value_type = String)]
    pub session_id: Text,
    pub state: SessionState,
    /// The display name of the session.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub name: Option<Text>,
    /// The feature that the session works on.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub feature: Option<Text>,
    /// The time of its first call.
    pub started_at: Time,
    /// The time of its latest call.
    pub last_seen_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How many reservations it holds.
    pub held_count: u64,
    /// The keys that it waits for in the queue, at most 100 of them.
    #[serde(default)]
    #[schema(required = true)]
    pub waiting_for: Vec<String>,
    /// How many more keys it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_waiting_for: Option<u64>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /api/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    pub sessions: Vec<SessionInfo>,
    /// Send it as `cursor` to get the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_contain_the_token() {
        let created = SessionCreated { session_id: "ana".into(), token: "very secret".to_owned(), expires_at: Time(0) };
        assert!(!format!("{created:?}").contains("secret"));
        assert!(serde_json::to_string(&created).unwrap().contains("very secret"));
    }

    #[test]
    fn a_client_cannot_end_a_session_as_lost() {
        assert!(serde_json::from_str::<EndSession>(r#"{"state": "stopped"}"#).is_ok());
        assert!(serde_json::from_str::<EndSession>(r#"{"state": "lost"}"#).is_err());
        assert!(serde_json::from_str::<EndSession>(r#"{"state": "active"}"#).is_err());
    }
}
