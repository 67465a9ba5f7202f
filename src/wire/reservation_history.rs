//! What happened to one reservation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Encoding, Notice, Text, Time};

/// The states of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum LockState {
    /// The request for it waited in the queue.
    Waiting,
    /// It was granted.
    Acquired,
    /// It was released, by its holder or otherwise; `why` says how.
    Released,
    /// Its time ran out.
    Expired,
    /// The wait for it ended without a grant.
    Failed,
}

/// A state of a reservation, and when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateChange {
    pub state: LockState,
    pub at: Time,
    /// The number of the record.
    pub seq: u64,
    /// How it ended, where that is more than the state says: as in the events `released` and `left`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub why: Option<Text>,
}

/// `GET /api/reservations/{reservationId}/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationHistory {
    pub reservation_id: String,
    /// The key, as the holder wrote it.
    pub file_path: String,
    /// The session that held it or waited for it.
    #[schema(value_type = String)]
    pub session_id: Text,
    /// The oldest first.
    pub states: Vec<StateChange>,
    /// Earlier states may be missing, because the records are no longer stored or there are too many to search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
    /// Set when `filePath` is percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// What the calling session should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}
