//! Unlock requests: asking a holder to let go.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::values::word;
use super::{Encoding, Notice, Text, Time, schema};

/// `POST /api/sessions/{id}/unlock-requests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequest {
    /// What should be let go.
    #[schema(value_type = schema::Key)]
    pub file_path: String,
    /// Why; the holder reads it.
    #[schema(value_type = String, pattern = r"\S")]
    pub reason: Text,
    /// How the name is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// `POST …/unlock-requests/{reqId}/approve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approve {
    /// Pass the reservation straight to the asker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<bool>,
}

/// `POST …/unlock-requests/{reqId}/reject`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reject {
    /// What the asker should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub note: Option<Text>,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnlockStatus {
    /// Nobody answered yet.
    Pending,
    /// The holder let go.
    Approved,
    /// The holder keeps it.
    Rejected,
    /// The asker does not ask any more.
    Withdrawn,
    /// The reservation ended first.
    Moot,
}

impl UnlockStatus {
    const WORDS: &[(&str, UnlockStatus)] = &[
        ("pending", UnlockStatus::Pending),
        ("approved", UnlockStatus::Approved),
        ("rejected", UnlockStatus::Rejected),
        ("withdrawn", UnlockStatus::Withdrawn),
        ("moot", UnlockStatus::Moot),
    ];

    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
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

/// One request, for both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequestInfo {
    /// A UUID.
    pub id: String,
    /// What should be let go.
    pub reservation_id: String,
    /// Its key, as the holder wrote it.
    pub file_path: String,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reserved_by: Option<Text>,
    /// Who asks.
    #[schema(value_type = String)]
    pub requested_by: Text,
    /// Their display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub requested_by_name: Option<Text>,
    /// Why.
    #[schema(value_type = String)]
    pub reason: Text,
    /// Since when.
    pub requested_at: Time,
    /// Where it stands.
    pub status: UnlockStatus,
    /// When it was answered.
    #[serde(default)]
    #[schema(required = true)]
    pub responded_at: Option<Time>,
    /// Who answered.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub responded_by: Option<Text>,
    /// What they added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub note: Option<Text>,
    /// How the name is written, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /api/sessions/{id}/unlock-requests`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnlockRequests {
    /// For what the session holds.
    pub incoming: Vec<UnlockRequestInfo>,
    /// By the session.
    pub outgoing: Vec<UnlockRequestInfo>,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
