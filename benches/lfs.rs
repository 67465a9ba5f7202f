//! Git LFS locking: how fast locks are created, with none and with very many, and what the check before a push costs.
//!
//! `cargo bench --bench lfs` prints medians of rounds that took turns, in one run: real HTTP, and the real git-lfs if it is
//! installed. The reference server creates 12 locks a second at 10,000 locks on a machine like the one of the first figures;
//! it is a given figure here. Nothing is asserted; the ratios are what matters.

mod common;

use std::path::Path;

use common::clock::{quick, rounds, took};
use common::place::scratch;
use common::processes::{row, time, turns};
use common::support::http::{Connection, request};
use common::support::server::Server;
use common::support::world::World;
use common::table;
use serde_json::json;

/// Locks per second of the reference server at 10,000 locks.
const REFERENCE_RATE: f64 = 12.0;

const MANY: usize = 100_000;
const SOME: usize = 10_000;

/// Locks that one round creates.
const ROUND: usize = 200;

fn main() {
    let world = scratch();
    table::head("Git LFS locks");
    let (empty, some, many) = (Place::new(&world, "empty"), Place::new(&world, "some"), Place::new(&world, "many"));
    some.hold(SOME);
    many.hold(if quick() { SOME } else { MANY });
    creates(&empty, &some, &many);
    verifies(&empty, &some);
    pushes(&empty, &some);
}

/// One client, one connection, one lock after the other, each durable before the next.
fn creates(empty: &Place<'_>, some: &Place<'_>, many: &Place<'_>) {
    let mut number = 0;
    let mut rate = |place: &Place<'_>| {
        number += 1;
        let mut connection = place.connect();
        let seconds = took(|| {
            for lock in 0..ROUND {
                let body = json!({ "path": format!("new/{number}/{lock}") }).to_string();
                let reply = place.call(&mut connection, "/lfs/locks", &body);
                assert_eq!(reply.0, 201, "{}", reply.1);
            }
        });
        place.release_new(number);
        ROUND as f64 / seconds
    };
    let (mut flat, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..rounds(10) {
        flat.push((rate(many), rate(empty)));
        beside.push((rate(some), REFERENCE_RATE));
    }
    table::row("create at 100,000 locks, beside none", &flat, table::rate);
    table::row("create at 10,000 locks, beside the reference server's 12/s (given)", &beside, table::rate);
}

/// The whole answer over HTTP: from the kept list, and after another record.
fn verifies(empty: &Place<'_>, some: &Place<'_>) {
    let verify = |place: &Place<'_>, connection: &mut Connection| {
        took(|| assert_eq!(place.call(connection, "/lfs/locks/verify", "{}").0, 200))
    };
    let (mut of_some, mut of_none) = (some.connect(), empty.connect());
    let (mut kept, mut fresh) = (Vec::new(), Vec::new());
    for number in 0..rounds(20) {
        verify(some, &mut of_some);
        kept.push((verify(some, &mut of_some), verify(empty, &mut of_none)));
        let body = json!({ "path": format!("new/verify/{number}") }).to_string();
        some.call(&mut of_some, "/lfs/locks", &body);
        fresh.push((verify(some, &mut of_some), verify(some, &mut of_some)));
    }
    table::row("verify of 10,000 locks, beside none", &kept, table::time);
    table::row("verify of 10,000 locks after a change, beside the kept list", &fresh, table::time);
}

/// `git push` with the check of stock git-lfs.
fn pushes(empty: &Place<'_>, some: &Place<'_>) {
    if !empty.has_git_lfs() {
        table::note("left out: pushes with git-lfs, which is not installed");
        return;
    }
    [empty, some].into_iter().for_each(Place::prepare_push);
    let samples = turns(15, &["some", "empty"], |what| if what == "some" { some.push() } else { empty.push() });
    row("git push with the check of git-lfs at 10,000 locks, beside none", &samples[0], &samples[1]);
}

