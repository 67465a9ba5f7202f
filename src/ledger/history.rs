//! Past events, latest first: from the journal as far as it goes, then from the ledger.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use git2::Oid;

use super::message::LedgerEvent;
use super::{LedgerError, LedgerReader, reader};
use crate::engine::{Event, Record, ReservationId, Seq, SessionId, Timestamp};
use crate::journal::JournalReader;
use crate::key::Key;

/// The most events read for one page. A page may be short or empty because of it; its cursor says where to continue.
const SCAN_MAX: u64 = 50_000;

/// Records read from the journal at a time.
const STEP: u64 = 2_000;

/// Reads the past events of one repository.
pub struct HistoryReader {
    journal: Option<Mutex<Box<dyn JournalReader>>>,
    /// The ledger's directory, if there is a ledger.
    ledger: Option<PathBuf>,
}

/// Which events to return.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only events about keys that overlap this key.
    pub key: Option<Key>,
    /// Keys are compared without regard to case.
    pub fold_case: bool,
    /// Only events of this session.
    pub session: Option<SessionId>,
    /// Only events about this reservation, and the ends of waits.
    pub reservation: Option<ReservationId>,
    /// Only events at this time or later.
    pub since: Option<Timestamp>,
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<Cursor>,
}

/// Where the next page begins: before which event, and in which commit of the ledger, if it came that far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    below: Seq,
    commit: Option<Oid>,
}

/// A page of events, latest first.
#[derive(Debug, Default, PartialEq)]
pub struct EventPage {
    /// Sessions only have names in events from the ledger.
    pub events: Vec<LedgerEvent>,
    /// The cursor of the next page, if there may be more events.
    pub next: Option<Cursor>,
    /// Events that neither the journal nor the ledger has any more: the first and the last of each gap.
    pub missing: Vec<(Seq, Seq)>,
}

impl Cursor {
    /// Reads the text form of a cursor.
    pub fn parse(text: &str) -> Option<Cursor> {
        let (below, commit) = match text.split_once('-') {
            Some((below, commit)) if commit.len() == 40 => (below, Some(Oid::from_str(commit).ok()?)),
            Some(_) => return None,
            None => (text, None),
        };
        below.parse().ok().filter(|below| *below > 0).map(|below| Cursor { below: Seq(below), commit })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.commit {
            Some(commit) => write!(f, "{}-{commit}", self.below.0),
            None => write!(f, "{}", self.below.0),
        }
    }
}

/// A page while it is being filled.
struct Search<'a> {
    query: &'a Query,
    page: EventPage,
    /// All events from this number on were read.
    below: Seq,
    /// How many events may still be read.
    scans_left: u64,
}

impl HistoryReader {
    /// For a running server.
    pub fn new(journal: Box<dyn JournalReader>, ledger: Option<PathBuf>) -> HistoryReader {
        HistoryReader { journal: Some(Mutex::new(journal)), ledger }
    }

    /// Without a journal, from a ledger alone.
    pub fn of_ledger(path: PathBuf) -> HistoryReader {
        HistoryReader { journal: None, ledger: Some(path) }
    }

    pub fn page(&self, query: &Query) -> Result<EventPage, LedgerError> {
        let below = query.cursor.map_or(Seq(u64::MAX), |cursor| cursor.below);
        let mut search = Search { query, page: EventPage::default(), below, scans_left: SCAN_MAX };
        let commit = query.cursor.and_then(|cursor| cursor.commit);
        if let Some(journal) = self.journal.as_ref().filter(|_| commit.is_none()) {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            if search.scan_journal(journal.as_mut(), &|| self.ledger_end())? == Scan::Done {
                return Ok(search.page);
            }
        }
        match &self.ledger {
            Some(_) if search.below <= Seq(1) => {}
            Some(path) => match LedgerReader::open(path) {
                Ok(reader) => search.scan_ledger(&reader, commit)?,
                Err(LedgerError::Missing { .. }) if self.journal.is_some() => search.add_missing_rest(),
                Err(error) => return Err(error),
            },
            None => search.add_missing_rest(),
        }
        Ok(search.page)
    }

    /// The last event in the ledger; zero where there is none that can be read.
    fn ledger_end(&self) -> Seq {
        self.ledger.as_deref().and_then(|path| reader::end(path).ok().flatten()).unwrap_or_default()
    }
}

