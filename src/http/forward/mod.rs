//! In a cluster: requests for a repository that another node leads are sent to that node, once.
//!
//! The caller's token goes along unchanged, and the leader decides as if the caller had asked it. Nodes recognise each
//! other by a signature with a secret that they share; see `hop`. Who leads is told by a [`ClusterView`]. Health, metrics and
//! documents are answered by every node itself. Without a cluster none of this is on the way of a request.

mod connections;
mod cut_body;
mod hop;
mod login;
mod pipeline;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Bytes};
use tokio::sync::watch;
use tokio::time::Instant;

use super::app::App;
use super::caller::repository_of;
use super::error::{ApiError, ApiResult};
use super::handlers::mcp::MCP_PATH;
use super::transport::client_watch;
use crate::desk::SubmitError;
use crate::engine::Text;
use crate::wire::{self, Code};
use connections::{Connections, SendError};
use cut_body::CutBody;
use hop::HopSecret;
use pipeline::{PendingResponse, Pipelines};
pub(super) use pipeline::{QuickSendError, STATUS_AT, TAG, with_header};

/// How long a request waits for a node to lead, while none does. Handing over takes less; a takeover takes longer.
const LEADER_WAIT: Duration = Duration::from_secs(3);

/// After this time without a response the client is watched, and this long after it has closed its request is given up.
const WATCH_CLIENT_AFTER: Duration = Duration::from_millis(100);
const CLIENT_GONE_FOR: Duration = Duration::from_secs(1);

/// What a node asks another for, to find out whether it can be reached, and how long that may take.
const PROBE_PATH: &str = "/healthz";
const PROBE_TIME_MAX: Duration = Duration::from_secs(3);

/// Bodies of at most so many bytes are read before they are sent on.
const WHOLE_BODY_BYTES: u64 = 8 * 1024;

/// Where browsers sign in and out.
const LOGIN_PATHS: &str = "/api/login";

/// How the paths begin that are about a repository, besides that of MCP. All others every node answers itself.
const REPOSITORY_PATHS: [&str; 3] = ["/api/", "/compat/", "/lfs/"];

/// Headers that are about one connection.
const CONNECTION_HEADERS: [HeaderName; 7] =
    [CONNECTION, TRANSFER_ENCODING, TE, TRAILER, UPGRADE, EXPECT, HeaderName::from_static("keep-alive")];

/// What the nodes of a cluster know about each other.
pub trait ClusterView: Send + Sync {
    /// The name of this node.
    fn node(&self) -> &str;

    fn standing(&self, repository: &str) -> Standing;

    /// Changes when a standing may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Why this node cannot serve all repositories, such as etcd that does not answer.
    fn problem(&self) -> Option<String>;

    /// Whether etcd answers this node.
    fn has_quorum(&self) -> bool;

    /// What the operator should know although everything works.
    fn notes(&self) -> Vec<String>;

    /// Whether this node knows of all logins of browsers that other nodes have ended.
    fn knows_ended_logins(&self) -> bool;
}

/// Who decides for a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// This node.
    Leads {
        epoch: i64,
    },
    Follows(Leader),
    NoLeader,
}

/// Another node that leads a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    pub node: Text,
    /// The address at which other nodes reach it.
    pub url: Text,
    pub epoch: i64,
}

impl dyn ClusterView + '_ {
    /// The part of `/readyz` about the cluster.
    pub(super) fn health<'a>(&self, repositories: impl Iterator<Item = &'a Text>) -> wire::ClusterHealth {
        let (mut leads, mut total, mut leaderless) = (0, 0, 0);
        for name in repositories {
            total += 1;
            match self.standing(name) {
                Standing::Leads { .. } => leads += 1,
                Standing::Follows(_) => {}
                Standing::NoLeader => leaderless += 1,
            }
        }
        let role = if leads > 0 { "leader" } else { "follower" };
        wire::ClusterHealth {
            role: role.into(),
            leads,
            repositories: total,
            without_leader: leaderless,
            notes: self.notes(),
        }
    }
}

/// Sends requests to the nodes that lead.
pub struct Forwarder {
    view: Arc<dyn ClusterView>,
    secret: HopSecret,
    connections: Arc<Connections>,
    /// For plain requests, by repository.
    pipelines: Pipelines,
    forwarded: AtomicU64,
}

/// Marks a response that another node has finished.
#[derive(Clone)]
pub struct FromLeader;

impl Forwarder {
    /// The secret is known to the nodes of the cluster only.
    pub fn new(view: Arc<dyn ClusterView>, secret: &[u8]) -> Self {
        let secret = HopSecret::new(secret);
        Self {
            view,
            secret,
            connections: Arc::default(),
            pipelines: Pipelines::default(),
            forwarded: AtomicU64::new(0),
        }
    }

    pub fn view(&self) -> &dyn ClusterView {
        &*self.view
    }

