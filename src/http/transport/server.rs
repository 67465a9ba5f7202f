//! Accepts connections, serves them, and on stop lets requests in progress finish.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::http::app::App;
use crate::http::ids::new_id;
use crate::http::limits::ServerLimits;
use crate::http::middleware::host_check::HostCheck;
use crate::http::middleware::reserved_slot::ReservedSlot;
use crate::http::quick::QuickCalls;
use crate::http::router::router;
use crate::http::transport::client_watch::ClientSocket;
use crate::http::transport::connection::Connection;
use crate::http::transport::connections::{Admission, ConnectionSlot, Connections, Peer};
use crate::http::transport::progress::RequestProgress;
use crate::http::transport::tls::{TlsIdentity, TlsStream};
use crate::http::transport::unread::OpenSockets;
use crate::threads;
use crate::wire::{Code, ErrorBody};

/// How long requests in progress may take once the server stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(8);

/// How long to wait after a failed accept. The usual cause is too many open files, which is temporary.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections over the limit that get a reply at the same time. Any more are closed without one.
const REFUSED_MAX: usize = 64;

/// How long such a reply may take.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);

/// How long a connection in a reserved slot may take for the head of its request.
const RESERVED_HEADER_TIME: Duration = Duration::from_secs(2);

/// How many tasks a thread of the runtime runs before it looks for input, and for replies of the desk. A few connections
/// that always have work must not make the others wait for long.
const TASKS_BETWEEN_EVENTS: u32 = 13;
const TASKS_BETWEEN_REPLIES: u32 = 5;

/// The runtime that serves connections. It has half as many threads as there are processors: the desk, the ledger, git
/// and often the clients run on the same machine, and one thread can serve more requests than one desk can decide.
pub fn runtime() -> io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(2, |count| count.get());
    Builder::new_multi_thread()
        .worker_threads(processors.div_ceil(2))
        .event_interval(TASKS_BETWEEN_EVENTS)
        .global_queue_interval(TASKS_BETWEEN_REPLIES)
        .on_thread_start(threads::go_first)
        .enable_all()
        .build()
}

/// A socket that clients connect to.
pub enum Listener {
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener, TlsIdentity),
    /// With the path of its file, if the file is to be removed when the server stops.
    Unix(UnixListener, Option<PathBuf>),
}

/// Listeners, each with the router that serves it.
pub struct HttpServer {
    listeners: Vec<(Listener, Router, Option<QuickCalls>)>,
    limits: Arc<ArcSwap<ServerLimits>>,
    sockets: Arc<OpenSockets>,
}

/// What the connections of one listener share.
struct Acceptor {
    router: Router,
    quick: Option<QuickCalls>,
    limits: Arc<ArcSwap<ServerLimits>>,
    sockets: Arc<OpenSockets>,
    /// Becomes true when the server stops. Each connection has one, so the sender knows when all are closed.
    stop: watch::Receiver<bool>,
    connections: Connections,
    /// Each connection that is being refused has a clone, which counts them.
    refusals_in_progress: Arc<()>,
}

impl HttpServer {
    /// One router for all listeners, with the default limits.
    pub fn new(router: Router, listeners: Vec<Listener>) -> Self {
        let listeners = listeners.into_iter().map(|listener| (listener, router.clone(), None)).collect();
        Self { listeners, limits: Arc::default(), sockets: Arc::default() }
    }

    /// All calls of the app, with its limits. Its desks hear what has arrived before anything expires.
    pub fn of(app: &Arc<App>, listeners: Vec<(Listener, HostCheck)>) -> Self {
        let with_router = |(listener, host_check)| {
            (listener, router(app.clone(), host_check), Some(QuickCalls::new(app.clone(), host_check)))
        };
        let sockets = Arc::<OpenSockets>::default();
        app.set_sockets(&sockets);
        Self { listeners: listeners.into_iter().map(with_router).collect(), limits: app.shared_limits(), sockets }
    }

    /// Serves until `stop` becomes true. Then accepts no more connections, calls `closing`, and waits for the requests in
    /// progress.
    pub async fn run(self, stop: watch::Receiver<bool>, closing: impl FnOnce()) {
        let (stopping, _) = watch::channel(false);
        let accepting = self.listeners.into_iter().map(|(listener, router, quick)| {
            let listening = self.sockets.register_listener(listener.as_raw_fd());
            let acceptor = Acceptor {
                router,
                quick,
                limits: self.limits.clone(),
                sockets: self.sockets.clone(),
                stop: stopping.subscribe(),
                connections: Connections::default(),
                refusals_in_progress: Arc::default(),
            };
            tokio::spawn(listening.run(accept(listener, acceptor, stop.clone())))
        });
        for task in accepting.collect::<Vec<_>>() {
            let _ = task.await;
        }
        closing();
        stopping.send_replace(true);
        tokio::select! {
            () = stopping.closed() => {}
            () = tokio::time::sleep(STOP_TIME_MAX) => {
                tracing::warn!("some requests did not finish in time; their connections were closed");
            }
        }
    }
}

