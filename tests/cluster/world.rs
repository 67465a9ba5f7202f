//! Three nodes of one repository, called `repo`, on three members of etcd. Callers are spread over all nodes. A test may add
//! repositories.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::etcd::{self, Host, Member};
use crate::http::{Address, Connection, Response};
use crate::mint;
pub use crate::support::process::{Run, until};
use crate::support::server::{Ended, Server};
pub use crate::support::world::{PROGRAM, skip, text};

/// As short as etcd allows.
const LEASE_SECONDS: &str = "2";

/// How many nodes there are.
pub const NODES: usize = 3;

pub struct World {
    nodes: Vec<Option<Server>>,
    hosts: Vec<Host>,
    ports: Vec<u16>,
    /// The names of more repositories.
    more_repositories: Vec<String>,
    /// More arguments of every node.
    node_args: Vec<String>,
    /// More variables of every node.
    node_variables: Vec<(String, String)>,
    /// Where the nodes find etcd, if that is not where it is.
    node_etcd: Option<String>,
    /// How programs sign in to etcd.
    etcd_args: Vec<String>,
    pub members: Vec<Member>,
    /// The node that was killed last.
    killed: Option<usize>,
    next: AtomicUsize,
    dir: TempDir,
}

pub struct Session<'w> {
    world: &'w World,
    id: String,
}

impl World {
    pub fn new() -> World {
        World::with(NODES)
    }

    /// With so many nodes.
    pub fn with(nodes: usize) -> World {
        let mut world = World::without_nodes(nodes);
        (0..nodes).for_each(|node| world.start_node(node));
        world.leader();
        world
    }

    pub fn without_nodes(nodes: usize) -> World {
        World::set_up(vec![Host::loopback(); nodes], etcd::Setup::on_loopback(3))
    }

    /// With nodes on these hosts, none of them started, and such an etcd.
    pub fn set_up(hosts: Vec<Host>, etcd: etcd::Setup) -> World {
        if !has_etcd() {
            // The tests of one server that are included here know nothing of etcd, and none of them can run.
            std::process::exit(0);
        }
        // Three members sync every write; a disk that is shared with other tests would only make this slow.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = crate::support::world::scratch_dir(&parent);
        let members = etcd::start_cluster_with(dir.path(), etcd);
        let nodes = hosts.len();
        std::fs::create_dir(dir.path().join("home")).unwrap();
        crate::support::world::write_private(&dir.path().join("secret"), &"s".repeat(64));
        let world = World {
            nodes: (0..nodes).map(|_| None).collect(),
            hosts,
            ports: etcd::free_ports(nodes),
            more_repositories: Vec::new(),
            node_args: Vec::new(),
            node_variables: Vec::new(),
            node_etcd: None,
            etcd_args: Vec::new(),
            members,
            killed: None,
            next: AtomicUsize::new(0),
            dir,
        };
        for node in 0..nodes {
            let made = world.command("git").args(["init", "--quiet"]).arg(world.repository(node)).run();
            assert!(made.status.success());
        }
        world
    }

    pub fn address(&self) -> String {
        etcd::address(&self.members, "dibs")
    }

