//! A cluster beside the same etcd asked directly, and a follower beside its leader, in one run on one machine.
//!
//! Three members of etcd and three nodes of git-dibs on loopback, with their data on a disk. `etcd` must be installed;
//! without it nothing is measured.

#[path = "../common/mod.rs"]
mod common;
#[path = "../beside/etcd.rs"]
mod etcd;
#[path = "../../tests/support/etcd.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod members;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::clock::{long, quick, rounds};
use common::http::{Http, SECRET, call, connect, token};
use common::lines::Dialect;
use common::place::scratch_in;
use common::support::process::Run;
use common::support::server::Server;
use common::support::world::World;
use common::{load, table};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 3;
const CONNECTIONS_MAX: usize = 256;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

/// Of a leader that is killed: what it held, and how often that is tried.
const HELD: usize = 10_000;
const TAKEOVERS: usize = 3;

fn main() {
    table::head("A cluster: three nodes on three members of etcd, all on this machine");
    if !members::is_installed() {
        table::note("left out, because etcd is not installed");
        return;
    }
    let dir = std::env::var_os("DIBS_BENCH_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let place = scratch_in(&dir);
    let members = members::start_cluster(place.dir(), 3);
    let address = members::address(&members, "dibs");
    let ports = members::free_ports(NODES);
    let mut nodes: Vec<Option<Server>> =
        (0..NODES).map(|node| Some(start(&place, &address, node, ports[node]))).collect();
    let leader = until_led(&place, &address, None);
    let follower = (leader + 1) % NODES;
    let at = |node: usize| SocketAddr::from(([127, 0, 0, 1], ports[node]));
    let direct = SocketAddr::from(([127, 0, 0, 1], members[0].client_port()));
    let (http, raw) = (Http::new(CONNECTIONS_MAX), etcd::Etcd);
    for connections in [64, CONNECTIONS_MAX] {
        let saturate = |to, dialect: &dyn Dialect| load::saturate(to, dialect, connections, long(ROUND));
        let (mut beside_etcd, mut hops, mut appends) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds(ROUNDS) {
            let (before, begin) = (appended(at(leader)), Instant::now());
            let led = saturate(at(leader), &http);
            let appends_per_second = (appended(at(leader)).1 - before.1) / begin.elapsed().as_secs_f64();
            let (asked, hopped) = (saturate(direct, &raw), saturate(at(follower), &http));
            // The first round only warms up.
            if round > 0 {
                beside_etcd.push((led, asked));
                hops.push((hopped, led));
                appends.push(appends_per_second);
            }
        }
        table::row(
            &format!("{connections} connections to the leader, beside etcd asked directly"),
            &beside_etcd,
            table::rate,
        );
        table::row(&format!("{connections} connections to a follower, beside the leader"), &hops, table::rate);
        let figure = format!("{:.0}", table::median(appends.into_iter()));
        table::fact(&format!("{connections} connections to the leader: appends to etcd per second"), &figure);
        let rate = table::median(beside_etcd.iter().map(|pair| pair.0)) / 2.0;
        let mut times = load::pace(at(leader), &http, connections, rate, long(ROUND));
        let (half, most) = (load::percentile(&mut times, 0.5), load::percentile(&mut times, 0.99));
        let figures = format!("{} / {}", table::time(half), table::time(most));
        table::fact(&format!("{connections} connections, half of that rate: p50 / p99"), &figures);
    }
    let (records, appends) = appended(at(leader));
    table::fact("records in one append to etcd, on average", &format!("{:.1}", records / appends));
    take_over(&place, &address, &mut nodes, &ports);
}

/// The time from the death of a leader to the first grant of the next one.
fn take_over(place: &World, address: &str, nodes: &mut [Option<Server>], ports: &[u16]) {
    let at = |node: usize| SocketAddr::from(([127, 0, 0, 1], ports[node]));
    let mut leader = until_led(place, address, None);
    hold(at(leader));
    let mut times = Vec::new();
    for _ in 0..if quick() { 1 } else { TAKEOVERS } {
        let other = at((leader + 1) % NODES);
        let begin = Instant::now();
        nodes[leader].take().expect("it runs").kill();
        while !reserves(other) {
            std::thread::sleep(Duration::from_millis(5));
        }
        times.push(begin.elapsed().as_secs_f64());
        nodes[leader] = Some(start(place, address, leader, ports[leader]));
        leader = until_led(place, address, Some(leader));
    }
    let time = table::time(table::median(times.into_iter()));
    table::fact("takeover after kill -9, with a lease of 5 s and 10,000 reservations", &time);
}

fn start(place: &World, address: &str, node: usize, port: u16) -> Server {
    let name = format!("n{node}");
    if !place.path(&name).exists() {
        place.git_init(&name);
    }
    let (listen, url) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}"));
    let repo = format!("app={}", place.path(&name).display());
    let mut command = place.command(common::support::world::PROGRAM, &name);
    command
        .args(["serve", "--json", "--cluster", address, "--node", &name, "--advertise", &url])
        .args(["--listen", &listen, "--repo", &repo])
        .env("DIBS_JWT_SECRET", SECRET);
    Server::start(&mut command).unwrap_or_else(|ended| panic!("a node did not start: {}{}", ended.stdout, ended.stderr))
}

/// Waits until a node leads, other than this one.
fn until_led(place: &World, address: &str, not: Option<usize>) -> usize {
    loop {
        let output = place.dibs_command(&["cluster", "status", "--json", "--cluster", address]).run();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let leader = status["repositories"][0]["leader"].as_str().and_then(|name| name.strip_prefix('n')?.parse().ok());
        match leader {
            Some(leader) if Some(leader) != not => return leader,
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn hold(at: SocketAddr) {
    let mut line = connect(at);
    for hundred in 0..HELD / 100 {
        let paths: Vec<String> = (0..100).map(|n| format!("\"held/{hundred}/{n}\"")).collect();
        let body = format!(r#"{{"filePaths":[{}],"ttlSeconds":300}}"#, paths.join(","));
        call(&mut line, "/api/sessions/holder/files/reserve", &token("holder"), &body);
    }
}

fn reserves(at: SocketAddr) -> bool {
    let bearer = format!("Bearer {}", token("probe"));
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let body = br#"{"filePath":"probe","ttlSeconds":60}"#;
    let Ok(mut line) = common::support::http::Connection::open(&common::support::http::Address::Tcp(at)) else {
        return false;
    };
    line.call("POST", "/api/sessions/probe/files/reserve", &headers, body).is_ok_and(|reply| reply.status == 200)
}

/// How many records a node has appended, and in how many appends.
fn appended(at: SocketAddr) -> (f64, f64) {
    let reply = connect(at).call("GET", "/metrics", &[("host", "localhost")], b"").expect("it answers");
    let metrics = String::from_utf8_lossy(&reply.body);
    let total = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.rsplit(' ').next()?.parse::<f64>().ok();
        metrics.lines().find_map(value).expect("the leader has appended")
    };
    (total("dibs_batch_records_sum"), total("dibs_batch_records_count"))
}
