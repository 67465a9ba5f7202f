//! A network for one test: each node and each member of etcd is a machine with cables that can be unplugged.
//!
//! Machines are network namespaces. The thread of the test is in a namespace as well, which has a switch for each kind of
//! traffic, and so are its threads and processes. Nothing of this has a name outside, and all of it goes with the processes.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::etcd::{self, Host};
use crate::support::process::Process;
use crate::world::{NODES, World, skip};

/// How many members of etcd there are.
const MEMBERS: usize = 3;

/// The last part of the address of a machine: of the test itself, of the first node and of the first member of etcd.
const TEST: usize = 254;
const FIRST_NODE: usize = 1;
const FIRST_MEMBER: usize = 101;

/// A kind of traffic, which has cables and a switch of its own.
#[derive(Clone, Copy)]
pub enum Traffic {
    /// Between the test and the nodes.
    Clients,
    /// Between the nodes.
    Nodes,
    /// From the nodes to etcd.
    Etcd,
    /// Between the members of etcd.
    Members,
}

impl Traffic {
    const ALL: [Traffic; 4] = [Traffic::Clients, Traffic::Nodes, Traffic::Etcd, Traffic::Members];

    /// The name of the switch.
    fn name(self) -> &'static str {
        match self {
            Traffic::Clients => "clients",
            Traffic::Nodes => "nodes",
            Traffic::Etcd => "etcd",
            Traffic::Members => "members",
        }
    }

    fn address(self, machine: usize) -> String {
        format!("10.77.{}.{machine}", self as usize)
    }

    /// The end of a machine's cable at the switch.
    fn plug(self, machine: usize) -> String {
        format!("{}{machine}", self.name())
    }
}

/// The machines of a cluster, and the cables between them.
pub struct Network {
    nodes: Vec<Host>,
    members: Vec<Host>,
}

/// Runs a test in a network of its own; where there can be none, says so.
pub fn in_network(test: impl FnOnce(World, &Network) + Send + 'static) {
    // In a thread that ends with the test: it cannot leave its namespace.
    let thread = std::thread::spawn(move || match Network::new() {
        Ok(network) => {
            let hosts = network.members.clone();
            let etcd = etcd::Setup { hosts, is_tls: false, extra: Vec::new() };
            let mut world = World::set_up(network.nodes.clone(), etcd);
            // The network is private, and there is no TLS in it.
            world.add_node_args(&["--behind-proxy"]);
            (0..NODES).for_each(|node| world.start_node(node));
            world.leader();
            test(world, &network);
        }
        Err(error) => skip(&format!("partitions of the network of a cluster, because {error}")),
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Network {
    /// Moves this thread to a network of its own.
    fn new() -> io::Result<Network> {
        enter_new_namespace()?;
        let mut lines = "link set lo up\n".to_owned();
        for traffic in Traffic::ALL {
            let (switch, address) = (traffic.name(), traffic.address(TEST));
            lines += &format!("link add {switch} type bridge\naddress add {address}/24 dev {switch}\n");
            lines += &format!("link set {switch} up\n");
        }
        ip(&Host::loopback(), &lines)?;
        let node = |n: usize| machine(FIRST_NODE + n, [Traffic::Clients, Traffic::Nodes], &[Traffic::Etcd]);
        let member = |n: usize| machine(FIRST_MEMBER + n, [Traffic::Etcd, Traffic::Members], &[]);
        Ok(Network {
            nodes: (0..NODES).map(node).collect::<io::Result<_>>()?,
            members: (0..MEMBERS).map(member).collect::<io::Result<_>>()?,
        })
    }

    /// Unplugs a node until the result is dropped: what it sends and what is sent to it is lost without a word.
    pub fn cut_node(&self, node: usize, traffic: Traffic) -> Cut {
        Cut::new(traffic, FIRST_NODE + node)
    }

    /// Unplugs a member of etcd.
    pub fn cut_member(&self, member: usize, traffic: Traffic) -> Cut {
        Cut::new(traffic, FIRST_MEMBER + member)
    }
}

/// A cable that is unplugged as long as this exists. A test that fails plugs it in again, or its clients would not end.
#[must_use]
pub struct Cut {
    traffic: Traffic,
    machine: usize,
}

impl Cut {
    fn new(traffic: Traffic, machine: usize) -> Cut {
        set(traffic, machine, "down");
        Cut { traffic, machine }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        set(self.traffic, self.machine, "up");
    }
}

/// A machine with cables for clients, for others of its kind, and for more.
fn machine(number: usize, own: [Traffic; 2], more: &[Traffic]) -> io::Result<Host> {
    let namespace = std::thread::spawn(enter_new_namespace).join().expect("it only makes system calls")?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
    let [address, peer_address] = own.map(|traffic| traffic.address(number));
    let host = Host { address, peer_address, namespace: Some(Arc::new(namespace)) };
    let (mut here, mut there) = (String::new(), "link set lo up\n".to_owned());
    for traffic in own.iter().chain(more) {
        let (switch, plug, address) = (traffic.name(), traffic.plug(number), traffic.address(number));
        here += &format!("link add {plug} type veth peer name {switch} netns {path}\n");
        here += &format!("link set {plug} master {switch} up\n");
        there += &format!("address add {address}/24 dev {switch}\nlink set {switch} up\n");
    }
    ip(&Host::loopback(), &here)?;
    ip(&host, &there)?;
    Ok(host)
}

fn set(traffic: Traffic, machine: usize, state: &str) {
    let line = format!("link set {} {state}\n", traffic.plug(machine));
    ip(&Host::loopback(), &line).unwrap_or_else(|error| panic!("{line}: {error}"));
}

/// Gives this thread a network with nothing in it.
fn enter_new_namespace() -> io::Result<OwnedFd> {
    // SAFETY: takes a plain number.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::other(format!("this user cannot make network namespaces ({error})")));
    }
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Runs lines of `ip` on a host.
fn ip(host: &Host, lines: &str) -> io::Result<()> {
    let mut command = Command::new("ip");
    host.enter(command.args(["-batch", "-"]).stdin(Stdio::piped()));
    let missing = |error| io::Error::other(format!("there is no ip, which is in iproute2 ({error})"));
    let mut process = Process::start(&mut command).map_err(missing)?;
    process.send(lines);
    let output = process.finish();
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", ");
    Err(io::Error::other(format!("ip could not make the network ({said})")))
}
