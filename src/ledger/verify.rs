//! Going through a whole ledger: is every event there, and is every tree what they add up to?

use std::path::Path;

use super::holdings::Holdings;
use super::message::LedgerEvent;
use super::pack::{Kind, id_of};
use super::store::Commit;
use super::tree::Tree;
use super::tree_path::EVENTS;
use super::{LedgerError, LedgerReader};
use crate::engine::Seq;

/// A ledger in which everything is right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Commits, from the first there is.
    pub commits: u64,
    /// Events in them.
    pub events: u64,
    /// The last event.
    pub last: Seq,
    /// Events that nobody has any more, as the ledger itself says: the first and the last of each gap.
    pub gaps: Vec<(Seq, Seq)>,
    /// Reservations in its latest tree.
    pub held: usize,
}

/// Follows the ledger at `path` from its first commit: numbers without gaps that it does not tell of, trailers that say
/// what the events say, and each tree exactly what the one before and the events since make it.
pub fn verify(path: &Path) -> Result<VerifyReport, LedgerError> {
    let reading = LedgerReader::open(path)?;
    let mut chain = Vec::new();
    let mut next = reading.tip()?;
    while let Some(commit) = next {
        next = reading.before(&commit)?;
        chain.push(commit);
    }
    let mut found = VerifyReport::default();
    let mut state = State::default();
    for (n, commit) in chain.iter().rev().enumerate() {
        let damaged = |what: String| LedgerError::damaged(path, format!("commit {}: {what}", commit.id));
        let lines = reading.lines(commit)?;
        let years_are_gone = n == 0 && commit.before.is_some();
        let expected = match commit.trailers.gap {
            Some((first, last)) if first == found.last.next() => {
                found.gaps.push((first, last));
                last
            }
            Some(_) => return Err(damaged("the gap it tells of is another one".to_owned())),
            None if years_are_gone => {
                let last = Seq(lines.first().map_or(commit.trailers.seq.0, |line| line.seq.0 - 1));
                found.gaps.push((Seq(1), last));
                last
            }
            None => found.last,
        };
        numbers(commit, &lines, expected).map_err(damaged)?;
        if commit.trailers.restated || years_are_gone {
            state = State::of(reading.live(commit)?);
        } else {
            lines.iter().for_each(|line| state.follow(line));
        }
        state.tree.set(EVENTS.as_bytes(), reading.events_blob(commit));
        if state.tree.name() != commit.tree {
            return Err(damaged("its tree is not what its events add up to".to_owned()));
        }
        found.commits += 1;
        found.events += lines.len() as u64;
        found.last = commit.trailers.seq;
    }
    found.held = state.live.holdings().count();
    Ok(found)
}

#[derive(Default)]
struct State {
    live: Holdings,
    tree: Tree,
}

impl State {
    fn of(live: Holdings) -> State {
        let mut tree = Tree::default();
        for shelf in live.shelves() {
            tree.set(shelf, live.blob(shelf).map(|blob| id_of(Kind::Blob, &blob)));
        }
        State { live, tree }
    }

    fn follow(&mut self, line: &LedgerEvent) {
        if let Some(session) = line.event.session() {
            self.live.call(session, line.name.as_ref());
        }
        if let Some(shelf) = self.live.apply(&line.record()) {
            self.tree.set(&shelf, self.live.blob(&shelf).map(|blob| id_of(Kind::Blob, &blob)));
        }
    }
}

/// The events follow each other, and the message tells of the same.
fn numbers(commit: &Commit, lines: &[LedgerEvent], after: Seq) -> Result<(), String> {
    for (expected, line) in (after.0 + 1..).zip(lines) {
        if line.seq.0 != expected {
            return Err(format!("event #{expected} is missing; it has {} instead", line.seq));
        }
    }
    let last = lines.last().map_or(after, |line| line.seq);
    if commit.trailers.seq != last {
        return Err(format!("it says that it ends with {}, and it ends with {last}", commit.trailers.seq));
    }
    if !lines.iter().map(|line| line.seq).eq(commit.trailers.events.iter().copied()) {
        return Err("its message tells of other events than it has".to_owned());
    }
    Ok(())
}
