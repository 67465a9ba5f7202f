//! What this node knows of its cluster: who leads what, and what is wrong. Written by the threads of this room, read by all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::boot_clock;
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
    /// Until when, by the boot clock in milliseconds, this node knows which logins have ended.
    logins_known_until_ms: AtomicI64,
}

/// Another node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    pub node: String,
    pub url: String,
}

#[derive(Default)]
struct Table {
    leaders: BTreeMap<String, LeaderInfo>,
    /// Why etcd cannot be used now, by what found that out: the lease, which has no name, or the election of a repository.
    problems: BTreeMap<String, String>,
    /// Why this node cannot lead a repository.
    troubles: BTreeMap<String, String>,
    notes: BTreeSet<String>,
    others: Vec<NodeAddress>,
    /// By their names, the other nodes that this one cannot call, and why.
    unreachable: BTreeMap<String, String>,
}

impl Table {
    /// Why etcd cannot be used.
    fn etcd_problem(&self) -> Option<&String> {
        self.problems.values().next()
    }
}

impl View {
    pub(super) fn new() -> View {
        View {
            table: Mutex::default(),
            changes: watch::Sender::new(0),
            bell: Bell::default(),
            logins_known_until_ms: AtomicI64::new(0),
        }
    }

    pub fn leader(&self, repository: &str) -> Option<LeaderInfo> {
        self.table().leaders.get(repository).cloned()
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

    /// Sets or clears why etcd cannot be used, as `source` knows it, and logs it once: the sentences differ in what is in
    /// brackets. The source is a repository, or empty for the lease.
    pub fn set_problem(&self, source: &str, problem: Option<String>) {
        let kind = |sentence: &String| sentence.split('(').next().unwrap_or_default().to_owned();
        let mut table = self.table();
        let before = table.etcd_problem().map(kind);
        match problem {
            Some(sentence) => drop(table.problems.insert(source.to_owned(), sentence)),
            None => drop(table.problems.remove(source)),
        }
        let now = table.etcd_problem();
        if before == now.map(kind) {
            return;
        }
        match now {
            Some(sentence) => tracing::warn!("{sentence}"),
            None => tracing::info!("etcd answers again"),
        }
        drop(table);
        self.announce();
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

    /// Why this node cannot serve all repositories now.
    pub fn problem(&self) -> Option<String> {
        let table = self.table();
        let unreachable = || {
            let mut leaders = table.leaders.values().filter(|leader| !leader.is_self);
            leaders.find(|leader| table.unreachable.contains_key(&*leader.node))
        };
        let known = table.etcd_problem().or_else(|| table.troubles.values().next()).cloned();
        known.or_else(|| unreachable().map(|leader| unreachable_from_here(&leader.node)))
    }

    /// Whether etcd answers this node.
    pub fn has_quorum(&self) -> bool {
        self.table().problems.is_empty()
    }

    /// What is worth knowing although everything works.
    pub fn notes(&self) -> Vec<String> {
        let table = self.table();
        let unreachable = table.unreachable.keys().map(|node| unreachable_from_here(node));
        table.notes.iter().cloned().chain(unreachable).collect()
    }

    /// What this node tells the cluster about itself and the others.
    pub(super) fn reports(&self) -> Vec<String> {
        let table = self.table();
        table.troubles.values().chain(table.unreachable.values()).cloned().collect()
    }

    /// The other nodes that are in the cluster now.
    pub fn others(&self) -> Vec<NodeAddress> {
        self.table().others.clone()
    }

    pub(super) fn set_others(&self, others: Vec<NodeAddress>) {
        let mut table = self.table();
        table.unreachable.retain(|node, _| others.iter().any(|other| other.node == *node));
        table.others = others;
    }

    /// Sets or clears why another node cannot be called.
    pub fn set_unreachable(&self, other: &NodeAddress, why: Option<String>) {
        let NodeAddress { node, url } = other;
        let mut table = self.table();
        let Some(why) = why else {
            if table.unreachable.remove(node).is_some() {
                tracing::info!("node {node} can be reached again");
            }
            return;
        };
        if !table.unreachable.contains_key(node) && table.others.contains(other) {
            let sentence = format!(
                "node {node} cannot be reached at {url} ({why}); its --advertise must be a URL that the other nodes can call"
            );
            tracing::warn!("{sentence}");
            table.unreachable.insert(node.clone(), sentence);
        }
    }

    /// Replaces what the operator should know; what is new is logged.
    pub fn set_notes(&self, notes: BTreeSet<String>) {
        let mut table = self.table();
        notes.difference(&table.notes).for_each(|note| tracing::warn!("{note}"));
        table.notes = notes;
    }

    /// Whether this node knows of all logins of browsers that have ended.
    pub fn knows_ended_logins(&self) -> bool {
        boot_clock::now_ms() < self.logins_known_until_ms.load(Ordering::SeqCst)
    }

    pub(super) fn set_logins_known_until(&self, boot_ms: i64) {
        self.logins_known_until_ms.store(boot_ms, Ordering::SeqCst);
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

/// For callers without a token: the address is in the log.
fn unreachable_from_here(node: &str) -> String {
    format!("node {node} cannot be reached from this one; its --advertise must be a URL that the other nodes can call")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_renewed_does_not_hide_that_an_election_is_refused() {
        let view = View::new();
        view.set_problem("repo", Some("etcd refuses access".to_owned()));
        view.set_problem("", None);
        assert_eq!(view.problem().as_deref(), Some("etcd refuses access"));
        assert!(!view.has_quorum());
        view.set_problem("repo", None);
        assert!(view.has_quorum() && view.problem().is_none());
    }

    #[test]
    fn a_node_knows_which_logins_have_ended_for_a_while() {
        let view = View::new();
        assert!(!view.knows_ended_logins());
        view.set_logins_known_until(boot_clock::now_ms() + 60_000);
        assert!(view.knows_ended_logins());
        view.set_logins_known_until(boot_clock::now_ms() - 1);
        assert!(!view.knows_ended_logins());
    }

    #[test]
    fn only_a_leader_that_cannot_be_reached_is_a_problem() {
        let view = View::new();
        let address = |node: &str| NodeAddress { node: node.to_owned(), url: format!("http://{node}") };
        let (a, b) = (address("a"), address("b"));
        view.set_others(vec![a.clone(), b.clone()]);
        view.set_leader(
            "repo",
            Some(LeaderInfo { node: "a".into(), url: "http://a".into(), epoch: 1, is_self: false }),
        );
        view.set_unreachable(&b, Some("why".to_owned()));
        assert_eq!((view.problem(), view.notes().len()), (None, 1));
        view.set_unreachable(&a, Some("why".to_owned()));
        assert!(view.problem().is_some_and(|sentence| sentence.starts_with("node a cannot be reached")));
        assert!(view.notes().iter().all(|note| !note.contains("http")), "addresses are not for everybody");
        assert!(view.reports().iter().all(|report| report.contains("(why)")));
        // Gone from the cluster, or back.
        view.set_others(vec![a.clone()]);
        view.set_unreachable(&a, None);
        assert!(view.problem().is_none() && view.notes().is_empty());
        view.set_unreachable(&b, Some("why".to_owned()));
        assert!(view.notes().is_empty(), "a probe that ends after its node has gone says nothing");
    }
}
