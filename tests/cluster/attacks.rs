//! What clients can try against the way from node to node, and what happens to connections that are in use on it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::http::{Address, Connection, request};
use crate::support::process::LIMIT;
use crate::world::{World, has_etcd, until};

fn reserve(path: &str) -> Value {
    json!({ "filePaths": [path], "ttlSeconds": 60 })
}

/// One call with more headers.
fn call_with(world: &World, at: &Address, id: &str, more: &[(&str, &str)], body: &Value) -> crate::http::Response {
    let bearer = format!("Bearer {}", world.session(id).token());
    let mut headers = vec![("authorization", &*bearer), ("content-type", "application/json")];
    headers.extend(more);
    let target = format!("/api/sessions/{id}/files/reserve");
    Connection::open(at).unwrap().call("POST", &target, &headers, body.to_string().as_bytes()).unwrap()
}

#[test]
fn hop_headers_of_clients_change_nothing_however_many_there_are() {
    if !has_etcd() {
        return;
    }
    let world = World::with(2);
    let zeros = format!("n0 {}", "0".repeat(64));
    for node in [world.follower(), world.leader()] {
        for (n, more) in [
            vec![("dibs-hop", &*zeros)],
            vec![("dibs-hop", &*zeros), ("Dibs-Hop", "n1 00"), ("DIBS-HOP", "")],
            vec![("dibs-hop", "\u{e9}"), ("dibs-node", "n0")],
            vec![("connection", "dibs-hop"), ("dibs-hop", &*zeros)],
        ]
        .iter()
        .enumerate()
        {
            let body = reserve(&format!("{node}/{n}"));
            let answer = call_with(&world, &world.at(node), "ana", more, &body);
            assert_eq!(answer.status, 200, "{more:?}: {answer}");
            assert!(answer.header("dibs-hop").is_none() && answer.header("dibs-node").is_none(), "{answer}");
        }
        // The check of the Host is for clients, and only nodes are past it.
        let bearer = format!("Bearer {}", world.session("ana").token());
        let text = format!(
            "GET /api/reservations HTTP/1.1\r\nhost: evil.example\r\nauthorization: {bearer}\r\ndibs-hop: {zeros}\r\n\r\n"
        );
        let mut line = Connection::open(&world.at(node)).unwrap();
        line.send(text.as_bytes()).unwrap();
        line.receive(false).unwrap().refused("FORBIDDEN");
    }
}

#[test]
fn a_request_that_has_hopped_is_not_sent_on() {
    if !has_etcd() {
        return;
    }
    let world = World::with(2);
    let follower = world.follower();
    let forwarded = || {
        let metrics = world.call_at(&world.at(follower), "GET", "/metrics", &world.reader(), None).unwrap();
        let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
        metrics.lines().find_map(|line| line.strip_prefix("dibs_cluster_forwarded_total ")).unwrap().to_owned()
    };
    let before = forwarded();
    // Signed as another node of the cluster signs it.
    let secret = crate::bad_input::get(&world, "dibs/cluster")["secret"].clone();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_str().unwrap().as_bytes());
    let tag = hmac::sign(&key, b"n9\nPOST\n/api/sessions/ana/files/reserve");
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let hop = format!("n9 {digits}");
    let answer = call_with(&world, &world.at(follower), "ana", &[("dibs-hop", &hop)], &reserve("a"));
    assert_eq!(answer.status, 503, "{answer}");
    assert!(answer.to_string().contains("this node does not lead the repository"), "{answer}");
    assert_eq!(forwarded(), before);
    assert!(world.reservations().is_empty());
    let leader = world.leader();
    call_with(&world, &world.at(leader), "ana", &[("dibs-hop", &hop)], &reserve("a")).ok();
}

#[test]
fn a_signature_of_a_node_that_was_seen_is_worth_nothing_elsewhere() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    // The leader's address is that of somebody who writes down what he gets, and answers with nonsense.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut command = world.changed(&world.serve(0), "--advertise", Some(&url));
    world.start_node_with(0, &mut command);
    world.leader();
    world.start_node(1);
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), sender) = (stream, sender.clone()) else { return };
            std::thread::spawn(move || {
                let (mut text, mut buffer) = (String::new(), [0; 4096]);
                while !text.contains("\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(count) if count > 0 => text += &String::from_utf8_lossy(&buffer[..count]),
                        _ => return,
                    }
                }
                let _ = sender.send(text);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ndibs-node: n0\r\n\r\n{}");
            });
        }
    });
    let signature = until("a request of the node is seen", || {
        let text = heard.recv_timeout(LIMIT).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("dibs-hop: "))?;
        text.starts_with("GET /healthz").then(|| line.to_owned())
    });
    // Of another path it says nothing: the request is one of a client.
    let more = [("dibs-hop", &*signature)];
    let answer = call_with(&world, &world.at(0), "ana", &more, &reserve("a"));
    assert_eq!(answer.status, 200, "{answer}");
    let text = format!("GET /api/reservations HTTP/1.1\r\nhost: evil.example\r\ndibs-hop: {signature}\r\n\r\n");
    let mut line = Connection::open(&world.at(0)).unwrap();
    line.send(text.as_bytes()).unwrap();
    line.receive(false).unwrap().refused("FORBIDDEN");
}

