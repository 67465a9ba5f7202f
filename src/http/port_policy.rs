//! What the configuration says about ports.

use crate::engine::PortRange;

/// Which ports sessions can allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortPolicy {
    pub first: u16,
    /// Included.
    pub last: u16,
    /// How many a session gets if it does not say.
    pub block: u16,
    /// Whether a port must be free on this machine.
    pub check: bool,
    /// A number of the repository. Servers of different repositories on one machine begin at different ports.
    pub seed: u64,
}

impl Default for PortPolicy {
    fn default() -> Self {
        Self { first: 20_000, last: 29_999, block: 4, check: true, seed: 0 }
    }
}

impl PortPolicy {
    /// The range, and where the search begins: at a block that depends on the repository.
    pub fn range(&self) -> PortRange {
        let blocks = (u64::from(self.last) + 1 - u64::from(self.first)) / u64::from(self.block);
        let offset = (self.seed % blocks.max(1)) * u64::from(self.block);
        let start = u16::try_from(u64::from(self.first) + offset).unwrap_or(self.first);
        PortRange { first: self.first, last: self.last, start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_begins_at_a_block_of_the_range() {
        for seed in [0, 1, 2499, 2500, u64::MAX] {
            let PortRange { first, last, start } = PortPolicy { seed, ..PortPolicy::default() }.range();
            assert!(first <= start && start + 3 <= last && (start - first) % 4 == 0, "{seed}: {start}");
        }
        let one = PortPolicy { first: 65_535, last: 65_535, block: 1, check: false, seed: 7 };
        assert_eq!(one.range().start, 65_535);
    }
}
