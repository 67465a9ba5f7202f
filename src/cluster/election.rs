//! One thread for each repository: it leads, or waits until no other node does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::lease::TermLeadership;
use super::member::{NodeRecord, find_all};
use super::names::Names;
use super::view::LeaderInfo;
use super::{Shared, problem};
use crate::engine::{Seq, Text, Timestamp};
use crate::etcd::messages::{KeyValue, RangeRequest, TxnRequest};
use crate::etcd::{Etcd, EtcdError, after_prefix, create_is, delete, is_absent, put, put_leased};
use crate::journal::{EtcdJournal, EtcdKeys, Journal, JournalError, Leadership, begin_generation};

/// How often a thread looks by itself. A watch wakes it earlier.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A repository without a leader is left to the nodes that lead fewer for this time: for each of them, and at the most.
const WAIT_PER_NODE: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_millis(600);

/// How long a node that could not begin to lead leaves it to others.
const PAUSE_AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// What a node does while it leads a repository.
pub trait LeaderWork: Send {
    /// Loads the journal and begins to decide.
    fn begin(&mut self, term: &Term) -> Result<Box<dyn RunningTerm>>;
}

/// Work that was begun.
pub trait RunningTerm: Send {
    /// Why it ended by itself, if it has.
    fn failure(&self) -> Option<String>;

    /// Ends it: everything that is being decided first, or at once because another node leads.
    fn end(self: Box<Self>, orderly: bool);
}

/// The time in which a node leads a repository.
pub struct Term {
    pub repository: Text,
    pub epoch: i64,
    etcd: Arc<Etcd>,
    keys: EtcdKeys,
    origin: String,
    leadership: Arc<TermLeadership>,
    shared: Arc<Shared>,
}

impl Term {
    /// The journal of the repository, to be written in this term. After etcd was restored from a backup, it begins a new
    /// generation, so that no number is given out twice.
    pub fn journal(&self) -> Result<EtcdJournal, JournalError> {
        let leadership: Arc<dyn Leadership> = self.leadership.clone();
        let mut journal = EtcdJournal::open(self.etcd.clone(), self.keys.clone(), self.epoch, leadership)?;
        let wrap = |source| JournalError::Etcd { doing: "open the journal", source };
        let request = RangeRequest { key: self.origin.clone().into(), ..RangeRequest::default() };
        let reply = self.etcd.range(request).map_err(wrap)?;
        let cluster_id = reply.header.unwrap_or_default().cluster_id.to_string();
        let known = reply.kvs.first().map(|found| String::from_utf8_lossy(&found.value).into_owned());
        if known.as_ref() == Some(&cluster_id) {
            return Ok(journal);
        }
        if known.is_some() && journal.head() > Seq::ZERO {
            let head = journal.head();
            let begins = begin_generation(&mut journal as &mut dyn Journal, head, Timestamp(super::member::wall_ms()))?;
            tracing::warn!(repo = %self.repository, %head, %begins, "this is another etcd than before, so a backup of it was restored; numbers continue above those that may have been given out");
        }
        let success = vec![put(&self.origin, cluster_id.as_bytes())];
        let write = TxnRequest { compare: vec![create_is(self.keys.leader(), self.epoch)], success, failure: vec![] };
        self.etcd.txn(write).map_err(wrap)?;
        Ok(journal)
    }

    /// Wakes the thread of the election: the work has ended by itself.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || shared.view.ring()
    }
}

/// The value of a leader's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaderRecord {
    pub node: String,
    pub url: String,
    pub instance: String,
}

/// The value of the key by which an operator moves a repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WantedRecord {
    pub node: String,
}

