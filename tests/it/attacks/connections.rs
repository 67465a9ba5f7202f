//! Connections: idle ones make room, health checks and admins always get in, readers that read nothing cost little.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;

use super::{numbers, peak_memory, reset_peak};
use crate::http::request;
use crate::preload::preload;
use crate::support::process::LIMIT;
use crate::world::{World, until};

const MIB: usize = 1024 * 1024;

fn raw(world: &World) -> TcpStream {
    let stream = TcpStream::connect(world.server().tcp()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// A stream of events that began; nothing of it is read but its beginning.
fn follow(world: &World, target: &str, token: &str) -> TcpStream {
    follow_on(raw(world), target, token)
}

fn follow_on(mut stream: TcpStream, target: &str, token: &str) -> TcpStream {
    let bearer = format!("Bearer {token}");
    stream.write_all(&request("GET", target, &[("authorization", &bearer)], b"")).unwrap();
    let mut begin = [0; 15];
    stream.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200 OK");
    stream
}

/// A stream that was closed while it read the journal left its thread behind. Clients that came and went had 500 of them at
/// work, each with a page of the journal, and the server took 2 GB.
#[test]
fn a_stream_that_is_closed_leaves_no_read_of_the_journal_behind() {
    let (rounds, streams) = numbers((4, 60), (40, 200));
    let world = World::new();
    let (ana, reader) = (world.session("ana"), world.reader());
    for part in 0..2 {
        let keys: Vec<String> = (0..10_000).map(|n| format!("{part}/{n}")).collect();
        ana.reserve(json!({ "filePaths": keys, "reason": "r".repeat(900) })).ok();
    }
    let threads = || std::fs::read_dir(format!("/proc/{}/task", world.server().pid())).unwrap().count();
    let mut most = 0;
    for _ in 0..rounds {
        let open: Vec<TcpStream> = (0..streams).map(|_| follow(&world, "/api/events?after=0", &reader)).collect();
        most = most.max(threads());
        drop(open);
        most = most.max(threads());
    }
    assert!(most < 40, "{most} threads");
}

/// 10,000 idle connections closed the server for everybody.
#[test]
fn idle_connections_do_not_keep_others_out() {
    // The last one sends nothing.
    let (limit, more) = numbers((20, 20), (10_000, 1_002));
    let world =
        World::configured(&format!("[limits]\nconnections = {limit}\nheader-seconds = 3600\nidle-seconds = 3600\n"));
    let ana = world.session("ana");
    let mut idle = Vec::new();
    for n in 0..limit + more {
        let mut stream = raw(&world);
        // Some send nothing, some a part of a request, some were served once.
        let sent: &[u8] = match n % 3 {
            0 => b"",
            1 => b"GET /healthz HT",
            _ => b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        };
        stream.write_all(sent).unwrap();
        idle.push(stream);
    }
    for n in 0..10 {
        ana.hold(&format!("a{n}"));
    }
    world.get("/readyz", "").ok();
    // The oldest ones had to go, the newest are served.
    let mut newest = idle.pop().unwrap();
    newest.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut begin = [0; 15];
    newest.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200 OK");
    // It is closed, or reset, but does not wait for something to read.
    let ended = idle.swap_remove(0).read_to_end(&mut Vec::new());
    let is_open = |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    assert!(!ended.as_ref().is_err_and(is_open), "{ended:?}");
}

/// A connection from this address of the machine.
fn raw_from(world: &World, address: [u8; 4]) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&world.server().tcp().into()).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.into()
}

