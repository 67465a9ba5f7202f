//! Where the history comes from: a trait, so that nothing in this room knows the journal or the ledger.

use crate::engine::{Record, ReservationId, Seq, SessionId, Text, Timestamp};
use crate::key::Key;
use crate::wire;

/// Reads the history of one repository.
pub trait HistoryBackend: Send + Sync {
    /// One page of the history, the latest event first. May block.
    fn page(&self, query: &HistoryQuery) -> Result<HistoryPage, HistoryError>;

    /// How far the ledger is behind the journal, if there is a ledger.
    fn ledger(&self) -> Option<wire::LedgerHealth>;
}

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// Only events about keys that overlap this one.
    pub key: Option<Key>,
    /// Compare keys without regard to case.
    pub fold_case: bool,
    /// Only what this session did.
    pub session: Option<SessionId>,
    /// Only what concerns this reservation. The ends of all waits are listed too, because they do not name it.
    pub reservation: Option<ReservationId>,
    pub since: Option<Timestamp>,
    /// The most events on the page.
    pub limit: usize,
    /// Continue where the page with this `next` ended.
    pub cursor: Option<String>,
}

/// One page of events, the latest first.
#[derive(Debug, Default)]
pub struct HistoryPage {
    /// Each with the display name of its session, if it is known.
    pub events: Vec<(Record, Option<Text>)>,
    /// The cursor of the next page, if there may be one.
    pub next: Option<String>,
    /// Ranges of events that are no longer stored anywhere, first and last.
    pub missing: Vec<(Seq, Seq)>,
}

/// Why there is no page.
#[derive(Debug)]
pub enum HistoryError {
    /// The cursor is not one that an earlier page returned.
    BadCursor,
    /// The journal or the ledger could not be read; a sentence says why.
    Unreadable(String),
}
