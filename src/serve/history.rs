//! The history that the server answers from: the journal's and the ledger's records, as `http` asks for them.

use std::sync::Arc;

use anyhow::Result;

use crate::http::{HistoryBackend, HistoryError, HistoryPage, HistoryQuery};
use crate::ledger::{Cursor, EventPage, HistoryReader, LedgerProblem, LedgerStatus, Query};
use crate::wire::{self, LedgerHealth};

pub struct RepositoryHistory {
    pub history: HistoryReader,
    /// Of the ledger, if one is written.
    pub status: Option<Arc<LedgerStatus>>,
}

impl HistoryBackend for RepositoryHistory {
    fn page(&self, query: &HistoryQuery) -> Result<HistoryPage, HistoryError> {
        let cursor = match query.cursor.as_deref().map(Cursor::parse) {
            Some(None) => return Err(HistoryError::BadCursor),
            cursor => cursor.flatten(),
        };
        let HistoryQuery { key, fold_case, session, reservation, since, limit, .. } = query.clone();
        let page = self.history.page(&Query { key, fold_case, session, reservation, since, limit, cursor });
        let EventPage { events, next, missing } = page.map_err(|error| HistoryError::Unreadable(error.to_string()))?;
        let events = events.into_iter().map(|line| (line.record(), line.name)).collect();
        Ok(HistoryPage { events, next: next.map(|next| next.to_string()), missing })
    }

    fn ledger(&self) -> Option<LedgerHealth> {
        let status = self.status.as_ref()?;
        let lag = status.lag();
        let problem = status.problem().map(|problem| match problem {
            LedgerProblem::Full => wire::LedgerProblem::Full,
            LedgerProblem::Damaged => wire::LedgerProblem::Damaged,
            LedgerProblem::Unwritable => wire::LedgerProblem::Unwritable,
        });
        let (ok, records_behind, seconds_behind) = (problem.is_none(), lag.records, lag.time.as_secs());
        Some(LedgerHealth { ok, problem, records_behind, seconds_behind })
    }
}