/// A repository, its server, and a session that holds locks and verifies them for another.
struct Place<'w> {
    world: &'w World,
    name: &'static str,
    server: Server,
    token: String,
}

impl Place<'_> {
    fn new<'w>(world: &'w World, name: &'static str) -> Place<'w> {
        let server = common::place::serve(world, name, &[]);
        let token = common::http::token("bench");
        Place { world, name, server, token }
    }

    fn connect(&self) -> Connection {
        Connection::open(&common::support::http::Address::Tcp(self.server.tcp())).expect("the server listens")
    }

    /// A call with the token of the session; its status and body.
    fn call(&self, connection: &mut Connection, target: &str, body: &str) -> (u16, String) {
        self.call_as(connection, &self.token, target, body)
    }

    fn call_as(&self, connection: &mut Connection, token: &str, target: &str, body: &str) -> (u16, String) {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("content-type", "application/vnd.git-lfs+json; charset=utf-8")];
        connection.send(&request("POST", target, &headers, body.as_bytes())).expect("it is sent");
        let response = connection.receive(false).expect("a reply");
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    }

    /// Locks this many paths for another session, all at once.
    fn hold(&self, count: usize) {
        let token = common::http::token("holder");
        let mut connection = self.connect();
        for first in (0..count).step_by(10_000) {
            let paths: Vec<String> =
                (first..first + 10_000).map(|number| format!("held/{}/{number}", number % 97)).collect();
            let body = json!({ "filePaths": paths, "ttlSeconds": 300 }).to_string();
            let reply = self.call_as(&mut connection, &token, "/api/sessions/holder/files/reserve", &body);
            assert_eq!(reply.0, 200, "{}", reply.1);
        }
    }

    /// Releases what a round has created, so that every round finds the same.
    fn release_new(&self, number: usize) {
        let paths: Vec<String> = (0..ROUND).map(|lock| format!("new/{number}/{lock}")).collect();
        let body = json!({ "filePaths": paths }).to_string();
        let mut connection = self.connect();
        assert_eq!(self.call(&mut connection, "/api/sessions/bench/files/release", &body).0, 200);
        // What the other session holds has a TTL, which starts again.
        self.call_as(&mut connection, &common::http::token("holder"), "/api/sessions/holder/heartbeat", "{}");
    }

    fn git(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.world.command("git", Path::new(self.name));
        let path = std::env::var("PATH").unwrap_or_default();
        let managers = concat!(env!("CARGO_MANIFEST_DIR"), "/target/managers/bin");
        command.args(args).env("PATH", format!("{managers}:{path}")).env("GIT_TERMINAL_PROMPT", "0");
        command
    }

    fn has_git_lfs(&self) -> bool {
        self.git(&["lfs", "version"]).output().is_ok_and(|output| output.status.success())
    }

    /// A remote to push to, and the settings of `git dibs install --lfs` with a fixed token.
    fn prepare_push(&self) {
        let remote = format!("{}.git", self.name);
        self.world.git_in("", &["init", "-q", "--bare", &remote]);
        let (url, remote) = (self.server.url(), self.world.path(&remote));
        let header = format!("Authorization: Bearer {}", self.token);
        let lfs_url = format!("{url}/lfs");
        let key = format!("http.{url}/.extraHeader");
        for args in [
            &["lfs", "install", "--local"][..],
            &["config", "lfs.url", &lfs_url],
            &["config", "lfs.locksverify", "true"],
            &["config", &key, &header],
            &["remote", "add", "origin", remote.to_str().expect("a path")],
        ] {
            time(&mut self.git(args));
        }
    }

    fn push(&self) -> common::processes::Sample {
        time(&mut self.git(&["commit", "-q", "--allow-empty", "-m", "m"]));
        time(self.git(&["push", "-q", "origin", "HEAD:main"]).stderr(std::process::Stdio::null()))
    }
}
