//! Compiles a pattern into a [`Table`]: regex-automata builds an automaton, which is then restricted to names that git can
//! have. All within limits.

use std::collections::HashMap;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, MatchKind};

use super::table::{DEAD, FIRST, Table};

/// Limits for compiling a pattern, so that no pattern is slow.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// States in the finished table.
    pub states: usize,
    /// States in the finished table that can be reached in more than one way. Only their numbers multiply when two tables
    /// are compared; a long list of names only costs its length.
    pub knots: usize,
    /// The size of the intermediate automaton.
    pub dfa_bytes: usize,
    /// The memory for finding the states, times the number of different bytes in the pattern. The time is proportional to
    /// this product.
    pub search_work: usize,
}

/// The pattern exceeds its [`Limits`].
#[derive(Debug)]
pub(super) struct TooComplex;

/// The tables of a pattern.
pub(super) struct Tables {
    /// What the pattern matches.
    pub pattern: Table,
    /// The same and the pattern's own text, if the pattern does not match that anyway. It has at most one more state for
    /// each byte of the text.
    pub with_own_text: Option<Table>,
}

/// Builds the tables of a pattern from its regular expression over bytes, which is anchored at both ends. `own_text` is the
/// pattern read as a name.
/// `no_upper_case` means that the names it will be compared with have no upper-case letters, which makes it smaller.
pub(super) fn tables(
    pattern: &globset::Glob,
    own_text: &[u8],
    no_upper_case: bool,
    limits: Limits,
) -> Result<Tables, TooComplex> {
    let dfa = dense::Builder::new()
        .configure(
            dense::Config::new()
                .start_kind(StartKind::Anchored)
                .match_kind(MatchKind::All)
                .accelerate(false)
                .dfa_size_limit(Some(limits.dfa_bytes))
                .determinize_size_limit(Some(limits.search_work / distinct_bytes(pattern.glob()))),
        )
        .syntax(syntax::Config::new().utf8(false).dot_matches_new_line(true))
        .thompson(
            thompson::Config::new()
                .utf8(false)
                .nfa_size_limit(Some(limits.dfa_bytes))
                .which_captures(thompson::WhichCaptures::None),
        )
        .build(pattern.regex())
        .map_err(|_| TooComplex)?;
    let table = Raw::explore(&dfa, b"", no_upper_case, limits.states)?.trimmed();
    if table.knots() > limits.knots {
        return Err(TooComplex);
    }
    if !own_text.iter().any(|byte| matches!(byte, b'[' | b'{')) || table.accepts(table.walk(table.start(), own_text)) {
        return Ok(Tables { pattern: table, with_own_text: None });
    }
    let states = (limits.states + own_text.len()).min(STATES_MAX);
    let with_own_text = Raw::explore(&dfa, own_text, no_upper_case, states)?.trimmed();
    Ok(Tables { pattern: table, with_own_text: Some(with_own_text) })
}

/// The numbers of states fit into 16 bits.
const STATES_MAX: usize = 65_000;

/// The number of different bytes in the text, at least 16; below that, other costs dominate.
fn distinct_bytes(text: &str) -> usize {
    let mut used = [false; 256];
    text.bytes().for_each(|byte| used[usize::from(byte)] = true);
    used.iter().filter(|&&used| used).count().max(16)
}

/// What a component consists of so far. Keeps `.`, `..` and empty components out.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Component {
    Nothing,
    Dot,
    DotDot,
    Named,
}

impl Component {
    fn after(self, byte: u8) -> Option<Component> {
        match (self, byte) {
            (_, 0) => None,
            (Component::Named, b'/') => Some(Component::Nothing),
            (_, b'/') => None,
            (Component::Nothing, b'.') => Some(Component::Dot),
            (Component::Dot, b'.') => Some(Component::DotDot),
            _ => Some(Component::Named),
        }
    }
}

/// The automaton of regex-automata.
type Dfa = dense::DFA<Vec<u32>>;

/// A table before states that lead nowhere are removed.
struct Raw {
    classes: [u8; 256],
    columns: usize,
    next: Vec<u16>,
    accepting: Vec<bool>,
}

