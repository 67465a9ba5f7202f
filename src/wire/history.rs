//! What happened: `GET /api/history`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Encoding, Mode, Notice, Text, Time};

/// One event. What does not belong to its kind is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEvent {
    /// Its number; of a grant, the fence.
    pub seq: u64,
    /// When.
    pub at: Time,
    /// What, in the past tense: `reserved`, `released`, `queued`, …
    #[schema(value_type = String)]
    pub event: Text,
    /// Whose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text>,
    /// What they were called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session_name: Option<Text>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
    /// What a request waits for, all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_paths: Vec<String>,
    /// How the name is written, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// How it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reason: Option<Text>,
    /// How long without renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// The reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_id: Option<String>,
    /// The unlock request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Why it is over, or how it ended: `expired`, `overridden`, `completed`, `rejected`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub why: Option<Text>,
    /// Who overrode it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub by: Option<Text>,
}

/// Events that nobody has any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Missing {
    /// From this number.
    pub first: u64,
    /// To this one.
    pub last: u64,
}

/// Events, the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// One page of them; it may be short or empty and still not be the last.
    pub events: Vec<HistoryEvent>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What the page leaves out because nobody has it any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What the session that asked should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