#[test]
fn a_body_that_is_too_large_is_refused_through_a_follower_too() {
    if !has_etcd() {
        return;
    }
    let world = World::with(2);
    let session = world.session("ana");
    let bearer = format!("Bearer {}", session.token());
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    for node in [world.leader(), world.follower()] {
        for bytes in [70_000, 20 << 20, 80 << 20] {
            let body = vec![b' '; bytes];
            let mut line = Connection::open(&world.at(node)).unwrap();
            let answer = line.call("POST", "/api/sessions/ana/heartbeat", &headers, &body);
            let answer = answer.unwrap_or_else(|error| panic!("{bytes} bytes to node {node}: {error}"));
            answer.refused("PAYLOAD_TOO_LARGE");
        }
        session.post_at(node, "files/reserve", reserve(&format!("{node}"))).unwrap().ok();
    }
}

#[test]
fn who_waits_through_a_follower_and_goes_leaves_the_queue() {
    if !has_etcd() {
        return;
    }
    let world = World::with(2);
    let follower = world.follower();
    world.session("ana").post("files/reserve", json!({ "filePath": "a", "ttlSeconds": 300 })).ok();
    let waits = || world.get("/api/waits", &world.reader()).ok()["waits"].as_array().unwrap().len();
    let bearer = format!("Bearer {}", world.session("bo").token());
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let body = json!({ "filePath": "a", "waitSeconds": 250 }).to_string();
    let mut line = Connection::open(&world.at(follower)).unwrap();
    line.send(&request("POST", "/api/sessions/bo/files/reserve", &headers, body.as_bytes())).unwrap();
    until("bo waits", || (waits() == 1).then_some(()));
    drop(line);
    until("bo waits no more", || (waits() == 0).then_some(()));
    let held = world.reservations();
    assert!(held.len() == 1 && held[0]["sessionId"] == "ana", "{held:?}");

    // What needs no wait is carried out although its client goes at once.
    for n in 0..50 {
        let (target, body) = ("/api/sessions/bo/files/reserve", reserve(&format!("b/{n}")).to_string());
        let mut line = Connection::open(&world.at(follower)).unwrap();
        line.send(&request("POST", target, &headers, body.as_bytes())).unwrap();
    }
    until("all of them are held", || (world.reservations().len() == 51).then_some(()));
}

/// The numbers of the events of a stream, until it ends or has the last one.
fn follow(world: &World, node: usize, seen: &mut Vec<u64>, last: Option<u64>) -> Option<()> {
    let bearer = format!("Bearer {}", world.reader());
    let from = seen.last().copied().unwrap_or(0).to_string();
    let mut line = Connection::open(&world.at(node)).ok()?;
    let headers = [("authorization", &*bearer), ("last-event-id", &*from)];
    line.send(&request("GET", "/api/events", &headers, b"")).ok()?;
    if line.head().ok()?.status != 200 {
        return None;
    }
    let mut text = String::new();
    loop {
        text += &String::from_utf8(line.chunk().ok()??).unwrap();
        while let Some((event, rest)) = text.split_once("\n\n") {
            let id = event.lines().find_map(|line| line.strip_prefix("id: "));
            let has_data = event.lines().any(|line| line.starts_with("data"));
            seen.extend(id.filter(|_| has_data).map(|id| id.parse::<u64>().unwrap()));
            text = rest.to_owned();
        }
        if last.is_some() && seen.last().copied() >= last {
            return Some(());
        }
    }
}

#[test]
fn a_stream_through_a_follower_misses_nothing_across_takeovers() {
    if !has_etcd() {
        return;
    }
    let mut world = World::new();
    let follower = world.follower();
    let mut expected = BTreeSet::new();
    let mut some = |world: &World, name: &str| {
        for n in 0..20 {
            world.session("ana").post("files/reserve", reserve(&format!("{name}/{n}"))).ok();
        }
        let page = world.get("/api/history?limit=1000", &world.reader()).ok();
        expected.extend(page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        expected.last().copied()
    };
    let mut seen = Vec::new();
    let mut last = some(&world, "first");
    follow(&world, follower, &mut seen, last).expect("it has everything so far");
    for round in 0..2 {
        // The stream is open while its leader is killed or frozen.
        let leader = world.leader();
        if leader == follower {
            break;
        }
        let world_ref = &world;
        let ended = std::thread::scope(|scope| {
            let seen = &mut seen;
            let stream = scope.spawn(move || follow(world_ref, follower, seen, None));
            some(world_ref, &format!("round {round}"));
            world_ref.node(leader).signal(if round == 0 { libc::SIGSTOP } else { libc::SIGKILL });
            stream.join().unwrap()
        });
        assert_eq!(ended, None, "the stream ends with its leader");
        world.other_leader(leader);
        world.node(leader).signal(libc::SIGCONT);
        last = some(&world, &format!("after {round}"));
        until("the stream goes on", || follow(&world, follower, &mut seen, last));
        if round == 1 {
            world.kill_node(leader);
        }
    }
    let unique: BTreeSet<u64> = seen.iter().copied().collect();
    assert_eq!(unique.len(), seen.len(), "nothing comes twice: {seen:?}");
    assert!(seen.is_sorted());
    let missing: Vec<&u64> = expected.difference(&unique).collect();
    assert!(missing.is_empty(), "{missing:?} are missing in {seen:?}");
}
