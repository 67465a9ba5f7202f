//! Several servers on one etcd: which node leads which repository.
//!
//! Every node has a lease. For each repository one key, bound to the lease of a node, says who leads; its creation is the
//! epoch. The leader runs what [`LeaderWork`] begins, on the journal of [`Term::journal`]; the others only know who leads,
//! which [`View`] tells. Writes are safe without any of this, because each compares the epoch; see `journal`. There is no
//! HTTP here and no rule. Start at [`Cluster::join`]; the thread of a repository is in `election`, the lease in `lease`,
//! which browsers have signed out in `logins`,
//! what operators ask for in [`status`] and [`transfer`].

mod election;
mod lease;
mod logins;
mod member;
mod names;
pub mod status;
pub mod transfer;
mod view;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use arc_swap::ArcSwap;

pub use election::{LeaderWork, RunningTerm, Term};
pub use view::{LeaderInfo, NodeAddress, View};

use crate::boot_clock;
use crate::engine::Text;
use crate::etcd::{Etcd, EtcdError, Watching};
use lease::Lease;
use member::{NodeRecord, wall_ms};
use names::Names;
use view::Bell;

/// The time of a lease, unless it is configured. etcd raises shorter ones to about two seconds.
pub const LEASE_TIME: Duration = Duration::from_secs(5);

/// The shortest and the longest time of a lease.
pub const LEASE_TIMES: std::ops::RangeInclusive<u64> = 2..=60;

/// How often a node writes its record again, with its clock, if nothing else changes in it.
const RECORD_EVERY_MS: i64 = 10_000;

/// The name under which the thread of the lease reports problems; those of elections have the name of a repository.
const LEASE: &str = "";

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
    pub repositories: Vec<String>,
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
    /// Held by the election that takes a repository, so that each sees how many this node leads.
    taking: Mutex<()>,
    /// Logins that have ended here and that etcd may not know, with when they would have expired.
    unknown_logins: Mutex<BTreeMap<String, i64>>,
    /// Rings when a login may have ended, and when the node stops.
    logins: Arc<Bell>,
    /// The elections end, and hand over what they lead.
    stopping: AtomicBool,
    /// The lease is not renewed any more.
    stopped: AtomicBool,
}

impl Cluster {
    /// Joins the cluster, or says in one sentence why not. `on_fatal` is called if the node must stop later.
    pub fn join(config: NodeConfig, on_fatal: impl Fn(String) + Send + 'static) -> Result<Cluster> {
        let NodeConfig { etcd, prefix, name, url, lease_time, keys, repositories } = config;
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
            problems: Vec::new(),
            repositories: Some(repositories),
        };
        let lease = grant(&etcd, lease_time)?;
        member::register(&etcd, &names, &node, lease.id, lease_time * 2)?;
        election::free_former(&etcd, &names, &node);
        let view = Arc::new(View::new());
        let nodes = member::nodes(&etcd, &names).unwrap_or_default();
        view.set_notes(member::notes(&node, &nodes));
        view.set_others(member::others(&node, &nodes));
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
            taking: Mutex::default(),
            unknown_logins: Mutex::default(),
            logins: Arc::default(),
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

    /// Makes known to all nodes that a login of a browser has ended. An error says why they may not know it yet.
    pub fn login_ender(&self) -> impl Fn(&str, i64) -> Result<(), String> + Send + Sync + 'static {
        let shared = self.shared.clone();
        move |id, expires| logins::end(&shared, id, expires).map_err(|error| error.to_string())
    }

    /// Calls `on` with the logins that have ended anywhere: their ids, and when they would have expired.
    pub fn follow_logins(&self, on: impl Fn(Vec<(String, i64)>) + Send + 'static) -> Result<()> {
        let shared = self.shared.clone();
        let follow = move || logins::follow(&shared, &on);
        let thread =
            std::thread::Builder::new().name("logins".to_owned()).spawn(follow).context("cannot start a thread")?;
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
        // No other node leaves an election to this one. This may be a task of another runtime than that of etcd.
        std::thread::scope(|scope| {
            let Shared { etcd, names, node, .. } = &*self.shared;
            scope.spawn(|| member::unregister(etcd, names, node));
        });
        self.shared.view.ring();
        self.shared.logins.ring();
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
        let (mut heard, mut written) = (0, (boot_clock::now_ms(), Vec::new()));
        while !self.stopped.load(Ordering::SeqCst) {
            let lease = self.lease.load_full();
            let asked_at = boot_clock::now_ms();
            let next = match self.etcd.keep_lease(lease.id) {
                Ok(()) => {
                    lease.renewed(asked_at);
                    self.view.set_problem(LEASE, None);
                    if let Some(url) = self.refresh_record(&mut written) {
                        on_fatal(self.replaced(&url));
                        return;
                    }
                    self.lease_time / 3
                }
                Err(EtcdError::LeaseGone) => {
                    lease.end();
                    self.view.ring();
                    // A process that was frozen for long may have been replaced.
                    let nodes = member::nodes(&self.etcd, &self.names).unwrap_or_default();
                    if let Some(url) = self.replaced_by(&nodes) {
                        on_fatal(self.replaced(&url));
                        return;
                    }
                    match self.join_again() {
                        Ok(()) => self.view.set_problem(LEASE, None),
                        Err(error) => {
                            self.view.set_problem(LEASE, Some(format!("this node lost its lease: {error}")));
                        }
                    }
                    Duration::from_millis(200)
                }
                Err(error) => {
                    self.view.set_problem(LEASE, Some(problem(&error)));
                    self.view.ring();
                    Duration::from_millis(200)
                }
            };
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

    /// The address of another node of this name.
    fn replaced_by(&self, nodes: &[NodeRecord]) -> Option<String> {
        let mut of_this_name = nodes.iter().filter(|node| node.name == self.node.name);
        of_this_name.find(|node| node.instance != self.node.instance).map(|node| node.url.clone())
    }

    fn replaced(&self, url: &str) -> String {
        format!("another node with the name {} has started at {url}; this one stops", self.node.name)
    }

    fn record(&self) -> NodeRecord {
        let ledger_behind = self.ledger_behind.load(Ordering::Relaxed);
        NodeRecord { clock_ms: wall_ms(), ledger_behind, problems: self.view.reports(), ..self.node.clone() }
    }

    /// Looks at the records of the other nodes, and writes that of this one again where it is old. `written` is when that was
    /// done last, and which problems it named. Returns the address of another node of this name.
    fn refresh_record(&self, written: &mut (i64, Vec<String>)) -> Option<String> {
        let nodes = member::nodes(&self.etcd, &self.names).ok()?;
        let replaced_by = self.replaced_by(&nodes);
        if replaced_by.is_some() {
            return replaced_by;
        }
        self.view.set_notes(member::notes(&self.node, &nodes));
        self.view.set_others(member::others(&self.node, &nodes));
        let record = self.record();
        if self.stopping.load(Ordering::SeqCst) {
            return None;
        }
        let is_known = nodes.iter().any(|node| node.name == self.node.name);
        if !is_known || boot_clock::now_ms() - written.0 > RECORD_EVERY_MS || record.problems != written.1 {
            *written = (boot_clock::now_ms(), record.problems.clone());
            let _ = member::register(&self.etcd, &self.names, &record, self.lease.load().id, Duration::ZERO);
        }
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
