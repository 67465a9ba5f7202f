//! How many bytes of requests may be in memory at once: of all clients together, and of each.
//!
//! A body is counted before it is read, so a client cannot take memory by only announcing much. Small ones are not counted:
//! there are at most as many as connections.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::engine::Text;

/// Bytes that are counted as one.
const UNIT: usize = 1024;

/// The number of owners at which those with nothing counted are first dropped.
const SWEEP_AT: usize = 256;

/// A number of bytes that clients share.
pub struct ByteBudget {
    total: Arc<Semaphore>,
    owner_max: usize,
    owners: Mutex<HashMap<Text, Arc<Semaphore>>>,
}

/// Bytes of a budget, until it is dropped.
#[derive(Default)]
pub struct BytePermit(Option<[OwnedSemaphorePermit; 2]>);

/// Why there are no bytes left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverBudget {
    /// This client has as many as one client may.
    Owner,
    /// All clients together.
    Total,
}

impl ByteBudget {
    pub fn new(total_max: usize, owner_max: usize) -> Self {
        let (total_max, owner_max) = (total_max.div_ceil(UNIT), owner_max.div_ceil(UNIT));
        assert!(owner_max <= total_max, "one client's share is a part of the whole");
        Self { total: Arc::new(Semaphore::new(total_max)), owner_max, owners: Mutex::default() }
    }

    /// Waits until there is room for so many bytes of this client. More than one client may have is taken as all of that.
    pub async fn acquire(&self, owner: &Text, bytes: usize) -> BytePermit {
        let units = self.units(bytes);
        let first = self.owner(owner).acquire_many_owned(units).await;
        let second = self.total.clone().acquire_many_owned(units).await;
        BytePermit(first.ok().zip(second.ok()).map(Into::into))
    }

    /// The same without waiting.
    pub fn try_acquire(&self, owner: &Text, bytes: usize) -> Result<BytePermit, OverBudget> {
        let units = self.units(bytes);
        let first = self.owner(owner).try_acquire_many_owned(units).map_err(|_| OverBudget::Owner)?;
        let second = self.total.clone().try_acquire_many_owned(units).map_err(|_| OverBudget::Total)?;
        Ok(BytePermit(Some([first, second])))
    }

    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT).min(self.owner_max)).unwrap_or(u32::MAX)
    }

    fn owner(&self, owner: &Text) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= SWEEP_AT {
            owners.retain(|_, semaphore| {
                Arc::strong_count(semaphore) > 1 || semaphore.available_permits() < self.owner_max
            });
        }
        owners.entry(owner.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.owner_max))).clone()
    }
}

impl BytePermit {
    /// These bytes count together with those of `more`.
    pub fn merge(&mut self, more: BytePermit) {
        match (&mut self.0, more.0) {
            (Some([owner, total]), Some([more_owner, more_total])) => {
                owner.merge(more_owner);
                total.merge(more_total);
            }
            (none, more) => *none = more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_client_and_all_clients_together_exceed_their_budgets() {
        let budget = ByteBudget::new(10 * UNIT, 6 * UNIT);
        let (ana, bo): (Text, Text) = ("ana".into(), "bo".into());
        let first = budget.try_acquire(&ana, 4 * UNIT + 1).unwrap();
        assert_eq!(budget.try_acquire(&ana, 2 * UNIT).err(), Some(OverBudget::Owner));
        let second = budget.try_acquire(&bo, 4 * UNIT).unwrap();
        assert_eq!(budget.try_acquire(&bo, 2 * UNIT).err(), Some(OverBudget::Total));
        drop(first);
        // What is larger than a client's budget takes all of it, and does not wait for ever.
        drop(budget.acquire(&ana, 1_000 * UNIT).await);
        assert_eq!(budget.total.available_permits(), 6);
        drop(second);
        assert_eq!(budget.total.available_permits(), 10);
    }

    #[tokio::test]
    async fn clients_that_have_nothing_are_forgotten() {
        let budget = ByteBudget::new(UNIT * 10_000, UNIT * 10);
        let kept = budget.try_acquire(&"kept".into(), 5 * UNIT).unwrap();
        for n in 0..10 * SWEEP_AT {
            drop(budget.try_acquire(&format!("{n}").into(), UNIT).unwrap());
        }
        assert!(budget.owners.lock().unwrap().len() <= SWEEP_AT + 1);
        assert_eq!(budget.try_acquire(&"kept".into(), 6 * UNIT).err(), Some(OverBudget::Owner));
        drop(kept);
    }

    #[tokio::test]
    async fn a_permit_grows() {
        let budget = ByteBudget::new(10 * UNIT, 10 * UNIT);
        let mut permit = BytePermit::default();
        for _ in 0..2 {
            permit.merge(budget.acquire(&"ana".into(), 3 * UNIT).await);
        }
        assert_eq!(budget.total.available_permits(), 4);
        drop(permit);
        assert_eq!(budget.total.available_permits(), 10);
    }
}
