//! One call: connect, send, receive, all within limits.

use std::cell::OnceCell;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::address::{are_nodes, part};
use super::{Address, Cancel, ClientError, Credential, Endpoint, Inbox, peer, tls};
use crate::wire::{ErrorBody, Time};

/// The most pages of one list. A list of a million entries has a thousand.
const PAGES_MAX: usize = 10_000;

/// A list may take this many times as long as a call.
const LIST_CALLS_MAX: u32 = 10;

/// How long to wait before connecting again to a socket whose queue is full.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Limits on what a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until the connection is accepted, for each address of the server. The handshake of HTTPS counts as part of the call.
    pub connect: Duration,
    /// For the whole call. A call that waits in the server's queue has the waiting time on top.
    pub total: Duration,
    /// The largest reply, in bytes.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // The reply to the largest check, each of its paths in conflict, has less.
        Limits { connect: Duration::from_millis(200), total: Duration::from_secs(2), answer_bytes: 128 << 20 }
    }
}

/// How long a node may take for a reply while there is another one to ask. A node waits less than this for the one that leads.
const NODE_TIME_MAX: Duration = Duration::from_secs(5);

/// How often one call starts the server. After a server was killed, a program that it was about to start may have its sockets
/// for a moment, and accept a connection that nothing answers.
const START_TRIES: usize = 3;

/// Starts the server if none runs. Returns its addresses, or why there is none, if there is something to say.
pub type Starter = Box<dyn Fn() -> Result<Vec<Endpoint>, Option<String>> + Send>;

/// Calls one server, one call at a time. Keeps the connection for the next call.
pub struct Client {
    pub(super) endpoints: Vec<Endpoint>,
    /// The endpoint that is tried first: the one that answered last.
    pub(super) first: usize,
    /// Whether the latest call had a connection.
    is_connected: bool,
    credential: Option<Credential>,
    limits: Limits,
    idle_connection: Option<ClientConnection>,
    /// The repository to name with every call, if the credential names none.
    repo: Option<String>,
    latest: LatestReply,
    /// Gets the notices of every reply, if the caller does not take them out of each.
    inbox: Option<Inbox>,
    /// Ends calls from another thread.
    cancel: Option<Cancel>,
    /// A file with more authorities that certificates may be signed by.
    ca_file: Option<PathBuf>,
    /// Made for the first HTTPS connection.
    tls: OnceCell<TlsConnector>,
    /// What arrived of the body of the latest reply, if it did not arrive completely.
    partial: Vec<u8>,
    /// Used when no server answers, before the call is repeated.
    starter: Option<Starter>,
    /// `None` only during a call and while the client is dropped.
    runtime: Option<Runtime>,
}

/// The body of the latest reply, unchanged, and its `Date`.
#[derive(Default)]
struct LatestReply {
    body: Bytes,
    date: Option<Time>,
}

/// An open connection, and the index of its endpoint. Dropping it closes it, even during a call.
pub(super) struct ClientConnection {
    pub(super) sender: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
    pub(super) endpoint: usize,
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What is left for a list.
pub(super) struct ListBudget {
    pages: usize,
    bytes: usize,
    deadline: Instant,
}

impl ListBudget {
    /// Counts the page that the client has just received.
    pub fn spend(&mut self, client: &Client) -> Result<(), ClientError> {
        let garbage = |what: String| Err(ClientError::Garbage { at: client.at(), what });
        match (self.pages.checked_sub(1), self.bytes.checked_sub(client.latest.body.len())) {
            (None, _) => garbage(format!("a list of more than {PAGES_MAX} pages")),
            (_, None) => garbage(format!("a list of more than {} bytes", client.limits.answer_bytes)),
            _ if Instant::now() > self.deadline => garbage("a list that did not end in time".to_owned()),
            (Some(pages), Some(bytes)) => {
                (self.pages, self.bytes) = (pages, bytes);
                Ok(())
            }
        }
    }
}

/// The sender of a new connection, and the task that drives the connection.
type NewConnection = (http1::SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>);

/// A reply before its body is parsed.
struct RawReply {
    status: StatusCode,
    retry_after: Option<Duration>,
    has_location: bool,
    date: Option<Time>,
    body: Bytes,
}

/// Why there is no connection to an address.
enum OpenError {
    NoConnection(String),
    /// A server answers there, but must not be used.
    Refused(ClientError),
}

/// Why an exchange failed.
enum ExchangeError {
    /// No reply began. If the connection was idle before, the server may simply have closed it.
    NoReply(hyper::Error),
    /// The reply is bad. Another connection would not help.
    BadReply(String),
}

impl Client {
    /// A client for the server at these addresses, tried in this order. Nothing is connected yet.
    pub fn new(endpoints: Vec<Endpoint>, credential: Option<Credential>, limits: Limits) -> io::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let latest = LatestReply::default();
        Ok(Client {
            endpoints,
            first: 0,
            is_connected: false,
            credential,
            limits,
            idle_connection: None,
            repo: None,
            latest,
            inbox: None,
            cancel: None,
            ca_file: None,
            tls: OnceCell::new(),
            partial: Vec::new(),
            starter: None,
            runtime: Some(runtime),
        })
    }

