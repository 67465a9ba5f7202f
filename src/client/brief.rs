//! One question and its answer without a runtime, for a hook: a process that has but one question, and that every commit
//! waits for.
//!
//! Only the plain case is dealt with: a server that is there and answers with success. Whatever else happens is
//! [`Brief::Elsewhere`]; then [`Client`](super::Client) asks again, in full, and has a sentence for it. A question
//! may be repeated.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{Domain, SockAddr, Socket, Type};

use super::Endpoint;
use super::address::part;
use super::calls::checking;
use super::{Credential, Limits};
use crate::wire;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Brief<T> {
    /// The answer.
    Answer(T),
    /// Somebody listens there and did not answer in time.
    TimedOut,
    /// Nothing that would be plain to understand.
    Elsewhere,
}

/// Who is asking, and where.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The way to the server.
    pub endpoint: &'a Endpoint,
    /// Who is asking.
    pub credential: Option<&'a Credential>,
    /// The session to act for.
    pub session: Option<&'a str>,
    /// The repository, where the credential names none.
    pub repo: Option<&'a str>,
}

/// Says what is in the way of the session, or of anybody where there is none.
pub fn check_briefly(who: Asking<'_>, ask: &wire::Check, limits: Limits) -> Brief<wire::CheckReply> {
    exchange(who, &checking(who.session), ask, limits)
}

fn exchange<T: DeserializeOwned>(who: Asking<'_>, path: &str, ask: &impl Serialize, limits: Limits) -> Brief<T> {
    let deadline = Deadline(Instant::now() + limits.total);
    let Some(socket) = connect(who.endpoint, limits.connect) else { return Brief::Elsewhere };
    let Ok(body) = serde_json::to_vec(ask) else { return Brief::Elsewhere };
    let answer = send(&socket, &head(who, path, body.len()), &body, deadline)
        .and_then(|()| receive(&socket, deadline, limits.answer_bytes));
    match answer {
        Ok(answer) => match successful(&answer).and_then(|body| serde_json::from_slice(body).ok()) {
            Some(answer) => Brief::Answer(answer),
            None => Brief::Elsewhere,
        },
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Brief::TimedOut,
        Err(_) => Brief::Elsewhere,
    }
}

/// Connects without waiting for a name server, which knows no limit.
fn connect(endpoint: &Endpoint, limit: Duration) -> Option<Socket> {
    let (domain, address) = match endpoint {
        Endpoint::Unix(path) => (Domain::UNIX, SockAddr::unix(path).ok()?),
        Endpoint::Tcp { host, port, .. } => {
            let address = SocketAddr::new(host.parse::<IpAddr>().ok()?, *port);
            (Domain::for_address(address), address.into())
        }
    };
    let socket = Socket::new(domain, Type::STREAM, None).ok()?;
    socket.connect_timeout(&address, limit).ok()?;
    Some(socket)
}

/// The request up to its body. The old version of HTTP, because with it the answer ends where the connection does.
fn head(who: Asking<'_>, path: &str, body_bytes: usize) -> String {
    let says_so_itself = who.credential.is_some_and(|credential| credential.repo.is_some());
    let repo = who.repo.filter(|_| !says_so_itself).map_or_else(String::new, |repo| format!("?repo={}", part(repo)));
    let token = who
        .credential
        .map_or_else(String::new, |credential| format!("authorization: Bearer {}\r\n", credential.token()));
    format!(
        "POST {}{path}{repo} HTTP/1.0\r\nhost: {}\r\naccept: application/json\r\nuser-agent: git-dibs/{}\r\n{token}\
         content-type: application/json\r\ncontent-length: {body_bytes}\r\n\r\n",
        who.endpoint.prefix(),
        who.endpoint.authority(),
        env!("CARGO_PKG_VERSION"),
    )
}

