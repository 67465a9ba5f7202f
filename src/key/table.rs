//! A pattern as a table: one row per state, one column per class of bytes.
//!
//! The table accepts exactly the names git can have that the pattern matches: components are not empty and neither
//! `.` nor `..`. From every state in it some such name can still be reached, so "nothing that begins so can match" is
//! the state [`DEAD`] and nothing else. [`super::build`] makes them.

/// Nothing can match from here on.
pub(super) const DEAD: u16 = 0;
/// Every walk begins here, unless the pattern matches nothing at all.
pub(super) const FIRST: u16 = 1;

/// See the top of this file.
pub(super) struct Table {
    /// The column of each byte.
    pub(super) classes: [u8; 256],
    pub(super) columns: usize,
    /// Row after row; the row of [`DEAD`] leads only to itself.
    pub(super) next: Box<[u16]>,
    /// By state.
    pub(super) accepting: Box<[bool]>,
}

impl Table {
    /// The state a walk begins in.
    pub(super) fn start(&self) -> u16 {
        if self.states() > 1 { FIRST } else { DEAD }
    }

    /// Where `byte` leads.
    pub(super) fn next(&self, state: u16, byte: u8) -> u16 {
        self.next[usize::from(state) * self.columns + usize::from(self.classes[usize::from(byte)])]
    }

    /// Where a whole text leads.
    pub(super) fn walk(&self, mut state: u16, bytes: &[u8]) -> u16 {
        for &byte in bytes {
            if state == DEAD {
                break;
            }
            state = self.next(state, byte);
        }
        state
    }

    /// Whether a name may end here.
    pub(super) fn accepts(&self, state: u16) -> bool {
        self.accepting[usize::from(state)]
    }

    /// How many states there are, [`DEAD`] included.
    pub(super) fn states(&self) -> usize {
        self.accepting.len()
    }

    /// How many classes of bytes there are.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The class of a byte.
    pub(super) fn class(&self, byte: u8) -> usize {
        usize::from(self.classes[usize::from(byte)])
    }

    /// What it takes in memory, roughly.
    pub(super) fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.next.len() * 2 + self.accepting.len()
    }

    /// The longest text every match begins with.
    pub(super) fn common_prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::new();
        let mut state = self.start();
        let bytes = self.one_byte_of_each_class();
        // Some match lies ahead of every state, so this ends where the first of them ends, at the latest.
        while state != DEAD && !self.accepts(state) {
            let mut ways = bytes.iter().filter(|(_, class)| self.row(state)[*class] != DEAD);
            let (Some(&(Some(byte), class)), None) = (ways.next(), ways.next()) else { break };
            prefix.push(byte);
            state = self.row(state)[class];
        }
        prefix
    }

    /// The longest text every match ends with, up to `max` bytes.
    pub(super) fn common_suffix(&self, max: usize) -> Vec<u8> {
        let bytes = self.one_byte_of_each_class();
        let mut suffix = Vec::new();
        // The states from which exactly the suffix found so far is left to go.
        let mut ends = self.accepting.to_vec();
        while suffix.len() < max && !ends[usize::from(self.start())] {
            let mut before = vec![false; self.states()];
            let mut only = None;
            for state in 1..self.states() {
                for &(byte, class) in &bytes {
                    if !ends[usize::from(self.row(state as u16)[class])] {
                        continue;
                    }
                    // A class of several bytes, or a second class: the suffix is not the same for all matches.
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

    /// How many states can be reached in more than one way.
    pub(super) fn knots(&self) -> usize {
        // From the start on, a state is in the tree while one byte of one state in the tree is all that leads to it.
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

    /// Each class with its byte, or with `None` where it has several.
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
