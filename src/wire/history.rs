//! `GET /api/history`: the latest events first, in pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Event, Notice};

/// One page of the history, the latest event first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryReply {
    /// A page may be short or empty and still not be the last one: continue while there is a `nextCursor`.
    pub events: Vec<Event>,
    /// Send it as `cursor` to get the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Events that would belong on this page but are no longer stored anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingEvents>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// A range of events that are no longer stored anywhere, by their `seq`; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingEvents {
    pub first: u64,
    pub last: u64,
}
