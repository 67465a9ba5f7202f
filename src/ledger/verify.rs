//! Checks a whole ledger: every event is there, and every tree matches the events.

use std::path::Path;

use super::holdings::Holdings;
use super::message::LedgerEvent;
use super::pack::{ObjectKind, id_of};
use super::store::Commit;
use super::tree::Tree;
use super::tree_path::EVENTS;
use super::{LedgerError, LedgerReader};
use crate::engine::Seq;

/// What [`verify`] found in an intact ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub commits: u64,
    pub events: u64,
    /// The last event.
    pub last: Seq,
    /// The events that the ledger says are missing: the first and the last of each gap.
    pub gaps: Vec<(Seq, Seq)>,
    /// The number of reservations in the latest tree.
    pub held: usize,
}

/// Checks the ledger at `path` from its first commit: event numbers have no undeclared gaps, trailers match the events,
/// and each tree is exactly what the tree before and the events of the commit make it.
pub fn verify(path: &Path) -> Result<VerifyReport, LedgerError> {
    let reader = LedgerReader::open(path)?;
    let mut chain = Vec::new();
    let mut next = reader.tip()?;
    while let Some(commit) = next {
        next = reader.before(&commit)?;
        chain.push(commit);
    }
    let mut report = VerifyReport::default();
    let mut state = State::default();
    for (n, commit) in chain.iter().rev().enumerate() {
        let damaged = |what: String| LedgerError::damaged(path, format!("commit {}: {what}", commit.id));
        let events = reader.events(commit)?;
        let year_before_is_deleted = n == 0 && commit.before.is_some();
        let expected = match commit.trailers.gap {
            Some((first, last)) if first == report.last.next() => {
                report.gaps.push((first, last));
                last
            }
            Some(_) => {
                return Err(damaged(
                    "the missing events it declares do not match the events that are missing".to_owned(),
                ));
            }
            None if year_before_is_deleted => {
                let last = Seq(events.first().map_or(commit.trailers.seq.0, |event| event.seq.0 - 1));
                report.gaps.push((Seq(1), last));
                last
            }
            None => report.last,
        };
        check_numbers(commit, &events, expected).map_err(damaged)?;
        if commit.trailers.rebuilt_tree || year_before_is_deleted {
            state = State::of(reader.holdings(commit)?);
        } else {
            events.iter().for_each(|event| state.apply(event));
        }
        state.tree.set(EVENTS.as_bytes(), reader.events_blob(commit));
        if state.tree.id() != commit.tree {
            return Err(damaged("its tree does not match its events".to_owned()));
        }
        report.commits += 1;
        report.events += events.len() as u64;
        report.last = commit.trailers.seq;
    }
    report.held = state.holdings.iter().count();
    Ok(report)
}

#[derive(Default)]
struct State {
    holdings: Holdings,
    tree: Tree,
}

impl State {
    fn of(holdings: Holdings) -> State {
        let mut tree = Tree::default();
        for path in holdings.paths() {
            tree.set(path, holdings.blob(path).map(|blob| id_of(ObjectKind::Blob, &blob)));
        }
        State { holdings, tree }
    }

    fn apply(&mut self, event: &LedgerEvent) {
        if let Some(session) = event.event.session() {
            self.holdings.set_name(session, event.name.as_ref());
        }
        if let Some(path) = self.holdings.apply(&event.record()) {
            self.tree.set(&path, self.holdings.blob(&path).map(|blob| id_of(ObjectKind::Blob, &blob)));
        }
    }
}

/// The events are numbered without gaps, and the message lists the same events.
fn check_numbers(commit: &Commit, events: &[LedgerEvent], after: Seq) -> Result<(), String> {
    let mut last = after;
    for event in events {
        if !event.event.follows(event.seq, last) {
            return Err(format!("expected event {}, found {}", last.next(), event.seq));
        }
        last = event.seq;
    }
    if commit.trailers.seq != last {
        return Err(format!("its message says that it ends with {}, but it ends with {last}", commit.trailers.seq));
    }
    if !events.iter().map(|event| event.seq).eq(commit.trailers.events.iter().copied()) {
        return Err("its message and its events differ".to_owned());
    }
    Ok(())
}
