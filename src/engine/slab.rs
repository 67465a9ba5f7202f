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

    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(value);
            return slot;
        }
        self.slots.push(Some(value));
        u32::try_from(self.slots.len() - 1).expect("fewer than four billion of anything")
    }

    pub fn remove(&mut self, slot: u32) -> T {
        let value = self.slots[slot as usize].take().expect("a slot in use has a value");
        self.free.push(slot);
        value
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
