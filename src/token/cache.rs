//! Remembers tokens that were verified, so that a busy session costs one hash instead of a signature each call.
//!
//! Bounded by construction and without a lock: a table of slots, each token may sit in one of two of them. A token
//! is known by its SHA-256, so the table holds no token text, and one cannot be mistaken for another.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::{constant_time, digest};

use super::claims::{Claims, Period};

/// How many verified tokens are remembered. The table costs 512 KiB empty; with ten thousand live tokens about one in
/// a hundred finds both its slots taken and is verified again now and then.
const SLOTS: usize = 1 << 16;

/// The SHA-256 of a token.
pub(super) type Digest = [u8; 32];

/// Whether these are the same, in a time that does not say where they differ.
fn same(a: &Digest, b: &Digest) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// The name under which a token is remembered.
pub(super) fn digest(bytes: &[u8]) -> Digest {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A token whose signature and claims were good; only its period is still to be checked.
pub(super) struct Verified {
    pub digest: Digest,
    pub period: Period,
    pub claims: Claims,
}

/// The tokens one generation of verifiers has found good. It goes away together with them.
pub(super) struct Cache {
    slots: Box<[ArcSwapOption<Verified>]>,
}

impl Cache {
    /// Remembers nothing.
    pub fn new() -> Cache {
        Cache { slots: (0..SLOTS).map(|_| ArcSwapOption::const_empty()).collect() }
    }

    /// The token of this digest, if it is remembered, whatever its period.
    pub fn get(&self, digest: &Digest) -> Option<Arc<Verified>> {
        self.homes(digest).into_iter().find_map(|slot| {
            let verified = slot.load();
            verified.as_ref().filter(|verified| same(&verified.digest, digest)).cloned()
        })
    }

    /// Remembers a token in whichever of its two slots is empty or ends sooner.
    pub fn put(&self, verified: Verified) {
        let [a, b] = self.homes(&verified.digest);
        let ends =
            |slot: &ArcSwapOption<Verified>| slot.load().as_ref().map_or(i64::MIN, |seated| seated.period.expires);
        let slot = if ends(b) < ends(a) { b } else { a };
        slot.store(Some(Arc::new(verified)));
    }

    fn homes(&self, digest: &Digest) -> [&ArcSwapOption<Verified>; 2] {
        let slot = |high: u8, low: u8| &self.slots[usize::from(u16::from_be_bytes([high, low]))];
        [slot(digest[0], digest[1]), slot(digest[2], digest[3])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Scope;

    fn verified(n: usize, expires: i64) -> Verified {
        let claims = Claims {
            session: None,
            subject: n.to_string().into(),
            issuer: None,
            scope: Scope::Admin,
            repo: None,
            name: None,
            feature: None,
            expires,
        };
        Verified { digest: digest(&n.to_be_bytes()), period: Period { not_before: 0, expires }, claims }
    }

    fn remembers(cache: &Cache, n: usize) -> bool {
        let found = cache.get(&digest(&n.to_be_bytes()));
        assert!(found.as_ref().is_none_or(|found| *found.claims.subject == n.to_string()), "{n} is taken for another");
        found.is_some()
    }

    #[test]
    fn ten_thousand_tokens_nearly_all_find_a_slot() {
        let cache = Cache::new();
        (0..10_000).for_each(|n| cache.put(verified(n, 1)));
        let known = (0..10_000).filter(|n| remembers(&cache, *n)).count();
        assert!(known > 9_800, "{known}");
    }

    #[test]
    fn a_digest_that_differs_in_one_bit_is_another() {
        let cache = Cache::new();
        cache.put(verified(1, 1));
        let right = digest(&1usize.to_be_bytes());
        assert!(cache.get(&right).is_some());
        // The first bytes choose the slot; the rest must be compared, every one of them.
        for bit in 32..256 {
            let mut wrong = right;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(cache.get(&wrong).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn more_tokens_than_slots_push_each_other_out_and_the_newest_is_always_there() {
        let cache = Cache::new();
        for n in 0..2 * SLOTS {
            cache.put(verified(n, 2 * SLOTS as i64 - n as i64));
            assert!(remembers(&cache, n));
        }
        let known = (0..2 * SLOTS).filter(|n| remembers(&cache, *n)).count();
        assert!(known <= SLOTS && known > SLOTS / 2, "{known}");
    }
}
