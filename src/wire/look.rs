//! Looking around and operating: everything held, overrides, figures, health.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Encoding, Mode, Notice, Text, Time};

/// One live reservation, in the lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// Its id.
    pub reservation_id: String,
    /// What is held, as its holder wrote it.
    pub file_path: String,
    /// Its holder.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// The holder's display name.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub session_name: Option<Text>,
    /// How.
    pub mode: Mode,
    /// What for.
    #[serde(default)]
    #[schema(value_type = Option<String>, required = true)]
    pub reason: Option<Text>,
    /// Since when.
    pub reserved_at: Time,
    /// Until when without renewal.
    pub expires_at: Time,
    /// Grows with every grant in the repository, never reused.
    pub fence: u64,
    /// How the name is written, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// `GET /api/reservations` and `GET /api/sessions/{id}/reserved-files`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationList {
    /// One page of them.
    pub reservations: Vec<Reservation>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The last record this page knows of, where it is about everybody. Whoever follows the events after the `seq` of
    /// the first page, and takes each reservation by its id, knows what is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// What the session should know, where it asked about itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `DELETE /api/reservations/{reservationId}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// Why; the holder and the history get it.
    #[schema(value_type = String, pattern = r"\S")]
    pub reason: Text,
}

/// A change that has nothing more to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Always.
    pub ok: bool,
    /// What the session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /api/stats`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Grants since the journal began.
    pub total_locks: u64,
    /// Held now.
    pub active_locks: u64,
    /// Ended because their time ran out.
    pub expired_locks: u64,
    /// Requests refused or queued because somebody held what they wanted.
    pub conflicts_detected: u64,
    /// In seconds, over those that have ended.
    pub average_hold_time: f64,
    /// Requests in the queue now.
    pub waiters: u64,
    /// Sessions alive now.
    pub sessions: u64,
    /// What the session that asked should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// `GET /healthz` and `GET /readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`, or a word for why not, such as `starting`.
    #[schema(value_type = String)]
    pub status: Text,
    /// The server's version.
    #[serde(default)]
    #[schema(value_type = String, required = true)]
    pub version: Text,
    /// The server's clock, so that a client can see how far its own is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Time>,
    /// How far the ledger is that is furthest behind, where one is written. It has no name: no token was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerHealth>,
}

/// How far behind the journal a ledger is. Grants do not wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerHealth {
    /// Whether it can be written; the server's log says why not.
    pub ok: bool,
    /// Records that are not in it yet.
    pub records_behind: u64,
    /// Since when there are any, in seconds.
    pub seconds_behind: u64,
}