    /// The same client, which also trusts the certificate authorities in this file.
    pub fn trusting(mut self, ca_file: Option<PathBuf>) -> Client {
        self.ca_file = ca_file;
        self
    }

    /// The same client, which puts the notices of its replies there.
    pub fn with_inbox(mut self, inbox: Inbox) -> Client {
        self.inbox = Some(inbox);
        self
    }

    /// The same client, which starts the server if none answers.
    pub fn starting_with(mut self, starter: Option<Starter>) -> Client {
        self.starter = starter;
        self
    }

    /// The same client, whose calls end when `cancel` is cancelled.
    pub fn cancelled_by(mut self, cancel: Cancel) -> Client {
        self.cancel = Some(cancel);
        self
    }

    /// The same client for one repository of a server that has several. A token may already name its repository; then
    /// `repo` is ignored.
    pub fn for_repo(mut self, repo: Option<String>) -> Client {
        let token_names_repo = self.credential.as_ref().is_some_and(|credential| credential.repo.is_some());
        self.repo = repo.filter(|_| !token_names_repo);
        self
    }

    /// The body of the latest reply, also of a refusal, unchanged; empty if there was no reply.
    pub fn latest_body(&self) -> &[u8] {
        &self.latest.body
    }

    /// What arrived of the body of the latest reply, if it did not arrive completely.
    pub fn partial_body(&self) -> &[u8] {
        &self.partial
    }

    /// The server's clock at its latest reply, to the second. Compare the server's times with this.
    pub fn server_time(&self) -> Option<Time> {
        self.latest.date
    }