/// One address could take every connection of the server.
#[test]
fn one_address_has_only_its_share_of_the_connections() {
    let limit = numbers(5, 1_000);
    let mut world = World::not_started();
    world.git_init("repo");
    if !preload(&mut world, "the connections of one address") {
        return;
    }
    world.env("DIBS_PEERS", "1");
    world.configure(&format!("[limits]\nconnections-per-peer = {limit}\nevent-readers = {}\n", limit + 1));
    world.start();
    let reader = world.reader();
    let (greedy, other) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    let mut streams: Vec<TcpStream> =
        (0..limit).map(|_| follow_on(raw_from(&world, greedy), "/api/events", &reader)).collect();
    let ask = |address: [u8; 4]| {
        let mut stream = raw_from(&world, address);
        let bytes = request("GET", "/healthz", &[("connection", "close")], b"");
        let mut answer = String::new();
        // A refused connection may be closed before the request is written.
        let _ = stream.write_all(&bytes);
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let refused = ask(greedy);
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("this address has reached its limit"),
        "{refused}"
    );
    assert!(ask(other).starts_with("HTTP/1.1 200 "));
    world.session("ana").hold("a");
    // Idle connections of the same address make room for its next one.
    streams.truncate(1);
    until("the streams have ended", || ask(greedy).starts_with("HTTP/1.1 200 ").then_some(()));
    let _idle: Vec<TcpStream> = (0..2 * limit).map(|_| raw_from(&world, greedy)).collect();
    assert!(ask(greedy).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_server_full_of_waiting_clients_still_serves_health_checks_and_admins() {
    let limit = numbers(6, 2_000);
    let world = World::configured(&format!("[limits]\nconnections = {limit}\nevent-readers = {limit}\n"));
    let (ana, reader) = (world.session("ana"), world.reader());
    let mut streams: Vec<TcpStream> = (0..limit).map(|_| follow(&world, "/api/events", &reader)).collect();
    for path in ["/healthz", "/readyz", "/metrics"] {
        let mut connection = world.connect();
        let answer = connection.call("GET", path, &[], b"").unwrap();
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{path}: {answer}");
    }
    assert_eq!(world.get("/api/stats", &world.admin()).ok()["sessions"], 0);
    let refusal = ana.reserve(json!({ "filePath": "a" }));
    assert_eq!(refusal.header("retry-after"), Some("1"));
    refusal.refused("UNAVAILABLE");
    world.get("/api/stats", &reader).refused("UNAVAILABLE");
    // Connections that wait in the reserved slots without a request do not close them.
    let idle: Vec<TcpStream> = (0..100).map(|_| raw(&world)).collect();
    world.get("/readyz", "").ok();
    world.get("/api/stats", &world.admin()).ok();
    drop(idle);

    streams.pop();
    until("there is room again", || (ana.reserve(json!({ "filePath": "a" })).status == 200).then_some(()));
}

#[test]
fn a_finished_stream_is_an_idle_connection() {
    let world = World::configured("[limits]\nidle-seconds = 1\n");
    let ana = world.session("ana");
    ana.hold("a");
    let mut stream = follow(&world, "/api/events", &ana.token);
    ana.end();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the server closes the connection");
    assert!(rest.contains("event: ended") && rest.contains(": the session has ended"), "{rest}");
}

/// 520 streams whose clients read nothing took 3 GB.
#[test]
fn an_event_reader_that_reads_nothing_costs_little() {
    let (readers, rounds) = numbers((30, 6), (512, 40));
    let world = World::new();
    let (ana, reader) = (world.session("ana"), world.reader());
    let keys: Vec<String> = (0..1_000).map(|n| format!("src/{n}")).collect();
    let fill = |rounds: usize| {
        for round in 0..rounds {
            ana.reserve(json!({ "filePaths": keys, "reason": format!("{round}{}", "r".repeat(900)) })).ok();
            ana.release_all();
        }
    };
    fill(rounds);
    let before = reset_peak(&world);
    // Half of them begin with what is in the journal, the others with what happens now.
    let mut streams: Vec<TcpStream> = (0..readers)
        .map(|n| follow(&world, if n % 2 == 0 { "/api/events?after=0" } else { "/api/events" }, &reader))
        .collect();
    fill(rounds);
    let grown = peak_memory(&world).saturating_sub(before);
    // The buffer of the feed, two pages of the journal, and what each reader has.
    assert!(grown < 64 * MIB + readers * MIB / 2, "{grown} for {readers} readers");

    // A client that reads misses nothing.
    streams.clear();
    let mut stream = follow(&world, "/api/events?after=0", &reader);
    let (mut count, mut rest) = (0, Vec::new());
    until("all events have arrived", || {
        let mut some = [0; 65536];
        let read = stream.read(&mut some).unwrap();
        assert!(read > 0, "the stream ended");
        rest.extend_from_slice(&some[..read]);
        let lines = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        count += String::from_utf8_lossy(&rest[..lines]).matches("event: released\n").count();
        rest.drain(..lines);
        (count == 2 * rounds * keys.len()).then_some(())
    });
}
