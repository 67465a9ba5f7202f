//! Looking back, the latest first: in the journal as far as that goes, and in the ledger from there.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use git2::Oid;

use super::message::LedgerEvent;
use super::{LedgerError, LedgerReader};
use crate::engine::{Event, Seq, SessionId, Timestamp};
use crate::journal::JournalReader;
use crate::key::Key;

/// Events looked at for one page. A page may be short or empty because of it; its cursor says where to go on.
const LOOK_MAX: u64 = 50_000;

/// Records read from the journal at a time.
const STEP: u64 = 2_000;

/// The past of one repository.
pub struct HistoryReader {
    journal: Option<Mutex<Box<dyn JournalReader>>>,
    /// Where the ledger is, if one is written.
    ledger: Option<PathBuf>,
}

/// What somebody wants to know.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only what could be about this key: patterns that cover it too.
    pub key: Option<Key>,
    /// That key is compared without regard to case.
    pub fold_case: bool,
    /// Only what this session did.
    pub session: Option<SessionId>,
    /// Only what happened since.
    pub since: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on.
    pub cursor: Option<Cursor>,
}

/// Before which event to go on, and in which commit of the ledger, if it came that far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    below: Seq,
    commit: Option<Oid>,
}

/// Some events, the latest first.
#[derive(Debug, Default, PartialEq)]
pub struct EventPage {
    /// What was found. Names are only there where the ledger told.
    pub events: Vec<LedgerEvent>,
    /// Where to go on, if there may be more.
    pub next: Option<Cursor>,
    /// Events between these that nobody has any more, the first and the last of each.
    pub missing: Vec<(Seq, Seq)>,
}

impl Cursor {
    /// Reads what a cursor is written as.
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

/// A page that is being filled.
struct Search<'a> {
    query: &'a Query,
    told: EventPage,
    /// Everything from here on was looked at.
    below: Seq,
    left: u64,
}

impl HistoryReader {
    /// Of a server that runs.
    pub fn new(journal: Box<dyn JournalReader>, ledger: Option<PathBuf>) -> HistoryReader {
        HistoryReader { journal: Some(Mutex::new(journal)), ledger }
    }

    /// Of a ledger alone.
    pub fn of_ledger(path: PathBuf) -> HistoryReader {
        HistoryReader { journal: None, ledger: Some(path) }
    }

    /// One page.
    pub fn page(&self, query: &Query) -> Result<EventPage, LedgerError> {
        let below = query.cursor.map_or(Seq(u64::MAX), |cursor| cursor.below);
        let mut search = Search { query, told: EventPage::default(), below, left: LOOK_MAX };
        let commit = query.cursor.and_then(|cursor| cursor.commit);
        if let Some(journal) = self.journal.as_ref().filter(|_| commit.is_none()) {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            if search.in_journal(journal.as_mut())? == Went::Enough {
                return Ok(search.told);
            }
        }
        match &self.ledger {
            Some(_) if search.below <= Seq(1) => {}
            Some(path) => match LedgerReader::open(path) {
                Ok(reading) => search.in_ledger(&reading, commit)?,
                Err(LedgerError::Missing { .. }) if self.journal.is_some() => search.misses_the_rest(),
                Err(error) => return Err(error),
            },
            None => search.misses_the_rest(),
        }
        Ok(search.told)
    }
}

/// Whether a search goes on.
#[derive(Debug, PartialEq, Eq)]
enum Went {
    On,
    Enough,
}

impl Search<'_> {
    fn in_journal(&mut self, journal: &mut dyn JournalReader) -> Result<Went, LedgerError> {
        let head = journal.head()?;
        let oldest = journal.read(head, 1)?.oldest;
        self.below = self.below.min(head.next());
        while self.below > oldest {
            let from = oldest.0.max(self.below.0.saturating_sub(STEP));
            let count = self.below.0 - from;
            let page = journal.read(Seq(from.saturating_sub(1)), count as usize)?;
            let below = self.below;
            for record in page.records.into_iter().rev().filter(|record| record.seq < below) {
                if self.take(LedgerEvent::new(record, None), None) == Went::Enough {
                    return Ok(Went::Enough);
                }
            }
            // Where records were dropped meanwhile, the ledger has them.
            self.below = self.below.min(Seq(from));
        }
        Ok(Went::On)
    }

    fn in_ledger(&mut self, reading: &LedgerReader, commit: Option<Oid>) -> Result<(), LedgerError> {
        // The commit only saves the way from the tip. A ledger that was made anew meanwhile does not have it any more,
        // and somebody may have made it up; that says nothing about the ledger.
        let mut next = match commit.and_then(|id| reading.commit(id).ok()) {
            Some(commit) => Some(commit),
            None => reading.tip()?,
        };
        while let Some(commit) = next {
            let begins = commit.trailers.events.first().copied().unwrap_or(commit.trailers.seq.next());
            if begins < self.below {
                let below = self.below;
                for line in reading.lines(&commit)?.into_iter().rev().filter(|line| line.seq < below) {
                    if self.take(line, Some(commit.id)) == Went::Enough {
                        return Ok(());
                    }
                }
            }
            if let Some((first, last)) = commit.trailers.gap
                && first < self.below
            {
                self.told.missing.push((first, last));
                self.below = first;
            }
            next = reading.before(&commit)?;
        }
        self.misses_the_rest();
        Ok(())
    }

    /// Looks at one event, the one before the last.
    fn take(&mut self, line: LedgerEvent, commit: Option<Oid>) -> Went {
        let query = self.query;
        if query.since.is_some_and(|since| line.at < since) {
            return Went::Enough;
        }
        self.below = line.seq;
        self.left = self.left.saturating_sub(1);
        if is_wanted(&line.event, query) {
            self.told.events.push(line);
        }
        if self.left > 0 && self.told.events.len() < query.limit {
            return Went::On;
        }
        if self.below > Seq(1) {
            self.told.next = Some(Cursor { below: self.below, commit });
        }
        Went::Enough
    }

    fn misses_the_rest(&mut self) {
        if self.below > Seq(1) && self.below < Seq(u64::MAX) {
            self.told.missing.push((Seq(1), Seq(self.below.0 - 1)));
        }
    }
}

fn is_wanted(event: &Event, query: &Query) -> bool {
    if matches!(event, Event::Counted { .. }) {
        return false;
    }
    let by = query.session.as_ref().is_none_or(|session| event.session() == Some(session));
    // Records keep keys as they were written; how they are compared is the repository's business.
    let meets = |key: &Key, wanted: &Key| match query.fold_case {
        true => key.folded(true).overlaps(wanted).is_some(),
        false => key.overlaps(wanted).is_some(),
    };
    by && query.key.as_ref().is_none_or(|wanted| event.keys().any(|key| meets(key, wanted)))
}
