//! The state that all handlers share: the repositories, the keyring, the limits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::{Semaphore, watch};

use super::byte_budget::ByteBudget;
use super::event_texts::EventTexts;
use super::extract::{BODIES_BYTES_MAX, BODIES_BYTES_PER_CALLER_MAX};
use super::handlers::mcp::ToolWaits;
use super::handlers::metrics::Gauge;
use super::handlers::reserve::{WAITS_BYTES_MAX, WAITS_BYTES_PER_SESSION_MAX};
use super::history_backend::HistoryBackend;
use super::key_policy::KeyPolicy;
use super::lfs::{LockLists, TrackedFiles};
use super::limits::ServerLimits;
use super::live_events::LiveEvents;
use super::login::codes::LoginCodes;
use super::login::ended::{EndedLogins, SaveNotes};
use super::middleware::rate_limit::RateLimiter;
use super::middleware::reply_room::{REPLIES_BYTES_MAX, REPLIES_BYTES_PER_CALLER_MAX};
use super::middleware::request_count::RequestCounts;
use super::pattern_work::{WorkShares, pattern_threads};
use super::port_pool::PortPool;
use super::reply_channel::ReplyChannel;
use crate::desk::Desk;
use crate::engine::Text;
use crate::token::Keyring;

/// Event streams that read the journal at the same time. Each uses a thread and reads thousands of records at once.
const JOURNAL_READERS_MAX: usize = 2;

/// One repository that the server serves.
pub struct Repository {
    /// The name that tokens use for it.
    pub name: Text,
    pub desk: Desk,
    /// Carries the desk's replies to the handlers.
    pub(super) reply_channel: ReplyChannel,
    /// Reads `/api/history`; without one the history is empty.
    pub history: Option<Arc<dyn HistoryBackend>>,
    /// Reads the files that patterns cover, for Git LFS clients; without one they see no such files.
    pub tracked_files: Option<Arc<dyn TrackedFiles>>,
    /// Held by the request that makes a new list of locks.
    pub(super) lock_list_turn: tokio::sync::Mutex<()>,
    policy: ArcSwap<KeyPolicy>,
    pub(super) rate_limiter: RateLimiter,
    pub(super) work_shares: WorkShares,
    pub(super) event_texts: EventTexts,
    pub(super) live: LiveEvents,
    /// Shared by all repositories of the server.
    pub(super) port_pool: Arc<PortPool>,
}

impl Repository {
    /// With the default policy and without a history.
    pub fn new(name: Text, desk: Desk) -> Self {
        let policy = ArcSwap::from_pointee(KeyPolicy::default());
        Self {
            name,
            desk,
            reply_channel: ReplyChannel::default(),
            history: None,
            tracked_files: None,
            lock_list_turn: tokio::sync::Mutex::default(),
            policy,
            rate_limiter: RateLimiter::default(),
            work_shares: WorkShares::default(),
            event_texts: EventTexts::default(),
            live: LiveEvents::default(),
            port_pool: Arc::default(),
        }
    }

    pub fn policy(&self) -> Guard<Arc<KeyPolicy>> {
        self.policy.load()
    }

    /// Replaces the policy for the requests from now on.
    pub fn set_policy(&self, policy: KeyPolicy) {
        self.policy.store(Arc::new(policy));
    }
}

/// The state that all handlers share.
pub struct App {
    /// By name.
    pub repositories: BTreeMap<Text, Arc<Repository>>,
    pub keyring: Arc<Keyring>,
    /// The wall clock in seconds since 1970, by which tokens expire.
    pub wall_clock: fn() -> i64,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
    /// Numbers for `/metrics` that other rooms keep.
    pub gauges: Vec<Gauge>,
    pub(super) requests: RequestCounts,
    /// Codes with which browsers can sign in now.
    pub(super) login_codes: LoginCodes,
    pub(super) ended_logins: EndedLogins,
    /// When the server was started, in seconds since 1970.
    pub(super) started: i64,
    /// Limits the event streams that read a journal at the same time.
    pub(super) journal_readers: Semaphore,
    /// Limits the threads that build and compare patterns at the same time.
    pub(super) pattern_threads: Arc<Semaphore>,
    /// The bodies of large requests that are read, parsed and answered.
    pub(super) bodies: ByteBudget,
    /// Large replies that are being sent.
    pub(super) replies: ByteBudget,
    /// The keys of large requests that wait in a queue.
    pub(super) waits: ByteBudget,
    /// Tool calls that wait in a queue and can be cancelled.
    pub(super) tool_waits: ToolWaits,
    /// For Git LFS clients.
    pub(super) lock_lists: LockLists,
    limits: Arc<ArcSwap<ServerLimits>>,
    hosts: ArcSwap<Vec<String>>,
    public_url: ArcSwap<Option<Text>>,
    stopping: watch::Sender<bool>,
    /// Why the server is not ready, if it is not and does not stop.
    unready: OnceLock<String>,
}

