//! One call without an async runtime, for a hook: a process that makes a single call, and that every commit waits for.
//!
//! Handles only the plain case: the server is there and replies with success. Everything else is
//! [`QuickReply::Unclear`]; then [`Client`](super::Client) makes the same call and has a sentence for what is wrong. A
//! check or a reserve may be repeated.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{Domain, SockAddr, Socket, Type};

use super::address::part;
use super::calls::{announce_path, check_path, held_path, reserve_path};
use super::{Address, Credential, Endpoint, Inbox, Limits, peer};
use crate::wire;

/// The result of a quick call.
#[derive(Debug, PartialEq, Eq)]
pub enum QuickReply<T> {
    Success(T),
    /// A server accepted the connection and did not reply in time.
    TimedOut(PartialBody),
    /// Anything else. The full client finds out what.
    Unclear(PartialBody),
}

/// What arrived of the body of a reply with status 200, until it was clear that it is incomplete.
pub type PartialBody = Vec<u8>;

/// Where to call, and as whom.
#[derive(Debug, Clone, Copy)]
pub struct QuickCall<'a> {
    pub endpoint: &'a Endpoint,
    pub credential: Option<&'a Credential>,
    /// The session to act for.
    pub session: Option<&'a str>,
    /// The repository, if the credential names none.
    pub repo: Option<&'a str>,
    /// Gets the notices of the reply, also of a refusal: the full client does not get them again.
    pub inbox: &'a Inbox,
}

/// Asks which reservations conflict with the session, or with a caller without one.
pub fn quick_check(call: QuickCall<'_>, question: &wire::Check, limits: Limits) -> QuickReply<wire::CheckReply> {
    exchange(call, &check_path(call.session), Some(question), limits)
}

/// Announces what the session is about to push.
pub fn quick_announce(
    call: QuickCall<'_>,
    session: &str,
    request: &wire::AnnouncePush,
    limits: Limits,
) -> QuickReply<wire::PushAnnounced> {
    exchange(call, &announce_path(session), Some(request), limits)
}

/// Reserves keys for the session of the call, all or none of them. The request must not wait.
pub fn quick_reserve(call: QuickCall<'_>, request: &wire::Reserve, limits: Limits) -> QuickReply<wire::ReserveReply> {
    let Some(session) = call.session else { return QuickReply::Unclear(Vec::new()) };
    exchange(call, &reserve_path(session), Some(request), limits)
}

/// Asks whether anything is held, by the session or by others.
pub fn quick_held(call: QuickCall<'_>, limits: Limits) -> QuickReply<wire::Held> {
    exchange(call, &held_path(call.session), None::<&()>, limits)
}

fn exchange<T: DeserializeOwned>(
    call: QuickCall<'_>,
    path: &str,
    request: Option<&impl Serialize>,
    limits: Limits,
) -> QuickReply<T> {
    let deadline = Deadline(Instant::now() + limits.total);
    let unclear = || QuickReply::Unclear(Vec::new());
    let Some(socket) = connect(&call.endpoint.address, limits.connect) else { return unclear() };
    if !peer::may_get(call.credential, call.endpoint, &socket) {
        return unclear();
    }
    let Ok(body) = request.map(serde_json::to_vec).transpose() else { return unclear() };
    let head = head(call, path, body.as_ref().map(Vec::len));
    let mut answer = Vec::new();
    let received = send(&socket, &head, body.as_deref().unwrap_or_default(), deadline)
        .and_then(|()| receive(&socket, deadline, limits.answer_bytes, &mut answer));
    if let Some((_, body)) = parts(&answer) {
        call.inbox.receive(body);
    }
    let partial = |answer: &[u8]| success_part(answer).map(<[u8]>::to_vec).unwrap_or_default();
    match received {
        Ok(()) => match success_body(&answer).and_then(|body| serde_json::from_slice(body).ok()) {
            Some(reply) => QuickReply::Success(reply),
            None => QuickReply::Unclear(partial(&answer)),
        },
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            QuickReply::TimedOut(partial(&answer))
        }
        Err(_) => QuickReply::Unclear(partial(&answer)),
    }
}

/// Whether a server accepts connections there.
pub fn accepts(address: &Address) -> bool {
    open(address, Limits::default().connect).is_some()
}

/// Connects to a server. HTTPS is left to the full client.
fn connect(address: &Address, limit: Duration) -> Option<Socket> {
    if address.is_tls() { None } else { open(address, limit) }
}

/// Connects to a socket or an IP address. A host name is left to the full client, because a name lookup has no time limit.
fn open(address: &Address, limit: Duration) -> Option<Socket> {
    let (domain, address) = match address {
        Address::Unix(path) => (Domain::UNIX, SockAddr::unix(path).ok()?),
        Address::Tcp { host, port, .. } => {
            let address = SocketAddr::new(host.parse::<IpAddr>().ok()?, *port);
            (Domain::for_address(address), address.into())
        }
    };
    let socket = Socket::new(domain, Type::STREAM, None).ok()?;
    socket.connect_timeout(&address, limit).ok()?;
    Some(socket)
}

