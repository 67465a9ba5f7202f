//! git-dibs's own dialect, and plain calls over HTTP.

use std::io::Write;
use std::net::SocketAddr;

use git_dibs::token::{Keyring, KeyringConfig};
use serde_json::json;

use super::lines::{Dialect, Line, Step};
use super::support::http::{Address, Connection};
use super::support::mint;

/// The secret that signs the tokens of the benches.
pub const SECRET: &str = "ssssssssssssssssssssssssssssssss";

/// The body of a response to a reserve, of realistic length.
pub const RESERVED: &str = r#"{"reservationId":"res_01a1e27997d77793b25abd23b31d076f","filePath":"src/area_12/part_345/file_678901.rs","sessionId":"bench-17","mode":"exclusive","reason":null,"reservedAt":"2026-11-16T03:49:41.975Z","expiresAt":"2026-11-16T03:50:41.975Z","fence":678901,"version":0}"#;

/// The body of a response to a release.
pub const RELEASED: &str = r#"{"ok":true,"released":true,"releasedCount":1}"#;

pub fn keyring() -> Keyring {
    let secret = Some(SECRET.as_bytes().to_vec());
    Keyring::new(KeyringConfig { secret, ..KeyringConfig::default() }).expect("the secret is long enough")
}

/// A token for a session, valid for an hour.
pub fn token(session: &str) -> String {
    mint::hs256(&mint::claims(json!({ "sub": session })), SECRET.as_bytes())
}

/// Reserves and releases over HTTP, every connection as a session with a token of its own.
pub struct Http {
    heads: Vec<[String; 2]>,
}

impl Http {
    /// For at most this many connections.
    pub fn new(connections: usize) -> Http {
        let heads = |connection| {
            let session = format!("bench-{connection}");
            let token = token(&session);
            ["reserve", "release"].map(|call| head(&format!("/api/sessions/{session}/files/{call}"), &token))
        };
        Http { heads: (0..connections).map(heads).collect() }
    }
}

impl Dialect for Http {
    fn ask(&self, line: &Line, step: Step, out: &mut Vec<u8>) {
        let [reserve, release] = &self.heads[line.connection];
        match step {
            Step::Reserve => finish(reserve, &format!(r#"{{"filePath":"{}","ttlSeconds":60}}"#, line.path()), out),
            Step::Release => finish(release, &format!(r#"{{"filePath":"{}"}}"#, line.path()), out),
        }
    }

    fn answer(&self, _step: Step, bytes: &[u8]) -> Option<usize> {
        answer(bytes).map(|(length, _)| length)
    }
}

fn head(path: &str, token: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: "
    )
}

fn finish(head: &str, body: &str, out: &mut Vec<u8>) {
    write!(out, "{head}{}\r\n\r\n{body}", body.len()).expect("memory");
}

/// The length of the response and its body, if it is complete.
pub fn answer(bytes: &[u8]) -> Option<(usize, &[u8])> {
    const LENGTH: &[u8] = b"content-length: ";
    assert!(bytes.starts_with(b"HTTP/1.1 200") || bytes.len() < 12, "{}", String::from_utf8_lossy(bytes));
    let (mut rest, mut length) = (bytes, None);
    loop {
        // Every byte that the load looks at is time that the server does not have.
        let line = rest.iter().position(|byte| *byte == b'\n')?;
        let (head, tail) = rest.split_at(line + 1);
        rest = tail;
        match head {
            b"\r\n" => break,
            head if head.len() > LENGTH.len() && head[..LENGTH.len()].eq_ignore_ascii_case(LENGTH) => {
                let digits = head[LENGTH.len()..].trim_ascii_end();
                length = Some(digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')));
            }
            _ => {}
        }
    }
    let body = rest.get(..length.expect("the answer says how long it is"))?;
    Some((bytes.len() - rest.len() + body.len(), body))
}

/// One call on a connection that stays open. Returns the body.
pub fn call(connection: &mut Connection, path: &str, token: &str, body: &str) -> Vec<u8> {
    send(connection, path, token, body);
    receive(connection)
}

/// The first half of a call.
pub fn send(connection: &mut Connection, path: &str, token: &str, body: &str) {
    let mut request = Vec::new();
    finish(&head(path, token), body, &mut request);
    connection.send(&request).expect("the server listens");
}

/// The second half of a call, which must succeed.
pub fn receive(connection: &mut Connection) -> Vec<u8> {
    let response = connection.receive(false).expect("the server answers");
    assert_eq!(response.status, 200, "{response}");
    response.body
}

pub fn connect(address: SocketAddr) -> Connection {
    Connection::open(&Address::Tcp(address)).expect("the server listens")
}

/// A whole response to a reserve, always the same.
pub fn canned() -> Vec<u8> {
    let date = "date: Mon, 16 Nov 2026 03:49:41 GMT";
    let id = "x-request-id: 01a1e27997d77793b25abd23b31d076f";
    let length = RESERVED.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{id}\r\ncontent-length: {length}\r\n{date}\r\n\r\n{RESERVED}")
        .into_bytes()
}
