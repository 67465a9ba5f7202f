//! Announced pushes: what a session is about to push, and who announced what has arrived.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::deserialize::required_list;
use super::limits::{CLAIM_UPDATES_MAX, PUSH_UPDATES_MAX};
use super::{Check, CheckReply, Notice, Text, Time, schema};

/// One update of a ref by a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefUpdate {
    /// The full name of the ref in the repository that is pushed to. Both sides must write it the same way.
    #[serde(rename = "ref")]
    #[schema(min_length = 1, examples("refs/heads/main"))]
    pub name: String,
    /// The object before the push; all zeros where the push creates the ref.
    #[schema(value_type = schema::ObjectId)]
    pub old: String,
    /// The object after the push; all zeros where the push deletes the ref.
    #[schema(value_type = schema::ObjectId)]
    pub new: String,
}

/// `POST …/pushes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncePush {
    /// What the session is about to push.
    #[serde(deserialize_with = "required_list::<_, _, PUSH_UPDATES_MAX>")]
    pub updates: Vec<RefUpdate>,
}

/// The push is announced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushAnnounced {
    /// Until then the announcement can be claimed, once.
    pub expires_at: Time,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `POST /api/pushes/claim`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimPush {
    /// What has been pushed.
    #[serde(deserialize_with = "required_list::<_, _, CLAIM_UPDATES_MAX>")]
    #[schema(min_items = 1)]
    pub updates: Vec<RefUpdate>,
    /// Check this for the session that announced the push, or for a caller without a session if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

/// Who announced the push.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimReply {
    /// The session that announced all of the updates; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text>,
    /// The display name of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub name: Option<Text>,
    /// The feature that the session works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub feature: Option<Text>,
    /// The answer to `check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReply>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