    /// A GET call.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, None, Duration::ZERO)
    }

    /// A POST call.
    pub fn post<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.call(Method::POST, path, Some(json(body)), Duration::ZERO)
    }

    /// A POST call that the server may keep waiting for this long.
    pub fn post_waiting<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
        waiting: Duration,
    ) -> Result<T, ClientError> {
        self.call(Method::POST, path, Some(json(body)), waiting)
    }

    /// A DELETE call.
    pub fn delete<T: DeserializeOwned>(&mut self, path: &str, body: Option<&impl Serialize>) -> Result<T, ClientError> {
        self.call(Method::DELETE, path, body.map(json), Duration::ZERO)
    }

    /// Reads every page of a list. Afterwards [`Client::latest_body`] is one document with all entries.
    pub fn pages<T: DeserializeOwned>(&mut self, query: &str, list: &str) -> Result<Vec<T>, ClientError> {
        let mut all: Vec<Value> = Vec::new();
        let mut cursor: Option<String> = None;
        let mut budget = self.list_budget();
        loop {
            let mut page: Value = match &cursor {
                None => self.get(query)?,
                Some(cursor) => self.get(&format!("{query}&cursor={}", part(cursor)))?,
            };
            let Some(Value::Array(items)) = page.get_mut(list).map(Value::take) else {
                let what = format!("unexpected JSON: {list} is missing");
                return Err(ClientError::Garbage { at: self.at(), what });
            };
            let is_only = cursor.is_none();
            budget.spend(self)?;
            all.extend(items);
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            // The same cursor again would mean an endless loop.
            if next.is_some() && next != cursor {
                cursor = next;
                continue;
            }
            let read = all.iter().map(T::deserialize).collect::<Result<_, _>>();
            if !is_only {
                page[list] = Value::Array(all);
                self.latest.body = json(&page);
            }
            return read.map_err(|error: serde_json::Error| {
                let what = format!("unexpected JSON: {error}");
                ClientError::Garbage { at: self.at(), what }
            });
        }
    }

    /// What a list may take, all its pages together. A server could otherwise send pages for ever.
    pub(super) fn list_budget(&self) -> ListBudget {
        let deadline = Instant::now() + self.limits.total * LIST_CALLS_MAX;
        ListBudget { pages: PAGES_MAX, bytes: self.limits.answer_bytes, deadline }
    }

    fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        waiting: Duration,
    ) -> Result<T, ClientError> {
        let reply = self.or_started(|client| client.call_nodes(waiting, &method, path, &body))?;
        self.inbox.iter().for_each(|inbox| inbox.receive(&reply.body));
        self.latest = LatestReply { body: reply.body.clone(), date: reply.date };
        parse(reply, || self.at())
    }

    /// Makes a call. If no server answers, starts one, and makes the call again: every call is safe to repeat.
    pub(super) fn or_started<T>(
        &mut self,
        mut call: impl FnMut(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut outcome = call(self);
        for _ in 0..START_TRIES {
            let (Err(ClientError::Unreachable { at, why }), Some(start)) = (&outcome, &self.starter) else { break };
            match start() {
                Ok(endpoints) => {
                    (self.endpoints, self.first) = (endpoints, 0);
                    outcome = call(self);
                }
                Err(None) => break,
                Err(Some(more)) => {
                    let why = format!("{why}; none was started: {more}");
                    return Err(ClientError::Unreachable { at: at.clone(), why });
                }
            }
        }
        outcome
    }

    /// Runs a future to its end. Tasks of connections run only meanwhile.
    pub(super) fn block_on<T>(&mut self, future: impl AsyncFnOnce(&mut Client) -> T) -> T {
        let runtime = self.runtime.take().expect("the runtime is only taken during a call");
        let outcome = runtime.block_on(future(self));
        self.runtime = Some(runtime);
        outcome
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// What a reply that is no success says.
    pub(super) async fn refusal(&self, response: Response<Incoming>) -> ClientError {
        let mut received = Vec::new();
        match reply_of(response, self.limits.answer_bytes, &mut received).await {
            Ok(reply) => match parse::<Value>(reply, || self.at()) {
                Ok(_) => ClientError::Garbage { at: self.at(), what: "an unexpected reply".to_owned() },
                Err(error) => error,
            },
            Err(ExchangeError::BadReply(what)) => ClientError::Garbage { at: self.at(), what },
            Err(ExchangeError::NoReply(error)) => ClientError::Unreachable { at: self.at(), why: error.to_string() },
        }
    }

    /// Makes a call. Of several nodes, one that accepts the connection may still not answer, or not be able to serve now; then
    /// the next one is asked, because every call is safe to repeat. What the last one says counts.
    fn call_nodes(
        &mut self,
        waiting: Duration,
        method: &Method,
        path: &str,
        body: &Option<Bytes>,
    ) -> Result<RawReply, ClientError> {
        let mut others = if are_nodes(&self.endpoints) { self.endpoints.len() - 1 } else { 0 };
        loop {
            let time = if others > 0 { self.limits.total.min(NODE_TIME_MAX) } else { self.limits.total };
            let outcome = self.call_within(time.saturating_add(waiting), method, path, body.clone());
            let is_worth_another = match &outcome {
                Ok(reply) => reply.status == StatusCode::SERVICE_UNAVAILABLE,
                // Without a connection, all of them were tried.
                Err(ClientError::Unreachable { .. } | ClientError::TimedOut { .. }) => self.is_connected,
                Err(_) => false,
            };
            if others == 0 || !is_worth_another {
                return outcome;
            }
            others -= 1;
            self.leave_node();
        }
    }

    /// The next call goes to the next endpoint, if there are several nodes.
    pub(super) fn leave_node(&mut self) {
        if are_nodes(&self.endpoints) {
            self.first = (self.first + 1) % self.endpoints.len();
            self.idle_connection = None;
        }
    }

    fn call_within(
        &mut self,
        limit: Duration,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<RawReply, ClientError> {
        self.latest = LatestReply::default();
        self.partial = Vec::new();
        self.is_connected = false;
        let mut received = Vec::new();
        let outcome = self.block_on(async |client| {
            let cancel = client.cancel.clone();
            let exchange = timeout(limit, client.exchange(method, path, body, &mut received));
            let outcome = match cancel {
                None => Some(exchange.await),
                Some(cancel) => tokio::select! {
                    // A reply that has arrived counts.
                    biased;
                    outcome = exchange => Some(outcome),
                    () = cancel.cancelled() => None,
                },
            };
            // Tasks run only during calls, so an abandoned connection must be closed now: for the server, a closed
            // connection means that the request leaves the queue.
            tokio::task::yield_now().await;
            outcome
        });
        self.partial = received;
        match outcome {
            Some(outcome) => outcome.unwrap_or_else(|_| Err(ClientError::TimedOut { at: self.at(), limit })),
            None => Err(ClientError::Cancelled),
        }
    }

    /// Sends and receives; if the idle connection turns out to be closed, again on a new one.
    ///
    /// What arrives of the body of a reply that does not arrive completely is left in `received`.
    async fn exchange(
        &mut self,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
        received: &mut Vec<u8>,
    ) -> Result<RawReply, ClientError> {
        // Taken out, so that a call that times out leaves no half-used connection behind.
        let mut connection = self.idle_connection.take().filter(|idle| !idle.sender.is_closed());
        loop {
            let was_idle = connection.is_some();
            let mut current = match connection.take() {
                Some(idle) => idle,
                None => self.connect().await?,
            };
            (self.first, self.is_connected) = (current.endpoint, true);
            let endpoint = &self.endpoints[current.endpoint];
            let request = self.request(endpoint, method, path, body.clone()).map_err(|error| {
                ClientError::Unreachable { at: format!("{endpoint}{path}"), why: format!("not an address: {error}") }
            })?;
            match transfer(&mut current.sender, request, self.limits.answer_bytes, received).await {
                Ok(reply) => {
                    self.idle_connection = Some(current);
                    return Ok(reply);
                }
                // The server may have closed the idle connection. Every call is safe to repeat.
                Err(ExchangeError::NoReply(_)) if was_idle => {}
                Err(ExchangeError::NoReply(error)) if error.is_parse() => {
                    let what = "something that is not HTTP".to_owned();
                    return Err(ClientError::Garbage { at: endpoint.to_string(), what });
                }
                Err(ExchangeError::NoReply(_)) => {
                    let why = "it closed the connection without a reply".to_owned();
                    return Err(ClientError::Unreachable { at: endpoint.to_string(), why });
                }
                Err(ExchangeError::BadReply(what)) => {
                    return Err(ClientError::Garbage { at: endpoint.to_string(), what });
                }
            }
        }
    }

    /// Connects to the first address that answers.
    pub(super) async fn connect(&self) -> Result<ClientConnection, ClientError> {
        let mut failures = Vec::new();
        let mut refused = None;
        // The socket of a single server is always the better way.
        let first = if are_nodes(&self.endpoints) { self.first } else { 0 };
        for turn in 0..self.endpoints.len() {
            let index = (first + turn) % self.endpoints.len();
            let endpoint = &self.endpoints[index];
            let why = match self.open(endpoint).await {
                Ok((sender, driver)) => return Ok(ClientConnection { sender, driver, endpoint: index }),
                Err(OpenError::NoConnection(why)) => why,
                Err(OpenError::Refused(error)) => {
                    refused = refused.or(Some(error));
                    continue;
                }
            };
            failures.push(why);
        }
        if let Some(error) = refused {
            return Err(error);
        }
        failures.dedup();
        Err(ClientError::Unreachable { at: self.at(), why: failures.join("; ") })
    }

    /// Opens a connection. A task drives it beside the calls.
    async fn open(&self, endpoint: &Endpoint) -> Result<NewConnection, OpenError> {
        match &endpoint.address {
            Address::Unix(path) => {
                let connect = async {
                    loop {
                        match UnixStream::connect(path).await {
                            // With a Unix socket a full queue is an error, not a wait as with TCP.
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(BUSY_PAUSE).await,
                            connected => return connected,
                        }
                    }
                };
                let stream = self.in_time(connect).await?;
                self.check_peer(endpoint, &stream)?;
                handshake(stream).await
            }
            Address::Tcp { host, port, tls, .. } => {
                let stream = self.in_time(TcpStream::connect((host.as_str(), *port))).await?;
                let _ = stream.set_nodelay(true);
                self.check_peer(endpoint, &stream)?;
                if !tls {
                    return handshake(stream).await;
                }
                let stream = tls::handshake(self.tls_connector()?, host, stream)
                    .await
                    .map_err(|what| OpenError::Refused(ClientError::Garbage { at: endpoint.to_string(), what }))?;
                handshake(stream).await
            }
        }
    }

    /// Waits for a connection until the limit for connecting.
    async fn in_time<S>(&self, connect: impl Future<Output = io::Result<S>>) -> Result<S, OpenError> {
        let limit = self.limits.connect;
        match timeout(limit, connect).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(OpenError::NoConnection(plain(&error))),
            Err(_) => Err(OpenError::NoConnection(format!("no connection within {} ms", limit.as_millis()))),
        }
    }

    /// Refuses a server that must not get the token.
    fn check_peer(&self, endpoint: &Endpoint, stream: &impl AsFd) -> Result<(), OpenError> {
        if peer::may_get(self.credential.as_ref(), endpoint, stream) {
            return Ok(());
        }
        Err(OpenError::Refused(ClientError::OtherUser { at: endpoint.to_string() }))
    }

    fn tls_connector(&self) -> Result<&TlsConnector, OpenError> {
        if let Some(connector) = self.tls.get() {
            return Ok(connector);
        }
        let connector = tls::connector(self.ca_file.as_deref()).map_err(OpenError::NoConnection)?;
        Ok(self.tls.get_or_init(|| connector))
    }

    pub(super) fn request(
        &self,
        endpoint: &Endpoint,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
    ) -> hyper::http::Result<Request<Full<Bytes>>> {
        let mut uri = format!("{}{path}", endpoint.address.prefix());
        if let Some(repo) = &self.repo {
            uri.push_str(if path.contains('?') { "&repo=" } else { "?repo=" });
            uri.push_str(&part(repo));
        }
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, endpoint.address.authority())
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("git-dibs/", env!("CARGO_PKG_VERSION")));
        if let Some(credential) = &self.credential {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", credential.token()));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body.unwrap_or_default()))
    }

    /// The addresses of the server, for a sentence.
    pub(super) fn at(&self) -> String {
        self.endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" or ")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A plain drop would wait for a name lookup that is still in progress, long after the limit.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn handshake<S>(stream: S) -> Result<NewConnection, OpenError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| OpenError::NoConnection(error.to_string()))?;
    // An error of the connection shows in the call that uses it.
    Ok((sender, tokio::spawn(connection)))
}

