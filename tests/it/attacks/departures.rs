//! Clients that close their connection before they have the reply.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::{held_by, numbers, until_waiters};
use crate::http::{Address, request};
use crate::support::process::LIMIT;
use crate::world::{Session, World, until};

/// A call of a session as it goes over the wire.
fn bytes_of(session: &Session<'_>, call: &str, body: &Value) -> Vec<u8> {
    let bearer = format!("Bearer {}", session.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    request("POST", &format!("/api/sessions/{}/{call}", session.id), &headers, body.to_string().as_bytes())
}

/// Releases and ends were lost, a few of a hundred, if their clients closed the connection right after sending and the
/// server was busy.
#[test]
fn what_has_arrived_is_carried_out_although_its_client_is_gone() {
    let world = World::new();
    let count = numbers(60, 500);
    std::thread::scope(|scope| {
        // Others keep the server busy.
        for number in 0..4 {
            let world = &world;
            scope.spawn(move || {
                let busy = world.session(&format!("busy-{number}"));
                let paths: Vec<String> = (0..2_000).map(|n| format!("busy/{number}/{n}")).collect();
                for _ in 0..numbers(5, 20) {
                    busy.reserve(json!({ "filePaths": paths })).ok();
                    busy.release_all();
                }
            });
        }
        for part in 0..4 {
            let world = &world;
            scope.spawn(move || {
                for number in (part..count).step_by(4) {
                    let session = world.session(&format!("s{number}"));
                    session.hold(&format!("a/{number}"));
                    let (call, body) = match number % 3 {
                        0 => ("files/release", json!({ "filePath": format!("a/{number}") })),
                        1 => ("files/release-all", json!({})),
                        _ => ("end", json!({})),
                    };
                    let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
                    stream.write_all(&bytes_of(&session, call, &body)).unwrap();
                    match number % 2 {
                        0 => drop(stream),
                        _ => stream.shutdown(Shutdown::Both).unwrap(),
                    }
                }
            });
        }
    });
    for number in 0..count {
        until(&format!("s{number} holds nothing"), || (held_by(&world, &format!("s{number}")) == 0).then_some(()));
    }
}

#[test]
fn a_client_that_closed_only_its_sending_side_gets_its_reply() {
    let world = World::new();
    let ana = world.session("ana");
    let calls = [
        ("files/reserve", json!({ "filePath": "a" })),
        ("files/release", json!({ "filePath": "a" })),
        ("end", json!({})),
    ];
    for (call, body) in &calls {
        let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(&bytes_of(&ana, call, body)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{call}: {reply}");
    }
    let Address::Unix(path) = world.unix() else { unreachable!("it is one") };
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&bytes_of(&world.session("bo"), "files/reserve", &json!({ "filePath": "b" }))).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert_eq!(world.held(), ["bo b"]);
}

/// A request whose body never came completely is not carried out, and does not keep its connection.
#[test]
fn a_request_that_has_not_arrived_completely_is_not_carried_out() {
    let world = World::new();
    let ana = world.session("ana");
    let bytes = bytes_of(&ana, "files/reserve", &json!({ "filePath": "a" }));
    let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&bytes[..bytes.len() - 1]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply);
    assert!(!reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert_eq!(world.held(), [""; 0]);
}

/// A client that closed its sending side looks like one that is gone, so a wait ends with either.
#[test]
fn a_wait_ends_with_the_sending_side_of_its_client() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    for how in [Shutdown::Write, Shutdown::Both] {
        let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
        let wait = json!({ "filePath": "a", "waitSeconds": 300 });
        stream.write_all(&bytes_of(&bo, "files/reserve", &wait)).unwrap();
        until_waiters(&world, 1);
        // More input is not the end of the client.
        stream.write_all(b"POST ").unwrap();
        until_waiters(&world, 1);
        stream.shutdown(how).unwrap();
        until_waiters(&world, 0);
        // At once as well.
        let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
        stream.write_all(&bytes_of(&bo, "files/reserve", &wait)).unwrap();
        stream.shutdown(how).unwrap();
        drop(stream);
    }
    ana.release("a");
    until("no session waits or holds", || world.held().is_empty().then_some(()));
    assert_eq!(world.get("/api/sessions/bo", &world.reader()).ok()["waitingFor"], json!([]));
}

/// A stream is over as soon as its client closes, not when the next event cannot be written.
#[test]
fn a_stream_ends_with_its_client() {
    let world = World::configured("[limits]\nevent-readers = 1\nevent-keep-alive-seconds = 3600\n");
    let bearer = format!("Bearer {}", world.reader());
    let bytes = request("GET", "/api/events", &[("authorization", &*bearer)], b"");
    for _ in 0..3 {
        until("there is room for one stream", || {
            let mut stream = TcpStream::connect(world.server().tcp()).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.write_all(&bytes).unwrap();
            let mut start = [0; 15];
            stream.read_exact(&mut start).unwrap();
            (&start == b"HTTP/1.1 200 OK").then_some(())
        });
    }
}