#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    /// What is left; a socket takes no time at all for no limit.
    fn left(self) -> std::io::Result<Option<Duration>> {
        match self.0.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

fn send(mut socket: &Socket, head: &str, body: &[u8], deadline: Deadline) -> std::io::Result<()> {
    let request = [head.as_bytes(), body].concat();
    let mut rest = request.as_slice();
    while !rest.is_empty() {
        socket.set_write_timeout(deadline.left()?)?;
        match socket.write(rest)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => rest = &rest[sent..],
        }
    }
    Ok(())
}

fn receive(mut socket: &Socket, deadline: Deadline, most: usize) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    loop {
        socket.set_read_timeout(deadline.left()?)?;
        match socket.read(&mut piece)? {
            0 => return Ok(answer),
            read => answer.extend_from_slice(&piece[..read]),
        }
        // Whoever is in between may keep the connection open all the same.
        if parts(&answer).is_some_and(|(head, body)| length(head) == Some(body.len())) {
            return Ok(answer);
        }
        if answer.len() > most {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
}

/// The body of an answer that says success and is all there.
fn successful(answer: &[u8]) -> Option<&[u8]> {
    let (head, body) = parts(answer)?;
    let (version, status) = head.split_once(' ')?;
    let is_success = version.starts_with("HTTP/1.") && status.starts_with("200");
    (is_success && length(head)? == body.len()).then_some(body)
}

/// How long the body is said to be. Nothing where it is written in some other way than plainly.
fn length(head: &str) -> Option<usize> {
    let mut length = None;
    for line in head.split("\r\n").skip(1) {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = Some(value.trim().parse().ok()?),
            "transfer-encoding" | "content-encoding" => return None,
            _ => {}
        }
    }
    length
}

/// What comes before the body, and the body as far as it is there.
fn parts(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::Origin;
    use super::*;

    const LIMITS: Limits =
        Limits { connect: Duration::from_millis(200), total: Duration::from_millis(300), answer_bytes: 1000 };

    /// Asks somebody who answers like this, and says what the question was.
    fn ask(answer: &'static str) -> (Brief<wire::CheckReply>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}/team", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = vec![0; 65536];
            let read = stream.read(&mut question).unwrap();
            let _ = stream.write_all(answer.as_bytes());
            if answer.is_empty() {
                // Until the other side has had enough.
                let _ = stream.read(&mut [0]);
            }
            String::from_utf8_lossy(&question[..read]).into_owned()
        });
        let credential = Credential::new("to.ke.n", Origin::Environment).unwrap();
        let who =
            Asking { endpoint: &endpoint, credential: Some(&credential), session: Some("a/b"), repo: Some("r s") };
        let check = wire::Check { paths: Some(vec!["x".to_owned()]), ..wire::Check::default() };
        let answer = check_briefly(who, &check, LIMITS);
        (answer, server.join().unwrap())
    }

    #[test]
    fn a_plain_answer_is_taken() {
        let (answer, question) =
            ask("HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}");
        assert!(matches!(answer, Brief::Answer(checked) if checked.conflicts.is_empty()));
        let (head, body) = question.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("POST /team/api/sessions/a%2Fb/files/check-conflicts?repo=r%20s HTTP/1.0\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nauthorization: Bearer to.ke.n\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
    }

    #[test]
    fn everything_else_is_left_to_others() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}",
            "HTTP/1.1 200 OK\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 No\r\ncontent-length: 37\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK",
            "nonsense\r\n\r\n",
        ] {
            assert_eq!(ask(answer).0, Brief::Elsewhere, "{answer}");
        }
        assert_eq!(ask("").0, Brief::TimedOut);
        let nowhere = Endpoint::parse("unix:/nowhere/x.sock").unwrap();
        let by_name = Endpoint::parse("http://localhost:1").unwrap();
        for endpoint in [&nowhere, &by_name] {
            let who = Asking { endpoint, credential: None, session: None, repo: None };
            assert_eq!(check_briefly(who, &wire::Check::default(), LIMITS), Brief::Elsewhere);
        }
    }
}
