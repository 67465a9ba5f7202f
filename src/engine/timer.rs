//! What is due next. Moving a deadline costs nothing: an entry that comes up too early is put back by its owner.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ids::{Seq, Timestamp};

/// Deadlines of things in slots. The seq tells the thing that was meant from a later one in the same slot.
#[derive(Default)]
pub(super) struct Timer {
    heap: BinaryHeap<Reverse<(Timestamp, Seq, u32)>>,
}

impl Timer {
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn set(&mut self, due: Timestamp, seq: Seq, slot: u32) {
        self.heap.push(Reverse((due, seq, slot)));
    }

    /// The earliest deadline, which may turn out to have moved.
    pub fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes the earliest entry out if it is due.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Seq, u32)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, seq, slot))| (seq, slot))
    }

    /// Drops entries whose thing is gone.
    pub fn retain(&mut self, mut keep: impl FnMut(Seq, u32) -> bool) {
        self.heap.retain(|Reverse((_, seq, slot))| keep(*seq, *slot));
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
