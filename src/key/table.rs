//! A pattern as a transition table: one row per state, one column per class of bytes.
//!
//! The table accepts exactly the matches of the pattern that git can have as names: no component is empty, `.` or `..`.
//! From every state other than [`DEAD`] a match can be reached, so a walk can stop at [`DEAD`]. [`super::build`] makes
//! tables.

/// No match can be reached from here.
pub(super) const DEAD: u16 = 0;
/// Every walk begins here, unless the pattern matches nothing at all.
pub(super) const FIRST: u16 = 1;

pub(super) struct Table {
    /// The column of each byte.
    pub(super) classes: [u8; 256],
    pub(super) columns: usize,
    /// All rows in sequence; the row of [`DEAD`] leads only to itself.
    pub(super) next: Box<[u16]>,
    /// For each state, whether a match may end there.
    pub(super) accepting: Box<[bool]>,
}

impl Table {
    /// The first state of a walk.
    pub(super) fn start(&self) -> u16 {
        if self.states() > 1 { FIRST } else { DEAD }
    }

    /// The state after `byte`.
    pub(super) fn next(&self, state: u16, byte: u8) -> u16 {
        self.next[usize::from(state) * self.columns + usize::from(self.classes[usize::from(byte)])]
    }

    /// The state after `bytes`.
    pub(super) fn walk(&self, mut state: u16, bytes: &[u8]) -> u16 {
        for &byte in bytes {
            if state == DEAD {
                break;
            }
            state = self.next(state, byte);
        }
        state
    }

    /// Whether a match may end here.
    pub(super) fn accepts(&self, state: u16) -> bool {
        self.accepting[usize::from(state)]
    }

    /// The number of states, [`DEAD`] included.
    pub(super) fn states(&self) -> usize {
        self.accepting.len()
    }

    /// The number of classes of bytes.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The number of transitions.
    pub(super) fn cells(&self) -> usize {
        self.next.len()
    }

    /// The class of a byte.
    pub(super) fn class(&self, byte: u8) -> usize {
        usize::from(self.classes[usize::from(byte)])
    }

    /// Its approximate size in memory.
    pub(super) fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.next.len() * 2 + self.accepting.len()
    }

    /// The longest text that every match begins with.
    pub(super) fn common_prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::new();
        let mut state = self.start();
        let bytes = self.one_byte_of_each_class();
        // A match can be reached from every state, so this ends where the shortest match ends, at the latest.
        while state != DEAD && !self.accepts(state) {
            let mut ways = bytes.iter().filter(|(_, class)| self.row(state)[*class] != DEAD);
            let (Some(&(Some(byte), class)), None) = (ways.next(), ways.next()) else { break };
            prefix.push(byte);
            state = self.row(state)[class];
        }
        prefix
    }

    /// The longest text that every match ends with, up to `max` bytes.
    pub(super) fn common_suffix(&self, max: usize) -> Vec<u8> {
        let bytes = self.one_byte_of_each_class();
        let mut suffix = Vec::new();
        // The states from which exactly the suffix found so far leads to an end.
        let mut ends = self.accepting.to_vec();
        while suffix.len() < max && !ends[usize::from(self.start())] {
            let mut before = vec![false; self.states()];
            let mut only = None;
            for state in 1..self.states() {
                for &(byte, class) in &bytes {
                    if !ends[usize::from(self.row(state as u16)[class])] {
                        continue;
                    }
                    // A class of several bytes, or a second class: here the suffixes of matches differ.
                    if byte.is_none() || only.is_some_and(|only| only != byte) {
                        suffix.reverse();
                        return suffix;
                    }
                    only = Some(byte);
                    before[state] = true;
                }
            }
            let Some(Some(byte)) = only else { break };
            suffix.push(byte);
            ends = before;
        }
        suffix.reverse();
        suffix
    }

    /// The number of states that can be reached in more than one way.
    pub(super) fn knots(&self) -> usize {
        // The other states form a tree from the start: exactly one byte of one state in the tree leads to each.
        let bytes = self.one_byte_of_each_class();
        let mut ways = vec![0u32; self.states()];
        for state in 1..self.states() {
            for &(byte, class) in &bytes {
                ways[usize::from(self.row(state as u16)[class])] += if byte.is_some() { 1 } else { 2 };
            }
        }
        let mut tree = 0;
        let mut open = vec![self.start()];
        while let Some(state) = open.pop().filter(|&state| state != DEAD) {
            tree += 1;
            open.extend(self.row(state).iter().copied().filter(|&next| next != DEAD && ways[usize::from(next)] == 1));
        }
        self.states() - 1 - tree
    }

    fn row(&self, state: u16) -> &[u16] {
        &self.next[usize::from(state) * self.columns..][..self.columns]
    }

    /// Each class with its byte, or with `None` if it has several.
    fn one_byte_of_each_class(&self) -> Vec<(Option<u8>, usize)> {
        let mut bytes = vec![(None, 0); self.columns];
        let mut seen = vec![false; self.columns];
        for byte in 0..=255u8 {
            let class = self.class(byte);
            bytes[class] = (if seen[class] { None } else { Some(byte) }, class);
            seen[class] = true;
        }
        bytes
    }
}
