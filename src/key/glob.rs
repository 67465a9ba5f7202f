//! Compiled patterns: what they match, their common prefix and suffix, and whether two of them overlap.
//!
//! globset turns a pattern into a regular expression, and `build` turns that into a [`Table`], which gives exact answers.
//! The literal directory at the start of a pattern is not part of the table: it is compared as text, and all patterns with
//! the same rest share one [`Program`], in particular the many `dir/**`.
//!
//! A pattern also matches its own text: `app/[id]/page.tsx` is a file name to most callers, and protects that file.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use globset::GlobBuilder;

use super::build::{self, Limits, Tables, TooComplex};
use super::meeting::{self, Meeting, Pair};
use super::overlap::{self, Name};
use super::table::{DEAD, Table};
use super::text::compared;
use super::{cache, pattern};

/// The most states that a new pattern may have.
pub const PATTERN_STATES_MAX: usize = 4_000;

/// Limits of a new pattern: at worst, about ten milliseconds to build it or to compare it with another. Ordinary patterns
/// take a tenth of a millisecond to build and a few microseconds to compare.
pub(super) const NEW: Limits =
    Limits { states: PATTERN_STATES_MAX, knots: 256, dfa_bytes: 1 << 20, search_work: 2 << 20 };
/// Limits of a pattern from a journal: whatever can be built at all.
pub(super) const OLD: Limits = Limits { states: 60_000, knots: 60_000, dfa_bytes: 64 << 20, search_work: 1 << 30 };

/// The work of building a table, for each of its cells. It is the largest ratio that was measured.
const BUILD_WORK_PER_CELL: u64 = 64;

/// The next [`Program::id`].
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The longest common suffix that is worth comparing.
const SUFFIX_MAX_BYTES: usize = 32;

/// A compiled pattern.
pub struct Glob {
    /// What every match begins with: the literal directory, then the program's own prefix.
    prefix: Box<[u8]>,
    /// The length of the literal directory in `prefix`.
    base_len: u32,
    /// The length of the whole directories in `prefix`, without their trailing slash.
    anchor_len: u32,
    program: Arc<Program>,
    /// For a pattern that matches its own text beside what it stands for.
    readings: Option<Box<Readings>>,
}

/// What the two readings of a pattern need to be directories.
struct Readings {
    /// What every match of the pattern begins with, without its own text.
    prefix: Box<[u8]>,
    /// The pattern as a name.
    own_text: Box<[u8]>,
}

/// The state of a walk through a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobState(u32);

/// States from here on count the bytes of the literal directory that were walked; smaller ones are states of the table.
const IN_BASE: u32 = 1 << 16;

impl Glob {
    pub fn matches(&self, path: &[u8]) -> bool {
        let Some(rest) = path.strip_prefix(&*self.prefix) else { return false };
        path.ends_with(&self.program.suffix) && self.program.accepts_after_prefix(rest)
    }

    /// The number of states, which determines its cost.
    pub fn states(&self) -> usize {
        self.program.table.states()
    }

    /// The literal directory that contains all matches, without its trailing slash; empty if there is none.
    pub fn anchor(&self) -> &[u8] {
        &self.prefix[..self.anchor_len as usize]
    }

    /// The bytes that every match ends with, for a cheap first check.
    pub fn suffix(&self) -> &[u8] {
        &self.program.suffix
    }

    /// Whether every match is below `path/`, or the pattern read as a name is: then it needs `path` to be a directory.
    pub fn claims_directory(&self, path: &[u8]) -> bool {
        is_under(&self.prefix, path)
            || self
                .readings
                .as_ref()
                .is_some_and(|readings| is_under(&readings.prefix, path) || is_under(&readings.own_text, path))
    }

    /// A match below `path/`, where the pattern needs that to be a directory.
    pub(super) fn match_below(&self, path: &[u8]) -> Option<Vec<u8>> {
        match &self.readings {
            Some(readings) if !is_under(&readings.prefix, path) => Some(readings.own_text.to_vec()),
            _ => self.shortest_match(),
        }
    }

