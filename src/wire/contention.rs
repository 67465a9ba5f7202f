//! Who is in whose way: refused requests, waits, and the keys that sessions compete for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Code, CycleStep, Notice, Text, Time};

/// `GET /api/refusals`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusals {
    /// Of the last hour, the newest first.
    pub refusals: Vec<RefusedRequest>,
    /// How many refused requests of the last hour are not listed, because there were too many.
    pub dropped: u64,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// A request that was refused because of other sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedRequest {
    /// The last time that the session tried it.
    pub at: Time,
    /// The first time.
    pub first_at: Time,
    /// How often the same request was refused: of the same session, for the same keys.
    pub count: u64,
    /// The session that asked.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    /// `RESOURCE_LOCKED`, `LOCK_ACQUISITION_FAILED`, `POSSIBLE_DEADLOCK` or `FEATURE_PAUSED`.
    pub code: Code,
    /// The first of the keys that were not free.
    pub keys: Vec<String>,
    /// The first of the sessions in the way.
    pub blockers: Vec<Blocker>,
    /// The sessions that would have waited for each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<CycleStep>,
}

/// A session in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    /// The key that it holds or waits for; null for a pause.
    #[serde(default)]
    #[schema(required = true)]
    pub key: Option<String>,
}

/// `GET /api/waits`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// In the order of the queue.
    pub waits: Vec<Wait>,
    /// Sessions that block others and wait for no session, the one that blocks the longest wait first.
    pub roots: Vec<RootBlocker>,
    /// How many more requests wait.
    pub more_waits: u64,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// A request in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The `seq` of the `queued` event.
    pub waiter: u64,
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    /// The first of its keys.
    pub keys: Vec<String>,
    /// The ids that the reservations of these keys will have, and under which their history can be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservation_ids: Vec<String>,
    pub since: Time,
    /// When it is refused unless it is granted before.
    pub gives_up_at: Time,
    /// The first of what blocks it.
    pub blocked_by: Vec<WaitBlocker>,
}

/// What blocks a request in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitBlocker {
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    /// The key that it holds or waits for.
    pub key: String,
    pub kind: BlockerKind,
}

/// How a session blocks a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockerKind {
    /// It holds the key.
    Holder,
    /// It is ahead in the queue.
    Waiter,
}

/// A session that blocks others and waits for no session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootBlocker {
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    /// How many sessions it blocks, directly and through others.
    pub blocks: u64,
    /// Since when the first of them has been waiting.
    pub longest_wait_since: Time,
}

/// `GET /api/hotspots`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hotspots {
    pub window: HotspotWindow,
    /// The beginning of the window: at most one step earlier or later than the window says.
    pub since: Time,
    /// The length of a step of `byStep`: ten minutes, an hour, or a day.
    pub step_seconds: u64,
    /// The keys that were not free most often, the most first. A key that is asked for by many names counts under each.
    pub paths: Vec<HotPath>,
    /// The same by directory: each conflict counts for the directory that the path is in.
    pub directories: Vec<HotDirectory>,
    /// Sessions whose reservations expired without a release, the most first.
    pub sessions: Vec<ExpiringSession>,
    /// Requests for a key that was not free, counted once for each such key.
    pub total_conflicts: u64,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// How far `GET /api/hotspots` looks back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HotspotWindow {
    Hour,
    Day,
    Week,
}

/// A key that sessions compete for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HotPath {
    pub key: String,
    /// Requests that found it not free. Each counts once, whether it was refused or waited.
    pub conflicts: u64,
    /// Those of them that waited.
    pub waits: u64,
    /// How long they waited on average.
    pub average_wait_seconds: f64,
    /// The conflicts of each step of the window since its beginning. The last step is the current one.
    pub by_step: Vec<u64>,
    /// The latest sessions that asked for it or blocked it, at most 6, those with the most conflicts first.
    pub between: Vec<Contender>,
}

/// A session that competes for a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contender {
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
}

/// A directory that sessions compete in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HotDirectory {
    /// Without a slash at its end; `.` is the top of the repository.
    pub directory: String,
    /// Requests that found one of its files not free.
    pub conflicts: u64,
}

/// A session whose reservations expire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpiringSession {
    #[schema(value_type = String)]
    pub session_id: Text,
    /// Its display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    /// How many of its reservations expired.
    pub expired: u64,
}

/// The data of the event `live`: what changes without a record. Sent with `?live=1`, at most once a second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Live {
    pub server_time: Time,
    /// Reservations that were renewed since the last such event.
    pub reservations: Vec<LiveReservation>,
    /// Sessions that called since the last such event.
    pub sessions: Vec<LiveSession>,
}

/// The deadline of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveReservation {
    pub reservation_id: String,
    pub expires_at: Time,
}

/// When a session last called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveSession {
    #[schema(value_type = String)]
    pub session_id: Text,
    pub last_seen_at: Time,
}
