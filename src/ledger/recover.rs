//! How a writer recovers: which record an existing ledger ends with, and what was held then.
//!
//! The journal decides wherever it still has the records. The ledger's own tree is only used for the time before the
//! journal's snapshot, and only if the records after it lead to that snapshot.

use std::collections::HashSet;

use super::LedgerError;
use super::holdings::{Holding, Holdings};
use super::reader;
use super::store::{Commit, LedgerStore};
use super::writer::FLUSH_MAX;
use crate::engine::{Event, Seq};
use crate::journal::{JournalReader, replay};

/// Where a writer continues.
pub(super) struct StartPoint {
    /// What was held after the record `seq`.
    pub holdings: Holdings,
    /// The last record in the ledger, or the last one before the journal's oldest record.
    pub seq: Seq,
    /// Records that are missing in the ledger and in the journal, the first and the last.
    pub gap: Option<(Seq, Seq)>,
}

/// Finds out where a writer continues in the ledger that ends with `tip`.
pub(super) fn recover(
    store: &LedgerStore,
    tip: Option<&Commit>,
    journal: &mut dyn JournalReader,
) -> Result<StartPoint, LedgerError> {
    let last = tip.map_or(Seq::ZERO, |tip| tip.trailers.seq);
    if let Some(tip) = tip {
        check_same_journal(store, tip, journal)?;
    }
    let mut holdings = Holdings::default();
    let snapshot = replay(|on| journal.load(last, on), &mut holdings)?.snapshot;
    if snapshot <= last {
        return Ok(StartPoint { holdings, seq: last, gap: None });
    }
    let oldest = journal.read(last, 1)?.oldest;
    if oldest <= last.next() {
        // The snapshot is newer than the ledger, but the journal still has every record after the ledger's last one. The
        // ledger's own tree says what was held there.
        let mut own = match tip {
            Some(tip) => reader::holdings(store.repo(), store.path(), tip.tree)?,
            None => Holdings::default(),
        };
        own.add_names(&holdings);
        if !leads_to(own.clone(), last, &holdings, snapshot, journal)? {
            own = go_back(holdings, snapshot, last.next(), journal)?;
        }
        return Ok(StartPoint { holdings: own, seq: last, gap: None });
    }
    let seq = Seq(oldest.0 - 1);
    Ok(StartPoint { holdings: go_back(holdings, snapshot, oldest, journal)?, seq, gap: Some((last.next(), seq)) })
}

/// Fails if the journal has another record under the number of the ledger's last event.
fn check_same_journal(store: &LedgerStore, tip: &Commit, journal: &mut dyn JournalReader) -> Result<(), LedgerError> {
    let last = tip.trailers.seq;
    let diverged = || LedgerError::Diverged { path: store.path().to_owned(), at: last };
    if last > journal.head()? {
        return Err(diverged());
    }
    let Some(event) = reader::events(store.repo(), store.path(), tip)?.pop() else { return Ok(()) };
    let page = journal.read(Seq(event.seq.0 - 1), 1)?;
    match page.records.first() {
        Some(record) if record.seq == event.seq && *record != event.record() => Err(diverged()),
        _ => Ok(()),
    }
}

/// Whether the records after `after` turn `holdings` into those of the snapshot at `at`. They do, unless the ledger's tree
/// was changed by hand.
fn leads_to(
    mut holdings: Holdings,
    after: Seq,
    snapshot: &Holdings,
    at: Seq,
    journal: &mut dyn JournalReader,
) -> Result<bool, LedgerError> {
    let mut last_seq = after;
    while last_seq < at {
        let page = journal.read(last_seq, FLUSH_MAX)?;
        for record in page.records.iter().filter(|record| record.seq <= at) {
            holdings.apply(record);
        }
        last_seq = page.records.last().map_or(at, |record| record.seq);
    }
    Ok(holdings.equals_apart_from_names(snapshot))
}

/// Goes back from the holdings of the snapshot at `at` to those before the record `oldest`: removes what was granted since,
/// and adds what was released since, with the fields that the release has.
fn go_back(
    mut holdings: Holdings,
    at: Seq,
    oldest: Seq,
    journal: &mut dyn JournalReader,
) -> Result<Holdings, LedgerError> {
    let later: Vec<_> = holdings.iter().filter(|held| held.fence >= Some(oldest)).map(|held| held.id).collect();
    for id in later {
        holdings.remove(id);
    }
    let mut granted_ids = HashSet::new();
    let mut last_seq = Seq(oldest.0 - 1);
    while last_seq < at {
        let page = journal.read(last_seq, FLUSH_MAX)?;
        for record in page.records.iter().filter(|record| record.seq <= at) {
            match &record.event {
                Event::Reserved { id, .. } => {
                    granted_ids.insert(*id);
                }
                Event::Released { id, session, key, .. } | Event::Amended { id, session, key, .. }
                    if !granted_ids.contains(id) =>
                {
                    let holding = holdings.iter().find(|held| held.id == *id).cloned();
                    let (name, since, fence) = match holding {
                        Some(held) => (held.name, held.since, held.fence),
                        None => (holdings.name(session).cloned(), None, None),
                    };
                    holdings.remove(*id);
                    let (key, session) = (key.clone(), session.clone());
                    let unknown =
                        Holding { key, session, name, mode: None, reason: None, since, until: None, fence, id: *id };
                    holdings.insert(unknown);
                    granted_ids.insert(*id);
                }
                _ => {}
            }
        }
        last_seq = page.records.last().map_or(at, |record| record.seq);
    }
    Ok(holdings)
}