    /// The first state of a walk.
    pub fn start(&self) -> GlobState {
        if self.base_len == 0 || self.program.table.start() == DEAD { self.in_table() } else { GlobState(IN_BASE) }
    }

    /// Continues a walk over `bytes`. `None` if no match begins with the bytes walked so far.
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

    /// Whether the bytes walked so far are a match.
    pub fn accepts(&self, state: GlobState) -> bool {
        state.0 < IN_BASE && self.program.table.accepts(state.0 as u16)
    }

    /// Whether some valid path matches both.
    pub fn meets(&self, other: &Glob) -> bool {
        self.known_meeting(other).unwrap_or_else(|| self.example_with(other).is_some())
    }

    /// Whether some valid path matches both, if that is obvious or was found out before.
    pub fn known_meeting(&self, other: &Glob) -> Option<bool> {
        match self.begin_with(other) {
            None => Some(false),
            Some(begun) => meeting::meets(&begun.pair),
        }
    }

    /// Finds out whether some valid path matches both, and remembers it. Also returns how much work that was; see
    /// [`Glob::comparison_work_max`].
    pub fn compare(&self, other: &Glob) -> (bool, u64) {
        let Some(begun) = self.begin_with(other) else { return (false, 1) };
        if let Some(meets) = meeting::meets(&begun.pair) {
            return (meets, 1);
        }
        let search = self.search(other, &begun);
        (search.path.is_some(), search.work)
    }

    /// The most work that comparing the two may take, in steps of some nanoseconds.
    pub fn comparison_work_max(&self, other: &Glob) -> u64 {
        // States that can be reached in only one way do not multiply.
        let (a, b) = (&*self.program, &*other.program);
        let pairs = a.table.states() + b.table.states() + a.knots * b.knots;
        let bytes = a.table.columns() + b.table.columns();
        (pairs * bytes) as u64
    }

    /// The shortest valid path that matches both.
    pub fn example_with(&self, other: &Glob) -> Option<Vec<u8>> {
        let begun = self.begin_with(other)?;
        match meeting::find(&begun.pair) {
            Some(Meeting::Never) => None,
            Some(Meeting::Meet(rest)) => Some([begun.prefix, &rest].concat()),
            None => self.search(other, &begun).path,
        }
    }

    /// Begins a comparison. `None` if it is obvious that no path matches both.
    fn begin_with<'a>(&'a self, other: &'a Glob) -> Option<Begun<'a>> {
        if !share_end(&self.program.suffix, &other.program.suffix) {
            return None;
        }
        // A common match begins with the longer prefix, so the search starts there.
        let prefix = if self.prefix.len() < other.prefix.len() { &other.prefix } else { &self.prefix };
        let a = self.step(self.start(), prefix)?.0 as u16;
        let b = other.step(other.start(), prefix)?.0 as u16;
        let name = Name::of(prefix)?;
        let pair = Pair::of((self.program.id, a), (other.program.id, b), name as u8);
        Some(Begun { prefix, a, b, pair })
    }

    fn search(&self, other: &Glob, begun: &Begun<'_>) -> overlap::Search {
        let Begun { prefix, a, b, pair } = *begun;
        let search = overlap::shortest((&self.program.table, a), (&other.program.table, b), prefix);
        meeting::keep(pair, search.path.as_ref().map(|path| &path[prefix.len()..]));
        search
    }

    /// The work of building the pattern, in the same unit as [`Glob::comparison_work_max`].
    pub fn build_work(&self) -> u64 {
        self.program.table.cells() as u64 * BUILD_WORK_PER_CELL
    }

    /// The approximate memory that the pattern takes beside its text.
    pub fn size_bytes(&self) -> usize {
        self.program.size_bytes()
    }

    /// The shortest valid path that matches. Only an old pattern from a journal may have none.
    pub fn shortest_match(&self) -> Option<Vec<u8>> {
        let base = &self.prefix[..self.base_len as usize];
        self.program.shortest.as_ref().map(|rest| [base, rest].concat())
    }

    /// Whether some valid path matches, other than the pattern's own text.
    pub(super) fn matches_others(&self) -> bool {
        self.program.matches_others
    }

