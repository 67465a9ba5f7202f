//! The connections to etcd, and one blocking call for each of its calls.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::messages::{
    AuthenticateRequest, AuthenticateResponse, CompactionRequest, CompactionResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchCreateRequest,
    WatchRequest, WatchRequestKind, WatchResponse,
};
use super::{EtcdAddress, EtcdError, EtcdOptions};

/// How long one call may take before its outcome counts as unclear. A new leader of etcd is elected within about a second.
const CALL_TIME_MAX: Duration = Duration::from_secs(2);

/// How long to wait for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);

/// How often a quiet connection is tested. etcd closes connections that are tested more often than every 5 s.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIME_MAX: Duration = Duration::from_secs(3);

/// The largest response that is read. Pages of a range are far smaller.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// How long a watch waits before it connects again.
const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// A client of one etcd cluster. Clones share connections.
#[derive(Clone)]
pub struct Etcd {
    inner: Arc<Inner>,
}

struct Inner {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    endpoints: Vec<(String, Channel)>,
    /// The endpoint that is used until it fails.
    current: AtomicUsize,
    user: Option<(String, String)>,
    /// What etcd gave us for the user's password.
    token: Mutex<Option<String>>,
}

/// What one member of etcd says about itself.
#[derive(Debug, Clone)]
pub struct MemberStatus {
    pub endpoint: String,
    pub status: Result<StatusResponse, EtcdError>,
}