    pub fn repository(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("n{node}")).join("repo")
    }

    /// Every node that is started from now on finds etcd at this address.
    pub fn set_node_etcd(&mut self, address: String) {
        self.node_etcd = Some(address);
    }

    /// Every node that is started from now on serves one more repository.
    pub fn add_repository(&mut self, name: &str) {
        for node in 0..self.nodes.len() {
            let path = self.repository(node).with_file_name(name);
            assert!(self.command("git").args(["init", "--quiet"]).arg(path).run().status.success());
        }
        self.more_repositories.push(name.to_owned());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env_clear().env("HOME", self.dir.path().join("home"));
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("DIBS_AUTOSTART", "0");
        command
    }

    pub fn dibs(&self, args: &[&str]) -> Command {
        let mut command = self.command(PROGRAM);
        command.args(args);
        command
    }

    /// `git dibs cluster` with these arguments.
    pub fn cluster(&self, args: &[&str]) -> Command {
        let mut command = self.dibs(&["cluster"]);
        command.args(args).args(["--cluster", &self.address()]).args(&self.etcd_args);
        command
    }

    /// More arguments of every node that is started from now on.
    pub fn add_node_args(&mut self, args: &[&str]) {
        self.node_args.extend(args.iter().map(|arg| (*arg).to_owned()));
    }

    /// Sets a variable of every node that is started from now on.
    pub fn env(&mut self, name: &str, value: &str) {
        self.node_variables.push((name.to_owned(), value.to_owned()));
    }

    /// More arguments of all programs that use etcd.
    pub fn add_etcd_args(&mut self, args: &[&str]) {
        self.etcd_args.extend(args.iter().map(|arg| (*arg).to_owned()));
    }

    /// The command that runs a node.
    pub fn serve(&self, node: usize) -> Command {
        let (host, port) = (&self.hosts[node], self.ports[node]);
        let mut command = self.dibs(&["serve", "--json", "--cluster-lease", LEASE_SECONDS, "--cluster"]);
        command.arg(self.node_etcd.as_ref().unwrap_or(&self.address()));
        let listen = if host.namespace.is_some() { "0.0.0.0" } else { "127.0.0.1" };
        let scheme = if self.node_args.iter().any(|arg| arg == "--tls-cert") { "https" } else { "http" };
        command
            .args(["--node", &format!("n{node}"), "--listen", &format!("{listen}:{port}")])
            .args(["--advertise", &format!("{scheme}://{}:{port}", host.peer_address), "--repo"])
            .arg(format!("repo={}", self.repository(node).display()))
            .arg("--secret-file")
            .arg(self.path("secret"))
            .args(self.more_repositories.iter().flat_map(|name| {
                let path = self.repository(node).with_file_name(name);
                ["--repo".to_owned(), format!("{name}={}", path.display())]
            }))
            .args(&self.node_args)
            .args(&self.etcd_args)
            .envs(self.node_variables.iter().cloned());
        host.enter(&mut command);
        command
    }

    /// The same command with another value of a flag, or without the flag and what belongs to it.
    pub fn changed(&self, command: &Command, flag: &str, value: Option<&str>) -> Command {
        let with = match (flag, value) {
            ("--cluster-user", None) => "--cluster-password-file",
            ("--cluster-cert", None) => "--cluster-key",
            _ => flag,
        };
        let mut kept = Vec::new();
        let mut rest = command.get_args().map(|arg| arg.to_str().unwrap());
        while let Some(arg) = rest.next() {
            if arg != flag && arg != with {
                kept.push(arg);
                continue;
            }
            rest.next();
            kept.extend(value.map(|value| [arg, value]).into_iter().flatten());
        }
        self.dibs(&kept)
    }

    #[track_caller]
    pub fn start_node(&mut self, node: usize) {
        self.start_node_with(node, &mut self.serve(node));
    }

    /// Starts a node with a command that was changed.
    #[track_caller]
    pub fn start_node_with(&mut self, node: usize, command: &mut Command) {
        match Server::start(command) {
            Ok(server) => self.nodes[node] = Some(server),
            Err(ended) => panic!("node {node} did not start ({}): {}{}", ended.status, ended.stdout, ended.stderr),
        }
    }

    /// Makes this node lead.
    pub fn move_to(&self, node: usize) {
        self.move_repository("repo", node);
    }

    pub fn move_repository(&self, name: &str, node: usize) {
        until("the repository has moved", || {
            self.cluster(&["move", name, &format!("n{node}")]).run();
            (self.leader_of(name) == Some(node)).then_some(())
        });
    }

    pub fn node(&self, node: usize) -> &Server {
        self.nodes[node].as_ref().expect("the node runs")
    }

    pub fn kill_node(&mut self, node: usize) {
        self.nodes[node].take().unwrap().kill();
    }

    /// Tells a node to stop, and waits until it has.
    #[track_caller]
    pub fn stop_node(&mut self, node: usize) -> Ended {
        let server = self.nodes[node].take().unwrap();
        server.signal(libc::SIGTERM);
        server.wait()
    }

    /// Runs `etcdctl` on the first member; it must succeed.
    #[track_caller]
    pub fn etcdctl(&self, args: &[&str]) -> String {
        let mut command = self.command("etcdctl");
        // On a crowded machine its own seconds for a connection and for a command may be over before the members have elected one.
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.members[0].url(), "--dial-timeout=60s", "--command-timeout=60s"])
            .args(args);
        let output = command.run();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What `git dibs cluster status` says to people, exit code and all.
    pub fn status_text(&self) -> String {
        let output = self.cluster(&["status"]).run();
        let code = output.status.code().unwrap_or(-1);
        format!("{}{}exit {code}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// Waits until `/readyz` of a node has this status and this in its answer.
    #[track_caller]
    pub fn readyz(&self, node: usize, status: u16, sentence: &str) {
        until(&format!("node {node} says {status} {sentence:?}"), || {
            let answer = self.call_at(&self.at(node), "GET", "/readyz", "", None).ok()?;
            (answer.status == status && answer.to_string().contains(sentence)).then_some(())
        });
    }

    /// Waits until the log of a node has this text.
    #[track_caller]
    pub fn logged(&self, node: usize, text: &str) {
        until(&format!("node {node} logs {text:?}"), || self.node(node).log().text().contains(text).then_some(()));
    }

    /// Waits until a node has ended by itself.
    #[track_caller]
    pub fn wait_for_node(&mut self, node: usize) -> Ended {
        self.nodes[node].take().unwrap().wait()
    }

    /// What `git dibs cluster status` says; none while it says nothing.
    pub fn status(&self) -> Option<Value> {
        let output = self.cluster(&["status", "--json"]).run();
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The number of the node that leads, once one does.
    pub fn leader(&self) -> usize {
        until("a node leads", || self.leader_now())
    }

    pub fn leader_now(&self) -> Option<usize> {
        self.leader_of("repo")
    }

    /// The number of the node that leads this repository now.
    pub fn leader_of(&self, name: &str) -> Option<usize> {
        let status = self.status()?;
        let repository = status["repositories"].as_array()?.iter().find(|repository| repository["name"] == name)?;
        repository["leader"].as_str()?.strip_prefix('n')?.parse().ok()
    }

    /// Waits until a node other than this one leads.
    pub fn other_leader(&self, node: usize) -> usize {
        until("another node leads", || self.leader_now().filter(|leader| *leader != node))
    }

    /// A node that runs and does not lead.
    pub fn follower(&self) -> usize {
        let leader = self.leader();
        (0..self.nodes.len()).find(|node| *node != leader && self.nodes[*node].is_some()).unwrap()
    }

    // ---- what the tests of one server use ----

    /// Kills the leader.
    pub fn kill(&mut self) {
        let leader = self.leader();
        self.kill_node(leader);
        self.killed = Some(leader);
    }

    /// Starts what was killed.
    pub fn start(&mut self) {
        let node = self.killed.take().unwrap();
        self.start_node(node);
    }

    pub fn at(&self, node: usize) -> Address {
        let server = self.node(node);
        // This client speaks no TLS; a server that does has a socket too.
        if server.url().starts_with("https:") {
            return server.unix().expect("the server has a socket in the file system");
        }
        Address::Tcp(format!("{}:{}", self.hosts[node].address, self.ports[node]).parse().unwrap())
    }

    fn any(&self) -> Address {
        let running: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_some()).collect();
        self.at(running[self.next.fetch_add(1, Ordering::Relaxed) % running.len()])
    }

    pub fn tcp(&self) -> Address {
        self.any()
    }

    pub fn unix(&self) -> Address {
        self.any()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(&self.any()).unwrap()
    }

    pub fn secret(&self) -> Vec<u8> {
        std::fs::read(self.path("secret")).unwrap()
    }

    pub fn token(&self, claims: Value) -> String {
        mint::hs256(&mint::claims(claims), &self.secret())
    }

    pub fn admin(&self) -> String {
        self.token(json!({ "sub": "ops", "scope": "admin", "name": "Ops" }))
    }

    pub fn reader(&self) -> String {
        self.token(json!({ "sub": "reader", "scope": "read" }))
    }

    pub fn session(&self, id: &str) -> Session<'_> {
        Session { world: self, id: id.to_owned() }
    }

    pub fn get(&self, target: &str, token: &str) -> Response {
        self.patiently("GET", target, token, None)
    }

    pub fn post(&self, target: &str, token: &str, body: Value) -> Response {
        self.patiently("POST", target, token, Some(body))
    }

    /// One call, repeated while no node leads. Only for calls that may be repeated.
    fn patiently(&self, method: &str, target: &str, token: &str, body: Option<Value>) -> Response {
        until("the cluster answers", || {
            let answer = self.call_at(&self.any(), method, target, token, body.as_ref()).ok()?;
            if answer.status == 503 { None } else { Some(answer) }
        })
    }

    pub fn call_at(
        &self,
        address: &Address,
        method: &str,
        target: &str,
        token: &str,
        body: Option<&Value>,
    ) -> std::io::Result<Response> {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        Connection::open(address)?.call(method, target, &headers, &body)
    }

    /// One call with these headers and no others.
    pub fn send_at(
        &self,
        node: usize,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> std::io::Result<Response> {
        let headers = [headers, &[("content-type", "application/json")]].concat();
        Connection::open(&self.at(node))?.call(method, target, &headers, body.to_string().as_bytes())
    }

    pub fn reservations(&self) -> Vec<Value> {
        let page = self.get("/api/reservations?limit=1000", &self.reader()).ok();
        page["reservations"].as_array().unwrap().clone()
    }
}

impl Session<'_> {
    pub fn token(&self) -> String {
        self.world.token(json!({ "sub": self.id }))
    }

    pub fn post(&self, call: &str, body: Value) -> Response {
        self.world.post(&format!("/api/sessions/{}/{call}", self.id), &self.token(), body)
    }

    /// Asks this node, once.
    pub fn post_at(&self, node: usize, call: &str, body: Value) -> std::io::Result<Response> {
        let target = format!("/api/sessions/{}/{call}", self.id);
        self.world.call_at(&self.world.at(node), "POST", &target, &self.token(), Some(&body))
    }
}

/// Whether there is an etcd; says so once where there is none.
pub fn has_etcd() -> bool {
    let has = etcd::is_installed();
    if !has {
        skip("the tests of a cluster, because there is no etcd on this machine; install etcd-server");
    }
    has
}

/// Whether there is an etcdctl; says so once where there is none.
pub fn has_etcdctl() -> bool {
    let has = has_etcd() && Command::new("etcdctl").arg("version").output().is_ok();
    if !has {
        skip("users and backups of etcd, because there is no etcdctl on this machine; install etcd-client");
    }
    has
}

/// A certificate or key of `fixtures/tls`.
pub fn certificate(name: &str) -> String {
    format!("{}/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Longer than the lease.
pub const PAST_THE_LEASE: Duration = Duration::from_secs(4);
