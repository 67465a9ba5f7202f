//! One question, one answer: connecting, sending, receiving, all within limits.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
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

use super::address::part;
use super::{ClientError, Credential, Endpoint};
use crate::wire::{ErrorBody, Time};

/// How long a socket whose queue is full is left alone before it is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Limits on what a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until somebody accepts the connection, for each way to the server.
    pub connect: Duration,
    /// In all, from the first byte to the last; a call that waits in the queue has its waiting time on top.
    pub total: Duration,
    /// The largest answer, in bytes.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // An answer to 100,000 paths, each of them in conflict, is about 50 MB.
        Limits { connect: Duration::from_millis(200), total: Duration::from_secs(2), answer_bytes: 256 << 20 }
    }
}

/// Asks one server, one question at a time. Keeps its connection for the next one.
pub struct Client {
    endpoints: Vec<Endpoint>,
    credential: Option<Credential>,
    limits: Limits,
    kept: Option<Connection>,
    /// The repository to name with every question, where the credential names none.
    repo: Option<String>,
    /// What the latest answer said, and when.
    latest: Latest,
    /// Only `None` while it is dropped.
    runtime: Option<Runtime>,
}

/// The latest answer as it came.
#[derive(Default)]
struct Latest {
    body: Bytes,
    date: Option<Time>,
}

/// A connection that stands, and which way it was made. Closed when it is dropped, whatever was going on.
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
    endpoint: usize,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What to send with, and what carries it.
type Opened = (http1::SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>);

/// An answer as it came.
struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    redirected: bool,
    date: Option<Time>,
    body: Bytes,
}

/// How far an exchange came that was cut short.
enum Cut {
    /// No answer began, so that a connection that had been idle too long may be the whole reason.
    Unanswered(hyper::Error),
    /// The answer is bad, whatever the connection was like.
    Bad(String),
}

impl Client {
    /// A client for a server that can be reached in these ways, tried in this order. Nothing is connected yet.
    pub fn new(endpoints: Vec<Endpoint>, credential: Option<Credential>, limits: Limits) -> io::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let latest = Latest::default();
        Ok(Client { endpoints, credential, limits, kept: None, repo: None, latest, runtime: Some(runtime) })
    }

    /// The same for a server that has several repositories, of which this one is meant. A token that is for one
    /// repository says so itself.
    pub fn for_repo(mut self, repo: Option<String>) -> Client {
        let says_so_itself = self.credential.as_ref().is_some_and(|credential| credential.repo.is_some());
        self.repo = repo.filter(|_| !says_so_itself);
        self
    }

    /// The body of the latest answer, refusals too, exactly as it came; empty where none came.
    pub fn answer(&self) -> &[u8] {
        &self.latest.body
    }

    /// What the server's clock said with its latest answer, to the second; its times are best compared with this.
    pub fn server_time(&self) -> Option<Time> {
        self.latest.date
    }

    /// Asks without a body.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, None, Duration::ZERO)
    }

    /// Asks with a body.
    pub fn post<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.call(Method::POST, path, Some(json(body)), Duration::ZERO)
    }

    /// Asks with a body, for something the server may take this long to give.
    pub fn post_waiting<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
        waiting: Duration,
    ) -> Result<T, ClientError> {
        self.call(Method::POST, path, Some(json(body)), waiting)
    }

    /// Deletes; `body` says why, where that is asked for.
    pub fn delete<T: DeserializeOwned>(&mut self, path: &str, body: Option<&impl Serialize>) -> Result<T, ClientError> {
        self.call(Method::DELETE, path, body.map(json), Duration::ZERO)
    }

    /// Asks for every page of a list. What [`Client::answer`] gives afterwards is one document with all of them.
    pub fn pages<T: DeserializeOwned>(&mut self, query: &str, list: &str) -> Result<Vec<T>, ClientError> {
        let mut all: Vec<Value> = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut page: Value = match &cursor {
                None => self.get(query)?,
                Some(cursor) => self.get(&format!("{query}&cursor={}", part(cursor)))?,
            };
            let Some(Value::Array(items)) = page.get_mut(list).map(Value::take) else {
                let what = format!("JSON of another shape: {list} is missing");
                return Err(ClientError::Garbage { at: self.at(), what });
            };
            let is_only = cursor.is_none();
            all.extend(items);
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            // A server that gives the same page for ever must not hold us for ever.
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
                let what = format!("JSON of another shape: {error}");
                ClientError::Garbage { at: self.at(), what }
            });
        }
    }

    fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        waiting: Duration,
    ) -> Result<T, ClientError> {
        let limit = self.limits.total.saturating_add(waiting);
        self.latest = Latest::default();
        let runtime = self.runtime.take().expect("a client has its runtime until it is dropped");
        let outcome = runtime.block_on(async {
            let outcome = timeout(limit, self.exchange(&method, path, body)).await;
            // Nothing runs between calls, so a connection that was just given up must be closed now: the server
            // takes a closed one as leaving the queue.
            tokio::task::yield_now().await;
            outcome
        });
        self.runtime = Some(runtime);
        match outcome {
            Ok(answer) => {
                let answer = answer?;
                self.latest = Latest { body: answer.body.clone(), date: answer.date };
                understand(answer, || self.at())
            }
            Err(_) => Err(ClientError::TimedOut { at: self.at(), limit }),
        }
    }

    /// Sends and receives; once more on a new connection where the kept one turns out to be dead.
    async fn exchange(&mut self, method: &Method, path: &str, body: Option<Bytes>) -> Result<Answer, ClientError> {
        // Taken out, so that a call that is cut off in the middle leaves no half-used connection behind.
        let mut connection = self.kept.take().filter(|kept| !kept.sender.is_closed());
        loop {
            let was_kept = connection.is_some();
            let mut current = match connection.take() {
                Some(kept) => kept,
                None => self.connect().await?,
            };
            let endpoint = &self.endpoints[current.endpoint];
            let request = self.request(endpoint, method, path, body.clone()).map_err(|error| {
                ClientError::Unreachable { at: format!("{endpoint}{path}"), why: format!("not an address: {error}") }
            })?;
            match transfer(&mut current.sender, request, self.limits.answer_bytes).await {
                Ok(answer) => {
                    self.kept = Some(current);
                    return Ok(answer);
                }
                // The server may have closed it while nobody looked; every call is safe to repeat.
                Err(Cut::Unanswered(_)) if was_kept => {}
                Err(Cut::Unanswered(error)) if error.is_parse() => {
                    let what = "something that is not HTTP".to_owned();
                    return Err(ClientError::Garbage { at: endpoint.to_string(), what });
                }
                Err(Cut::Unanswered(_)) => {
                    let why = "it closed the connection without an answer".to_owned();
                    return Err(ClientError::Unreachable { at: endpoint.to_string(), why });
                }
                Err(Cut::Bad(what)) => return Err(ClientError::Garbage { at: endpoint.to_string(), what }),
            }
        }
    }

    /// Tries every way to the server in its order.
    async fn connect(&self) -> Result<Connection, ClientError> {
        let mut failures = Vec::new();
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let why = match timeout(self.limits.connect, open(endpoint)).await {
                Ok(Ok((sender, driver))) => return Ok(Connection { sender, driver, endpoint: index }),
                Ok(Err(error)) => plain(&error),
                Err(_) => format!("nothing within {} ms", self.limits.connect.as_millis()),
            };
            failures.push(why);
        }
        failures.dedup();
        Err(ClientError::Unreachable { at: self.at(), why: failures.join("; ") })
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
    ) -> hyper::http::Result<Request<Full<Bytes>>> {
        let mut uri = format!("{}{path}", endpoint.prefix());
        if let Some(repo) = &self.repo {
            uri.push_str(if path.contains('?') { "&repo=" } else { "?repo=" });
            uri.push_str(&part(repo));
        }
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, endpoint.authority())
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

    /// Every way to the server, for a sentence.
    fn at(&self) -> String {
        self.endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" or ")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The plain way of dropping would wait for a name server that does not answer, long after the limit.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Makes a connection and leaves it running beside the calls.
