//! Remembers which patterns overlap. The same pairs are compared again and again: when a request is decided, when its
//! keys become free, and when a client repeats a request.
//!
//! Comparing two patterns may take milliseconds, so it can be done ahead on another thread: whoever decides then finds
//! the result here. The memory is bounded; a pair that was forgotten is compared again.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

/// The most pairs in one generation; there are two. An entry takes about 60 bytes.
const GENERATION_MAX: usize = 1 << 16;

/// Longer examples are not kept; finding one again is quick compared with sending it.
const EXAMPLE_MAX_BYTES: usize = 64;

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

/// Two patterns, each with its state after their common beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    one: (u64, u16),
    other: (u64, u16),
    /// How much of `.git` the common beginning ends with.
    name: u8,
}

impl Pair {
    /// The order of the two does not matter.
    pub(super) fn of(a: (u64, u16), b: (u64, u16), name: u8) -> Pair {
        Pair { one: a.min(b), other: a.max(b), name }
    }
}

/// What is known about a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meeting {
    /// No path matches both.
    Never,
    /// Some path matches both. With an example: the rest of it after the common beginning.
    Meet(Option<Box<[u8]>>),
}

/// The newest pairs, and those before them. When the newest are full, the others are forgotten.
#[derive(Default)]
struct Memory {
    new: HashMap<Pair, Meeting>,
    old: HashMap<Pair, Meeting>,
}

pub(super) fn find(pair: &Pair) -> Option<Meeting> {
    lock().find(pair)
}

/// Whether the pair meets, if it is known.
pub(super) fn meets(pair: &Pair) -> Option<bool> {
    find(pair).map(|meeting| meeting != Meeting::Never)
}

/// Remembers the result of a comparison: the rest of the example after the common beginning, or that there is none.
pub(super) fn keep(pair: Pair, rest: Option<&[u8]>) {
    let meeting = match rest {
        None => Meeting::Never,
        Some(rest) => Meeting::Meet((rest.len() <= EXAMPLE_MAX_BYTES).then(|| rest.into())),
    };
    lock().keep(pair, meeting);
}

impl Memory {
    fn find(&mut self, pair: &Pair) -> Option<Meeting> {
        if let Some(meeting) = self.new.get(pair) {
            return Some(meeting.clone());
        }
        let meeting = self.old.remove(pair)?;
        self.keep(*pair, meeting.clone());
        Some(meeting)
    }

    fn keep(&mut self, pair: Pair, meeting: Meeting) {
        if self.new.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(pair, meeting);
    }
}

fn lock() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_bounded_and_keeps_what_is_used() {
        let mut memory = Memory::default();
        let pair = |n: u64| Pair::of((0, 1), (n, 1), 0);
        for n in 1..=5 * GENERATION_MAX as u64 {
            memory.keep(pair(n), Meeting::Never);
            assert_eq!(memory.find(&pair(1)), Some(Meeting::Never), "it is used all the time");
            assert!(memory.new.len() + memory.old.len() <= 2 * GENERATION_MAX);
        }
        assert_eq!(memory.find(&pair(2)), None);
    }

    #[test]
    fn the_order_of_a_pair_does_not_matter() {
        assert_eq!(Pair::of((1, 9), (2, 3), 0), Pair::of((2, 3), (1, 9), 0));
        assert_ne!(Pair::of((1, 9), (2, 3), 0), Pair::of((1, 9), (2, 3), 1));
    }
}
