//! What every handler can reach: the repositories and the keyring.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::courier::Courier;
use super::events::EventLimits;
use super::history::Past;
use super::metrics::Gauge;
use super::requests::Requests;
use crate::desk::Desk;
use crate::engine::Text;
use crate::key::KeyRules;
use crate::token::Keyring;

/// Threads that read journals for event streams at once; each reads thousands of records at a time.
const LOOKING_BACK_MAX: usize = 2;

/// One repository that is served.
pub struct Repository {
    /// The name tokens use.
    pub name: Text,
    /// Where its commands go.
    pub desk: Desk,
    /// How its keys are read.
    pub rules: KeyRules,
    /// How long files may be held.
    pub file_ttl: TtlBounds,
    /// How long logical keys and resource URIs may be held.
    pub name_ttl: TtlBounds,
    /// Brings the answers.
    pub courier: Courier,
    /// What happened, where somebody keeps that.
    pub past: Option<Arc<dyn Past>>,
}

/// How long something may be held, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlBounds {
    /// Where the request says nothing.
    pub default: u32,
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
}

impl TtlBounds {
    /// For files.
    pub const FILES: TtlBounds = TtlBounds { default: 60, min: 1, max: 300 };
    /// For logical keys and resource URIs.
    pub const NAMES: TtlBounds = TtlBounds { default: 1800, min: 1, max: 28_800 };
}

/// Everything the handlers share.
pub struct App {
    /// By name.
    pub repositories: BTreeMap<Text, Arc<Repository>>,
    /// Verifies and mints tokens.
    pub keyring: Arc<Keyring>,
    /// The wall clock in seconds, by which tokens run out.
    pub wall_clock: fn() -> i64,
    /// How event streams behave.
    pub events: EventLimits,
    /// Whether whoever reaches the server may read `/metrics` without a token.
    pub open_metrics: bool,
    /// More numbers for `/metrics`.
    pub gauges: Vec<Gauge>,
    pub(super) requests: Requests,
    /// When the server was started, in seconds since 1970.
    pub(super) started: i64,
    /// Event streams that may look back into a journal at once.
    pub(super) looking_back: Semaphore,
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
            events: EventLimits::default(),
            open_metrics: true,
            gauges: Vec::new(),
            requests: Requests::new(),
            started: wall_clock(),
            looking_back: Semaphore::new(LOOKING_BACK_MAX),
            stopping: watch::Sender::new(false),
        }
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
