//! A small HTTP/1.1 client that shares no code with the server or its client: they cannot agree on a mistake.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::Value;

use super::process::LIMIT;

/// Every error code of the contract with its status. Not the server's own table, which is what is tested.
const CODES: &[(&str, u16)] = &[
    ("INVALID_REQUEST", 400),
    ("INVALID_PATH", 400),
    ("INVALID_KEY", 400),
    ("TTL_OUT_OF_RANGE", 400),
    ("UNAUTHENTICATED", 401),
    ("FORBIDDEN", 403),
    ("LOCK_NOT_HELD", 403),
    ("OPERATION_NOT_PERMITTED", 403),
    ("NOT_FOUND", 404),
    ("METHOD_NOT_ALLOWED", 405),
    ("RESOURCE_LOCKED", 409),
    ("LOCK_ACQUISITION_FAILED", 409),
    ("POSSIBLE_DEADLOCK", 409),
    ("VERSION_MISMATCH", 409),
    ("SESSION_ENDED", 410),
    ("LOCK_TIMEOUT", 410),
    ("PAYLOAD_TOO_LARGE", 413),
    ("URI_TOO_LONG", 414),
    ("UNSUPPORTED_MEDIA_TYPE", 415),
    ("FEATURE_PAUSED", 423),
    ("QUOTA_EXCEEDED", 429),
    ("HEADERS_TOO_LARGE", 431),
    ("UNAVAILABLE", 503),
];

/// Where a server listens.
#[derive(Debug, Clone)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// One connection; dropping it closes it.
pub struct Connection(BufReader<Box<dyn Stream>>);

/// A response, unchanged.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A request as it goes over the wire.
pub fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() || method == "POST" {
        text += &format!("content-length: {}\r\n", body.len());
    }
    [format!("{text}\r\n").as_bytes(), body].concat()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Connection {
    pub fn open(address: &Address) -> io::Result<Connection> {
        match address {
            Address::Tcp(address) => Connection::over(TcpStream::connect_timeout(address, LIMIT)?),
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                Ok(Connection(BufReader::new(Box::new(stream))))
            }
        }
    }

    pub fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Connection(BufReader::new(Box::new(stream))))
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Reads one response. The response to a HEAD has no body.
    pub fn receive(&mut self, to_head: bool) -> io::Result<Response> {
        let mut response = self.head()?;
        if !to_head {
            let length = response.header("content-length").ok_or_else(|| invalid("no content-length"))?;
            response.body = self.exact(length.parse().map_err(|_| invalid(length))?)?;
        }
        Ok(response)
    }

    /// Reads a response up to its body.
    pub fn head(&mut self) -> io::Result<Response> {
        let first = self.line()?;
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| invalid(&first))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Response { status, headers, body: Vec::new() })
    }

    /// Reads exactly `length` bytes.
    pub fn exact(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads one chunk of a chunked body; `None` at its end.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let length = usize::from_str_radix(&line, 16).map_err(|_| invalid(&line))?;
        let mut chunk = self.exact(length + 2)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Sends a request and reads its response, also if the server responds and closes before it has read everything.
    pub fn call(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Response> {
        let sent = self.send(&request(method, target, headers, body));
        self.receive(method == "HEAD").or_else(|error| sent.and(Err(error)))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self}"))
    }

    /// The body of a response that must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self}");
        self.json()
    }

    /// The body of a response that must be 200.
    #[track_caller]
    pub fn ok(self) -> Value {
        self.expect(200)
    }

    /// The body of a refusal that must have this code.
    #[track_caller]
    pub fn refused(self, code: &str) -> Value {
        assert!(self.status >= 400 && self.json()["code"] == code, "not {code}: {self}");
        self.json()
    }

    /// Checks what the contract says about every response to every call.
    #[track_caller]
    pub fn check_ground_rules(&self) {
        assert!(self.header("x-request-id").is_some_and(|id| !id.is_empty()), "no x-request-id: {self}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self}");
        let body = self.json();
        if self.status < 400 {
            return;
        }
        let sentence = body["error"].as_str().unwrap_or_default();
        assert!(sentence.len() > 10 && !sentence.contains('\n'), "not a sentence: {self}");
        let code = body["code"].as_str().unwrap_or_default();
        assert!(CODES.contains(&(code, self.status)), "{code} does not go with {}: {self}", self.status);
        assert_eq!(self.header("www-authenticate"), (self.status == 401).then_some("Bearer"), "{self}");
        if matches!(self.status, 409 | 429 | 503) {
            let seconds = self.header("retry-after").and_then(|text| text.parse::<u64>().ok());
            assert!(seconds.is_some_and(|seconds| seconds >= 1), "no Retry-After of at least 1: {self}");
        }
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        let shown: String = body.chars().take(2000).collect();
        write!(f, "{} {:?} {shown}", self.status, self.headers)
    }
}