/// Sends one request and receives the whole reply.
async fn transfer(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    reply_max: usize,
    received: &mut Vec<u8>,
) -> Result<RawReply, ExchangeError> {
    sender.ready().await.map_err(ExchangeError::NoReply)?;
    let response: Response<Incoming> = sender.send_request(request).await.map_err(ExchangeError::NoReply)?;
    reply_of(response, reply_max, received).await
}

/// Receives the whole reply, its body in `received` until it is complete.
async fn reply_of(
    response: Response<Incoming>,
    reply_max: usize,
    received: &mut Vec<u8>,
) -> Result<RawReply, ExchangeError> {
    let (head, mut body) = response.into_parts();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ExchangeError::BadReply("an incomplete reply".to_owned()))?;
        let Some(data) = frame.data_ref() else { continue };
        if received.len() + data.len() > reply_max {
            return Err(ExchangeError::BadReply(format!("a reply of more than {reply_max} bytes")));
        }
        received.extend_from_slice(data);
    }
    let seconds = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Ok(RawReply {
        status: head.status,
        retry_after: seconds.map(Duration::from_secs),
        has_location: head.headers.contains_key(header::LOCATION),
        date: head.headers.get(header::DATE).and_then(|value| http_date(value.to_str().ok()?)),
        body: std::mem::take(received).into(),
    })
}

