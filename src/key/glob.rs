//! Compiled patterns: what they match, where they begin and end, and whether two of them meet.
//!
//! globset turns a pattern into a regular expression, [`Table`] makes an automaton of that, and from then on everything
//! is exact. The literal directory in front of a pattern is no part of the automaton: it is compared as text, and all
//! patterns that go on alike share one [`Program`], above all the many `dir/**`.

use std::fmt;
use std::sync::Arc;

use globset::GlobBuilder;

use super::build::{self, Limits, TooComplex};
use super::table::{DEAD, Table};
use super::{cache, overlap, pattern};

/// States the automaton of a new pattern may have.
pub const PATTERN_STATES_MAX: usize = 4_000;

/// What a new pattern may cost: tens of milliseconds to build or to compare with another, at the very worst. Ordinary
/// ones take a tenth of one to build and a few microseconds to compare.
pub(super) const NEW: Limits =
    Limits { states: PATTERN_STATES_MAX, knots: 512, dfa_bytes: 1 << 20, search_work: 2 << 20 };
/// What an old pattern out of a journal may cost: whatever can be built at all.
pub(super) const OLD: Limits = Limits { states: 60_000, knots: 60_000, dfa_bytes: 64 << 20, search_work: 1 << 30 };

/// As much of a common suffix as is worth comparing.
const SUFFIX_MAX_BYTES: usize = 32;

/// A compiled pattern.
pub struct Glob {
    /// What every match begins with: the literal directory, and what the program adds to it.
    prefix: Box<[u8]>,
    /// How much of `prefix` comes before the program.
    base_len: u32,
    /// How much of `prefix` is whole directories, without the slash at their end.
    anchor_len: u32,
    program: Arc<Program>,
}

/// Where a walk through a pattern stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobState(u32);

/// States from here on count the bytes of the literal directory that have been walked; those below are the table's.
const IN_BASE: u32 = 1 << 16;