async fn open(endpoint: &Endpoint) -> io::Result<Opened> {
    match endpoint {
        Endpoint::Unix(path) => loop {
            match UnixStream::connect(path).await {
                Ok(stream) => return handshake(stream).await,
                // A full queue is an error here and not a wait as with TCP; the limit around us ends it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(BUSY_PAUSE).await,
                Err(error) => return Err(error),
            }
        },
        Endpoint::Tcp { host, port, .. } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            handshake(stream).await
        }
    }
}

async fn handshake<S>(stream: S) -> io::Result<Opened>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // How it ends is seen by whoever is using it at that moment.
    Ok((sender, tokio::spawn(connection)))
}

/// Sends one request and takes in the whole answer.
async fn transfer(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    answer_max: usize,
) -> Result<Answer, Cut> {
    sender.ready().await.map_err(Cut::Unanswered)?;
    let response: Response<Incoming> = sender.send_request(request).await.map_err(Cut::Unanswered)?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, answer_max).collect().await.map_err(|error| {
        Cut::Bad(match error.is::<LengthLimitError>() {
            true => format!("an answer of more than {answer_max} bytes"),
            false => "an answer that broke off in the middle".to_owned(),
        })
    })?;
    let seconds = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Ok(Answer {
        status: head.status,
        retry_after: seconds.map(Duration::from_secs),
        redirected: head.headers.contains_key(header::LOCATION),
        date: head.headers.get(header::DATE).and_then(|value| http_date(value.to_str().ok()?)),
        body: body.to_bytes(),
    })
}

/// Makes an answer or a refusal of what came.
fn understand<T: DeserializeOwned>(answer: Answer, at: impl Fn() -> String) -> Result<T, ClientError> {
    let status = answer.status.as_u16();
    let bad = |what: String| ClientError::Garbage { at: at(), what };
    if answer.status.is_redirection() && answer.redirected {
        return Err(bad(format!("a redirection (status {status}) to another address")));
    }
    if answer.status.is_success() {
        return serde_json::from_slice(&answer.body).map_err(|error| bad(describe(status, &answer.body, &error)));
    }
    match serde_json::from_slice::<ErrorBody>(&answer.body) {
        Ok(body) => Err(ClientError::Refused { status, body: Box::new(body), retry_after: answer.retry_after }),
        Err(error) => Err(bad(describe(status, &answer.body, &error))),
    }
}

/// Says what a body is that is not what it should be, without repeating it.
fn describe(status: u16, body: &[u8], error: &serde_json::Error) -> String {
    let start = body.trim_ascii_start();
    let what = match error.classify() {
        _ if start.is_empty() => "an empty answer".to_owned(),
        _ if start.starts_with(b"<") => "a web page".to_owned(),
        serde_json::error::Category::Data => format!("JSON of another shape: {error}"),
        _ => "an answer that is not JSON".to_owned(),
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

/// What the operating system says, in its words without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