/// Whether a search goes on.
#[derive(Debug, PartialEq, Eq)]
enum Scan {
    Continue,
    Done,
}

impl Search<'_> {
    /// `ledger_end` returns the last event in the ledger.
    fn scan_journal(
        &mut self,
        journal: &mut dyn JournalReader,
        ledger_end: &dyn Fn() -> Seq,
    ) -> Result<Scan, LedgerError> {
        let head = journal.head()?;
        let oldest = journal.read(head, 1)?.oldest;
        self.below = self.below.min(head.next());
        while self.below > oldest {
            let from = oldest.0.max(self.below.0.saturating_sub(STEP));
            let count = self.below.0 - from;
            let page = journal.read(Seq(from.saturating_sub(1)), count as usize)?;
            // No number just before a restore was used.
            let kept = match page.records.first() {
                Some(Record { event: Event::Restored { kept, .. }, .. }) => Some(*kept),
                _ => None,
            };
            let below = self.below;
            for record in page.records.into_iter().rev().filter(|record| record.seq < below) {
                if self.take(LedgerEvent::new(record, None), None) == Scan::Done {
                    return Ok(Scan::Done);
                }
            }
            self.below = match kept {
                // The ledger also has the events that the restore has undone.
                Some(kept) if ledger_end() > kept => return Ok(Scan::Continue),
                Some(kept) => self.below.min(kept.next()),
                // If the journal has dropped records meanwhile, the ledger has them.
                None => self.below.min(Seq(from)),
            };
        }
        Ok(Scan::Continue)
    }

    fn scan_ledger(&mut self, reader: &LedgerReader, commit: Option<Oid>) -> Result<(), LedgerError> {
        // The commit only saves the walk from the tip. It comes from the client, and a ledger that was rebuilt does not
        // have it, so a missing one is not an error.
        let mut next = match commit.and_then(|id| reader.commit(id).ok()) {
            Some(commit) => Some(commit),
            None => reader.tip()?,
        };
        while let Some(commit) = next {
            let begins = commit.trailers.events.first().copied().unwrap_or(commit.trailers.seq.next());
            if begins < self.below {
                let below = self.below;
                for event in reader.events(&commit)?.into_iter().rev().filter(|event| event.seq < below) {
                    if self.take(event, Some(commit.id)) == Scan::Done {
                        return Ok(());
                    }
                }
            }
            if let Some((first, last)) = commit.trailers.gap
                && first < self.below
            {
                self.page.missing.push((first, last));
                self.below = first;
            }
            next = reader.before(&commit)?;
        }
        self.add_missing_rest();
        Ok(())
    }

    /// Adds one event, if it is wanted. Events come in descending order.
    fn take(&mut self, event: LedgerEvent, commit: Option<Oid>) -> Scan {
        let query = self.query;
        if query.since.is_some_and(|since| event.at < since) {
            return Scan::Done;
        }
        self.below = event.seq;
        self.scans_left = self.scans_left.saturating_sub(1);
        if is_wanted(&event.event, query) {
            self.page.events.push(event);
        }
        if self.scans_left > 0 && self.page.events.len() < query.limit {
            return Scan::Continue;
        }
        if self.below > Seq(1) {
            self.page.next = Some(Cursor { below: self.below, commit });
        }
        Scan::Done
    }

    fn add_missing_rest(&mut self) {
        if self.below > Seq(1) && self.below < Seq(u64::MAX) {
            self.page.missing.push((Seq(1), Seq(self.below.0 - 1)));
        }
    }
}

fn is_wanted(event: &Event, query: &Query) -> bool {
    if matches!(event, Event::Counted { .. } | Event::Committed { .. }) {
        return false;
    }
    let of_reservation = query.reservation.is_none_or(|id| event.concerns(id) || matches!(event, Event::Left { .. }));
    let of_session = query.session.as_ref().is_none_or(|session| event.session() == Some(session));
    // Records have keys as they were written, so they are folded here.
    let overlaps = |key: &Key, wanted: &Key| match query.fold_case {
        true => key.folded(true).overlaps(wanted).is_some(),
        false => key.overlaps(wanted).is_some(),
    };
    of_session
        && of_reservation
        && query.key.as_ref().is_none_or(|wanted| event.keys().any(|key| overlaps(key, wanted)))
}
