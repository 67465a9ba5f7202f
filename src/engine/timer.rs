//! Deadlines. Moving one costs nothing: an entry that comes up too early is put back by its owner.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ids::Seq;
use super::listening::ListeningTime;

/// Deadlines of values in slots. The seq tells the value that was meant from a later one in the same slot.
pub(super) struct Timer<S> {
    heap: BinaryHeap<Reverse<(ListeningTime, Seq, S)>>,
}

impl<S: Copy + Ord> Default for Timer<S> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new() }
    }
}

impl<S: Copy + Ord> Timer<S> {
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn set(&mut self, due: ListeningTime, seq: Seq, slot: S) {
        self.heap.push(Reverse((due, seq, slot)));
    }

    /// The earliest deadline, which may turn out to have moved.
    pub fn next(&self) -> Option<ListeningTime> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes the earliest entry out if it is due.
    pub fn pop_due(&mut self, now: ListeningTime) -> Option<(Seq, S)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, seq, slot))| (seq, slot))
    }

    /// Drops the entries for which `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(Seq, S) -> bool) {
        self.heap.retain(|Reverse((_, seq, slot))| keep(*seq, *slot));
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
