//! What every handler can reach: the repositories and the keyring.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::{Semaphore, watch};

use super::handlers::history::Past;
use super::handlers::metrics::Gauge;
use super::key_policy::KeyPolicy;
use super::limits::Limits;
use super::middleware::rate_limit::Meter;
use super::middleware::request_count::RequestCounts;
use super::reply_channel::Courier;
use crate::desk::Desk;
use crate::engine::Text;
use crate::token::Keyring;

/// Threads that read journals for event streams at once; each reads thousands of records at a time.
const LOOKING_BACK_MAX: usize = 2;

/// One repository that is served.
pub struct Repository {
    /// The name tokens use.
    pub name: Text,
    /// Where its commands go.
    pub desk: Desk,
    /// Brings the answers.
    pub courier: Courier,
    /// What happened, where somebody keeps that.
    pub past: Option<Arc<dyn Past>>,
    policy: ArcSwap<KeyPolicy>,
    pub(super) meter: Meter,
}

impl Repository {
    /// With the usual policy, and nothing kept of the past.
    pub fn new(name: Text, desk: Desk) -> Self {
        let policy = ArcSwap::from_pointee(KeyPolicy::default());
        Self { name, desk, courier: Courier::default(), past: None, policy, meter: Meter::default() }
    }

    /// What may be reserved, for how long and how.
    pub fn policy(&self) -> Guard<Arc<KeyPolicy>> {
        self.policy.load()
    }

    /// Requests are judged by this from now on. How names are compared stays as it is.
    pub fn set_policy(&self, policy: KeyPolicy) {
        self.policy.store(Arc::new(policy));
    }
}

/// Everything the handlers share.
pub struct App {
    /// By name.
    pub repositories: BTreeMap<Text, Arc<Repository>>,
    /// Verifies and mints tokens.
    pub keyring: Arc<Keyring>,
    /// The wall clock in seconds, by which tokens run out.
    pub wall_clock: fn() -> i64,
    /// Whether whoever reaches the server may read `/metrics` without a token.
    pub open_metrics: bool,
    /// More numbers for `/metrics`.
    pub gauges: Vec<Gauge>,
    pub(super) requests: RequestCounts,
    /// When the server was started, in seconds since 1970.
    pub(super) started: i64,
    /// Event streams that may look back into a journal at once.
    pub(super) looking_back: Semaphore,
    limits: Arc<ArcSwap<Limits>>,
    hosts: ArcSwap<Vec<String>>,
    stopping: watch::Sender<bool>,
}

impl App {
    /// Serves these.
    pub fn new(repositories: Vec<Repository>, keyring: Arc<Keyring>, wall_clock: fn() -> i64) -> Self {
        let repositories = repositories.into_iter().map(|repo| (repo.name.clone(), Arc::new(repo))).collect();
        Self {
            repositories,
            keyring,
            wall_clock,
            open_metrics: true,
            gauges: Vec::new(),
            requests: RequestCounts::default(),
            started: wall_clock(),
            looking_back: Semaphore::new(LOOKING_BACK_MAX),
            limits: Arc::default(),
            hosts: ArcSwap::default(),
            stopping: watch::Sender::new(false),
        }
    }

    /// How much of everything the door takes.
    pub fn limits(&self) -> Guard<Arc<Limits>> {
        self.limits.load()
    }

    /// The same for somebody who follows its changes.
    pub fn shared_limits(&self) -> Arc<ArcSwap<Limits>> {
        self.limits.clone()
    }

    /// From now on it takes so much.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// Names the server goes by, besides localhost.
    pub fn hosts(&self) -> Guard<Arc<Vec<String>>> {
        self.hosts.load()
    }

    /// From now on it goes by these.
    pub fn set_hosts(&self, hosts: Vec<String>) {
        self.hosts.store(Arc::new(hosts));
    }

    /// The repository, where there is just one.
    pub fn only(&self) -> Option<&Arc<Repository>> {
        let mut all = self.repositories.values();
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    /// From now on the server is not ready, and streams end.
    pub fn set_stopping(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether new work should go elsewhere.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Comes back when the server stops.
    pub async fn stopped(&self) {
        // Its other end is in here, so it is never gone.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}
