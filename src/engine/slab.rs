//! Slabs: values in numbered slots that are used again once they are free.
//!
//! Every slab has a slot type of its own, so a slot of one slab cannot index another.

use std::ops::{Index, IndexMut};

/// The number of a slot in one kind of slab.
pub trait Slot: Copy {
    fn from_number(number: u32) -> Self;
    fn number(self) -> u32;

    /// Nothing for `NONE`.
    fn some(self) -> Option<Self> {
        (self.number() != NONE).then_some(self)
    }
}

/// The number that no slot has.
const NONE: u32 = u32::MAX;

macro_rules! slots {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// Stands for "no such slot" where an `Option` would need more memory. Never in use.
            pub const NONE: Self = Self(NONE);

            pub const fn new(number: u32) -> Self {
                Self(number)
            }
        }

        impl Slot for $name {
            fn from_number(number: u32) -> Self {
                Self::new(number)
            }

            fn number(self) -> u32 {
                self.0
            }
        }
    )*};
}

slots! {
    SessionSlot;
    ReservationSlot;
    PlaceSlot;
    NodeSlot;
}

/// See the module.
pub struct Slab<S, T> {
    slots: Vec<Option<T>>,
    free: Vec<S>,
}

impl<S, T> Default for Slab<S, T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<S: Slot, T> Slab<S, T> {
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, count: usize) {
        self.slots.reserve(count);
    }

    /// Makes the value directly in its slot, which saves moving it there.
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce() -> T) -> S {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                S::from_number(u32::try_from(self.slots.len() - 1).expect("fewer than four billion of anything"))
            }
        };
        self.slots[slot.number() as usize].get_or_insert_with(make);
        slot
    }

    pub fn insert(&mut self, value: T) -> S {
        self.insert_with(|| value)
    }

    pub fn remove(&mut self, slot: S) {
        let value = &mut self.slots[slot.number() as usize];
        assert!(value.is_some(), "a slot in use has a value");
        *value = None;
        self.free.push(slot);
    }

    /// Removes the value and returns it.
    pub fn take(&mut self, slot: S) -> T {
        let value = self.slots[slot.number() as usize].take().expect("a slot in use has a value");
        self.free.push(slot);
        value
    }

    pub fn get(&self, slot: S) -> Option<&T> {
        self.slots.get(slot.number() as usize)?.as_ref()
    }

    /// How many slots there are, with the free ones.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The values in `count` slots from number `first` on.
    pub fn range(&self, first: usize, count: usize) -> impl Iterator<Item = &T> {
        self.slots.iter().skip(first).take(count).flatten()
    }

    pub fn iter(&self) -> impl Iterator<Item = (S, &T)> {
        let numbered = (0u32..).zip(&self.slots);
        numbered.filter_map(|(number, value)| value.as_ref().map(|value| (S::from_number(number), value)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (S, &mut T)> {
        let numbered = (0u32..).zip(&mut self.slots);
        numbered.filter_map(|(number, value)| value.as_mut().map(|value| (S::from_number(number), value)))
    }
}

impl<S: Slot, T> Index<S> for Slab<S, T> {
    type Output = T;

    fn index(&self, slot: S) -> &T {
        self.slots[slot.number() as usize].as_ref().expect("a slot in use has a value")
    }
}

impl<S: Slot, T> IndexMut<S> for Slab<S, T> {
    fn index_mut(&mut self, slot: S) -> &mut T {
        self.slots[slot.number() as usize].as_mut().expect("a slot in use has a value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does not compile if sessions can be indexed by anything but a session's slot: then more than one of the
    /// implementations below fits, and the compiler cannot choose.
    #[test]
    fn a_slab_is_indexed_by_its_own_slots_only() {
        trait NotIndexedBy<Marker> {
            fn is_proven() -> bool {
                true
            }
        }
        struct ByReservation;
        struct ByPlace;
        struct ByNode;
        struct ByNumber;
        impl<T> NotIndexedBy<()> for T {}
        impl<T: Index<ReservationSlot>> NotIndexedBy<ByReservation> for T {}
        impl<T: Index<PlaceSlot>> NotIndexedBy<ByPlace> for T {}
        impl<T: Index<NodeSlot>> NotIndexedBy<ByNode> for T {}
        impl<T: Index<u32>> NotIndexedBy<ByNumber> for T {}
        assert!(<Slab<SessionSlot, String> as NotIndexedBy<_>>::is_proven());
    }

    #[test]
    fn a_free_slot_is_used_again() {
        let mut slab: Slab<SessionSlot, &str> = Slab::default();
        let (first, second) = (slab.insert("first"), slab.insert("second"));
        slab.remove(first);
        assert_eq!((slab.len(), slab.get(first)), (1, None));
        assert_eq!(slab.insert("third"), first);
        assert_eq!((slab[first], slab.take(second), slab.len()), ("third", "second", 1));
    }
}
