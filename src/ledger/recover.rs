//! Where a ledger stands and what was held there, from the journal wherever that can tell.

use std::collections::HashSet;

use super::LedgerError;
use super::holdings::{Holding, Holdings};
use super::reader;
use super::store::{Commit, Store};
use super::writer::FLUSH_MAX;
use crate::engine::{Event, Seq};
use crate::journal::{JournalReader, replay};

/// What a journal says about one point of its past.
pub(super) struct Base {
    pub live: Holdings,
    pub seq: Seq,
    pub gap: Option<(Seq, Seq)>,
}

/// What was held where the ledger stands, and where it goes on.
pub(super) fn recover(
    store: &Store,
    tip: Option<&Commit>,
    journal: &mut dyn JournalReader,
) -> Result<Base, LedgerError> {
    let last = tip.map_or(Seq::ZERO, |tip| tip.trailers.seq);
    if let Some(tip) = tip {
        same_story(store, tip, journal)?;
    }
    let mut live = Holdings::default();
    let snapshot = replay(|on| journal.load(last, on), &mut live)?.snapshot;
    if snapshot <= last {
        return Ok(Base { live, seq: last, gap: None });
    }
    let oldest = journal.read(last, 1)?.oldest;
    if oldest <= last.next() {
        // The journal begins later, but all records since are there; the ledger itself knows what they change.
        let mut own = match tip {
            Some(tip) => reader::live(store.repo(), store.path(), tip.tree)?,
            None => Holdings::default(),
        };
        own.learn_names(&live);
        if !leads_to(own.clone(), last, &live, snapshot, journal)? {
            own = go_back(live, snapshot, last.next(), journal)?;
        }
        return Ok(Base { live: own, seq: last, gap: None });
    }
    let seq = Seq(oldest.0 - 1);
    Ok(Base { live: go_back(live, snapshot, oldest, journal)?, seq, gap: Some((last.next(), seq)) })
}

/// The ledger ends with a record the journal has too, if it has it.
fn same_story(store: &Store, tip: &Commit, journal: &mut dyn JournalReader) -> Result<(), LedgerError> {
    let last = tip.trailers.seq;
    let another = || LedgerError::Diverged { path: store.path().to_owned(), at: last };
    if last > journal.head()? {
        return Err(another());
    }
    let Some(line) = reader::lines(store.repo(), store.path(), tip)?.pop() else { return Ok(()) };
    let page = journal.read(Seq(line.seq.0 - 1), 1)?;
    match page.records.first() {
        Some(record) if record.seq == line.seq && *record != line.record() => Err(another()),
        _ => Ok(()),
    }
}

/// Whether the records from `after` on make of the one what the snapshot says. Only what somebody changed by hand does not.
fn leads_to(
    mut live: Holdings,
    after: Seq,
    snapshot: &Holdings,
    at: Seq,
    journal: &mut dyn JournalReader,
) -> Result<bool, LedgerError> {
    let mut reached = after;
    while reached < at {
        let page = journal.read(reached, FLUSH_MAX)?;
        for record in page.records.iter().filter(|record| record.seq <= at) {
            live.apply(record);
        }
        reached = page.records.last().map_or(at, |record| record.seq);
    }
    Ok(live.holds_the_same(snapshot))
}

/// From what was held at the snapshot back to what was held before the oldest record there is: what was granted since is
/// taken away, what was released since is put back with as much as its release tells.
fn go_back(mut live: Holdings, at: Seq, oldest: Seq, journal: &mut dyn JournalReader) -> Result<Holdings, LedgerError> {
    let later: Vec<_> = live.holdings().filter(|held| held.fence >= Some(oldest)).map(|held| held.id).collect();
    for id in later {
        live.let_go(id);
    }
    let mut granted = HashSet::new();
    let mut reached = Seq(oldest.0 - 1);
    while reached < at {
        let page = journal.read(reached, FLUSH_MAX)?;
        for record in page.records.iter().filter(|record| record.seq <= at) {
            match &record.event {
                Event::Reserved { id, .. } => {
                    granted.insert(*id);
                }
                Event::Released { id, session, key, .. } | Event::Amended { id, session, key, .. }
                    if !granted.contains(id) =>
                {
                    let known = live.holdings().find(|held| held.id == *id).cloned();
                    let (name, since, fence) = match known {
                        Some(held) => (held.name, held.since, held.fence),
                        None => (live.name(session).cloned(), None, None),
                    };
                    live.let_go(*id);
                    let (key, session) = (key.clone(), session.clone());
                    let unknown =
                        Holding { key, session, name, mode: None, reason: None, since, until: None, fence, id: *id };
                    live.hold(unknown);
                    granted.insert(*id);
                }
                _ => {}
            }
        }
        reached = page.records.last().map_or(at, |record| record.seq);
    }
    Ok(live)
}