/// The request up to its body; GET without one. HTTP 1.0, because its reply ends when the connection does.
fn head(call: QuickCall<'_>, path: &str, body_bytes: Option<usize>) -> String {
    let token_names_repo = call.credential.is_some_and(|credential| credential.repo.is_some());
    let mark = if path.contains('?') { '&' } else { '?' };
    let repo = call.repo.filter(|_| !token_names_repo);
    let repo = repo.map_or_else(String::new, |repo| format!("{mark}repo={}", part(repo)));
    let token = call
        .credential
        .map_or_else(String::new, |credential| format!("authorization: Bearer {}\r\n", credential.token()));
    let (method, body) = match body_bytes {
        Some(bytes) => ("POST", format!("content-type: application/json\r\ncontent-length: {bytes}\r\n")),
        None => ("GET", String::new()),
    };
    format!(
        "{method} {}{path}{repo} HTTP/1.0\r\nhost: {}\r\naccept: application/json\r\nuser-agent: git-dibs/{}\r\n{token}\
         {body}\r\n",
        call.endpoint.address.prefix(),
        call.endpoint.address.authority(),
        env!("CARGO_PKG_VERSION"),
    )
}

#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    /// The time left. An error if there is none, because a socket reads a timeout of zero as no limit.
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

fn receive(mut socket: &Socket, deadline: Deadline, most: usize, answer: &mut Vec<u8>) -> std::io::Result<()> {
    let mut piece = vec![0; 16 * 1024];
    loop {
        socket.set_read_timeout(deadline.left()?)?;
        match socket.read(&mut piece)? {
            0 => return Ok(()),
            read => answer.extend_from_slice(&piece[..read]),
        }
        // A proxy may keep the connection open although the reply is complete.
        if parts(answer).is_some_and(|(head, body)| length(head) == Some(body.len())) {
            return Ok(());
        }
        if answer.len() > most {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
}

/// The body of a complete reply with status 200.
fn success_body(answer: &[u8]) -> Option<&[u8]> {
    let (head, _) = parts(answer)?;
    success_part(answer).filter(|body| length(head) == Some(body.len()))
}

/// What there is of the body of a reply with status 200.
fn success_part(answer: &[u8]) -> Option<&[u8]> {
    let (head, body) = parts(answer)?;
    let (version, status) = head.split_once(' ')?;
    (version.starts_with("HTTP/1.") && status.starts_with("200")).then_some(body)
}

/// The `content-length`; none if the body is encoded in any way.
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

/// The head, and as much of the body as has arrived.
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

    /// Calls a server that replies with this text. Returns the result and the request that the server received.
    fn ask(answer: &'static str) -> (QuickReply<wire::CheckReply>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}/team", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = vec![0; 65536];
            let read = stream.read(&mut question).unwrap();
            let _ = stream.write_all(answer.as_bytes());
            if answer.is_empty() {
                // Until the client gives up.
                let _ = stream.read(&mut [0]);
            }
            String::from_utf8_lossy(&question[..read]).into_owned()
        });
        let credential = Credential::new("to.ke.n", Origin::Environment).unwrap();
        let call = QuickCall {
            endpoint: &endpoint,
            credential: Some(&credential),
            session: Some("a/b"),
            repo: Some("r s"),
            inbox: &Inbox::default(),
        };
        let check = wire::Check { paths: Some(vec!["x".to_owned()]), ..wire::Check::default() };
        let answer = quick_check(call, &check, LIMITS);
        (answer, server.join().unwrap())
    }

    #[test]
    fn a_plain_reply_is_accepted() {
        let (answer, question) =
            ask("HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}");
        assert!(matches!(answer, QuickReply::Success(checked) if checked.conflicts.is_empty()));
        let (head, body) = question.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("POST /team/api/sessions/a%2Fb/files/check-conflicts?repo=r%20s HTTP/1.0\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nauthorization: Bearer to.ke.n\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
    }

    #[test]
    fn every_other_reply_is_unclear() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}",
            "HTTP/1.1 200 OK\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 No\r\ncontent-length: 37\r\n\r\n{\"conflicts\":[],\"clear\":[],\"held\":[]}",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK",
            "nonsense\r\n\r\n",
        ] {
            assert!(matches!(ask(answer).0, QuickReply::Unclear(_)), "{answer}");
        }
        assert_eq!(ask("").0, QuickReply::TimedOut(Vec::new()));
        let nowhere = Endpoint::parse("unix:/nowhere/x.sock").unwrap();
        let by_name = Endpoint::parse("http://localhost:1").unwrap();
        for endpoint in [&nowhere, &by_name] {
            let call = QuickCall { endpoint, credential: None, session: None, repo: None, inbox: &Inbox::default() };
            assert_eq!(quick_check(call, &wire::Check::default(), LIMITS), QuickReply::Unclear(Vec::new()));
        }
    }

    #[test]
    fn what_arrived_of_an_incomplete_reply_is_kept() {
        let (answer, _) = ask("HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{\"conflicts\":[");
        assert_eq!(answer, QuickReply::Unclear(b"{\"conflicts\":[".to_vec()));
        let (answer, _) = ask("HTTP/1.1 503 No\r\ncontent-length: 38\r\n\r\n{\"conflicts\":[");
        assert_eq!(answer, QuickReply::Unclear(Vec::new()));
    }
}