    /// Compiles a pattern, given in the form that is compared.
    pub(super) fn compile(pattern: &str, fold_case: bool, limits: Limits) -> Result<Glob, String> {
        let (base, rest) = pattern::split_directory(pattern);
        let program = cache::program(rest, fold_case, limits)?;
        let prefix = [base.as_bytes(), &program.prefix].concat();
        let below_base = |text: &[u8]| [base.as_bytes(), text].concat().into_boxed_slice();
        let readings = program.readings.as_ref().map(|readings| {
            let Readings { prefix, own_text } = readings;
            Box::new(Readings { prefix: below_base(prefix), own_text: below_base(own_text) })
        });
        Ok(Glob {
            readings,
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

/// The beginning of a comparison.
struct Begun<'a> {
    /// What a path that matches both begins with.
    prefix: &'a [u8],
    /// The states of both after it.
    a: u16,
    b: u16,
    pair: Pair,
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Glob")
            .field("prefix", &String::from_utf8_lossy(&self.prefix))
            .field("suffix", &String::from_utf8_lossy(&self.program.suffix))
            .field("states", &self.program.table.states())
            .field("knots", &self.program.knots)
            .finish()
    }
}

/// The compiled part of a pattern, after its literal directory.
pub(super) struct Program {
    /// Of all programs of this process.
    id: u64,
    table: Table,
    /// States that can be reached in more than one way.
    knots: usize,
    prefix: Box<[u8]>,
    /// The state of the table after `prefix`.
    after_prefix: u16,
    suffix: Box<[u8]>,
    /// The shortest valid match, if there is one.
    shortest: Option<Box<[u8]>>,
    /// It matches a valid path other than its own text.
    matches_others: bool,
    /// Without the literal directory.
    readings: Option<Readings>,
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
        let own_text = compared(pattern.as_bytes(), fold_case);
        let own_text = own_text.as_deref().unwrap_or(pattern.as_bytes());
        let Tables { pattern: alone, with_own_text } = build::tables(&parsed, own_text, fold_case, limits)
            .map_err(|TooComplex| "it is too complex; reserve several simpler patterns instead".to_owned())?;
        let shortest = |table: &Table| overlap::shortest((table, table.start()), (table, table.start()), b"").path;
        let found = shortest(&alone);
        let matches_others = found.is_some();
        let (table, shortest, readings) = match with_own_text {
            None => (alone, found, None),
            Some(table) => {
                // Its own text is longer than every shortest match: brackets and braces stand for less than they take.
                let shortest = found.or_else(|| shortest(&table));
                let readings = Readings { prefix: alone.common_prefix().into(), own_text: own_text.into() };
                (table, shortest, Some(readings))
            }
        };
        let prefix = table.common_prefix();
        Ok(Program {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            knots: table.knots(),
            matches_others,
            readings,
            after_prefix: table.walk(table.start(), &prefix),
            shortest: shortest.map(Vec::into_boxed_slice),
            built_within: limits,
            prefix: prefix.into(),
            suffix: table.common_suffix(SUFFIX_MAX_BYTES).into(),
            table,
        })
    }

    /// Whether it is known to be within these limits.
    pub(super) fn fits(&self, limits: Limits) -> bool {
        self.built_within.search_work <= limits.search_work
    }

    /// Its approximate size in memory.
    pub(super) fn size_bytes(&self) -> usize {
        let readings = self.readings.as_ref().map_or(0, |readings| readings.prefix.len() + readings.own_text.len());
        size_of::<Self>() + self.table.size_bytes() + self.prefix.len() + self.suffix.len() + readings
    }

    fn accepts_after_prefix(&self, rest: &[u8]) -> bool {
        self.table.accepts(self.table.walk(self.after_prefix, rest))
    }
}

/// Whether a text is below `path/`.
fn is_under(text: &[u8], path: &[u8]) -> bool {
    text.strip_prefix(path).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn share_end(a: &[u8], b: &[u8]) -> bool {
    a.ends_with(b) || b.ends_with(a)
}
