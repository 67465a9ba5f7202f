//! The ports of a server: no two sessions have the same one, also if they belong to different repositories.
//!
//! Each desk knows only the ports of its own repository. On a server of several, allocations take turns, and each begins
//! with the ports that the other repositories have at that time. Only an allocation makes more of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::error::ApiResult;
use super::submit::read_state;
use crate::desk::Desk;
use crate::engine::{Actor, Text};

#[derive(Default)]
pub struct PortPool {
    /// The repositories of the server by name.
    desks: Vec<(Text, Desk)>,
    turn: Arc<Mutex<()>>,
}

/// The turn of one allocation. Another one begins when it is dropped.
pub struct PortTurn {
    /// The ports that sessions of other repositories have.
    pub taken: BTreeSet<u16>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl PortPool {
    pub fn of(desks: Vec<(Text, Desk)>) -> Self {
        Self { desks, turn: Arc::default() }
    }

    /// Waits for the allocations before this one.
    pub async fn turn(&self, repository: &Text) -> ApiResult<PortTurn> {
        let mut taken = BTreeSet::new();
        if self.desks.len() < 2 {
            return Ok(PortTurn { taken, _turn: None });
        }
        let turn = self.turn.clone().lock_owned().await;
        for (_, desk) in self.desks.iter().filter(|(name, _)| name != repository) {
            taken.append(&mut read_state(desk, Actor::Reader, |engine, _| engine.taken_ports()).await?.value);
        }
        Ok(PortTurn { taken, _turn: Some(turn) })
    }
}