    /// How many requests were sent to other nodes.
    pub fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::Relaxed)
    }

    /// Whether another node of the cluster sent this request.
    pub fn is_from_node(&self, method: &Method, path: &str, headers: &HeaderMap) -> bool {
        self.secret.verifies(method, path, headers)
    }

    /// The same for a plain request with this value of the header that nodes sign.
    pub(super) fn is_hop(&self, method: &Method, path: &str, value: &str) -> bool {
        self.secret.verifies_value(method, path, value)
    }

    fn leads(&self, name: &str) -> bool {
        matches!(self.view.standing(name), Standing::Leads { .. })
    }

    /// Asks the node at `url` for its name, which must be this one.
    pub(super) async fn probe(&self, node: &str, url: &str) -> Result<(), String> {
        let mut request = Request::builder().uri(PROBE_PATH).body(Body::empty()).expect("a path is a request");
        self.secret.sign(self.view.node(), &mut request);
        let response = match tokio::time::timeout(PROBE_TIME_MAX, self.connections.send(url, request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(SendError::NotSent(_, why) | SendError::Unknown(why))) => return Err(why),
            Err(_) => return Err(format!("no answer within {} s", PROBE_TIME_MAX.as_secs())),
        };
        match response.headers().get(hop::NODE).and_then(|name| name.to_str().ok()) {
            Some(name) if name == node => Ok(()),
            Some(name) => Err(format!("node {name} answers there")),
            None => Err("no node of this cluster answers there".to_owned()),
        }
    }

    /// Sends a plain request, as it was received, to the leader. The result is the whole response; none if no node leads.
    pub(super) fn send_quick(&self, name: &Text, path: &str, request: &[u8]) -> Option<PendingResponse> {
        let Standing::Follows(leader) = self.view.standing(name) else { return None };
        let signature = self.secret.value(self.view.node(), &Method::POST, path);
        let request = pipeline::with_header(request, hop::HOP.as_str(), &signature);
        let start = |requests| {
            let deposed = deposed(self.view.clone(), name.clone(), leader.epoch);
            tokio::spawn(pipeline::run(self.connections.clone(), leader.url.clone(), requests, deposed));
        };
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        Some(self.pipelines.send(name, leader.epoch, request, start))
    }

    /// Sends the request to the leader and returns its response.
    async fn send(&self, app: &App, name: &Text, mut request: Request) -> Response {
        let (method, until) = (request.method().clone(), Instant::now() + LEADER_WAIT);
        let mut changes = self.view.changes();
        loop {
            changes.borrow_and_update();
            let leader = match self.view.standing(name) {
                Standing::Follows(leader) => leader,
                // This node has just taken over.
                Standing::Leads { .. } if app.repositories.get(name).is_some() => return not_now("leads now", app),
                _ => {
                    if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                        return not_now("no node leads the repository now", app);
                    }
                    continue;
                }
            };
            self.secret.sign(self.view.node(), &mut request);
            let sending = self.connections.send(&leader.url, request);
            let sent = tokio::select! {
                sent = sending => sent,
                () = gone_for_long() => return ApiError::client_gone().into_response(),
                () = deposed(self.view.clone(), name.clone(), leader.epoch) => Err(SendError::Unknown("it does not lead any more".to_owned())),
            };
            match sent {
                Ok(response) => {
                    self.forwarded.fetch_add(1, Ordering::Relaxed);
                    return self.pass_on(app, name, leader.epoch, response);
                }
                Err(SendError::NotSent(unsent, why)) => {
                    request = *unsent;
                    if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
                        tracing::warn!(node = %leader.node, url = %leader.url, "the node that leads {name} cannot be reached: {why}");
                        let sentence = format!("node {} leads the repository and cannot be reached", leader.node);
                        return not_now(&sentence, app);
                    }
                }
                // Nothing is changed by these, so they can be asked again.
                Err(SendError::Unknown(_)) if matches!(method, Method::GET | Method::HEAD) => {
                    return not_now("the node that leads the repository has just changed", app);
                }
                Err(SendError::Unknown(why)) => {
                    tracing::info!(node = %leader.node, "the outcome of a request is not known: {why}");
                    return ApiError::from(SubmitError::OutcomeUnknown).into_response();
                }
            }
        }
    }

    fn pass_on(&self, app: &App, name: &Text, epoch: i64, response: http::Response<hyper::body::Incoming>) -> Response {
        let (mut parts, body) = response.into_parts();
        CONNECTION_HEADERS.iter().for_each(|name| drop(parts.headers.remove(name)));
        parts.extensions.insert(FromLeader);
        let is_stream =
            parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let body = match is_stream {
            // The leader ends it too, if it can.
            true => {
                let (view, name, mut stopping) = (self.view.clone(), name.clone(), app.stopping());
                let cut = async move {
                    tokio::select! {
                        () = deposed(view, name, epoch) => {}
                        _ = stopping.wait_for(|stopping| *stopping) => {}
                    }
                };
                Body::new(CutBody::new(body, cut))
            }
            false => Body::new(body),
        };
        Response::from_parts(parts, body)
    }
}

