//! Remembers which patterns overlap. The same pairs are compared again and again: when a request is decided, when its
//! keys become free, and when a client repeats a request.
//!
//! Comparing two patterns may take milliseconds, so it can be done ahead on another thread: the thread that decides then finds
//! the result here. The memory is bounded; a pair that was forgotten is compared again.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

/// The largest size of one generation; there are two.
const GENERATION_MAX_BYTES: usize = 8 << 20;

/// What an entry takes besides its example.
const ENTRY_BYTES: usize = 80;

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
    /// Some path matches both; this is the rest of the shortest one after the common beginning.
    Meet(Box<[u8]>),
}

/// The newest pairs, and those before them. When the newest are full, the others are forgotten.
#[derive(Default)]
struct Memory {
    new: HashMap<Pair, Meeting>,
    new_bytes: usize,
    old: HashMap<Pair, Meeting>,
}

pub(super) fn find(pair: &Pair) -> Option<Meeting> {
    lock().look_up(pair).cloned()
}

/// Whether the pair meets, if it is known.
pub(super) fn meets(pair: &Pair) -> Option<bool> {
    lock().look_up(pair).map(|meeting| *meeting != Meeting::Never)
}

/// Remembers the result of a comparison: the rest of the example after the common beginning, or that there is none.
pub(super) fn keep(pair: Pair, rest: Option<&[u8]>) {
    let meeting = match rest {
        None => Meeting::Never,
        Some(rest) => Meeting::Meet(rest.into()),
    };
    lock().keep(pair, meeting);
}

impl Memory {
    fn look_up(&mut self, pair: &Pair) -> Option<&Meeting> {
        if !self.new.contains_key(pair) {
            let meeting = self.old.remove(pair)?;
            self.keep(*pair, meeting);
        }
        self.new.get(pair)
    }

    fn keep(&mut self, pair: Pair, meeting: Meeting) {
        let bytes = ENTRY_BYTES + if let Meeting::Meet(rest) = &meeting { rest.len() } else { 0 };
        if self.new_bytes + bytes > GENERATION_MAX_BYTES {
            self.old = std::mem::take(&mut self.new);
            self.new_bytes = 0;
        }
        self.new_bytes += bytes;
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
        let most = GENERATION_MAX_BYTES / (ENTRY_BYTES + 1000);
        for n in 1..=5 * most as u64 {
            memory.keep(pair(n), Meeting::Meet([b'x'; 1000].into()));
            assert!(memory.look_up(&pair(1)).is_some(), "it is used all the time");
            assert!(memory.new.len() + memory.old.len() <= 2 * most);
        }
        assert_eq!(memory.look_up(&pair(2)), None);
    }

    #[test]
    fn the_order_of_a_pair_does_not_matter() {
        assert_eq!(Pair::of((1, 9), (2, 3), 0), Pair::of((2, 3), (1, 9), 0));
        assert_ne!(Pair::of((1, 9), (2, 3), 0), Pair::of((1, 9), (2, 3), 1));
    }
}