impl Etcd {
    /// Connects with the first call. An error says what is wrong with the configuration.
    pub fn new(address: &EtcdAddress, options: EtcdOptions) -> Result<Etcd, String> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("etcd").enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start a thread: {error}"))?;
        let entered = runtime.enter();
        let tls = address.is_tls.then(|| tls_config(&options));
        let connect = |endpoint: &String| {
            let bad = |error: tonic::transport::Error| format!("cannot connect to {endpoint}: {}", causes(&error));
            let mut builder = Endpoint::from_shared(address.url(endpoint))
                .map_err(bad)?
                .connect_timeout(CONNECT_TIME_MAX)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_TIME_MAX)
                .keep_alive_while_idle(true);
            if let Some(tls) = &tls {
                builder = builder.tls_config(tls.clone()).map_err(bad)?;
            }
            Ok((endpoint.clone(), builder.connect_lazy()))
        };
        let endpoints = address.endpoints.iter().map(connect).collect::<Result<Vec<_>, String>>()?;
        drop(entered);
        let inner = Inner {
            runtime: Some(runtime),
            endpoints,
            current: AtomicUsize::new(0),
            user: options.user,
            token: Mutex::default(),
        };
        Ok(Etcd { inner: Arc::new(inner) })
    }

    /// Reads what is agreed on by a majority now, unless the request names an earlier revision.
    pub fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        self.call("/etcdserverpb.KV/Range", request)
    }

    pub fn txn(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        self.call("/etcdserverpb.KV/Txn", request)
    }

    /// Forgets earlier revisions.
    pub fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        self.call::<_, CompactionResponse>("/etcdserverpb.KV/Compact", CompactionRequest { revision }).map(drop)
    }

    /// A new lease: its id, and its time to live as etcd granted it.
    pub fn grant_lease(&self, ttl: Duration) -> Result<(i64, Duration), EtcdError> {
        let ttl = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        let granted: LeaseGrantResponse =
            self.call("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl, id: 0 })?;
        Ok((granted.id, Duration::from_secs(granted.ttl.max(0).unsigned_abs())))
    }

    /// Ends a lease; its keys are deleted.
    pub fn revoke_lease(&self, id: i64) -> Result<(), EtcdError> {
        self.call::<_, LeaseRevokeResponse>("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).map(drop)
    }

    /// Gives a lease its whole time to live again.
    pub fn keep_lease(&self, id: i64) -> Result<(), EtcdError> {
        let start = self.inner.current.load(Ordering::Relaxed);
        let result = self.wait(async {
            let request = self.inner.signed(tokio_stream(LeaseKeepAliveRequest { id })).await?;
            let mut grpc = self.inner.grpc(start).await?;
            let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
            let codec = ProstCodec::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>::default();
            let mut replies = grpc.streaming(request, path, codec).await?.into_inner();
            let reply = replies.message().await?;
            reply.ok_or_else(|| EtcdError::Unclear("the connection was closed".to_owned()))
        });
        match self.settle(start, result)? {
            LeaseKeepAliveResponse { ttl, .. } if ttl > 0 => Ok(()),
            _ => Err(EtcdError::LeaseGone),
        }
    }

    /// Calls `changed` after every change of a key with this prefix, and after every time the watch was interrupted: then
    /// something may have been missed. Ends when the result is dropped.
    pub fn watch(&self, prefix: &str, changed: impl Fn() + Send + Sync + 'static) -> Watching {
        let (inner, prefix) = (Arc::downgrade(&self.inner), prefix.as_bytes().to_vec());
        let task = self.runtime().spawn(async move {
            loop {
                let Some(client) = inner.upgrade() else { return };
                let endpoint = client.current.load(Ordering::Relaxed);
                let replies = client.open_watch(endpoint, &prefix).await;
                // The client may be dropped while the watch is open.
                drop(client);
                if let Ok(mut replies) = replies {
                    while let Ok(Some(reply)) = replies.message().await {
                        changed();
                        if reply.canceled {
                            break;
                        }
                    }
                }
                changed();
                tokio::time::sleep(WATCH_PAUSE).await;
            }
        });
        Watching { task: task.abort_handle() }
    }

    /// What every member says about itself, in the order of the configuration.
    pub fn members(&self) -> Vec<MemberStatus> {
        let one = |index: usize| {
            let status = self.wait(self.inner.unary(index, "/etcdserverpb.Maintenance/Status", StatusRequest {}));
            MemberStatus { endpoint: self.inner.endpoints[index].0.clone(), status }
        };
        (0..self.inner.endpoints.len()).map(one).collect()
    }

    /// The endpoint that is used now.
    pub fn endpoint(&self) -> &str {
        &self.inner.endpoints[self.inner.current.load(Ordering::Relaxed)].0
    }

    /// One call to the current endpoint. If its outcome is unclear, the next call goes to the next endpoint.
    fn call<Q, R>(&self, path: &'static str, message: Q) -> Result<R, EtcdError>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let endpoint = self.inner.current.load(Ordering::Relaxed);
        let result = self.wait(self.inner.unary(endpoint, path, message));
        self.settle(endpoint, result)
    }

    fn settle<T>(&self, endpoint: usize, result: Result<T, EtcdError>) -> Result<T, EtcdError> {
        if result.as_ref().is_err_and(EtcdError::is_unclear) {
            let next = (endpoint + 1) % self.inner.endpoints.len();
            let current = &self.inner.current;
            let _ = current.compare_exchange(endpoint, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        result
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, EtcdError>>) -> Result<T, EtcdError> {
        self.runtime().block_on(async {
            match tokio::time::timeout(CALL_TIME_MAX, call).await {
                Ok(result) => result,
                Err(_) => Err(EtcdError::Unclear(format!("no answer within {} s", CALL_TIME_MAX.as_secs()))),
            }
        })
    }

    fn runtime(&self) -> &Runtime {
        self.inner.runtime.as_ref().expect("it is there until the client is dropped")
    }
}

impl Inner {
    async fn unary<Q, R>(&self, endpoint: usize, path: &'static str, message: Q) -> Result<R, EtcdError>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let mut is_second_try = false;
        loop {
            let request = self.signed(message.clone()).await?;
            let mut grpc = self.grpc(endpoint).await?;
            let path = PathAndQuery::from_static(path);
            match grpc.unary(request, path, ProstCodec::<Q, R>::default()).await {
                Ok(reply) => return Ok(reply.into_inner()),
                // Tokens expire, and a restarted member may not know them.
                Err(status) if is_bad_token(&status) && self.user.is_some() && !is_second_try => {
                    *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    is_second_try = true;
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    async fn open_watch(&self, endpoint: usize, prefix: &[u8]) -> Result<tonic::Streaming<WatchResponse>, EtcdError> {
        let create = WatchCreateRequest { key: prefix.to_vec(), range_end: super::after_prefix(prefix) };
        let request = WatchRequest { kind: Some(WatchRequestKind::Create(create)) };
        let request = self.signed(open_stream(request)).await?;
        let mut grpc = self.grpc(endpoint).await?;
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        Ok(grpc.streaming(request, path, codec).await?.into_inner())
    }

    async fn grpc(&self, endpoint: usize) -> Result<Grpc<Channel>, EtcdError> {
        let channel = self.endpoints[endpoint].1.clone();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
        grpc.ready().await.map_err(|error| EtcdError::Unclear(causes(&error)))?;
        Ok(grpc)
    }

    /// A request with the user's token, if there is a user.
    async fn signed<T>(&self, message: T) -> Result<Request<T>, EtcdError> {
        let mut request = Request::new(message);
        let Some((name, password)) = &self.user else { return Ok(request) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = match known {
            Some(token) => token,
            None => {
                let endpoint = self.current.load(Ordering::Relaxed);
                let credentials = AuthenticateRequest { name: name.clone(), password: password.clone() };
                let mut grpc = self.grpc(endpoint).await?;
                let path = PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
                let codec = ProstCodec::<AuthenticateRequest, AuthenticateResponse>::default();
                let reply = grpc.unary(Request::new(credentials), path, codec).await?;
                let token = reply.into_inner().token;
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
                token
            }
        };
        let token = token.parse().map_err(|_| EtcdError::Refused("its token is not text".to_owned()))?;
        request.metadata_mut().insert("token", token);
        Ok(request)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Never waits, so that a client can be dropped anywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A watch that goes on until this is dropped.
pub struct Watching {
    task: tokio::task::AbortHandle,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn is_bad_token(status: &Status) -> bool {
    let text = status.message();
    text.contains("invalid auth token") || text.contains("revision of auth store is old")
}

fn tls_config(options: &EtcdOptions) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new();
    match &options.tls.authorities {
        Some(pem) => config = config.ca_certificate(Certificate::from_pem(pem)),
        None => {
            let found = rustls_native_certs::load_native_certs();
            let anchors = found.certs.iter().filter_map(|certificate| {
                let mut store = rustls::RootCertStore::empty();
                store.add(certificate.clone()).ok()?;
                store.roots.pop()
            });
            config = config.trust_anchors(anchors);
        }
    }
    if let Some((certificate, key)) = &options.tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    config
}

/// The error with its causes: "transport error" alone says nothing.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A stream of one message.
fn tokio_stream<T: Send + 'static>(message: T) -> impl futures_core::Stream<Item = T> + Send + 'static {
    Once { message: Some(message), stays_open: false }
}

/// A stream of one message that does not end: etcd closes a watch whose requests end.
fn open_stream<T: Send + 'static>(message: T) -> impl futures_core::Stream<Item = T> + Send + 'static {
    Once { message: Some(message), stays_open: true }
}

struct Once<T> {
    message: Option<T>,
    stays_open: bool,
}

// No field is pinned.
impl<T> Unpin for Once<T> {}

impl<T> futures_core::Stream for Once<T> {
    type Item = T;

    fn poll_next(mut self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<Option<T>> {
        match self.message.take() {
            Some(message) => std::task::Poll::Ready(Some(message)),
            None if self.stays_open => std::task::Poll::Pending,
            None => std::task::Poll::Ready(None),
        }
    }
}
