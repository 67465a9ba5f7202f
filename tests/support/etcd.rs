//! Real etcd members on loopback, each with a directory of its own. Only std is used: unit tests include this file too.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a member may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// Whether there is an etcd on this machine.
pub fn is_installed() -> bool {
    Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// One member of an etcd cluster. It is killed when this is dropped.
pub struct Member {
    name: String,
    dir: PathBuf,
    client_port: u16,
    peer_port: u16,
    cluster: String,
    extra: Vec<String>,
    process: Option<Child>,
}

/// Members that form one cluster, all started.
pub fn start_cluster(dir: &Path, count: usize) -> Vec<Member> {
    start_cluster_with(dir, count, &[])
}

/// The same, with more arguments for every member.
pub fn start_cluster_with(dir: &Path, count: usize, extra: &[&str]) -> Vec<Member> {
    let ports = free_ports(count * 2);
    let name = |n: usize| format!("m{n}");
    let peers: Vec<String> = (0..count).map(|n| format!("{}=http://127.0.0.1:{}", name(n), ports[2 * n + 1])).collect();
    let mut members: Vec<Member> = (0..count)
        .map(|n| Member {
            name: name(n),
            dir: dir.join(name(n)),
            client_port: ports[2 * n],
            peer_port: ports[2 * n + 1],
            cluster: peers.join(","),
            extra: extra.iter().map(|arg| (*arg).to_owned()).collect(),
            process: None,
        })
        .collect();
    members.iter_mut().for_each(Member::spawn);
    members.iter().for_each(Member::wait_until_it_listens);
    members
}

/// The address that `--cluster` takes.
pub fn address(members: &[Member], prefix: &str) -> String {
    let endpoints: Vec<String> = members.iter().map(|member| format!("127.0.0.1:{}", member.client_port)).collect();
    format!("etcd://{}/{prefix}", endpoints.join(","))
}

impl Member {
    pub fn client_port(&self) -> u16 {
        self.client_port
    }

    pub fn pid(&self) -> i32 {
        self.process.as_ref().expect("it runs").id() as i32
    }

    /// Starts the process, on the data that it has.
    pub fn spawn(&mut self) {
        let client = format!("http://127.0.0.1:{}", self.client_port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
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
        self.process = Some(command.spawn().expect("etcd is installed"));
    }

    pub fn wait_until_it_listens(&self) {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.client_port)).is_err() {
            assert!(start.elapsed() < START_TIME_MAX, "etcd does not listen on {}", self.client_port);
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

/// Ports that nothing listens on now.
pub fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
