//! Opens the sockets the server listens on: inherited ones, or an address and a Unix socket of its own.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::config::FixedSettings;
use crate::http::{HostCheck, Listener, TlsIdentity};
use crate::local::data_dir;

/// The address if none is configured.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3427);

/// The longest path a Unix socket can have.
const SOCKET_PATH_MAX: usize = 107;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

#[derive(Default)]
pub struct ServerSockets {
    pub listeners: Vec<(Listener, HostCheck)>,
    /// With which certificate the TCP sockets speak TLS, if they do.
    tls: Option<TlsIdentity>,
    /// The URL of the first TCP socket.
    pub url: Option<String>,
    /// The path of the first Unix socket.
    pub unix_path: Option<PathBuf>,
}

/// Uses the inherited sockets; if there are none, opens an address and a Unix socket. `last_port` is the port of the last
/// server; it is taken again if no address is configured and it is free.
pub async fn listen(
    fixed: &FixedSettings,
    last_port: Option<u16>,
    tls: Option<TlsIdentity>,
    home: &Path,
    inherited: Vec<OwnedFd>,
) -> Result<ServerSockets> {
    let mut sockets = ServerSockets { tls, ..ServerSockets::default() };
    if inherited.is_empty() {
        sockets.open_tcp(fixed, last_port).await?;
        sockets.open_unix(fixed, home)?;
    }
    for fd in inherited {
        sockets.add_inherited(Socket::from(fd), fixed)?;
    }
    Ok(sockets)
}

/// Refuses addresses and sockets that [`listen`] would refuse, without opening any.
pub fn check_flags(fixed: &FixedSettings, home: &Path, inherited: &[OwnedFd]) -> Result<()> {
    if !inherited.is_empty() {
        return Ok(());
    }
    if let Some(listen) = fixed.listen.as_ref().map(|listen| &listen.value) {
        let addresses: Vec<_> = listen.to_socket_addrs().with_context(|| not_an_address(listen))?.collect();
        check_address(&addresses, fixed, listen)?;
    }
    let Some(socket) = &fixed.socket else { return Ok(()) };
    let path = std::path::absolute(&socket.value)?;
    // The server's own directory is created later.
    let is_own = path.parent() == Some(&*std::path::absolute(home)?) && !home.exists();
    if is_own { Ok(()) } else { check_socket(&path) }
}

impl ServerSockets {
    fn add_tcp(&mut self, tcp: TcpListener, fixed: &FixedSettings) -> Result<()> {
        let address = tcp.local_addr().context("cannot read the address of a listening socket")?;
        // Behind a proxy, the Host header is the public name, also if the proxy runs on this machine.
        let host_check =
            if address.ip().is_loopback() && !fixed.behind_proxy { HostCheck::Loopback } else { HostCheck::AnyName };
        let (listener, scheme) = match &self.tls {
            Some(identity) => (Listener::Tls(tcp, identity.clone()), "https"),
            None => (Listener::Tcp(tcp), "http"),
        };
        self.listeners.push((listener, host_check));
        self.url.get_or_insert_with(|| format!("{scheme}://{address}"));
        Ok(())
    }

    async fn open_tcp(&mut self, fixed: &FixedSettings, last_port: Option<u16>) -> Result<()> {
        let tcp = match fixed.listen.as_ref().map(|listen| &listen.value) {
            None => bind_default(last_port).await?,
            Some(text) => {
                let addresses = tokio::net::lookup_host(text).await;
                let addresses: Vec<_> = addresses.with_context(|| not_an_address(text))?.collect();
                check_address(&addresses, fixed, text)?;
                TcpListener::bind(&*addresses).await.with_context(|| format!("cannot listen on {text}"))?
            }
        };
        self.add_tcp(tcp, fixed)
    }

    fn open_unix(&mut self, fixed: &FixedSettings, home: &Path) -> Result<()> {
        let configured = fixed.socket.as_ref().map(|socket| socket.value.clone());
        let is_default = configured.is_none();
        let path = std::path::absolute(configured.unwrap_or_else(|| data_dir::socket(home)))?;
        if path.as_os_str().len() > SOCKET_PATH_MAX && is_default {
            return Ok(());
        }
        check_socket(&path)?;
        // This server has the journal's lock, so if no process answers there, the file is left over from an earlier one.
        if std::os::unix::net::UnixStream::connect(&path).is_err() {
            let _ = std::fs::remove_file(&path);
        }
        let socket = UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .with_context(|| format!("cannot make {} private", path.display()))?;
        self.listeners.push((Listener::Unix(socket, Some(path.clone())), HostCheck::AnyName));
        self.unix_path = Some(path);
        Ok(())
    }

