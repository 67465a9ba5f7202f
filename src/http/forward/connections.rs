//! Connections to other nodes, kept open between requests.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use http::Uri;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long to wait for a connection to another node.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);

/// A connection is closed if the other machine confirms nothing for this time, not even that it received something. Without
/// this, a request on a connection that was cut would have no answer for a quarter of an hour. A machine that is quiet because
/// there is nothing to say is asked this often.
const SILENCE_MAX: Duration = Duration::from_secs(5);
const ASK_WHEN_QUIET_FOR: Duration = Duration::from_secs(1);

/// A connection that was idle for longer is not used again: the other side may be about to close it.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(20);

/// Idle connections to one node.
const IDLE_MAX: usize = 256;

#[derive(Default)]
pub struct Connections {
    /// By the address of the node, the last used at the end.
    idle: Arc<Mutex<HashMap<String, Vec<IdleConnection>>>>,
    tls: OnceLock<Arc<rustls::ClientConfig>>,
}

/// A connection to another node, with TLS or without.
pub trait NodeStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> NodeStream for S {}

struct IdleConnection {
    sender: SendRequest<Body>,
    since: Instant,
}

/// Why there is no response.
pub enum SendError {
    /// Nothing was sent; here is the request.
    NotSent(Box<Request>, String),
    /// The other node may have carried out the request.
    Unknown(String),
}

impl Connections {
    /// Sends the request to the node at `url`.
    pub async fn send(&self, url: &str, mut request: Request) -> Result<http::Response<Incoming>, SendError> {
        // Only the path: the node serves this host, and is no proxy.
        if let Some(path) = request.uri().path_and_query() {
            *request.uri_mut() = Uri::from(path.clone());
        }
        loop {
            let idle = self.take_idle(url);
            let is_new = idle.is_none();
            let mut sender = match idle {
                Some(sender) => sender,
                None => match tokio::time::timeout(CONNECT_TIME_MAX, self.connect(url)).await {
                    Ok(Ok(sender)) => sender,
                    Ok(Err(error)) => return Err(SendError::NotSent(Box::new(request), error.to_string())),
                    Err(_) => return Err(SendError::NotSent(Box::new(request), "no connection in time".to_owned())),
                },
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(url, sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    // The connection was closed while it was idle.
                    Some(unsent) if !is_new => request = unsent,
                    Some(unsent) => return Err(SendError::NotSent(Box::new(unsent), error.error().to_string())),
                    None => return Err(SendError::Unknown(error.into_error().to_string())),
                },
            }
        }
    }

    fn take_idle(&self, url: &str) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = idle.get_mut(url)?;
        while let Some(IdleConnection { sender, since }) = connections.pop() {
            if sender.is_ready() && since.elapsed() < IDLE_TIME_MAX {
                return Some(sender);
            }
        }
        None
    }

    /// Once the response was read to its end, the connection can be used again.
    fn keep(&self, url: &str, mut sender: SendRequest<Body>) {
        let (idle, url) = (self.idle.clone(), url.to_owned());
        tokio::spawn(async move {
            if sender.ready().await.is_err() {
                return;
            }
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            let connections = idle.entry(url).or_default();
            if connections.len() < IDLE_MAX {
                connections.push(IdleConnection { sender, since: Instant::now() });
            }
        });
    }

    async fn connect(&self, url: &str) -> io::Result<SendRequest<Body>> {
        let (sender, connection) = handshake(TokioIo::new(self.open(url).await?)).await.map_err(io::Error::other)?;
        // Ends when the sender is dropped, or the other side closes the connection.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    /// Opens a connection that was not used yet.
    pub async fn open(&self, url: &str) -> io::Result<Box<dyn NodeStream>> {
        let bad = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let uri: Uri = url.parse().map_err(|error| bad(format!("{url} is not an address: {error}")))?;
        let host = uri.host().ok_or_else(|| bad(format!("{url} has no host")))?;
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let ask = TcpKeepalive::new().with_time(ASK_WHEN_QUIET_FOR).with_interval(ASK_WHEN_QUIET_FOR);
        socket.set_tcp_keepalive(&ask)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(SILENCE_MAX))?;
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let name =
            ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| bad(error.to_string()))?;
        let connector = TlsConnector::from(self.tls.get_or_init(tls_config).clone());
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

/// Trusts what the system trusts; `SSL_CERT_FILE` names other authorities.
fn tls_config() -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}