/// What an earlier run of this node led is free at once: it had the address of this node, so it is gone. If this fails, it
/// is free when the lease of that run ends.
pub(super) fn free_former(etcd: &Etcd, names: &Names, node: &NodeRecord) {
    for found in find_all(etcd, &names.live()).unwrap_or_default() {
        let Ok(record) = serde_json::from_slice::<LeaderRecord>(&found.value) else { continue };
        if record.node == node.name && record.url == node.url && record.instance != node.instance {
            let key = String::from_utf8_lossy(&found.key);
            let compare = vec![create_is(&key, found.create_revision)];
            let _ = etcd.txn(TxnRequest { compare, success: vec![delete(&key, b"")], failure: vec![] });
        }
    }
}

/// What the keys of a repository say.
struct Found {
    leader: Option<(LeaderRecord, i64)>,
    wanted: Option<String>,
    /// Its journal is not completely there.
    is_imported: bool,
}

/// What decides whether this node takes a repository that no node leads.
struct Contest {
    /// How many nodes lead fewer repositories than this one.
    ahead: u32,
    /// Why this version may not write the cluster's journals.
    format_problem: Option<String>,
}

/// How many of the other nodes lead fewer repositories than this one. `led` has the leader of each repository.
fn with_fewer<'a>(own: &str, others: impl Iterator<Item = &'a str>, led: &[String]) -> u32 {
    let count = |node: &str| led.iter().filter(|leader| *leader == node).count();
    let own = count(own);
    u32::try_from(others.filter(|other| count(other) < own).count()).unwrap_or(u32::MAX)
}

/// What this node leads now.
struct Leading {
    term: Term,
    running: Box<dyn RunningTerm>,
}

pub(super) struct Election {
    shared: Arc<Shared>,
    repository: Text,
    work: Box<dyn LeaderWork>,
    leading: Option<Leading>,
    /// Since when this node knows that no node leads.
    vacant_since: Option<Instant>,
}

impl Election {
    pub fn new(shared: Arc<Shared>, repository: Text, work: Box<dyn LeaderWork>) -> Election {
        Election { shared, repository, work, leading: None, vacant_since: None }
    }

    pub fn run(mut self) {
        let mut heard = 0;
        while !self.shared.stopping.load(Ordering::SeqCst) {
            let pause = match self.look() {
                Ok(found) => {
                    self.shared.view.set_problem(&self.repository, None);
                    self.step(found)
                }
                Err(error) => {
                    self.shared.view.set_problem(&self.repository, Some(problem(&error)));
                    self.give_up_if_lost();
                    LOOK_EVERY
                }
            };
            if !pause.is_zero() {
                self.shared.view.bell().wait(&mut heard, pause);
            }
        }
        if let Some(leading) = self.leading.take() {
            self.hand_over(leading);
        }
    }

    fn look(&self) -> Result<Found, EtcdError> {
        let names = &self.shared.names;
        let (leader, wanted) = (names.leader(&self.repository), names.wanted(&self.repository));
        let below = leader.strip_suffix("leader").expect("it ends so");
        let request =
            RangeRequest { key: below.into(), range_end: after_prefix(below.as_bytes()), ..RangeRequest::default() };
        let kvs = self.shared.etcd.range(request)?.kvs;
        let find = |key: &str| kvs.iter().find(|found| found.key == key.as_bytes());
        let leader = find(&leader).and_then(|KeyValue { value, create_revision, .. }| {
            Some((serde_json::from_slice::<LeaderRecord>(value).ok()?, *create_revision))
        });
        let wanted = find(&wanted).and_then(|found| serde_json::from_slice::<WantedRecord>(&found.value).ok());
        let is_imported = find(&names.import(&self.repository)).is_some();
        Ok(Found { leader, wanted: wanted.map(|wanted| wanted.node), is_imported })
    }