/// Ready a while after the client has closed. By then the leader has its request, which is carried out, but it does not wait in a
/// queue for a client that is gone.
async fn gone_for_long() {
    // Most requests are answered before anything is watched.
    tokio::time::sleep(WATCH_CLIENT_AFTER).await;
    client_watch::gone().await;
    tokio::time::sleep(CLIENT_GONE_FOR).await;
}

/// Returns when the leader of this epoch does not lead any more. A node that is frozen never says so itself.
async fn deposed(view: Arc<dyn ClusterView>, name: Text, epoch: i64) {
    let mut changes = view.changes();
    loop {
        changes.borrow_and_update();
        match view.standing(&name) {
            Standing::Follows(leader) if leader.epoch == epoch => {}
            // No node took over yet: the leader may only have lost its connection to etcd.
            Standing::NoLeader => {}
            _ => return,
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// The layer: answers here what this node leads or what every node answers, and sends the rest to the leader.
pub async fn forward(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let Some(forwarder) = &app.forwarder else { return next.run(request).await };
    let is_from_node = forwarder.is_from_node(request.method(), request.uri().path(), request.headers());
    request.headers_mut().remove(hop::HOP);
    request.headers_mut().remove(TAG);
    let path = request.uri().path();
    if is_from_node && path == PROBE_PATH {
        let name = HeaderValue::from_str(forwarder.view.node()).expect("the name of a node fits a header");
        return ([(hop::NODE, name)], next.run(request).await).into_response();
    }
    let is_login = path.starts_with(LOGIN_PATHS);
    if path != MCP_PATH && !REPOSITORY_PATHS.iter().any(|start| path.starts_with(start)) {
        return next.run(request).await;
    }
    if is_login && *request.method() != Method::POST {
        return next.run(request).await;
    }
    let mut short_body = None;
    if is_login {
        // It says which repository it is about.
        (request, short_body) = match with_whole_body(request, &app).await {
            Ok(request) => request,
            Err(error) => return error.into_response(),
        };
    }
    let (parts, body) = request.into_parts();
    let name = match is_login {
        true => login::repository(&parts, short_body.as_ref(), &app),
        // A request without a valid token is refused here.
        false => repository_of(&parts, &app).ok(),
    };
    let mut request = Request::from_parts(parts, body);
    let Some(name) = name.filter(|name| app.repositories.get(name).is_none()) else { return next.run(request).await };
    if is_from_node {
        // One hop: the other node looks again, or its client does.
        let opened = wait_until_open(&app, forwarder, &name).await;
        return if opened { next.run(request).await } else { not_now("this node does not lead the repository", &app) };
    }
    if app.is_stopping() {
        return ApiError::from(SubmitError::Stopped).into_response();
    }
    (request, _) = match with_whole_body(request, &app).await {
        Ok(request) => request,
        Err(error) => return error.into_response(),
    };
    CONNECTION_HEADERS.iter().for_each(|name| drop(request.headers_mut().remove(name)));
    *request.version_mut() = Version::HTTP_11;
    if forwarder.leads(&name) && wait_until_open(&app, forwarder, &name).await {
        return next.run(request).await;
    }
    forwarder.send(&app, &name, request).await
}

/// Reads a short body, so that the request is sent on in one piece. Returns the body too if it is short.
async fn with_whole_body(request: Request, app: &App) -> ApiResult<(Request, Option<Bytes>)> {
    if request.body().size_hint().exact().is_none_or(|bytes| bytes > WHOLE_BODY_BYTES) {
        return Ok((request, None));
    }
    let (parts, body) = request.into_parts();
    let time_max = app.limits().body_time;
    let bad = |sentence| ApiError::new(Code::InvalidRequest, sentence);
    match tokio::time::timeout(time_max, body.collect()).await {
        Ok(Ok(body)) => {
            let body = body.to_bytes();
            Ok((Request::from_parts(parts, Body::from(body.clone())), Some(body)))
        }
        Ok(Err(_)) => Err(bad("the body did not arrive completely")),
        Err(_) => Err(bad("the body did not arrive in time")),
    }
}

/// Waits a while for a repository that this node leads and still loads.
async fn wait_until_open(app: &App, forwarder: &Forwarder, name: &Text) -> bool {
    let (mut changes, until) = (forwarder.view.changes(), Instant::now() + LEADER_WAIT);
    loop {
        changes.borrow_and_update();
        if app.repositories.get(name).is_some() {
            return true;
        }
        if !forwarder.leads(name) || tokio::time::timeout_at(until, changes.changed()).await.is_err() {
            return false;
        }
    }
}

fn not_now(why: &str, app: &App) -> Response {
    let problem = app.forwarder.as_ref().and_then(|forwarder| forwarder.view.problem());
    let sentence = problem.unwrap_or_else(|| format!("{why}; ask again in a moment"));
    ApiError::new(Code::Unavailable, sentence).retry_after(1).into_response()
}
