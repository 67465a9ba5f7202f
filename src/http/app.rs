//! The state that all handlers share: the repositories, the keyring, the limits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use tokio::sync::{Semaphore, watch};

use super::byte_budget::ByteBudget;
use super::event_texts::EventTexts;
use super::extract::{BODIES_BYTES_MAX, BODIES_BYTES_PER_CALLER_MAX};
use super::forward::Forwarder;
use super::handlers::mcp::ToolWaits;
use super::handlers::metrics::Gauge;
use super::handlers::reserve::{WAITS_BYTES_MAX, WAITS_BYTES_PER_SESSION_MAX};
use super::history_backend::HistoryBackend;
use super::key_policy::KeyPolicy;
use super::lfs::{LockLists, TrackedFiles};
use super::limits::ServerLimits;
use super::live_events::LiveEvents;
use super::login::codes::LoginCodes;
use super::login::ended::{EndedLogins, SaveNotes, ShareNote};
use super::middleware::rate_limit::RateLimiter;
use super::middleware::reply_room::{REPLIES_BYTES_MAX, REPLIES_BYTES_PER_CALLER_MAX};
use super::middleware::request_count::RequestCounts;
use super::pattern_work::{WorkShares, pattern_threads};
use super::port_pool::PortPool;
use super::reply_channel::ReplyChannel;
use super::transport::unread::OpenSockets;
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
    /// Numbers for `/metrics` that other rooms keep.
    pub gauges: Vec<Gauge>,
    /// Held by the request that makes a new list of locks.
    pub(super) lock_list_turn: tokio::sync::Mutex<()>,
    policy: ArcSwap<KeyPolicy>,
    pub(super) rate_limiter: RateLimiter,
    pub(super) work_shares: WorkShares,
    pub(super) event_texts: EventTexts,
    pub(super) live: LiveEvents,
    /// Shared by all repositories of the server.
    pub(super) port_pool: Arc<PortPool>,
    /// Another node of the cluster decides for this repository now.
    closed: watch::Sender<bool>,
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
            gauges: Vec::new(),
            lock_list_turn: tokio::sync::Mutex::default(),
            policy,
            rate_limiter: RateLimiter::default(),
            work_shares: WorkShares::default(),
            event_texts: EventTexts::default(),
            live: LiveEvents::default(),
            port_pool: Arc::default(),
            closed: watch::Sender::new(false),
        }
    }

    /// Returns when another node of the cluster decides for this repository.
    pub(super) async fn closed(&self) {
        // The sender is in this struct, so the channel is never closed.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    pub fn policy(&self) -> Guard<Arc<KeyPolicy>> {
        self.policy.load()
    }

    /// Replaces the policy for the requests from now on.
    pub fn set_policy(&self, policy: KeyPolicy) {
        self.policy.store(Arc::new(policy));
    }
}

/// The repositories of the server by name. In a cluster, only those that this node leads are open.
pub struct Repositories {
    slots: BTreeMap<Text, ArcSwapOption<Repository>>,
}

impl Repositories {
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.slots.keys()
    }

    pub fn has(&self, name: &str) -> bool {
        self.slots.contains_key(name)
    }

    /// The repository, if it is open.
    pub fn get(&self, name: &str) -> Option<Arc<Repository>> {
        self.slots.get(name)?.load_full()
    }

    /// The repositories that are open.
    pub fn open(&self) -> impl Iterator<Item = Arc<Repository>> + Clone {
        self.slots.values().filter_map(ArcSwapOption::load_full)
    }

    /// The name of the repository, if there is exactly one.
    pub fn only(&self) -> Option<&Text> {
        let mut names = self.slots.keys();
        let first = names.next()?;
        names.next().is_none().then_some(first)
    }
}