    /// Does what the keys ask for. Returns how long to wait for the next look.
    fn step(&mut self, found: Found) -> Duration {
        let is_own = |record: &LeaderRecord| record.instance == self.shared.node.instance;
        if let Some(leading) = self.leading.take() {
            let still_leads = found.leader.as_ref().is_some_and(|(_, epoch)| *epoch == leading.term.epoch);
            if !still_leads {
                tracing::warn!(repo = %self.repository, epoch = leading.term.epoch, "this node does not lead any more");
                self.publish(&found);
                self.abandon(leading);
                return Duration::ZERO;
            }
            if let Some(failure) = leading.running.failure() {
                self.shared.view.set_trouble(&self.repository, Some(failure));
                let term = self.abandon(leading);
                self.resign(&term);
                return PAUSE_AFTER_TROUBLE;
            }
            if let Some(node) = found.wanted.filter(|node| *node != self.shared.node.name) {
                tracing::info!(repo = %self.repository, node, "the repository is moved to another node");
                self.hand_over(leading);
                return LOOK_EVERY;
            }
            self.leading = Some(leading);
            return LOOK_EVERY;
        }
        if found.is_imported {
            let sentence = super::transfer::unfinished(&self.repository, found.leader.is_some());
            self.shared.view.set_leader(&self.repository, None);
            self.shared.view.set_trouble(&self.repository, Some(sentence));
            return LOOK_EVERY;
        }
        self.publish(&found);
        if found.leader.is_some() {
            self.vacant_since = None;
        }
        match &found.leader {
            // Of an attempt whose answer was lost. Another epoch is needed: something of this one may still be on its way.
            Some((record, epoch)) if is_own(record) => {
                self.delete_leader(*epoch);
                Duration::ZERO
            }
            Some(_) => LOOK_EVERY,
            None => self.campaign(found.wanted),
        }
    }

    fn publish(&self, found: &Found) {
        let info = found.leader.as_ref().filter(|(record, _)| record.instance != self.shared.node.instance);
        let info = info.map(|(record, epoch)| LeaderInfo {
            node: record.node.as_str().into(),
            url: record.url.as_str().into(),
            epoch: *epoch,
            is_self: false,
        });
        if info.is_some() {
            self.shared.view.set_trouble(&self.repository, None);
        }
        self.shared.view.set_leader(&self.repository, info);
    }

    /// Tries to lead.
    fn campaign(&mut self, wanted: Option<String>) -> Duration {
        let shared = self.shared.clone();
        let is_wanted = wanted.as_ref().is_some_and(|node| *node == shared.node.name);
        if wanted.is_some() && !is_wanted {
            return LOOK_EVERY;
        }
        let lease = shared.lease.load_full();
        if !lease.is_certain() {
            return LOOK_EVERY;
        }
        let turn = shared.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *self.vacant_since.get_or_insert_with(Instant::now);
        match self.contest() {
            Ok(Contest { format_problem: Some(problem), .. }) => {
                let sentence = format!("this node cannot lead {}: {problem}", self.repository);
                shared.view.set_trouble(&self.repository, Some(sentence));
                return LOOK_EVERY;
            }
            Ok(Contest { ahead, .. }) => {
                let left = WAIT_MAX.min(WAIT_PER_NODE * ahead).saturating_sub(since.elapsed());
                if !left.is_zero() && !is_wanted {
                    return left;
                }
            }
            Err(error) => {
                shared.view.set_problem(&self.repository, Some(problem(&error)));
                return LOOK_EVERY;
            }
        }
        let record = LeaderRecord {
            node: shared.node.name.clone(),
            url: shared.node.url.clone(),
            instance: shared.node.instance.clone(),
        };
        let value = serde_json::to_vec(&record).expect("a record is plain data");
        let leader = shared.names.leader(&self.repository);
        let request = TxnRequest {
            compare: vec![is_absent(&leader), is_absent(&shared.names.import(&self.repository))],
            success: vec![put_leased(&leader, &value, lease.id), delete(&shared.names.wanted(&self.repository), b"")],
            failure: vec![],
        };
        let taken = shared.etcd.txn(request);
        drop(turn);
        self.vacant_since = None;
        let epoch = match taken {
            Ok(reply) if reply.succeeded => reply.header.unwrap_or_default().revision,
            Ok(_) => return Duration::ZERO,
            Err(error) => {
                shared.view.set_problem(&self.repository, Some(problem(&error)));
                return LOOK_EVERY;
            }
        };
        let term = Term {
            repository: self.repository.clone(),
            epoch,
            etcd: shared.etcd.clone(),
            keys: shared.names.journal(&self.repository),
            origin: shared.names.origin(&self.repository),
            leadership: Arc::new(TermLeadership { lease, over: AtomicBool::new(false) }),
            shared: shared.clone(),
        };
        shared.view.set_leader(
            &self.repository,
            Some(LeaderInfo {
                node: record.node.as_str().into(),
                url: record.url.as_str().into(),
                epoch,
                is_self: true,
            }),
        );
        match self.work.begin(&term) {
            Ok(running) => {
                tracing::info!(repo = %self.repository, epoch, "this node leads the repository");
                shared.view.set_trouble(&self.repository, None);
                self.leading = Some(Leading { term, running });
                shared.view.announce();
                Duration::ZERO
            }
            Err(error) => {
                let sentence = format!("this node cannot lead {}: {error:#}", self.repository);
                shared.view.set_trouble(&self.repository, Some(sentence));
                self.resign(&term);
                PAUSE_AFTER_TROUBLE
            }
        }
    }