impl Raw {
    fn explore(dfa: &Dfa, own_text: &[u8], no_upper_case: bool, states_max: usize) -> Result<Raw, TooComplex> {
        let (classes, bytes) = classes(dfa, own_text, no_upper_case);
        let columns = bytes.len();
        let first = dfa.start_state(&start::Config::new().anchored(Anchored::Yes)).map_err(|_| TooComplex)?;
        let mut raw = Raw { classes, columns, next: vec![DEAD; columns], accepting: vec![false] };
        // The last number says how many bytes of `own_text` were walked, as long as there was no other.
        let mut ids: HashMap<(StateID, Component, Option<u32>), u16> = HashMap::new();
        let walked = if own_text.is_empty() { None } else { Some(0) };
        let mut found = vec![(first, Component::Nothing, walked)];
        ids.insert(found[0], FIRST);
        let mut at = 0;
        while let Some(&(state, component, walked)) = found.get(at) {
            at += 1;
            let is_own_text = walked.is_some_and(|walked| walked as usize == own_text.len());
            let is_match = || is_own_text || dfa.is_match_state(dfa.next_eoi_state(state));
            raw.accepting.push(component == Component::Named && is_match());
            for &byte in &bytes {
                let target = match component.after(byte) {
                    Some(component) if !(no_upper_case && byte.is_ascii_uppercase()) => {
                        let next = dfa.next_state(state, byte);
                        let walked = walked.filter(|walked| own_text.get(*walked as usize) == Some(&byte));
                        let walked = walked.map(|walked| walked + 1);
                        Some((next, component, walked)).filter(|_| walked.is_some() || !dfa.is_dead_state(next))
                    }
                    _ => None,
                };
                let Some(target) = target else {
                    raw.next.push(DEAD);
                    continue;
                };
                let new = found.len() + 1;
                let id = *ids.entry(target).or_insert(new as u16);
                if usize::from(id) == new {
                    if new > states_max {
                        return Err(TooComplex);
                    }
                    found.push(target);
                }
                raw.next.push(id);
            }
        }
        Ok(raw)
    }

    /// Removes the states from which no match can be reached, and merges equal columns.
    fn trimmed(self) -> Table {
        let states = self.accepting.len();
        let mut before: Vec<Vec<u16>> = vec![Vec::new(); states];
        for state in 1..states {
            for &next in &self.next[state * self.columns..][..self.columns] {
                before[usize::from(next)].push(state as u16);
            }
        }
        let mut alive = self.accepting.clone();
        let mut open: Vec<usize> = (0..states).filter(|&state| alive[state]).collect();
        while let Some(state) = open.pop() {
            for &earlier in &before[state] {
                if !std::mem::replace(&mut alive[usize::from(earlier)], true) {
                    open.push(usize::from(earlier));
                }
            }
        }
        // Keeps the order, so that the first state stays the first.
        let mut renamed = vec![DEAD; states];
        let kept: Vec<usize> = (1..states).filter(|&state| alive[state]).collect();
        for (index, &state) in kept.iter().enumerate() {
            renamed[state] = index as u16 + 1;
        }

        let column = |class: usize| -> Vec<u16> {
            kept.iter().map(|&state| renamed[usize::from(self.next[state * self.columns + class])]).collect()
        };
        let mut distinct: HashMap<Vec<u16>, u8> = HashMap::new();
        let mut columns: Vec<Vec<u16>> = Vec::new();
        let merged: Vec<u8> = (0..self.columns)
            .map(|class| {
                let column = column(class);
                *distinct.entry(column).or_insert_with_key(|column| {
                    columns.push(column.clone());
                    (columns.len() - 1) as u8
                })
            })
            .collect();
        let mut next = vec![DEAD; columns.len()];
        for row in 0..kept.len() {
            next.extend(columns.iter().map(|column| column[row]));
        }
        let mut accepting = vec![false];
        accepting.extend(kept.iter().map(|&state| self.accepting[state]));
        Table {
            classes: self.classes.map(|class| merged[usize::from(class)]),
            columns: columns.len(),
            next: next.into(),
            accepting: accepting.into(),
        }
    }
}

/// Classes of bytes that neither the automaton, nor `own_text`, nor [`Component`] distinguishes, and one byte of each
/// class.
fn classes(dfa: &Dfa, own_text: &[u8], no_upper_case: bool) -> ([u8; 256], Vec<u8>) {
    let mut classes = [0; 256];
    let mut bytes: Vec<u8> = Vec::new();
    let mut in_text = [false; 256];
    own_text.iter().for_each(|byte| in_text[usize::from(*byte)] = true);
    let mut seen: HashMap<(u8, u8, Option<u8>), u8> = HashMap::new();
    for byte in 0..=255u8 {
        let ours = match byte {
            b'/' => 1,
            b'.' => 2,
            0 => 3,
            b'A'..=b'Z' if no_upper_case => 3,
            _ => 0,
        };
        let alone = in_text[usize::from(byte)].then_some(byte);
        classes[usize::from(byte)] = *seen.entry((dfa.byte_classes().get(byte), ours, alone)).or_insert_with(|| {
            bytes.push(byte);
            (bytes.len() - 1) as u8
        });
    }
    (classes, bytes)
}
