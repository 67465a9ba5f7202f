//! Keys of a session that expired: so that renewing one says that it expired, and the session is told.

use std::collections::VecDeque;

use super::command::Notice;
use crate::key::Key;

/// How many keys are remembered, and how many bytes of them. The oldest is forgotten first.
const KEYS_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 10;

/// Keys that a notice of expired or lost reservations lists.
pub(super) const LOST_KEYS_LISTED: usize = 20;

/// See the module.
#[derive(Default)]
pub(super) struct LapsedKeys {
    /// The oldest first.
    keys: VecDeque<Key>,
    bytes: usize,
    /// How many more expired and were forgotten.
    forgotten: u64,
    /// Working memory: how many expired since the session was last told. After a restart it is told again of all that it
    /// remembers.
    untold: u64,
}

impl LapsedKeys {
    /// From an image.
    pub fn restore(keys: impl Iterator<Item = Key>, forgotten: u64) -> Self {
        let keys: VecDeque<Key> = keys.collect();
        let bytes = keys.iter().map(Key::text_bytes).sum();
        let untold = keys.len() as u64 + forgotten;
        Self { keys, bytes, forgotten, untold }
    }

    /// What a session lost, which it is told in another notice.
    pub fn told(keys: &[Key]) -> Self {
        Self { untold: 0, ..Self::restore(keys.iter().cloned(), 0) }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub fn contains(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }

    /// A reservation expired. The newest key is remembered in any case.
    pub fn add(&mut self, key: Key) {
        self.untold += 1;
        self.bytes += key.text_bytes();
        self.keys.push_back(key);
        while self.keys.len() > KEYS_MAX || (self.bytes > BYTES_MAX && self.keys.len() > 1) {
            self.forget_oldest();
        }
    }

    /// A key that is held again has not lapsed any more.
    pub fn remove(&mut self, key: &Key) {
        if let Some(at) = self.keys.iter().position(|lapsed| lapsed == key) {
            let is_untold = (self.keys.len() - at) as u64 <= self.untold;
            self.untold -= u64::from(is_untold);
            self.bytes -= self.keys.remove(at).map_or(0, |key| key.text_bytes());
        }
    }

    /// What expired since the session was last told.
    pub fn take_untold(&mut self) -> Option<Notice> {
        let count = std::mem::take(&mut self.untold);
        let listed = self.keys.len().min(LOST_KEYS_LISTED).min(usize::try_from(count).unwrap_or(usize::MAX));
        let keys = self.keys.range(self.keys.len() - listed..).cloned().collect();
        (count > 0).then_some(Notice::Expired { count, keys })
    }

    /// The session is lost. It may come back, and is then told of the newest.
    pub fn keep_newest(&mut self) {
        self.untold = 0;
        while self.keys.len() > LOST_KEYS_LISTED {
            self.forget_oldest();
        }
        self.keys.shrink_to_fit();
    }

    /// All of them, and how many more there were.
    pub fn take(&mut self) -> (VecDeque<Key>, u64) {
        let LapsedKeys { keys, forgotten, .. } = std::mem::take(self);
        (keys, forgotten)
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.keys.pop_front() {
            self.bytes -= oldest.text_bytes();
            self.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::recall(text, false).unwrap()
    }

    #[test]
    fn only_so_many_bytes_are_remembered() {
        let mut lapsed = LapsedKeys::default();
        let long = |number: usize| key(&format!("{}{number}", "directory/".repeat(300)));
        for number in 0..100 {
            lapsed.add(long(number));
        }
        assert!(lapsed.bytes <= BYTES_MAX && lapsed.keys.len() == 5, "{}", lapsed.keys.len());
        assert_eq!((lapsed.forgotten(), lapsed.contains(&long(99)), lapsed.contains(&long(94))), (95, true, false));
        let Some(Notice::Expired { count: 100, keys }) = lapsed.take_untold() else { panic!("they expired") };
        assert_eq!(keys.len(), 5);
        assert!(lapsed.take_untold().is_none(), "told once");
        for number in 95..100 {
            lapsed.remove(&long(number));
        }
        assert_eq!((lapsed.bytes, lapsed.keys.len()), (0, 0));
    }
}
