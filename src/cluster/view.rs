//! What this node knows of its cluster: who leads what, and what is wrong. Written by the threads of this room, read by all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::Text;

/// Who leads a repository, as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderInfo {
    pub node: Text,
    pub url: Text,
    pub epoch: i64,
    /// Whether it is this node.
    pub is_self: bool,
}

pub struct View {
    table: Mutex<Table>,
    changes: watch::Sender<u64>,
    bell: Bell,
}

#[derive(Default)]
struct Table {
    leaders: BTreeMap<String, LeaderInfo>,
    /// Why etcd cannot be used now.
    problem: Option<String>,
    /// Why this node cannot lead a repository.
    troubles: BTreeMap<String, String>,
    notes: BTreeSet<String>,
}

impl View {
    pub(super) fn new() -> View {
        View { table: Mutex::default(), changes: watch::Sender::new(0), bell: Bell::default() }
    }

    pub fn leader(&self, repository: &str) -> Option<LeaderInfo> {
        self.table().leaders.get(repository).cloned()
    }

    /// How many repositories this node leads.
    pub fn led(&self) -> usize {
        self.table().leaders.values().filter(|leader| leader.is_self).count()
    }

    pub fn set_leader(&self, repository: &str, leader: Option<LeaderInfo>) {
        let mut table = self.table();
        if table.leaders.get(repository) == leader.as_ref() {
            return;
        }
        match leader {
            Some(leader) => table.leaders.insert(repository.to_owned(), leader),
            None => table.leaders.remove(repository),
        };
        drop(table);
        self.announce();
    }

    /// Wakes tasks that wait for a change.
    pub fn announce(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Sets or clears why etcd cannot be used, and logs it once.
    pub fn set_problem(&self, problem: Option<String>) {
        let mut table = self.table();
        if table.problem.is_some() != problem.is_some() {
            match &problem {
                Some(sentence) => tracing::warn!("{sentence}"),
                None => tracing::info!("etcd answers again"),
            }
            self.announce();
        }
        table.problem = problem;
    }

    /// Sets or clears why this node cannot lead a repository.
    pub fn set_trouble(&self, repository: &str, trouble: Option<String>) {
        let mut table = self.table();
        let before = match &trouble {
            Some(sentence) => table.troubles.insert(repository.to_owned(), sentence.clone()),
            None => table.troubles.remove(repository),
        };
        if let Some(sentence) = trouble.filter(|sentence| before.as_ref() != Some(sentence)) {
            tracing::warn!(repo = repository, "{sentence}");
        }
    }

    /// Why this node can serve nothing now.
    pub fn problem(&self) -> Option<String> {
        let table = self.table();
        table.problem.clone().or_else(|| table.troubles.values().next().cloned())
    }

    pub fn notes(&self) -> Vec<String> {
        self.table().notes.iter().cloned().collect()
    }

    /// Replaces what the operator should know; what is new is logged.
    pub fn set_notes(&self, notes: BTreeSet<String>) {
        let mut table = self.table();
        notes.difference(&table.notes).for_each(|note| tracing::warn!("{note}"));
        table.notes = notes;
    }

    /// Wakes the threads of this room.
    pub fn ring(&self) {
        self.bell.ring();
    }

    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads wait for it, each from the last ring that it heard.
#[derive(Default)]
pub struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.rung.notify_all();
    }

    /// Waits for a ring after the last one that was heard, or for this time.
    pub fn wait(&self, heard: &mut u64, time: Duration) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let last = *heard;
        let (rings, _) =
            self.rung.wait_timeout_while(rings, time, |rings| *rings == last).unwrap_or_else(PoisonError::into_inner);
        *heard = *rings;
    }
}
