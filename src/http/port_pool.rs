//! The ports of a server: no two sessions have the same one, also if they belong to different repositories.
//!
//! Each desk knows only the ports of its own repository. On a server of several, allocations take turns, and each begins
//! with the ports that the other repositories have at that time. Only an allocation makes more of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::app::Repositories;
use super::error::ApiResult;
use super::submit::read_state;
use crate::engine::{Actor, Text};

#[derive(Default)]
pub struct PortPool {
    /// The repositories of the server. Each of them has this pool.
    repositories: Weak<Repositories>,
    turn: Arc<Mutex<()>>,
}

/// The turn of one allocation. Another one begins when it is dropped.
pub struct PortTurn {
    /// The ports that sessions of other repositories have.
    pub taken: BTreeSet<u16>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl PortPool {
    pub fn of(repositories: &Arc<Repositories>) -> Self {
        Self { repositories: Arc::downgrade(repositories), turn: Arc::default() }
    }

    /// Waits for the allocations before this one.
    pub async fn turn(&self, repository: &Text) -> ApiResult<PortTurn> {
        let mut taken = BTreeSet::new();
        let Some(repositories) = self.repositories.upgrade().filter(|all| all.only().is_none()) else {
            return Ok(PortTurn { taken, _turn: None });
        };
        let turn = self.turn.clone().lock_owned().await;
        for other in repositories.open().filter(|other| other.name != *repository) {
            taken.append(&mut read_state(&other.desk, Actor::Reader, |engine, _| engine.taken_ports()).await?.value);
        }
        Ok(PortTurn { taken, _turn: Some(turn) })
    }
}
