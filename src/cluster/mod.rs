//! Several servers on one etcd: which node leads which repository.
//!
//! Every node has a lease. For each repository one key, bound to the lease of a node, says who leads; its creation is the
//! epoch. The leader runs what [`LeaderWork`] begins, on the journal of [`Term::journal`]; the others only know who leads,
//! which [`View`] tells. Writes are safe without any of this, because each compares the epoch; see `journal`. There is no
//! HTTP here and no rule. Start at [`Cluster::join`]; the thread of a repository is in `election`, the lease in `lease`,
//! what operators ask for in [`status`] and [`transfer`].

mod election;
mod lease;
mod member;
mod names;
pub mod status;
pub mod transfer;
mod view;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use arc_swap::ArcSwap;

pub use election::{LeaderWork, RunningTerm, Term};
pub use view::{LeaderInfo, View};

use crate::boot_clock;
use crate::engine::Text;
use crate::etcd::{Etcd, EtcdError, Watching};
use lease::Lease;
use member::{NodeRecord, wall_ms};
use names::Names;

/// The time of a lease, unless it is configured. etcd raises shorter ones to about two seconds.
pub const LEASE_TIME: Duration = Duration::from_secs(5);

/// The shortest and the longest time of a lease.
pub const LEASE_TIMES: std::ops::RangeInclusive<u64> = 2..=60;

/// How often a node writes its record again, with its clock.
const RECORD_EVERY_MS: i64 = 10_000;

/// What a node joins a cluster with.
pub struct NodeConfig {
    pub etcd: Arc<Etcd>,
    pub prefix: String,
    pub name: String,
    /// The address at which the other nodes reach this one.
    pub url: String,
    pub lease_time: Duration,
    /// Names the keys that this node verifies tokens with.
    pub keys: Option<String>,
}

/// A node in its cluster.
pub struct Cluster {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
    secret: Vec<u8>,
    _watching: Watching,
}

struct Shared {
    etcd: Arc<Etcd>,
    names: Names,
    node: NodeRecord,
    lease_time: Duration,
    lease: ArcSwap<Lease>,
    view: Arc<View>,
    ledger_behind: AtomicU64,
    /// The elections end, and hand over what they lead.
    stopping: AtomicBool,
    /// The lease is not renewed any more.
    stopped: AtomicBool,
}

