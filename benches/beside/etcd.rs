//! etcd through its JSON gateway: a transaction that puts the key under a lease if it is not there, and a delete. The
//! lease is granted once per connection, which is less than a lock service would have to do.

use std::io::Write;
use std::net::TcpStream;

use crate::common::http;
use crate::common::lines::{Dialect, Line, Step};
use crate::common::support::http::Connection;

pub struct Etcd;

impl Dialect for Etcd {
    fn greet(&self, stream: &mut TcpStream) -> String {
        let mut request = Vec::new();
        post("lease/grant", r#"{"TTL":60}"#, &mut request);
        stream.write_all(&request).expect("it listens");
        let stream = stream.try_clone().expect("a second handle");
        let body = http::receive(&mut Connection::over(stream).expect("a connection"));
        let answer: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        answer["ID"].as_str().expect("a lease").to_owned()
    }

    fn ask(&self, line: &Line, step: Step, out: &mut Vec<u8>) {
        let key = base64(line.path().as_bytes());
        let (call, body) = match step {
            Step::Reserve => {
                let (holder, lease) = (base64(format!("bench-{}", line.connection).as_bytes()), &line.greeting);
                let absent = format!(r#"{{"key":"{key}","target":"CREATE","result":"EQUAL","create_revision":"0"}}"#);
                let put = format!(r#"{{"request_put":{{"key":"{key}","value":"{holder}","lease":"{lease}"}}}}"#);
                ("kv/txn", format!(r#"{{"compare":[{absent}],"success":[{put}]}}"#))
            }
            Step::Release => ("kv/deleterange", format!(r#"{{"key":"{key}"}}"#)),
        };
        post(call, &body, out);
    }

    fn answer(&self, step: Step, bytes: &[u8]) -> Option<usize> {
        let (length, body) = http::answer(bytes)?;
        let yes: &[u8] = match step {
            Step::Reserve => br#""succeeded":true"#,
            Step::Release => br#""deleted":"1""#,
        };
        assert!(body.windows(yes.len()).any(|part| part == yes), "{}", String::from_utf8_lossy(body));
        Some(length)
    }
}

/// Without a token: etcd would refuse one.
fn post(call: &str, body: &str, out: &mut Vec<u8>) {
    let length = body.len();
    write!(out, "POST /v3/{call} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
        .expect("memory");
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let group = (0..3).fold(0, |group, at| group << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * at)) as usize % 64];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