    /// Who else may lead the repository.
    fn contest(&self) -> Result<Contest, EtcdError> {
        let Shared { etcd, names, node, .. } = &*self.shared;
        let nodes = super::member::nodes(etcd, names)?;
        let leaders = find_all(etcd, &names.live())?;
        let led: Vec<String> = leaders
            .iter()
            .filter(|found| found.key.ends_with(b"/leader"))
            .filter_map(|found| Some(serde_json::from_slice::<LeaderRecord>(&found.value).ok()?.node))
            .collect();
        let others = nodes.iter().filter(|other| other.name != node.name && other.serves(&self.repository));
        let others = others.map(|other| &*other.name);
        let ahead = with_fewer(&node.name, others, &led);
        Ok(Contest { ahead, format_problem: super::member::agree_on_format(etcd, names, &nodes)? })
    }

    /// Without etcd for too long, another node may lead by now.
    fn give_up_if_lost(&mut self) {
        let is_lost =
            |leading: &mut Leading| !leading.term.leadership.is_possible() || leading.running.failure().is_some();
        if let Some(leading) = self.leading.take_if(is_lost) {
            tracing::warn!(repo = %self.repository, "without an answer of etcd this node gives up its leadership");
            self.shared.view.set_leader(&self.repository, None);
            self.abandon(leading);
        }
    }

    fn abandon(&self, leading: Leading) -> Term {
        let Leading { term, running } = leading;
        term.leadership.over.store(true, Ordering::SeqCst);
        running.end(false);
        term
    }

    fn hand_over(&self, leading: Leading) {
        let Leading { term, running } = leading;
        running.end(true);
        self.resign(&term);
    }

    fn resign(&self, term: &Term) {
        term.leadership.over.store(true, Ordering::SeqCst);
        self.shared.view.set_leader(&self.repository, None);
        self.delete_leader(term.epoch);
    }

    /// If this fails, the key goes with the lease.
    fn delete_leader(&self, epoch: i64) {
        let leader = self.shared.names.leader(&self.repository);
        let compare = vec![create_is(&leader, epoch)];
        let _ = self.shared.etcd.txn(TxnRequest { compare, success: vec![delete(&leader, b"")], failure: vec![] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_lead_fewer_repositories_are_ahead() {
        let led = ["a", "a", "b", "gone"].map(str::to_owned);
        let ahead = |own: &str, others: &[&str]| with_fewer(own, others.iter().copied(), &led);
        assert_eq!(ahead("a", &["b", "c"]), 2);
        assert_eq!(ahead("b", &["a", "c"]), 1);
        assert_eq!((ahead("c", &["a", "b"]), ahead("c", &["d"])), (0, 0), "as many is not fewer");
    }
}
