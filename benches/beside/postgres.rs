//! PostgreSQL: `INSERT … ON CONFLICT DO NOTHING`, and `DELETE`, both prepared once per connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::lines::{Dialect, Line, Step};

pub struct Postgres;

const PREPARE: &str = "CREATE TABLE IF NOT EXISTS reservations (path text PRIMARY KEY, holder text, until timestamptz);
    PREPARE reserve (text, text) AS INSERT INTO reservations VALUES ($1, $2, now() + interval '60 s') ON CONFLICT DO NOTHING;
    PREPARE release (text) AS DELETE FROM reservations WHERE path = $1";

impl Dialect for Postgres {
    fn greet(&self, stream: &mut TcpStream) -> String {
        // Length, version 3.0, user and database.
        let hello = b"\0\x03\0\0user\0bench\0database\0postgres\0\0";
        let mut message = (hello.len() as u32 + 4).to_be_bytes().to_vec();
        message.extend_from_slice(hello);
        stream.write_all(&message).expect("it listens");
        until_ready(stream);
        let mut query_text = Vec::new();
        query(PREPARE, &mut query_text);
        stream.write_all(&query_text).expect("it listens");
        until_ready(stream);
        String::new()
    }

    fn ask(&self, line: &Line, step: Step, out: &mut Vec<u8>) {
        let path = line.path();
        match step {
            Step::Reserve => query(&format!("EXECUTE reserve('{path}', 'bench-{}')", line.connection), out),
            Step::Release => query(&format!("EXECUTE release('{path}')"), out),
        }
    }

    fn answer(&self, step: Step, bytes: &[u8]) -> Option<usize> {
        let yes: &[u8] = match step {
            Step::Reserve => b"INSERT 0 1\0",
            Step::Release => b"DELETE 1\0",
        };
        let done = |kind, body: &[u8]| assert!(kind != b'C' || body == yes, "{}", String::from_utf8_lossy(body));
        messages(bytes, done)
    }
}

fn query(text: &str, out: &mut Vec<u8>) {
    out.push(b'Q');
    out.extend_from_slice(&(text.len() as u32 + 5).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// The end of the message that says the server is ready again, if it has arrived. `seen` gets those before it.
fn messages(bytes: &[u8], seen: impl Fn(u8, &[u8])) -> Option<usize> {
    let mut at = 0;
    loop {
        let (kind, length) = (*bytes.get(at)?, bytes.get(at + 1..at + 5)?);
        let end = at + 1 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let body = bytes.get(at + 5..end)?;
        assert!(kind != b'E', "{}", String::from_utf8_lossy(body));
        if kind == b'Z' {
            return Some(end);
        }
        seen(kind, body);
        at = end;
    }
}

fn until_ready(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    while messages(&bytes, |_, _| ()).is_none() {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).expect("it answers");
        assert!(read > 0, "PostgreSQL hung up");
        bytes.extend_from_slice(&part[..read]);
    }
}
