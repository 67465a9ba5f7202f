//! Overlap of two patterns: the search for the shortest path that two tables both accept.

use hashbrown::HashSet;

use super::table::{DEAD, Table};

/// The largest set of pairs that is kept as bits, in words of 64. A larger one would cost more to clear than most searches
/// visit of it.
const BITS_MAX_WORDS: usize = 1 << 12;

/// The result of a search.
pub(super) struct Search {
    /// The shortest path, if there is one.
    pub path: Option<Vec<u8>>,
    /// How many steps the search took, each of them some nanoseconds.
    pub work: u64,
}

/// The shortest path that begins with `prefix`, is accepted by both tables and is a valid key; of several, the most
/// readable one. Each table comes with its state after `prefix`.
///
/// A breadth-first search through pairs of states, together with how much of `.git` the component is so far: `.git` is
/// refused by [`super::path`]. Both tables already exclude empty components, `.` and `..`.
pub(super) fn shortest((a, in_a): (&Table, u16), (b, in_b): (&Table, u16), prefix: &[u8]) -> Search {
    let Some(name) = Name::of(prefix) else { return Search { path: None, work: 0 } };
    let mut reached = Reached::new(a, b);
    let mut steps = vec![Step { a: in_a, b: in_b, name, byte: 0, from: 0 }];
    let bytes = telling_bytes(a, b);
    let mut at = 0;
    while let Some(&Step { a: in_a, b: in_b, name, .. }) = steps.get(at) {
        if name != Name::DotGit && a.accepts(in_a) && b.accepts(in_b) {
            let path = Some(walked(prefix, &steps[..=at]));
            return Search { path, work: work(at + 1, &bytes) };
        }
        for &byte in &bytes {
            let (next_a, next_b) = (a.next(in_a, byte), b.next(in_b, byte));
            if next_a == DEAD || next_b == DEAD {
                continue;
            }
            let Some(name) = name.after(byte) else { continue };
            if reached.insert(next_a, next_b, name) {
                steps.push(Step { a: next_a, b: next_b, name, byte, from: at as u32 });
            }
        }
        at += 1;
    }
    Search { path: None, work: work(at, &bytes) }
}

/// The work of a search that visited so many pairs of states. Its beginning takes as long as a few hundred steps.
fn work(visited: usize, bytes: &[u8]) -> u64 {
    256 + visited as u64 * (bytes.len() as u64 + 4)
}

/// One step of the search, and the step it came from.
struct Step {
    a: u16,
    b: u16,
    name: Name,
    byte: u8,
    from: u32,
}

/// The prefix, and the bytes that led to the last step.
fn walked(prefix: &[u8], steps: &[Step]) -> Vec<u8> {
    let mut path = Vec::new();
    let mut at = steps.len() - 1;
    while at != 0 {
        path.push(steps[at].byte);
        at = steps[at].from as usize;
    }
    path.extend(prefix.iter().rev());
    path.reverse();
    path
}

/// How much of `.git` the component is so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Begins,
    Dot,
    DotG,
    DotGi,
    DotGit,
    Other,
}

impl Name {
    const COUNT: usize = 6;

    /// After this text; none if `.git` is one of its directories.
    pub(super) fn of(text: &[u8]) -> Option<Name> {
        text.iter().try_fold(Name::Begins, |name, &byte| name.after(byte))
    }

    fn after(self, byte: u8) -> Option<Name> {
        Some(match (self, byte) {
            (Name::DotGit, b'/') => return None,
            (_, b'/') => Name::Begins,
            (Name::Begins, b'.') => Name::Dot,
            (Name::Dot, b'g' | b'G') => Name::DotG,
            (Name::DotG, b'i' | b'I') => Name::DotGi,
            (Name::DotGi, b't' | b'T') => Name::DotGit,
            _ => Name::Other,
        })
    }
}

/// The bytes of a path in the order of preference for an example. The slash comes late, because a path with fewer
/// directories is easier to read. Bytes that keys cannot have (control bytes, the backslash) are left out.
fn readable_bytes() -> impl Iterator<Item = u8> {
    let rest = (b'!'..=b'~').filter(|b| !b.is_ascii_alphanumeric() && !b"_-./\\".contains(b));
    (b'a'..=b'z')
        .chain(b'0'..=b'9')
        .chain(*b"_-.")
        .chain(b'A'..=b'Z')
        .chain(*b"/")
        .chain(rest)
        .chain(*b" ")
        .chain(0x80..=0xff)
}

/// For each combination of byte classes of both tables and [`Name`], the most readable byte.
fn telling_bytes(a: &Table, b: &Table) -> Vec<u8> {
    let kinds_of_name = 5;
    let mut seen = vec![false; a.columns() * b.columns() * kinds_of_name];
    readable_bytes()
        .filter(|&byte| {
            // A slash needs no kind of its own: both tables have a class for it.
            let kind = match byte {
                b'.' => 1,
                b'g' | b'G' => 2,
                b'i' | b'I' => 3,
                b't' | b'T' => 4,
                _ => 0,
            };
            let index = (a.class(byte) * b.columns() + b.class(byte)) * kinds_of_name + kind;
            !std::mem::replace(&mut seen[index], true)
        })
        .collect()
}

/// The pairs that were reached: one bit for each where the tables are small, otherwise a set.
enum Reached {
    Bits { bits: Vec<u64>, states_b: usize },
    Set(HashSet<(u16, u16, Name)>),
}

impl Reached {
    fn new(a: &Table, b: &Table) -> Reached {
        let words = (a.states() * b.states() * Name::COUNT).div_ceil(64);
        if words > BITS_MAX_WORDS {
            return Reached::Set(HashSet::new());
        }
        Reached::Bits { bits: vec![0; words], states_b: b.states() }
    }

    /// Whether the pair is new.
    fn insert(&mut self, a: u16, b: u16, name: Name) -> bool {
        let (bits, states_b) = match self {
            Reached::Set(set) => return set.insert((a, b, name)),
            Reached::Bits { bits, states_b } => (bits, *states_b),
        };
        let index = (usize::from(a) * states_b + usize::from(b)) * Name::COUNT + name as usize;
        let bit = 1 << (index % 64);
        let word = &mut bits[index / 64];
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}
