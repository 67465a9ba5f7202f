//! From the journal's records to commits.
//!
//! A writer begins by finding out where the ledger stands and what was held there, from the journal wherever that can
//! tell. From then on each flush is one page of records, one commit, one pack. After any failure it is thrown away and
//! a new one begins, so nothing in here has to be put right by hand.

use std::path::Path;

use git2::Oid;

use super::LedgerError;
use super::holdings::{Holdings, Stamp, lines};
use super::message::{self, LedgerEvent, Trailers};
use super::pack::{Kind, Pack, id_of};
use super::reader;
use super::recover::{Base, recover};
use super::store::{BRANCH, Commit, Store};
use super::tree::Tree;
use super::tree_path::EVENTS;
use crate::engine::{Seq, Timestamp};
use crate::journal::JournalReader;

/// Records in one commit, at the most: a message people can still open.
pub(super) const FLUSH_MAX: usize = 4096;

/// Who commits.
const AUTHOR: &str = "git-dibs <git-dibs@localhost>";

/// Writes one ledger.
pub struct Writer {
    store: Store,
    live: Holdings,
    tree: Tree,
    tip: Option<Commit>,
    /// The last record that is part of `live`.
    seq: Seq,
    /// Records the journal does not have any more, to be told with the next commit.
    gap: Option<(Seq, Seq)>,
    /// The tree before is not what the next one builds on.
    restated: bool,
}

impl Writer {
    /// Opens the ledger at `path`, or makes one, and finds out where it stands.
    pub fn open(path: &Path, journal: &mut dyn JournalReader) -> Result<Writer, LedgerError> {
        let store = Store::open(path)?;
        let tip = store.tip()?;
        let Base { live, seq, gap } = recover(&store, tip.as_ref(), journal)?;
        let mut tree = Tree::default();
        for shelf in live.shelves() {
            let blob = live.blob(shelf).expect("something is held there");
            tree.set(shelf, Some(id_of(Kind::Blob, &blob)));
        }
        let stands = match &tip {
            Some(tip) => {
                tree.set(EVENTS.as_bytes(), reader::events_blob(store.repo(), tip));
                tree.name() == tip.tree
            }
            None => live.shelves().next().is_none(),
        };
        if !stands {
            // Nothing is known about which objects there are, so all are written again.
            tree = Tree::default();
            if gap.is_none() {
                tracing::warn!(ledger = %path.display(), %seq, "the ledger's tree is not what the journal adds up to; the next commit puts it right");
            }
        }
        Ok(Writer { store, live, tree, tip, seq, gap, restated: !stands })
    }

    /// The last record that is written.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Where something is held.
    pub fn shelves(&self) -> impl Iterator<Item = &[u8]> {
        self.live.shelves()
    }

    /// The directory it writes.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Writes the next records, if there are any. Answers how many; fewer than it could take means that those were all.
    pub fn flush(&mut self, journal: &mut dyn JournalReader) -> Result<FlushReport, LedgerError> {
        let page = journal.read(self.seq, FLUSH_MAX)?;
        if page.begins_late(self.seq) {
            return Err(LedgerError::RecordsDropped { after: self.seq });
        }
        if page.records.is_empty() && !self.restated && self.gap.is_none() {
            return Ok(FlushReport { events: 0, more: false });
        }
        let mut pack = Pack::new();
        let mut touched = Vec::new();
        if self.restated {
            touched.extend(self.live.shelves().map(<[u8]>::to_vec));
        }
        let mut events = Vec::with_capacity(page.records.len());
        for record in page.records {
            touched.extend(self.live.apply(&record));
            let name = record.event.session().and_then(|session| self.live.name(session)).cloned();
            events.push(LedgerEvent::new(record, name));
        }
        touched.sort_unstable();
        touched.dedup();
        for shelf in &touched {
            let blob = self.live.blob(shelf).map(|blob| pack.add(Kind::Blob, &blob));
            self.tree.set(shelf, blob);
        }
        self.tree.set(EVENTS.as_bytes(), Some(pack.add(Kind::Blob, &lines(&events))));
        let tree = self.tree.write(&mut pack);

        let seq = events.last().map_or(self.seq, |line| line.seq);
        let seconds = self.seconds(&events);
        let last_year = self.tip.as_ref().filter(|tip| year(tip.seconds) < year(seconds)).cloned();
        let trailers = Trailers {
            seq,
            events: events.iter().map(|line| line.seq).collect(),
            gap: self.gap,
            restated: self.restated,
            previous: last_year.as_ref().map(|tip| tip.id),
        };
        let parent = self.tip.as_ref().map(|tip| tip.id).filter(|_| last_year.is_none());
        let body = body(tree, parent, seconds, &message::compose(&events, &trailers));
        let id = pack.add(Kind::Commit, body.as_bytes());
        self.store.store(&pack.finish())?;
        if let Some(tip) = &last_year {
            self.archive(tip)?;
        }
        self.store.move_ref(BRANCH, self.tip.as_ref().map(|tip| tip.id), id)?;
        let before = parent.or(trailers.previous);
        let count = events.len();
        self.tip = Some(Commit { id, tree, before, seconds, trailers });
        (self.seq, self.gap, self.restated) = (seq, None, false);
        Ok(FlushReport { events: count, more: count == FLUSH_MAX })
    }

    /// Each year has a root of its own, so that old ones can be given away. The old year keeps a branch.
    fn archive(&self, tip: &Commit) -> Result<(), LedgerError> {
        let name = format!("{BRANCH}-{}", year(tip.seconds));
        match self.store.repo().refname_to_id(&name) {
            Ok(found) if found == tip.id => Ok(()),
            Ok(found) => self.store.move_ref(&name, Some(found), tip.id),
            Err(_) => self.store.move_ref(&name, None, tip.id),
        }
    }

    /// When the commit was made, by the journal's clock.
    fn seconds(&self, events: &[LedgerEvent]) -> i64 {
        let latest = match events.last() {
            Some(line) => Some(line.at),
            None => self.live.holdings().filter_map(|held| held.since).map(|Stamp(at)| at).max(),
        };
        let own = latest.map_or(0, |Timestamp(ms)| ms.max(0) / 1000);
        own.max(self.tip.as_ref().map_or(0, |tip| tip.seconds))
    }
}

/// What came of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushReport {
    /// Records in it.
    pub events: usize,
    /// There may be more.
    pub more: bool,
}

fn body(tree: Oid, parent: Option<Oid>, seconds: i64, message: &str) -> String {
    let parent = parent.map_or_else(String::new, |parent| format!("parent {parent}\n"));
    format!("tree {tree}\n{parent}author {AUTHOR} {seconds} +0000\ncommitter {AUTHOR} {seconds} +0000\n\n{message}")
}

fn year(seconds: i64) -> i16 {
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    moment.to_zoned(jiff::tz::TimeZone::UTC).year()
}
