//! Where a server listens: on sockets it was handed, or on an address and a socket file of its own.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::config::Fixed;
use crate::http::{Gate, Listener};
use crate::local::data_dir;

/// Where a server listens if nobody says otherwise.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3427);

/// The longest path a Unix socket can have.
const SOCKET_PATH_MAX: usize = 107;

/// The first socket a service manager hands over.
const FIRST_FD: RawFd = 3;

/// Connections that may wait to be accepted.
const QUEUE: i32 = 4096;

/// Where clients connect.
#[derive(Default)]
pub struct Listening {
    /// What they connect to.
    pub listeners: Vec<(Listener, Gate)>,
    /// The first address.
    pub url: Option<String>,
    /// The first socket file.
    pub socket: Option<PathBuf>,
}

/// Takes the sockets this process was handed; where there are none, opens its own.
pub async fn listen(fixed: &Fixed, home: &Path, handed: Vec<OwnedFd>) -> Result<Listening> {
    let mut listening = Listening::default();
    if handed.is_empty() {
        listening.open_address(fixed).await?;
        listening.open_socket(fixed, home)?;
    }
    for fd in handed {
        listening.take(Socket::from(fd), fixed)?;
    }
    Ok(listening)
}

/// The sockets a service manager hands to this very process, by its protocol (`sd_listen_fds`). Call it once, before
/// anything else opens files; what this process starts later inherits nothing of it.
pub fn handed_over() -> Result<Vec<OwnedFd>> {
    let told = |name: &str| std::env::var(name).ok();
    let (pid, count) = (told("LISTEN_PID"), told("LISTEN_FDS"));
    if pid.as_deref() != Some(&std::process::id().to_string()) {
        return Ok(Vec::new());
    }
    let count: RawFd = match count.as_deref().map(str::parse) {
        Some(Ok(count @ 0..=64)) => count,
        _ => bail!("LISTEN_FDS must be the number of sockets handed over, 0 to 64"),
    };
    (FIRST_FD..FIRST_FD + count).map(take).collect()
}

fn take(fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: this only asks about a number and sets a flag of it; a number that is no open file is an error.
    let open = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    if !open {
        bail!("LISTEN_FDS says that file {fd} was handed over, and it is not open");
    }
    // SAFETY: it is open, and by the protocol it is ours alone; nobody else in this process knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Listening {
    fn add_tcp(&mut self, tcp: TcpListener, fixed: &Fixed) -> Result<()> {
        let address = tcp.local_addr().context("cannot tell the address it listens on")?;
        // A proxy on this machine passes on the name its own clients use.
        let gate = if address.ip().is_loopback() && !fixed.behind_proxy { Gate::Loopback } else { Gate::Open };
        self.listeners.push((Listener::Tcp(tcp), gate));
        self.url.get_or_insert_with(|| format!("http://{address}"));
        Ok(())
    }

    async fn open_address(&mut self, fixed: &Fixed) -> Result<()> {
        let tcp = match fixed.listen.as_ref().map(|told| &told.value) {
            None => match TcpListener::bind(LISTEN).await {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    TcpListener::bind((LISTEN.ip(), 0)).await.context("cannot listen on any port of 127.0.0.1")?
                }
                bound => bound.with_context(|| format!("cannot listen on {LISTEN}"))?,
            },
            Some(text) => {
                let addresses = tokio::net::lookup_host(text).await;
                let addresses: Vec<_> =
                    addresses.with_context(|| format!("{text} is not an address to listen on"))?.collect();
                check_address(&addresses, fixed, text)?;
                TcpListener::bind(&*addresses).await.with_context(|| format!("cannot listen on {text}"))?
            }
        };
        self.add_tcp(tcp, fixed)
    }

    fn open_socket(&mut self, fixed: &Fixed, home: &Path) -> Result<()> {
        let named = fixed.socket.as_ref().map(|told| told.value.clone());
        let path = std::path::absolute(named.clone().unwrap_or_else(|| data_dir::socket(home)))?;
        if path.as_os_str().len() > SOCKET_PATH_MAX && named.is_none() {
            return Ok(());
        }
        check_socket(&path)?;
        // The journal is ours by now, so a socket file in its place was left behind by a server that is gone.
        if std::os::unix::net::UnixStream::connect(&path).is_err() {
            let _ = std::fs::remove_file(&path);
        }
        let socket = UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .with_context(|| format!("cannot restrict {}", path.display()))?;
        self.listeners.push((Listener::Unix(socket, Some(path.clone())), Gate::Open));
        self.socket = Some(path);
        Ok(())
    }

    /// A socket somebody else opened, and will close.
    fn take(&mut self, socket: Socket, fixed: &Fixed) -> Result<()> {
        let odd = "a file that was handed over is not a listening stream socket";
        if !matches!(socket.r#type(), Ok(kind) if kind == Type::STREAM) {
            bail!(odd);
        }
        // Listening again changes nothing but the length of the queue; what cannot listen says so.
        socket.listen(QUEUE).context(odd)?;
        socket.set_nonblocking(true).context(odd)?;
        match socket.local_addr().context(odd)?.domain() {
            Domain::UNIX => {
                let socket = std::os::unix::net::UnixListener::from(OwnedFd::from(socket));
                let path = socket.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_owned));
                self.listeners.push((Listener::Unix(UnixListener::from_std(socket)?, None), Gate::Open));
                if self.socket.is_none() {
                    self.socket = path;
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

/// Other machines are let in only if something in front speaks TLS with them.
pub fn check_address(addresses: &[SocketAddr], fixed: &Fixed, shown: &str) -> Result<()> {
    if fixed.behind_proxy || addresses.iter().all(|address| address.ip().is_loopback()) {
        return Ok(());
    }
    bail!(
        "{shown} can be reached from other machines, and git-dibs does not speak TLS; \
         put a proxy in front that does and say --behind-proxy, or listen on 127.0.0.1"
    );
}

/// Whether a socket can be there, and is safe there: whoever may write to its directory may put a socket of their own
/// in the place of ours, and hear every token.
pub fn check_socket(path: &Path) -> Result<()> {
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        bail!("{} is too long for a socket; {SOCKET_PATH_MAX} bytes is the most", path.display());
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    let failed = || format!("cannot look at the directory of the socket {}", path.display());
    let found = std::fs::metadata(directory).with_context(failed)?;
    if !found.is_dir() {
        bail!("{} is not a directory, so no socket can be in it", directory.display());
    }
    let mode = found.mode() & 0o7777;
    // Where the sticky bit is set, as in /tmp, nobody can take away what is ours; and who was there first keeps us from
    // starting, which is noticed.
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        bail!(
            "anybody can write to {} (mode {mode:04o}), and so put another socket in the place of {}; \
             close it with: chmod o-w {directory:?}, or name a socket elsewhere with --socket",
            directory.display(),
            path.display(),
        );
    }
    Ok(())
}