/// The state that all handlers share.
pub struct App {
    pub repositories: Arc<Repositories>,
    /// Sends requests to the nodes that lead, in a cluster.
    pub(super) forwarder: Option<Forwarder>,
    /// The connections of the server, once it has some.
    sockets: OnceLock<Arc<OpenSockets>>,
    port_pool: Arc<PortPool>,
    pub keyring: Arc<Keyring>,
    /// The wall clock in seconds since 1970, by which tokens expire.
    pub wall_clock: fn() -> i64,
    /// Whether browsers reach this server over TLS: its own, or that of a proxy in front of it.
    pub serves_tls: bool,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
    pub(super) requests: RequestCounts,
    /// Codes with which browsers can sign in now.
    pub(super) login_codes: LoginCodes,
    pub(super) ended_logins: EndedLogins,
    /// When the server was started, in seconds since 1970.
    pub(super) started: i64,
    /// Limits the event streams that read a journal at the same time.
    pub(super) journal_readers: Arc<Semaphore>,
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
        let names = repositories.iter().map(|repo| repo.name.clone()).collect();
        let app = Self::closed(names, keyring, wall_clock);
        repositories.into_iter().for_each(|repo| app.open(repo));
        app
    }

    /// An app whose repositories are not open yet.
    pub fn closed(names: Vec<Text>, keyring: Arc<Keyring>, wall_clock: fn() -> i64) -> Self {
        let slots = names.into_iter().map(|name| (name, ArcSwapOption::empty())).collect();
        let repositories = Arc::new(Repositories { slots });
        let port_pool = Arc::new(PortPool::of(&repositories));
        Self {
            repositories,
            forwarder: None,
            sockets: OnceLock::new(),
            port_pool,
            keyring,
            wall_clock,
            serves_tls: false,
            open_metrics: true,
            requests: RequestCounts::default(),
            login_codes: LoginCodes::default(),
            ended_logins: EndedLogins::default(),
            started: wall_clock(),
            journal_readers: Arc::new(Semaphore::new(JOURNAL_READERS_MAX)),
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

    /// Tells the other nodes of the cluster with this when a login ends.
    pub fn share_ended_logins(&self, share: ShareNote) {
        self.ended_logins.share_with(share);
    }

    /// Takes the ended logins of all nodes: their ids, and when they would have expired.
    pub fn hear_ended_logins(&self, ended: Vec<(String, i64)>) {
        self.ended_logins.hear(ended, (self.wall_clock)());
    }

    /// From now on requests for this repository are decided here.
    pub fn open(&self, repository: Repository) {
        let repository = Arc::new(Repository { port_pool: self.port_pool.clone(), ..repository });
        if let Some(sockets) = self.sockets.get() {
            repository.desk.set_intake(sockets.intake());
        }
        self.repositories.slots[&repository.name].store(Some(repository));
    }

    /// From now on another node decides for this repository. Its event streams end, so that their clients connect again.
    pub fn close(&self, name: &str) {
        if let Some(repository) = self.repositories.slots.get(name).and_then(|slot| slot.swap(None)) {
            repository.closed.send_replace(true);
        }
    }

    /// The desks hear what has arrived on these connections before anything expires.
    pub(super) fn set_sockets(&self, sockets: &Arc<OpenSockets>) {
        let _ = self.sockets.set(sockets.clone());
        self.repositories.open().for_each(|repo| repo.desk.set_intake(sockets.intake()));
    }

    /// Requests for repositories that other nodes lead are sent to these.
    pub fn set_forwarder(&mut self, forwarder: Forwarder) {
        self.forwarder = Some(forwarder);
    }

    /// Asks another node of the cluster for its name, or says why it cannot be reached at this address.
    pub async fn probe_node(&self, node: &str, url: &str) -> Result<(), String> {
        match &self.forwarder {
            Some(forwarder) => forwarder.probe(node, url).await,
            None => Err("there is no cluster".to_owned()),
        }
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

    /// Becomes true when the server stops.
    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Returns when the server stops.
    pub async fn stopped(&self) {
        // The sender is in this struct, so the channel is never closed.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}
