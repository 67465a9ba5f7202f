//! One thread for each repository: it leads, or waits until no other node does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

/// A node waits this long for each repository that it leads already, so that one with fewer goes first.
const WAIT_PER_LED: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(1);

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
}

impl Election {
    pub fn new(shared: Arc<Shared>, repository: Text, work: Box<dyn LeaderWork>) -> Election {
        Election { shared, repository, work, leading: None }
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
        Ok(Found { leader, wanted: wanted.map(|wanted| wanted.node) })
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
        self.publish(&found);
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
        if wanted.is_some_and(|node| node != shared.node.name) {
            return LOOK_EVERY;
        }
        let lease = shared.lease.load_full();
        if !lease.is_certain() {
            return LOOK_EVERY;
        }
        std::thread::sleep(WAIT_MAX.min(WAIT_PER_LED * u32::try_from(shared.view.led()).unwrap_or(u32::MAX)));
        let record = LeaderRecord {
            node: shared.node.name.clone(),
            url: shared.node.url.clone(),
            instance: shared.node.instance.clone(),
        };
        let value = serde_json::to_vec(&record).expect("a record is plain data");
        let leader = shared.names.leader(&self.repository);
        let request = TxnRequest {
            compare: vec![is_absent(&leader)],
            success: vec![put_leased(&leader, &value, lease.id), delete(&shared.names.wanted(&self.repository), b"")],
            failure: vec![],
        };
        let epoch = match shared.etcd.txn(request) {
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
