//! New ids for reservations and requests: UUIDv7, without asking the system for chance each time.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

thread_local! {
    /// Where this thread's chance goes on from. It starts from the system's, so no two threads or servers share it.
    static CHANCE: Cell<u64> = Cell::new(Uuid::new_v4().as_u64_pair().0 ^ Uuid::new_v4().as_u64_pair().1);
}

/// An id nobody else has. It is a name, not a secret: whoever saw some of them might guess others.
pub fn new_id() -> Uuid {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = [0; 10];
    random[..8].copy_from_slice(&chance().to_le_bytes());
    random[8..].copy_from_slice(&chance().to_le_bytes()[..2]);
    Builder::from_unix_timestamp_millis(since.as_millis() as u64, &random).into_uuid()
}

/// The next of a sequence that visits every number once (splitmix64).
fn chance() -> u64 {
    CHANCE.with(|state| {
        state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut mixed = state.get();
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_of_version_7_and_never_the_same_in_any_thread() {
        let some = || (0..10_000).map(|_| new_id()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(some)).collect();
        let all: Vec<Uuid> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(all.iter().all(|id| id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122));
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}
