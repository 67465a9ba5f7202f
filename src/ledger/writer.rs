//! Turns the journal's records into commits.
//!
//! A writer starts where `recover` says. Then each flush is one page of records, one commit and one pack. After any error
//! the writer is dropped and a new one recovers, so no code here repairs a half-done flush.

use std::path::Path;

use git2::Oid;

use super::LedgerError;
use super::holdings::{Holdings, Stamp, lines};
use super::message::{self, LedgerEvent, Trailers};
use super::pack::{ObjectKind, Pack, id_of};
use super::reader;
use super::recover::{StartPoint, recover};
use super::store::{BRANCH, Commit, LedgerStore};
use super::tree::Tree;
use super::tree_path::EVENTS;
use crate::engine::{Event, Seq, Timestamp};
use crate::journal::{JournalReader, RecordPage};

/// The most records in one commit; more would make a message that is hard to read. Where every commit writes much, because
/// a directory with very many entries changes, there may be more.
pub(super) const FLUSH_MAX: usize = 4096;
const LARGE_FLUSH_MAX: usize = 32_768;

/// A flush that writes more than this many bytes is large. But if its records have much text themselves, more of them would only
/// take more memory.
const LARGE_FLUSH_BYTES: usize = 4 << 20;
const LARGE_FLUSH_TEXT: usize = 2 << 20;

const AUTHOR: &str = "git-dibs <git-dibs@localhost>";

/// Writes one ledger.
pub struct Writer {
    store: LedgerStore,
    holdings: Holdings,
    tree: Tree,
    tip: Option<Commit>,
    /// The last record in `holdings`.
    seq: Seq,
    /// Records that the journal no longer has; the next commit says so.
    gap: Option<(Seq, Seq)>,
    /// The tree of the tip is not what `holdings` says, so the next commit writes the whole tree.
    rebuilt_tree: bool,
    /// The most records of the next flush.
    flush_max: usize,
}

impl Writer {
    /// Opens the ledger at `path`, or creates one, and recovers.
    pub fn open(path: &Path, journal: &mut dyn JournalReader) -> Result<Writer, LedgerError> {
        let store = LedgerStore::open(path)?;
        let tip = store.tip()?;
        let StartPoint { holdings, seq, gap } = recover(&store, tip.as_ref(), journal)?;
        let mut tree = Tree::default();
        for path in holdings.paths() {
            let blob = holdings.blob(path).expect("something is held there");
            tree.set(path, Some(id_of(ObjectKind::Blob, &blob)));
        }
        let is_current = match &tip {
            Some(tip) => {
                tree.set(EVENTS.as_bytes(), reader::events_blob(store.repo(), tip));
                tree.id() == tip.tree
            }
            None => holdings.paths().next().is_none(),
        };
        if !is_current {
            // It is not known which objects exist, so all are written again.
            tree = Tree::default();
            if gap.is_none() {
                tracing::warn!(ledger = %path.display(), %seq, "the ledger's tree does not match the journal; the next commit corrects it");
            }
        }
        Ok(Writer { store, holdings, tree, tip, seq, gap, rebuilt_tree: !is_current, flush_max: FLUSH_MAX })
    }