impl App {
    pub fn new(repositories: Vec<Repository>, keyring: Arc<Keyring>, wall_clock: fn() -> i64) -> Self {
        let desks = repositories.iter().map(|repo| (repo.name.clone(), repo.desk.clone())).collect();
        let port_pool = Arc::new(PortPool::of(desks));
        let shared = |repo: Repository| Arc::new(Repository { port_pool: port_pool.clone(), ..repo });
        let repositories = repositories.into_iter().map(|repo| (repo.name.clone(), shared(repo))).collect();
        Self {
            repositories,
            keyring,
            wall_clock,
            open_metrics: true,
            gauges: Vec::new(),
            requests: RequestCounts::default(),
            login_codes: LoginCodes::default(),
            ended_logins: EndedLogins::default(),
            started: wall_clock(),
            journal_readers: Semaphore::new(JOURNAL_READERS_MAX),
            pattern_threads: pattern_threads(),
            bodies: ByteBudget::new(BODIES_BYTES_MAX, BODIES_BYTES_PER_CALLER_MAX),
            replies: ByteBudget::new(REPLIES_BYTES_MAX, REPLIES_BYTES_PER_CALLER_MAX),
            waits: ByteBudget::new(WAITS_BYTES_MAX, WAITS_BYTES_PER_SESSION_MAX),
            tool_waits: ToolWaits::default(),
            lock_lists: LockLists::default(),
            limits: Arc::default(),
            hosts: ArcSwap::default(),
            public_url: ArcSwap::default(),
            stopping: watch::Sender::new(false),
            unready: OnceLock::new(),
        }
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Guard<Arc<ServerLimits>> {
        self.limits.load()
    }

    /// The limits, for a reader that sees later changes too.
    pub fn shared_limits(&self) -> Arc<ArcSwap<ServerLimits>> {
        self.limits.clone()
    }

    pub fn set_limits(&self, limits: ServerLimits) {
        self.limits.store(Arc::new(limits));
    }

    /// Host names that the server accepts besides those of this machine.
    pub fn hosts(&self) -> Guard<Arc<Vec<String>>> {
        self.hosts.load()
    }

    pub fn set_hosts(&self, hosts: Vec<String>) {
        self.hosts.store(Arc::new(hosts));
    }

    /// The address that clients use, if one is configured. Tokens that the server makes name it.
    pub fn public_url(&self) -> Option<Text> {
        Option::clone(&self.public_url.load())
    }

    pub fn set_public_url(&self, url: Option<Text>) {
        self.public_url.store(Arc::new(url));
    }

    /// Continues with the ended logins that were saved, and saves them with this from now on.
    pub fn keep_ended_logins(&self, saved: &[u8], save: SaveNotes) {
        self.ended_logins.keep(saved, save);
    }

    /// The repository, if there is exactly one.
    pub fn only_repository(&self) -> Option<&Arc<Repository>> {
        let mut all = self.repositories.values();
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    /// How many requests were answered so far.
    pub fn answered_requests(&self) -> u64 {
        self.requests.total()
    }

    /// Makes `/readyz` fail and ends event streams.
    pub fn set_stopping(&self) {
        self.stopping.send_replace(true);
    }

    /// From now on `/readyz` fails for this reason. Only the first reason is kept.
    pub fn set_unready(&self, reason: String) {
        let _ = self.unready.set(reason);
    }

    /// Why the server is not ready, until it is started again.
    pub fn unready(&self) -> Option<&str> {
        self.unready.get().map(String::as_str)
    }

    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns when the server stops.
    pub async fn stopped(&self) {
        // The sender is in this struct, so the channel is never closed.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}