impl Cluster {
    /// Joins the cluster, or says in one sentence why not. `on_fatal` is called if the node must stop later.
    pub fn join(config: NodeConfig, on_fatal: impl Fn(String) + Send + 'static) -> Result<Cluster> {
        let NodeConfig { etcd, prefix, name, url, lease_time, keys } = config;
        let names = Names::new(&prefix);
        let secret = member::open_prefix(&etcd, &names)?;
        let instance = uuid::Uuid::now_v7().simple().to_string();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let node = NodeRecord {
            name,
            url,
            version,
            format: member::FORMAT,
            instance,
            keys,
            clock_ms: wall_ms(),
            ledger_behind: 0,
        };
        let lease = grant(&etcd, lease_time)?;
        member::register(&etcd, &names, &node, lease.id, lease_time * 2)?;
        election::free_former(&etcd, &names, &node);
        let view = Arc::new(View::new());
        view.set_notes(member::notes(&node, &member::nodes(&etcd, &names).unwrap_or_default()));
        let on_change = view.clone();
        let watching = etcd.watch(&names.live(), move || on_change.ring());
        let shared = Arc::new(Shared {
            etcd,
            names,
            node,
            lease_time,
            lease: ArcSwap::from_pointee(lease),
            view,
            ledger_behind: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let of_keeper = shared.clone();
        let keep = move || of_keeper.keep_lease(&on_fatal);
        let keeper =
            std::thread::Builder::new().name("lease".to_owned()).spawn(keep).context("cannot start a thread")?;
        let keeper = Mutex::new(Some(keeper));
        Ok(Cluster { shared, threads: Mutex::default(), keeper, secret, _watching: watching })
    }

    /// Known to the nodes of the cluster only.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    pub fn view(&self) -> Arc<View> {
        self.shared.view.clone()
    }

    pub fn node(&self) -> &str {
        &self.shared.node.name
    }

    /// Takes part in the elections of a repository; `work` is begun whenever this node wins.
    pub fn run(&self, repository: Text, work: Box<dyn LeaderWork>) -> Result<()> {
        let shared = self.shared.clone();
        let name = format!("lead {repository}");
        let run = move || election::Election::new(shared, repository, work).run();
        let thread = std::thread::Builder::new().name(name).spawn(run).context("cannot start a thread")?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Takes the number of records that the ledgers have not written yet, for `git dibs cluster status`.
    pub fn reporter(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let shared = self.shared.clone();
        move |records| shared.ledger_behind.store(records, Ordering::Relaxed)
    }

    /// Ends what this node leads, in order, and lets other nodes take over at once.
    pub fn hand_over(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.view.ring();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Hands over, and leaves the cluster.
    pub fn leave(&self) {
        self.hand_over();
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.view.ring();
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = keeper.join();
        }
        let _ = self.shared.etcd.revoke_lease(self.shared.lease.load().id);
    }
}

fn grant(etcd: &Etcd, time: Duration) -> Result<Lease, EtcdError> {
    member::patiently(|| {
        let asked_at = boot_clock::now_ms();
        let (id, ttl) = etcd.grant_lease(time)?;
        Ok(Lease::new(id, ttl, asked_at))
    })
}

impl Shared {
    /// The thread that renews the lease, and replaces one that is gone.
    fn keep_lease(&self, on_fatal: &dyn Fn(String)) {
        let (mut heard, mut record_at) = (0, boot_clock::now_ms());
        while !self.stopped.load(Ordering::SeqCst) {
            let lease = self.lease.load_full();
            let asked_at = boot_clock::now_ms();
            let result = self.etcd.keep_lease(lease.id);
            let next = match result {
                Ok(()) => {
                    lease.renewed(asked_at);
                    self.view.set_problem(None);
                    self.lease_time / 3
                }
                Err(EtcdError::LeaseGone) => {
                    lease.end();
                    self.view.ring();
                    match self.join_again() {
                        Ok(()) => self.view.set_problem(None),
                        Err(error) => self.view.set_problem(Some(format!("this node lost its lease: {error}"))),
                    }
                    Duration::from_millis(200)
                }
                Err(error) => {
                    self.view.set_problem(Some(problem(&error)));
                    self.view.ring();
                    Duration::from_millis(200)
                }
            };
            if boot_clock::now_ms() - record_at > RECORD_EVERY_MS && self.view.problem().is_none() {
                record_at = boot_clock::now_ms();
                if let Some(url) = self.refresh_record() {
                    let name = &self.node.name;
                    on_fatal(format!("another node with the name {name} has started at {url}; this one stops"));
                    return;
                }
            }
            // Only `leave` must not wait; other rings are not for this thread.
            let until = boot_clock::now_ms() + i64::try_from(next.as_millis()).unwrap_or(i64::MAX);
            while !self.stopped.load(Ordering::SeqCst) && boot_clock::now_ms() < until {
                self.view
                    .bell()
                    .wait(&mut heard, Duration::from_millis((until - boot_clock::now_ms()).max(0).unsigned_abs()));
            }
        }
    }

    fn join_again(&self) -> Result<()> {
        let lease = grant(&self.etcd, self.lease_time)?;
        member::register(&self.etcd, &self.names, &self.record(), lease.id, Duration::ZERO)?;
        self.lease.store(Arc::new(lease));
        self.view.ring();
        Ok(())
    }

    fn record(&self) -> NodeRecord {
        let ledger_behind = self.ledger_behind.load(Ordering::Relaxed);
        NodeRecord { clock_ms: wall_ms(), ledger_behind, ..self.node.clone() }
    }

    /// Writes the record of this node again, and looks at the others. Returns the address of another node of this name.
    fn refresh_record(&self) -> Option<String> {
        let nodes = member::nodes(&self.etcd, &self.names).ok()?;
        let own = nodes.iter().find(|node| node.name == self.node.name);
        if let Some(other) = own.filter(|own| own.instance != self.node.instance) {
            return Some(other.url.clone());
        }
        let _ = member::register(&self.etcd, &self.names, &self.record(), self.lease.load().id, Duration::ZERO);
        self.view.set_notes(member::notes(&self.node, &nodes));
        None
    }
}

/// What an error of etcd means for the cluster.
fn problem(error: &EtcdError) -> String {
    match error {
        EtcdError::Unclear(why) => {
            format!(
                "no quorum: etcd does not answer ({why}); nothing is decided until a majority of its members is back"
            )
        }
        error => error.to_string(),
    }
}
