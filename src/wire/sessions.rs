//! Sessions: made, seen, kept alive, ended.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::values::{whole, word};
use super::{Notice, Text, Time};

/// `POST /api/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateSession {
    /// Where the server serves several repositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub repo: Option<Text>,
    /// Made up by the server where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    pub session_id: Option<Text>,
    /// Its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub name: Option<Text>,
    /// The feature it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub feature: Option<Text>,
    /// How long its token counts.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub ttl_seconds: Option<i64>,
}

/// A session and the token that speaks for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionCreated {
    /// Its id.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its token; never shown by `{:?}`.
    pub token: String,
    /// Until when the token counts.
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

/// How somebody may end a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndState {
    /// Its work is done.
    #[default]
    Completed,
    /// Its work failed.
    Failed,
    /// Somebody stopped it.
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
    /// Completed where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EndState>,
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// Alive.
    Active,
    /// Its work is done.
    Completed,
    /// Its work failed.
    Failed,
    /// Somebody stopped it.
    Stopped,
    /// It was not heard of for too long.
    Lost,
}

impl SessionState {
    /// Every state by its word in JSON.
    pub const WORDS: &[(&str, SessionState)] = &[
        ("active", SessionState::Active),
        ("completed", SessionState::Completed),
        ("failed", SessionState::Failed),
        ("stopped", SessionState::Stopped),
        ("lost", SessionState::Lost),
    ];

    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
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

/// What `POST /api/sessions/{id}/end` did, or had done the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// How it ended.
    pub state: SessionState,
    /// How many reservations ended with it.
    pub released_count: u64,
    /// Their keys, as the holder wrote them.
    pub released_paths: Vec<String>,
}

/// `POST /api/sessions/{id}/heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// How many reservations run for another full TTL.
    pub renewed_count: u64,
    /// When the first of them runs out, or the session itself where it holds nothing.
    pub expires_at: Time,
    /// What the session should know; always there, because a heartbeat is how most sessions hear of it.
    #[serde(default)]
    #[schema(required = true)]
    pub notices: Vec<Notice>,
}

/// One session, as anyone in its repository may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its id.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Where it stands.
    pub state: SessionState,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub name: Option<Text>,
    /// The feature it works on.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub feature: Option<Text>,
    /// Its first call.
    pub started_at: Time,
    /// Its latest call.
    pub last_seen_at: Time,
    /// When it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How many reservations it holds.
    pub held_count: u64,
    /// The keys it waits for.
    #[serde(default)]
    #[schema(required = true)]
    pub waiting_for: Vec<String>,
    /// What the session that asked should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /api/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// The sessions of the repository.
    pub sessions: Vec<SessionInfo>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What the session that asked should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown_by_accident() {
        let created = SessionCreated { session_id: "ana".into(), token: "very secret".to_owned(), expires_at: Time(0) };
        assert!(!format!("{created:?}").contains("secret"));
        assert!(serde_json::to_string(&created).unwrap().contains("very secret"));
    }

    #[test]
    fn nobody_can_end_a_session_as_lost() {
        assert!(serde_json::from_str::<EndSession>(r#"{"state": "stopped"}"#).is_ok());
        assert!(serde_json::from_str::<EndSession>(r#"{"state": "lost"}"#).is_err());
        assert!(serde_json::from_str::<EndSession>(r#"{"state": "active"}"#).is_err());
    }
}