async fn accept(listener: Listener, acceptor: Acceptor, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok(AcceptedStream::Tcp(stream, address)) => {
                // Replies are small and written at once; waiting to fill a packet would only delay them.
                let _ = stream.set_nodelay(true);
                acceptor.serve(stream, Peer::at(address.ip()));
            }
            Ok(AcceptedStream::Unix(stream)) => {
                let peer = stream.peer_cred().map_or(Peer::Local, |peer| Peer::user(peer.uid()));
                acceptor.serve(stream, peer);
            }
            Ok(AcceptedStream::Tls(stream, address)) => acceptor.serve(stream, Peer::at(address.ip())),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if let Listener::Unix(_, Some(path)) = &listener {
        let _ = std::fs::remove_file(path);
    }
}

enum AcceptedStream {
    Tcp(tokio::net::TcpStream, SocketAddr),
    Tls(TlsStream<tokio::net::TcpStream>, SocketAddr),
    Unix(tokio::net::UnixStream),
}

async fn next(listener: &Listener) -> io::Result<AcceptedStream> {
    match listener {
        Listener::Tcp(listener) => {
            listener.accept().await.map(|(stream, address)| AcceptedStream::Tcp(stream, address))
        }
        Listener::Tls(listener, identity) => listener.accept().await.map(|(stream, address)| {
            let _ = stream.set_nodelay(true);
            AcceptedStream::Tls(TlsStream::new(stream, identity), address)
        }),
        Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| AcceptedStream::Unix(stream)),
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener, _) => listener.as_raw_fd(),
            Listener::Unix(listener, _) => listener.as_raw_fd(),
        }
    }
}

impl Acceptor {
    fn serve<S: AsyncRead + AsyncWrite + AsRawFd + Send + Unpin + 'static>(&self, stream: S, peer: Peer) {
        let limits = self.limits.load();
        let progress = RequestProgress::accepted_at(tokio::time::Instant::now());
        match self.connections.admit(peer, &progress, limits.connections, limits.connections_per_peer) {
            Admission::Served(slot) => {
                self.serve_in(slot, None, stream, progress, limits.header_time, limits.idle_time);
            }
            Admission::Reserved(slot) => {
                let header_time = limits.header_time.min(RESERVED_HEADER_TIME);
                self.serve_in(slot, Some(ReservedSlot), stream, progress, header_time, header_time);
            }
            Admission::Refused(sentence) => self.refuse(stream, sentence),
        }
    }

    fn serve_in<S: AsyncRead + AsyncWrite + AsRawFd + Send + Unpin + 'static>(
        &self,
        slot: ConnectionSlot,
        reserved: Option<ReservedSlot>,
        stream: S,
        progress: RequestProgress,
        header_time: Duration,
        idle_time: Duration,
    ) {
        let registration = self.sockets.register_connection(stream.as_raw_fd());
        let connection = Connection {
            router: self.router.clone(),
            // Such a connection serves only one request.
            quick: self.quick.clone().filter(|_| reserved.is_none()),
            reserved,
            client: ClientSocket::new(stream.as_raw_fd()),
            progress,
            header_time,
            idle_time,
            stop: self.stop.clone(),
        };
        let number = slot.number();
        let task = tokio::spawn(async move {
            registration.run(connection.serve(stream)).await;
            drop(slot);
        });
        self.connections.set_task(number, task.abort_handle());
    }

    /// Replies that there are too many connections. The number of these replies is limited too.
    fn refuse<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(&self, mut stream: S, sentence: &str) {
        if Arc::strong_count(&self.refusals_in_progress) > REFUSED_MAX {
            return;
        }
        let refusal_guard = self.refusals_in_progress.clone();
        let body = ErrorBody::new(Code::Unavailable, sentence);
        let body = serde_json::to_string(&body).expect("an error body is plain data");
        tokio::spawn(async move {
            let reply = format!(
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
                 connection: close\r\ncontent-length: {}\r\nx-request-id: {}\r\n\r\n{body}",
                body.len(),
                new_id().simple(),
            );
            let send = async {
                stream.write_all(reply.as_bytes()).await?;
                stream.shutdown().await?;
                // Closing a socket with unread input resets it, and the client might lose the reply.
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(REFUSAL_TIME_MAX, send).await;
            drop(refusal_guard);
        });
    }
}
