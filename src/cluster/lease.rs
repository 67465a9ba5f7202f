//! The lease of a node, and for how long it is known to be valid.
//!
//! A lease says when another node may take over; it never makes a write safe. Times are those of the boot clock, which
//! also counts while the machine sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::boot_clock;
use crate::journal::Leadership;

/// The share of its time for which a lease counts as valid without asking: a margin for clocks of different speed.
const CERTAIN_PERCENT: u128 = 80;

/// After this many times its time without an answer of etcd, a node gives up what it leads.
const POSSIBLE_FACTOR: u128 = 2;

/// One lease, from its grant to its end.
pub struct Lease {
    pub id: i64,
    ttl: Duration,
    certain_until_ms: AtomicI64,
    possible_until_ms: AtomicI64,
}

impl Lease {
    /// A lease that was asked for at this time of the boot clock.
    pub fn new(id: i64, ttl: Duration, asked_at_ms: i64) -> Lease {
        let lease = Lease { id, ttl, certain_until_ms: AtomicI64::new(0), possible_until_ms: AtomicI64::new(0) };
        lease.renewed(asked_at_ms);
        lease
    }

    /// Etcd has renewed it after it was asked at this time.
    pub fn renewed(&self, asked_at_ms: i64) {
        let after = |ms: u128| asked_at_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX));
        let ttl = self.ttl.as_millis();
        self.certain_until_ms.store(after(ttl * CERTAIN_PERCENT / 100), Ordering::SeqCst);
        self.possible_until_ms.store(after(ttl * POSSIBLE_FACTOR), Ordering::SeqCst);
    }

    /// Etcd does not know it any more.
    pub fn end(&self) {
        self.certain_until_ms.store(0, Ordering::SeqCst);
        self.possible_until_ms.store(0, Ordering::SeqCst);
    }

    pub fn is_certain(&self) -> bool {
        boot_clock::now_ms() < self.certain_until_ms.load(Ordering::SeqCst)
    }

    pub fn is_possible(&self) -> bool {
        boot_clock::now_ms() < self.possible_until_ms.load(Ordering::SeqCst)
    }
}

/// The leadership of one repository in one epoch.
pub struct TermLeadership {
    pub lease: Arc<Lease>,
    /// Another node leads, or this one gave up.
    pub over: AtomicBool,
}

impl Leadership for TermLeadership {
    fn is_certain(&self) -> bool {
        !self.over.load(Ordering::SeqCst) && self.lease.is_certain()
    }

    fn is_possible(&self) -> bool {
        !self.over.load(Ordering::SeqCst) && self.lease.is_possible()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_certain_for_four_fifths_of_its_time() {
        let ttl = Duration::from_secs(5);
        let asked = |ago: i64| Lease::new(1, ttl, boot_clock::now_ms() - ago);
        assert!(asked(0).is_certain() && asked(3_500).is_certain());
        assert!(!asked(4_100).is_certain() && asked(4_100).is_possible());
        assert!(!asked(10_100).is_possible());
        let lease = asked(4_100);
        lease.renewed(boot_clock::now_ms());
        assert!(lease.is_certain());
        lease.end();
        assert!(!lease.is_certain() && !lease.is_possible());
    }

    #[test]
    fn a_term_that_is_over_is_not_certain_although_the_lease_is_valid() {
        let lease = Arc::new(Lease::new(1, Duration::from_secs(5), boot_clock::now_ms()));
        let term = TermLeadership { lease, over: AtomicBool::new(false) };
        assert!(term.is_certain());
        term.over.store(true, Ordering::SeqCst);
        assert!(!term.is_certain() && !term.is_possible());
    }
}