    /// Adds a socket that the service manager opened and will remove.
    fn add_inherited(&mut self, socket: Socket, fixed: &FixedSettings) -> Result<()> {
        let odd = "an inherited file descriptor (LISTEN_FDS) is not a stream socket that can listen";
        if !matches!(socket.r#type(), Ok(kind) if kind == Type::STREAM) {
            bail!(odd);
        }
        // On a socket that listens already, this only changes the backlog. On anything else it fails.
        socket.listen(BACKLOG).context(odd)?;
        socket.set_nonblocking(true).context(odd)?;
        match socket.local_addr().context(odd)?.domain() {
            Domain::UNIX => {
                let socket = std::os::unix::net::UnixListener::from(OwnedFd::from(socket));
                let path = socket.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_owned));
                self.listeners.push((Listener::Unix(UnixListener::from_std(socket)?, None), HostCheck::AnyName));
                if self.unix_path.is_none() {
                    self.unix_path = path;
                }
                Ok(())
            }
            Domain::IPV4 | Domain::IPV6 => {
                let tcp = TcpListener::from_std(std::net::TcpListener::from(OwnedFd::from(socket)))?;
                let address = tcp.local_addr().context(odd)?;
                check_address(&[address], fixed, &address.to_string())?;
                self.add_tcp(tcp, fixed)
            }
            _ => bail!(odd),
        }
    }
}

/// Listens on the last server's port, else on the default one, else on any that is free.
async fn bind_default(last_port: Option<u16>) -> Result<TcpListener> {
    let ip = DEFAULT_ADDRESS.ip();
    // Any failure with the last port leads to the others: it is only a preference.
    if let Some(port) = last_port
        && let Ok(bound) = TcpListener::bind((ip, port)).await
    {
        return Ok(bound);
    }
    match TcpListener::bind(DEFAULT_ADDRESS).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            TcpListener::bind((ip, 0)).await.context("cannot listen on any port of 127.0.0.1")
        }
        bound => bound.with_context(|| format!("cannot listen on {DEFAULT_ADDRESS}")),
    }
}

/// Refuses addresses that other machines can reach, unless the server or a proxy in front of it speaks TLS with them.
pub fn check_address(addresses: &[SocketAddr], fixed: &FixedSettings, shown: &str) -> Result<()> {
    if fixed.behind_proxy || fixed.speaks_tls || addresses.iter().all(|address| address.ip().is_loopback()) {
        return Ok(());
    }
    bail!(
        "other machines can reach {shown}, and would send their tokens without TLS; give a certificate with --tls-cert and \
         --tls-key, listen on 127.0.0.1, or put a TLS proxy in front and add --behind-proxy"
    );
}

/// Whether a Unix socket can have this path, and is safe there: a user who can write to its directory could replace the
/// socket by another one and receive every token.
pub fn check_socket(path: &Path) -> Result<()> {
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        bail!(
            "the path {} is too long for a Unix socket; choose one of at most {SOCKET_PATH_MAX} bytes with --socket",
            path.display()
        );
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    let failed = || format!("cannot open the directory for the socket {}; create it first", path.display());
    let found = std::fs::metadata(directory).with_context(failed)?;
    if !found.is_dir() {
        bail!("{} is not a directory; choose another path with --socket", directory.display());
    }
    let mode = found.mode() & 0o7777;
    // With the sticky bit, as on /tmp, other users cannot remove our socket. If they created theirs first, ours cannot be
    // opened, and the server does not start.
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        bail!(
            "every user can write to {} (mode {mode:04o}) and so replace the socket {}; \
             run chmod o-w {directory:?}, or choose another path with --socket",
            directory.display(),
            path.display(),
        );
    }
    Ok(())
}

pub fn not_an_address(text: &str) -> String {
    format!("{text} is not an address to listen on; write HOST:PORT, such as 127.0.0.1:3427")
}
