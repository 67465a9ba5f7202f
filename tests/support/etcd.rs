//! Real etcd members, each with a directory of its own: on loopback, or each in a network namespace. Only std is used: unit
//! tests include this file too.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a member may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// Whether there is an etcd on this machine.
pub fn is_installed() -> bool {
    Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Where a process runs, in a network namespace if it has one of its own.
#[derive(Clone)]
pub struct Host {
    /// For clients.
    pub address: String,
    /// For others of its kind.
    pub peer_address: String,
    pub namespace: Option<Arc<OwnedFd>>,
}

impl Host {
    pub fn loopback() -> Host {
        let address = || "127.0.0.1".to_owned();
        Host { address: address(), peer_address: address(), namespace: None }
    }

    /// The process of this command will run here.
    pub fn enter(&self, command: &mut Command) {
        let Some(namespace) = self.namespace.clone() else { return };
        // SAFETY: the call between fork and exec is one system call, on a file that stays open as long as the command exists.
        unsafe {
            command.pre_exec(move || match libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }
}

/// How the members of a cluster are started.
pub struct Setup {
    /// One for each member.
    pub hosts: Vec<Host>,
    /// Clients use TLS; `extra` says with which files.
    pub is_tls: bool,
    pub extra: Vec<String>,
}

impl Setup {
    pub fn on_loopback(members: usize) -> Setup {
        Setup { hosts: vec![Host::loopback(); members], is_tls: false, extra: Vec::new() }
    }
}

/// One member of an etcd cluster. It is killed when this is dropped.
pub struct Member {
    name: String,
    dir: PathBuf,
    host: Host,
    client_port: u16,
    peer_port: u16,
    is_tls: bool,
    cluster: String,
    extra: Vec<String>,
    process: Option<Child>,
}

/// Members on loopback that form one cluster, all started.
pub fn start_cluster(dir: &Path, count: usize) -> Vec<Member> {
    start_cluster_with(dir, Setup::on_loopback(count))
}

pub fn start_cluster_with(dir: &Path, setup: Setup) -> Vec<Member> {
    let Setup { hosts, is_tls, extra } = setup;
    let ports = free_ports(hosts.len() * 2);
    let name = |n: usize| format!("m{n}");
    let peer = |(n, host): (usize, &Host)| format!("{}=http://{}:{}", name(n), host.peer_address, ports[2 * n + 1]);
    let cluster = hosts.iter().enumerate().map(peer).collect::<Vec<_>>().join(",");
    let member = |(n, host): (usize, Host)| Member {
        name: name(n),
        dir: dir.join(name(n)),
        host,
        client_port: ports[2 * n],
        peer_port: ports[2 * n + 1],
        is_tls,
        cluster: cluster.clone(),
        extra: extra.clone(),
        process: None,
    };
    let mut members: Vec<Member> = hosts.into_iter().enumerate().map(member).collect();
    members.iter_mut().for_each(Member::spawn);
    members.iter().for_each(Member::wait_until_it_listens);
    members
}

/// The address that `--cluster` takes.
pub fn address(members: &[Member], prefix: &str) -> String {
    let endpoints: Vec<String> =
        members.iter().map(|member| format!("{}:{}", member.host.address, member.client_port)).collect();
    let scheme = if members[0].is_tls { "etcds" } else { "etcd" };
    format!("{scheme}://{}/{prefix}", endpoints.join(","))
}

impl Member {
    pub fn client_port(&self) -> u16 {
        self.client_port
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host.address, self.client_port)
    }

    fn peer_url(&self) -> String {
        format!("http://{}:{}", self.host.peer_address, self.peer_port)
    }

    pub fn pid(&self) -> i32 {
        self.process.as_ref().expect("it runs").id() as i32
    }

    /// Starts the process, on the data that it has.
    pub fn spawn(&mut self) {
        let (client, peer) = (self.url(), self.peer_url());
        let mut command = Command::new("etcd");
        command
            .args(["--name", &self.name, "--data-dir"])
            .arg(&self.dir)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.cluster, "--log-level", "error", "--logger", "zap"])
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        end_with_parent(&mut command);
        self.host.enter(&mut command);
        self.process = Some(command.spawn().expect("etcd is installed"));
    }

    /// Replaces the data of a stopped member by a backup, as a member of a new cluster. `token` names that cluster.
    pub fn restore(&mut self, backup: &Path, token: &str) {
        self.kill();
        std::fs::remove_dir_all(&self.dir).unwrap();
        // Since 3.6 only the first of them can do this.
        let has_tool = Command::new("etcdutl").arg("version").stdout(Stdio::null()).status().is_ok();
        let restored = Command::new(if has_tool { "etcdutl" } else { "etcdctl" })
            .args(["snapshot", "restore"])
            .arg(backup)
            .args(["--name", &self.name, "--data-dir"])
            .arg(&self.dir)
            .args(["--initial-cluster", &self.cluster, "--initial-cluster-token", token])
            .args(["--initial-advertise-peer-urls", &self.peer_url()])
            .env("ETCDCTL_API", "3")
            .output()
            .expect("etcdctl is installed");
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    }

    pub fn wait_until_it_listens(&self) {
        let start = Instant::now();
        while TcpStream::connect((&*self.host.address, self.client_port)).is_err() {
            assert!(start.elapsed() < START_TIME_MAX, "etcd does not listen on {}", self.url());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the process, as a power failure would. Its data stays.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: takes plain numbers, and the process is ours.
        unsafe { libc::kill(self.pid(), signal) };
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The process gets a signal when the thread that starts it ends, so that nothing stays behind a test that is killed.
fn end_with_parent(command: &mut Command) {
    // SAFETY: the call between fork and exec is one system call.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// Ports that nothing listens on now, and that no other test of this process gets. They lie below those that the system gives
/// to outgoing connections: one of these could take a port between here and the start of the server that it is for.
pub fn free_ports(count: usize) -> Vec<u16> {
    const PORTS: std::ops::Range<u32> = 10_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let next = || {
        // Processes begin at different ports.
        let offset = std::process::id().wrapping_mul(127).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        u16::try_from(PORTS.start + offset % (PORTS.end - PORTS.start)).unwrap()
    };
    std::iter::repeat_with(next).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect()
}
