//! A small HTTP/1.1 client of the tests' own, so that server and client cannot agree on a mistake.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// No answer takes that long, except one that never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every code of the contract with its status, written down once more: the server's own table is what is tested.
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
    ("UNSUPPORTED_MEDIA_TYPE", 415),
    ("FEATURE_PAUSED", 423),
    ("QUOTA_EXCEEDED", 429),
    ("UNAVAILABLE", 503),
];

/// Where a server listens.
#[derive(Debug, Clone)]
pub enum Door {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// One connection; dropping it hangs up.
pub struct Connection(BufReader<Box<dyn Stream>>);

/// An answer, as it came.
#[derive(Debug)]
pub struct Answer {
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

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Connection {
    pub fn open(door: &Door) -> io::Result<Connection> {
        let stream: Box<dyn Stream> = match door {
            Door::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Door::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        };
        Ok(Connection(BufReader::new(stream)))
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Reads one answer; `to_head` says that it answers a HEAD and so has no body.
    pub fn answer(&mut self, to_head: bool) -> io::Result<Answer> {
        let mut answer = self.head()?;
        if !to_head {
            let length = answer.header("content-length").ok_or_else(|| odd("no content-length"))?;
            answer.body = self.exact(length.parse().map_err(|_| odd(length))?)?;
        }
        Ok(answer)
    }

    /// Reads an answer up to its body.
    pub fn head(&mut self) -> io::Result<Answer> {
        let first = self.line()?;
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| odd(&first))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| odd(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Answer { status, headers, body: Vec::new() })
    }

    /// Reads so many bytes.
    pub fn exact(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads one chunk of a body that goes on; nothing once it has ended.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let length = usize::from_str_radix(&line, 16).map_err(|_| odd(&line))?;
        let mut chunk = self.exact(length + 2)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Sends a request and reads its answer. Where the server answers before it has read everything, that counts.
    pub fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        let sent = self.send(&request(method, target, headers, body));
        self.answer(method == "HEAD").or_else(|error| sent.and(Err(error)))
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

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self}"))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self}");
        self.json()
    }

    /// The body of an answer that must be 200.
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

    /// What holds for every answer of every call.
    #[track_caller]
    pub fn keeps_the_ground_rules(&self) {
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

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        let shown: String = body.chars().take(2000).collect();
        write!(f, "{} {:?} {shown}", self.status, self.headers)
    }
}