/// Parses a reply: the success or the refusal.
fn parse<T: DeserializeOwned>(reply: RawReply, at: impl Fn() -> String) -> Result<T, ClientError> {
    let status = reply.status.as_u16();
    let bad = |what: String| ClientError::Garbage { at: at(), what };
    if reply.status.is_redirection() && reply.has_location {
        return Err(bad(format!("a redirection (status {status}) to another address")));
    }
    if reply.status.is_success() {
        return serde_json::from_slice(&reply.body).map_err(|error| bad(describe(status, &reply.body, &error)));
    }
    match serde_json::from_slice::<ErrorBody>(&reply.body) {
        Ok(body) => Err(ClientError::Refused { status, body: Box::new(body), retry_after: reply.retry_after }),
        Err(error) => Err(bad(describe(status, &reply.body, &error))),
    }
}

/// Describes an unexpected body without repeating it.
fn describe(status: u16, body: &[u8], error: &serde_json::Error) -> String {
    let start = body.trim_ascii_start();
    let what = match error.classify() {
        _ if start.is_empty() => "an empty reply".to_owned(),
        _ if start.starts_with(b"<") => "a web page".to_owned(),
        serde_json::error::Category::Data => format!("unexpected JSON: {error}"),
        _ => "a reply that is not JSON".to_owned(),
    };
    format!("{what} (status {status})")
}

/// Reads `Tue, 15 Nov 1994 08:12:31 GMT`.
fn http_date(text: &str) -> Option<Time> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Time(zoned.timestamp().as_millisecond()))
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("bodies are plain data with text for keys").into()
}

/// The message of the operating system, without its error number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
