//! A cache of verified tokens: a call with a known token costs one hash instead of the check of a signature.
//!
//! The cache has a fixed size and no lock: a table in which each token has two possible slots. Tokens are identified by their
//! SHA-256, so the table contains no token text, and no token is taken for another.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::{constant_time, digest};

use super::claims::{Claims, Period};

/// The number of slots. The empty table takes 512 KiB. With ten thousand tokens in use, about one in a hundred finds both of
/// its slots taken and is verified again now and then.
const SLOTS: usize = 1 << 16;

/// The SHA-256 of a token.
pub(super) type Digest = [u8; 32];

/// Compares two digests in constant time.
fn same(a: &Digest, b: &Digest) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// The SHA-256 of these bytes.
pub(super) fn digest(bytes: &[u8]) -> Digest {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A token whose signature and claims were good; only its period is still to be checked.
pub(super) struct VerifiedToken {
    pub digest: Digest,
    pub period: Period,
    pub claims: Claims,
}

/// The tokens that one generation of keys has verified.
pub(super) struct VerifiedTokens {
    slots: Box<[ArcSwapOption<VerifiedToken>]>,
}

impl VerifiedTokens {
    pub fn new() -> VerifiedTokens {
        VerifiedTokens { slots: (0..SLOTS).map(|_| ArcSwapOption::const_empty()).collect() }
    }

    /// The token with this digest, if it is in the cache. Its period is not checked.
    pub fn get(&self, digest: &Digest) -> Option<Arc<VerifiedToken>> {
        self.slots_of(digest).into_iter().find_map(|slot| {
            let verified = slot.load();
            verified.as_ref().filter(|verified| same(&verified.digest, digest)).cloned()
        })
    }

    /// Puts a token into the one of its two slots that is empty or expires sooner.
    pub fn put(&self, verified: VerifiedToken) {
        let [a, b] = self.slots_of(&verified.digest);
        let expires =
            |slot: &ArcSwapOption<VerifiedToken>| slot.load().as_ref().map_or(i64::MIN, |cached| cached.period.expires);
        let slot = if expires(b) < expires(a) { b } else { a };
        slot.store(Some(Arc::new(verified)));
    }

    fn slots_of(&self, digest: &Digest) -> [&ArcSwapOption<VerifiedToken>; 2] {
        let slot = |high: u8, low: u8| &self.slots[usize::from(u16::from_be_bytes([high, low]))];
        [slot(digest[0], digest[1]), slot(digest[2], digest[3])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Scope;

    fn verified(n: usize, expires: i64) -> VerifiedToken {
        let claims = Claims {
            session: None,
            subject: n.to_string().into(),
            issuer: None,
            scope: Scope::Admin,
            repo: None,
            name: None,
            feature: None,
            prefix: None,
            issued_ms: None,
            expires,
        };
        VerifiedToken { digest: digest(&n.to_be_bytes()), period: Period { not_before: 0, expires }, claims }
    }

    fn remembers(cache: &VerifiedTokens, n: usize) -> bool {
        let found = cache.get(&digest(&n.to_be_bytes()));
        assert!(found.as_ref().is_none_or(|found| *found.claims.subject == n.to_string()), "{n} is taken for another");
        found.is_some()
    }

    #[test]
    fn nearly_all_of_ten_thousand_tokens_find_a_slot() {
        let cache = VerifiedTokens::new();
        (0..10_000).for_each(|n| cache.put(verified(n, 1)));
        let known = (0..10_000).filter(|n| remembers(&cache, *n)).count();
        assert!(known > 9_800, "{known}");
    }

    #[test]
    fn a_digest_that_differs_in_one_bit_is_not_found() {
        let cache = VerifiedTokens::new();
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
    fn more_tokens_than_slots_replace_each_other_and_the_newest_is_present() {
        let cache = VerifiedTokens::new();
        for n in 0..2 * SLOTS {
            cache.put(verified(n, 2 * SLOTS as i64 - n as i64));
            assert!(remembers(&cache, n));
        }
        let known = (0..2 * SLOTS).filter(|n| remembers(&cache, *n)).count();
        assert!(known <= SLOTS && known > SLOTS / 2, "{known}");
    }
}
