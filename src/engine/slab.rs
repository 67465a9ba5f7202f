//! Values under small numbers that are used again once they are free.

use std::ops::{Index, IndexMut};

/// See the module.
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Makes a value right where it will lie, which saves moving it there.
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce() -> T) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).expect("fewer than four billion of anything")
            }
        };
        self.slots[slot as usize].get_or_insert_with(make);
        slot
    }

    pub fn insert(&mut self, value: T) -> u32 {
        self.insert_with(|| value)
    }

    pub fn remove(&mut self, slot: u32) {
        let value = &mut self.slots[slot as usize];
        assert!(value.is_some(), "a slot in use has a value");
        *value = None;
        self.free.push(slot);
    }

    pub fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.slots).filter_map(|(slot, value)| value.as_ref().map(|value| (slot, value)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0u32..).zip(&mut self.slots).filter_map(|(slot, value)| value.as_mut().map(|value| (slot, value)))
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        self.slots[slot as usize].as_ref().expect("a slot in use has a value")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        self.slots[slot as usize].as_mut().expect("a slot in use has a value")
    }
}