    /// The last record in the ledger.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The paths in the tree where something is held.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.holdings.paths()
    }

    pub fn store(&self) -> &LedgerStore {
        &self.store
    }

    /// Reads the next records and writes them as one commit, if there are any.
    pub fn flush(&mut self, journal: &mut dyn JournalReader) -> Result<FlushReport, LedgerError> {
        let page = self.read(journal)?;
        self.write(page)
    }

    /// Reads the next records for [`Writer::write`].
    pub fn read(&self, journal: &mut dyn JournalReader) -> Result<RecordPage, LedgerError> {
        let page = journal.read(self.seq, self.flush_max)?;
        if page.begins_late(self.seq) {
            return Err(LedgerError::RecordsDropped { after: self.seq });
        }
        Ok(page)
    }

    /// Writes these records as one commit, if there are any.
    pub fn write(&mut self, page: RecordPage) -> Result<FlushReport, LedgerError> {
        if page.records.is_empty() && !self.rebuilt_tree && self.gap.is_none() {
            return Ok(FlushReport::default());
        }
        let mut pack = Pack::new();
        let mut changed = Vec::new();
        if self.rebuilt_tree {
            changed.extend(self.holdings.paths().map(<[u8]>::to_vec));
        }
        let text: usize = page.records.iter().map(|record| record.event.text_bytes()).sum();
        let mut events = Vec::with_capacity(page.records.len());
        for record in page.records {
            // The session of a release may have ended before.
            let name = match &record.event {
                Event::Released { id, .. } => self.holdings.holder_name(*id).cloned(),
                _ => None,
            };
            changed.extend(self.holdings.apply(&record));
            let known = || record.event.session().and_then(|session| self.holdings.name(session)).cloned();
            let name = name.or_else(known);
            events.push(LedgerEvent::new(record, name));
        }
        changed.sort_unstable();
        changed.dedup();
        for path in &changed {
            let blob = self.holdings.blob(path).map(|blob| pack.add(ObjectKind::Blob, &blob));
            self.tree.set(path, blob);
        }
        self.tree.set(EVENTS.as_bytes(), Some(pack.add(ObjectKind::Blob, &lines(&events))));
        let tree = self.tree.write(&mut pack);

        let seq = events.last().map_or(self.seq, |event| event.seq);
        let seconds = self.seconds(&events);
        let last_year = self.tip.as_ref().filter(|tip| year(tip.seconds) < year(seconds)).cloned();
        let trailers = Trailers {
            seq,
            events: events.iter().map(|event| event.seq).collect(),
            gap: self.gap,
            rebuilt_tree: self.rebuilt_tree,
            previous: last_year.as_ref().map(|tip| tip.id),
        };
        let parent = self.tip.as_ref().map(|tip| tip.id).filter(|_| last_year.is_none());
        let body = body(tree, parent, seconds, &message::compose(&events, &trailers));
        let id = pack.add(ObjectKind::Commit, body.as_bytes());
        let packed = pack.finish();
        self.store.store(&packed)?;
        let bytes = packed.pack.len() + packed.index.len();
        drop(packed);
        if let Some(tip) = &last_year {
            self.archive(tip)?;
        }
        self.store.move_ref(BRANCH, self.tip.as_ref().map(|tip| tip.id), id)?;
        let before = parent.or(trailers.previous);
        let count = events.len();
        self.tip = Some(Commit { id, tree, before, seconds, trailers });
        (self.seq, self.gap, self.rebuilt_tree) = (seq, None, false);
        let more = count == self.flush_max;
        let takes_more = bytes > LARGE_FLUSH_BYTES && text < LARGE_FLUSH_TEXT;
        self.flush_max = if takes_more { LARGE_FLUSH_MAX } else { FLUSH_MAX };
        Ok(FlushReport { events: count, bytes, more })
    }

    /// Each year starts with a root commit, so that old years can be deleted. The old year gets a branch.
    fn archive(&self, tip: &Commit) -> Result<(), LedgerError> {
        let name = format!("{BRANCH}-{}", year(tip.seconds));
        match self.store.repo().refname_to_id(&name) {
            Ok(found) if found == tip.id => Ok(()),
            Ok(found) => self.store.move_ref(&name, Some(found), tip.id),
            Err(_) => self.store.move_ref(&name, None, tip.id),
        }
    }

    /// The time of the commit, by the journal's clock.
    fn seconds(&self, events: &[LedgerEvent]) -> i64 {
        let latest = match events.last() {
            Some(event) => Some(event.at),
            None => self.holdings.iter().filter_map(|held| held.since).map(|Stamp(at)| at).max(),
        };
        let own = latest.map_or(0, |Timestamp(ms)| ms.max(0) / 1000);
        own.max(self.tip.as_ref().map_or(0, |tip| tip.seconds))
    }
}

/// What a flush has written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FlushReport {
    /// The number of records in the commit.
    pub events: usize,
    /// The size of its pack.
    pub bytes: usize,
    /// The journal may have more records.
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
