//! Lists of reservations, the admin override, statistics and health.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Encoding, Mode, Notice, Text, Time};

/// One reservation in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    pub reservation_id: String,
    /// The key, as the holder wrote it.
    pub file_path: String,
    /// The holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// The display name of the holder.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    pub mode: Mode,
    /// What the holder reserved it for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    pub reserved_at: Time,
    /// When it expires unless it is renewed.
    pub expires_at: Time,
    /// How long it lasts without a renewal; with `whileSession`, without a sign of life of the session.
    #[serde(default)]
    #[schema(required = true)]
    pub ttl_seconds: u64,
    /// It lasts while the session gives signs of life: every call of the session moves `expiresAt`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_session: bool,
    /// The fencing number: grows with every grant in the repository and is never reused.
    pub fence: u64,
    /// The version of the key: one more each time a holder releases it.
    #[serde(default)]
    #[schema(required = true)]
    pub version: u64,
    /// Set when `filePath` is percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// `GET /api/reservations` and `GET /api/sessions/{id}/reserved-files`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationList {
    pub reservations: Vec<Reservation>,
    /// Send it as `cursor` to get the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// In `GET /api/reservations`, the number of the last record that this page includes. To keep a list up to date,
    /// follow the events after the `seq` of the first page, and identify each reservation by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// In `GET /api/reservations`, the clock that the times are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_time: Option<Time>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /api/held`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The session holds something.
    pub own: bool,
    /// Another session holds something.
    pub others: bool,
    /// The session's feature is paused.
    pub paused: bool,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `DELETE /api/reservations/{reservationId}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// The holder gets it in a notice, and the history keeps it.
    #[schema(value_type = String, pattern = r"\S")]
    pub reason: Text,
}

/// `GET /api/stats`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Reservations granted since the journal began.
    pub total_locks: u64,
    /// Reservations held now.
    pub active_locks: u64,
    /// Reservations that expired.
    pub expired_locks: u64,
    /// Requests refused because another session held a key or was ahead in the queue, also those that would have waited
    /// forever, and waits that timed out. Recorded every 10 seconds and when the server stops: one that is killed loses the
    /// last of them.
    pub conflicts_detected: u64,
    /// The average duration of the reservations that have ended, in seconds.
    pub average_hold_time: f64,
    /// Requests in the queue now.
    pub waiters: u64,
    /// Active sessions now.
    pub sessions: u64,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /healthz` and `GET /readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok` or `ready`.
    #[schema(value_type = String)]
    pub status: Text,
    /// The version of the server.
    #[serde(default)]
    #[schema(value_type = String, required = true)]
    pub version: Text,
    /// The clock of the server, so that a client can compare its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Time>,
    /// The ledger that is furthest behind, if there is one. It is not named, because the call needs no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerHealth>,
    /// The part of this node in its cluster, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterHealth>,
}

/// What a node of a cluster does now. Addresses and repositories are not named, because the call needs no token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterHealth {
    /// `leader` if the node leads a repository, else `follower`.
    #[schema(value_type = String)]
    pub role: Text,
    /// How many repositories it leads.
    pub leads: u64,
    /// How many repositories the cluster has.
    pub repositories: u64,
    /// How many of them no node leads now.
    pub without_leader: u64,
    /// What the operator should know.
    pub notes: Vec<String>,
}

/// How far a ledger is behind the journal. Grants do not wait for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerHealth {
    /// Whether it can be written and is undamaged. If not, the log of the server says more.
    pub ok: bool,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<LedgerProblem>,
    /// Records that are not in the ledger yet.
    pub records_behind: u64,
    /// For how long there have been such records, in seconds.
    pub seconds_behind: u64,
}

/// What is wrong with a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum LedgerProblem {
    /// There is no room for it. It catches up when there is.
    Full,
    /// Something that was written before cannot be read any more, or is not the history of this journal.
    Damaged,
    /// It cannot be written for another reason.
    Unwritable,
}
