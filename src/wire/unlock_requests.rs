//! Unlock requests: one session asks another to release a reservation.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::deserialize::word;
use super::{Encoding, Notice, Text, Time, schema};

/// `POST /api/sessions/{id}/unlock-requests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequest {
    /// The key that the holder should release.
    #[schema(value_type = schema::Key)]
    pub file_path: String,
    /// The holder sees it.
    #[schema(value_type = String, pattern = r"\S")]
    pub reason: Text,
    /// How `filePath` is written, if not as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// `POST …/unlock-requests/{reqId}/approve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approve {
    /// Pass the reservation directly to the session that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<bool>,
}

/// `POST …/unlock-requests/{reqId}/reject`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reject {
    /// A message to the session that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub note: Option<Text>,
}

/// The state of an unlock request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnlockStatus {
    /// The holder has not answered yet.
    Pending,
    /// The holder released the key.
    Approved,
    /// The holder keeps the key.
    Rejected,
    /// The session that asked took the request back.
    Withdrawn,
    /// The reservation ended first.
    Moot,
}

impl UnlockStatus {
    const WORDS: &[(&str, UnlockStatus)] = &[
        UnlockStatus::Pending.with_word(),
        UnlockStatus::Approved.with_word(),
        UnlockStatus::Rejected.with_word(),
        UnlockStatus::Withdrawn.with_word(),
        UnlockStatus::Moot.with_word(),
    ];

    const fn with_word(self) -> (&'static str, UnlockStatus) {
        (self.as_str(), self)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            UnlockStatus::Pending => "pending",
            UnlockStatus::Approved => "approved",
            UnlockStatus::Rejected => "rejected",
            UnlockStatus::Withdrawn => "withdrawn",
            UnlockStatus::Moot => "moot",
        }
    }
}

impl<'de> Deserialize<'de> for UnlockStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, UnlockStatus::WORDS)
    }
}

/// One unlock request, as both sessions see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequestInfo {
    /// A UUID.
    pub id: String,
    /// The reservation that the holder should release.
    pub reservation_id: String,
    /// The key of the reservation, as the holder wrote it.
    pub file_path: String,
    /// The holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reserved_by: Option<Text>,
    /// The display name of the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reserved_by_name: Option<Text>,
    /// The session that asks.
    #[schema(value_type = String)]
    pub requested_by: Text,
    /// The display name of that session.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub requested_by_name: Option<Text>,
    #[schema(value_type = String)]
    pub reason: Text,
    pub requested_at: Time,
    pub status: UnlockStatus,
    #[serde(default)]
    #[schema(required = true)]
    pub responded_at: Option<Time>,
    /// The session, or the admin, that answered.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub responded_by: Option<Text>,
    /// What was added to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub note: Option<Text>,
    /// The session that asked got the reservation with the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_over: bool,
    /// Set when `filePath` is percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// In the reply to a new request: those to the other sessions that share the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    pub others: Vec<UnlockRequestInfo>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /api/sessions/{id}/unlock-requests`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequests {
    /// Requests for what the session holds.
    pub incoming: Vec<UnlockRequestInfo>,
    /// Requests that the session made.
    pub outgoing: Vec<UnlockRequestInfo>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
/// `GET /api/unlock-requests`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequestList {
    pub requests: Vec<UnlockRequestInfo>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