impl Glob {
    /// Whether the path matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        let Some(rest) = path.strip_prefix(&*self.prefix) else { return false };
        path.ends_with(&self.program.suffix) && self.program.accepts_after_prefix(rest)
    }

    /// How many states its automaton has, which is what it costs.
    pub fn states(&self) -> usize {
        self.program.table.states()
    }

    /// The literal directory all matches lie under, without its trailing slash; empty where there is none.
    pub fn anchor(&self) -> &[u8] {
        &self.prefix[..self.anchor_len as usize]
    }

    /// Bytes every match ends with; a cheap way to say no.
    pub fn suffix(&self) -> &[u8] {
        &self.program.suffix
    }

    /// Whether every match lies under `path/`, so that the pattern can only mean it as a directory.
    pub fn claims_directory(&self, path: &[u8]) -> bool {
        self.prefix.strip_prefix(path).is_some_and(|rest| rest.first() == Some(&b'/'))
    }

    /// The beginning of a walk.
    pub fn start(&self) -> GlobState {
        if self.base_len == 0 || self.program.table.start() == DEAD { self.in_table() } else { GlobState(IN_BASE) }
    }

    /// Goes on over `bytes`; `None` when nothing that begins so can match.
    pub fn step(&self, state: GlobState, bytes: &[u8]) -> Option<GlobState> {
        if state.0 < IN_BASE {
            let state = self.program.table.walk(state.0 as u16, bytes);
            return if state == DEAD { None } else { Some(GlobState(state.into())) };
        }
        let left = &self.prefix[(state.0 - IN_BASE) as usize..self.base_len as usize];
        if bytes.len() < left.len() {
            return left.starts_with(bytes).then(|| GlobState(state.0 + bytes.len() as u32));
        }
        self.step(self.in_table(), bytes.strip_prefix(left)?)
    }

    /// Whether what was walked so far is a match.
    pub fn accepts(&self, state: GlobState) -> bool {
        state.0 < IN_BASE && self.program.table.accepts(state.0 as u16)
    }

    /// Whether some valid path matches both.
    pub fn meets(&self, other: &Glob) -> bool {
        self.example_with(other).is_some()
    }

    /// The shortest valid path that matches both.
    pub fn example_with(&self, other: &Glob) -> Option<Vec<u8>> {
        if !share_end(&self.program.suffix, &other.program.suffix) {
            return None;
        }
        // Whatever matches both begins with the longer prefix; the search goes on from there.
        let prefix = if self.prefix.len() < other.prefix.len() { &other.prefix } else { &self.prefix };
        let a = self.step(self.start(), prefix)?;
        let b = other.step(other.start(), prefix)?;
        overlap::shortest((&self.program.table, a.0 as u16), (&other.program.table, b.0 as u16), prefix)
    }

    /// The shortest valid path that matches, if there is any; only an old pattern out of a journal may have none.
    pub fn shortest_match(&self) -> Option<Vec<u8>> {
        let base = &self.prefix[..self.base_len as usize];
        self.program.shortest.as_ref().map(|rest| [base, rest].concat())
    }

    /// Whether some valid path matches.
    pub(super) fn matches_any(&self) -> bool {
        self.program.shortest.is_some()
    }

    /// Compiles a pattern in the form that is compared.
    pub(super) fn compile(pattern: &str, fold_case: bool, limits: Limits) -> Result<Glob, String> {
        let (base, rest) = pattern::split_directory(pattern);
        let program = cache::program(rest, fold_case, limits)?;
        let prefix = [base.as_bytes(), &program.prefix].concat();
        Ok(Glob {
            base_len: base.len() as u32,
            anchor_len: prefix.iter().rposition(|&b| b == b'/').unwrap_or(0) as u32,
            prefix: prefix.into(),
            program,
        })
    }

    fn in_table(&self) -> GlobState {
        GlobState(self.program.table.start().into())
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Glob")
            .field("prefix", &String::from_utf8_lossy(&self.prefix))
            .field("suffix", &String::from_utf8_lossy(&self.program.suffix))
            .field("states", &self.program.table.states())
            .field("knots", &self.program.table.knots())
            .finish()
    }
}

/// The part of a pattern that is more than text, and what follows from it.
pub(super) struct Program {
    table: Table,
    prefix: Box<[u8]>,
    /// Where the table stands after `prefix`.
    after_prefix: u16,
    suffix: Box<[u8]>,
    /// The shortest valid match.
    shortest: Option<Box<[u8]>>,
    built_within: Limits,
}

impl Program {
    pub(super) fn compile(pattern: &str, fold_case: bool, limits: Limits) -> Result<Program, String> {
        let parsed = GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(false)
            .case_insensitive(fold_case)
            .build()
            .map_err(|error| error.kind().to_string())?;
        let table = build::table(&parsed, fold_case, limits)
            .map_err(|TooComplex| "it is too complex; reserve several simpler patterns instead".to_owned())?;
        let prefix = table.common_prefix();
        let shortest = overlap::shortest((&table, table.start()), (&table, table.start()), b"");
        Ok(Program {
            after_prefix: table.walk(table.start(), &prefix),
            shortest: shortest.map(Vec::into_boxed_slice),
            built_within: limits,
            prefix: prefix.into(),
            suffix: table.common_suffix(SUFFIX_MAX_BYTES).into(),
            table,
        })
    }

    /// Whether building it with these limits is known to work.
    pub(super) fn fits(&self, limits: Limits) -> bool {
        self.built_within.search_work <= limits.search_work
    }

    /// What it takes in memory, roughly.
    pub(super) fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.table.size_bytes() + self.prefix.len() + self.suffix.len()
    }

    fn accepts_after_prefix(&self, rest: &[u8]) -> bool {
        self.table.accepts(self.table.walk(self.after_prefix, rest))
    }
}

fn share_end(a: &[u8], b: &[u8]) -> bool {
    a.ends_with(b) || b.ends_with(a)
}
