//! A refusal reaches the client, whatever the client is still sending, and always in the envelope.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::numbers;
use crate::http::{Response, request};
use crate::support::process::LIMIT;
use crate::world::World;

const MIB: usize = 1024 * 1024;

/// Sends everything before it reads anything, as many clients do. The whole reply must arrive.
#[track_caller]
fn send_then_read(world: &World, bytes: &[u8]) -> Response {
    let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes).expect("the server reads to the end");
    read(stream)
}

#[track_caller]
fn read(mut stream: TcpStream) -> Response {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("the reply arrives and the connection is closed in order");
    let text = String::from_utf8(all).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not a reply: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let response = Response { status, headers: lines.map(header).collect(), body: body.as_bytes().to_vec() };
    assert_eq!(response.header("content-length"), Some(&*body.len().to_string()), "{response}");
    response.check_ground_rules();
    response
}

#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let world = World::configured("[limits]\nrequests-per-second = 1\n");
    let ana = world.session("ana");
    let body = vec![b'x'; numbers(12 * MIB, 60 * MIB)];
    let own = format!("Bearer {}", ana.token);
    let ask = |call: &str, bearer: &str, body: &[u8]| {
        let headers = [("authorization", bearer), ("content-type", "application/json"), ("connection", "close")];
        send_then_read(&world, &request("POST", &ana.url(call), &headers, body))
    };
    ask("files/check-conflicts", "Bearer nonsense", &body).refused("UNAUTHENTICATED");
    ask("heartbeat", &own, &body).refused("PAYLOAD_TOO_LARGE");
    let refused = (0..20).any(|_| ask("files/reserve", &own, &body[..9 * MIB]).status == 429);
    assert!(refused, "twenty requests within a second");
    ask("no/such/path", &own, &body).refused("NOT_FOUND");
}

#[test]
fn a_request_that_cannot_be_parsed_is_refused_in_the_envelope() {
    let world = World::new();
    let long_url = format!("GET /api/reservations?prefix={} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(70_000));
    let long_head = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(3 * MIB));
    let many: String = (0..300).map(|n| format!("x-{n}: y\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    let cases: &[(&[u8], u16, &str)] = &[
        (b"GET\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"G\0T / HTTP/1.1\r\nhost: localhost\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"GET / HTTP/1.1\r\nhost localhost\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx y: z\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", 400, "INVALID_REQUEST"),
        (long_url.as_bytes(), 414, "URI_TOO_LONG"),
        (long_head.as_bytes(), 431, "HEADERS_TOO_LARGE"),
        (many.as_bytes(), 431, "HEADERS_TOO_LARGE"),
    ];
    for (bytes, status, code) in cases {
        let response = send_then_read(&world, bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!(response.status, *status, "{shown:?}: {response}");
        assert_eq!(response.header("connection"), Some("close"), "{shown:?}: {response}");
        response.refused(code);
    }
}

#[test]
fn a_good_request_before_a_bad_one_is_answered() {
    let world = World::new();
    let mut connection = world.connect();
    let good = request("GET", "/healthz", &[], b"");
    connection.send(&[&good[..], &good, b"nonsense\r\n\r\n"].concat()).unwrap();
    for _ in 0..2 {
        connection.receive(false).unwrap().ok();
    }
    let refusal = connection.receive(false).unwrap();
    refusal.check_ground_rules();
    refusal.refused("INVALID_REQUEST");
    assert!(connection.receive(false).is_err(), "the connection is over");
}

/// What a client makes of its names and reasons cannot look like a refusal of the transport.
#[test]
fn a_reply_that_looks_like_a_bare_refusal_is_not_replaced() {
    let world = World::new();
    let ana = world.session("ana");
    let odd = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    ana.reserve(json!({ "filePath": "a", "reason": odd })).ok();
    assert_eq!(world.reservations()[0]["reason"], odd);
}
