//! The client against real sockets, with good, bad and strange servers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::*;
use crate::wire;

/// What a stranger does with one connection, given the request it read.
type Act = Box<dyn FnOnce(&mut dyn Stream) + Send>;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Listens on a port, answers one connection after the other as the test says, and returns the requests it read.
fn stranger(acts: Vec<Act>) -> (Endpoint, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, requests) = channel();
    thread::spawn(move || {
        for act in acts {
            let (mut stream, _) = listener.accept().unwrap();
            if let Some(request) = request(&mut stream) {
                let _ = seen.send(request);
            }
            act(&mut stream);
        }
    });
    (Endpoint::parse(&format!("http://127.0.0.1:{port}")).unwrap(), requests)
}

/// Reads one request to its end; nothing where the client left before.
fn request(stream: &mut dyn Stream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

/// Answers with these bytes and closes.
fn says(bytes: impl Into<Vec<u8>>) -> Act {
    let bytes = bytes.into();
    Box::new(move |stream| {
        let _ = stream.write_all(&bytes);
    })
}

/// A whole answer.
fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nretry-after: 7\r\n\r\n{body}", body.len())
}

fn quick() -> Limits {
    Limits { total: Duration::from_millis(300), ..Limits::default() }
}

fn client(endpoint: Endpoint) -> Client {
    Client::new(vec![endpoint], None, Limits { total: Duration::from_secs(30), ..Limits::default() }).unwrap()
}

/// What the client says after a stranger did this.
fn after(act: Act) -> ClientError {
    let (endpoint, _requests) = stranger(vec![act]);
    client(endpoint).health().unwrap_err()
}

/// What came, where it was garbage.
fn garbage(act: Act) -> String {
    match after(act) {
        ClientError::Garbage { what, .. } => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_arrives_with_everything_a_server_needs() {
    let body = r#"{"ok":true,"released":true,"releasedCount":1,"later":"more"}"#;
    let (endpoint, requests) = stranger(vec![says(answer("200 OK", body))]);
    let authority = endpoint.address.authority();
    let credential = Credential::new("abc", Origin::Environment).unwrap();
    let mut client = Client::new(vec![endpoint], Some(credential), Limits::default()).unwrap();
    let ask = wire::Release { file_path: Some("src/ä.rs".to_owned()), ..wire::Release::default() };
    assert_eq!(client.release("an/a", &ask).unwrap().released_count, 1);

    let request = requests.recv().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    assert_eq!(lines.next().unwrap(), "POST /api/sessions/an%2Fa/files/release HTTP/1.1");
    let lines = lines.collect::<Vec<_>>();
    for expected in
        [format!("host: {authority}").as_str(), "authorization: Bearer abc", "content-type: application/json"]
    {
        assert!(lines.contains(&expected), "{expected} is missing in {head}");
    }
    assert_eq!(body, r#"{"filePath":"src/ä.rs"}"#);
}

#[test]
fn a_refusal_is_its_sentence_and_its_facts() {
    let body = r#"{"error":"File already reserved","code":"RESOURCE_LOCKED","reservedBy":"bo"}"#;
    let error = after(says(answer("409 Conflict", body)));
    assert_eq!(error.to_string(), "File already reserved");
    assert_eq!(error.code(), Some(wire::Code::ResourceLocked));
    let ClientError::Refused { status, body, retry_after } = error else { panic!("{error:?}") };
    assert_eq!((status, retry_after), (409, Some(Duration::from_secs(7))));
    assert_eq!(body.reserved_by.as_deref(), Some("bo"));
}

#[test]
fn an_unexpected_reply_is_described() {
    assert_eq!(garbage(says(answer("200 OK", "<!doctype html>"))), "a web page (status 200)");
    assert_eq!(garbage(says(answer("500 Oh", "\n <html>"))), "a web page (status 500)");
    assert_eq!(garbage(says(answer("502 Bad Gateway", "upstream"))), "a reply that is not JSON (status 502)");
    assert_eq!(garbage(says(answer("200 OK", ""))), "an empty reply (status 200)");
    assert_eq!(garbage(says(answer("200 OK", "{\"status\":"))), "a reply that is not JSON (status 200)");
    assert!(garbage(says(answer("200 OK", "[1]"))).starts_with("unexpected JSON: "));
    assert!(garbage(says(answer("404 Not Found", r#"{"message":"no"}"#))).starts_with("unexpected JSON: "));
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(garbage(says(moved)), "a redirection (status 302) to another address");
    assert_eq!(garbage(says("SSH-2.0-OpenSSH_9.6\r\n")), "something that is not HTTP");
    assert_eq!(garbage(says([0u8, 159, 146, 150])), "something that is not HTTP");
}

#[test]
fn a_reply_that_breaks_off_is_an_error() {
    assert_eq!(
        garbage(says("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"status\":\"ok\"}")),
        "an incomplete reply"
    );
    let error = after(says("HTTP/1.1 200 OK\r\ncontent-le"));
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
}

#[test]
fn a_connection_closed_without_a_reply_is_unreachable() {
    let error = after(says(""));
    assert!(error.to_string().contains("closed the connection without a reply"), "{error}");
    // The unread request makes the operating system reset the connection instead of closing it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1]);
    });
    let error = client(Endpoint::parse(&format!("http://127.0.0.1:{port}")).unwrap()).health().unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
}

#[test]
fn an_endless_reply_is_cut_off() {
    let endless: Act = Box::new(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while stream.write_all(b"8\r\nxxxxxxxx\r\n").is_ok() {}
    });
    let (endpoint, _requests) = stranger(vec![endless]);
    let limits = Limits { answer_bytes: 100_000, total: Duration::from_secs(30), ..Limits::default() };
    let error = Client::new(vec![endpoint], None, limits).unwrap().health().unwrap_err();
    assert!(error.to_string().contains("a reply of more than 100000 bytes"), "{error}");
}

#[test]
fn a_server_that_never_answers_is_left_and_sees_us_leave() {
    let (left, saw_us_leave) = channel();
    let silent: Act = Box::new(move |stream| {
        let _ = left.send(stream.read(&mut [0; 1]).unwrap_or(0));
    });
    let (endpoint, _requests) = stranger(vec![silent]);
    let mut client = Client::new(vec![endpoint], None, quick()).unwrap();
    let error = client.health().unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error:?}");
    assert!(error.to_string().ends_with("did not reply within 0.3 s"), "{error}");
    assert_eq!(saw_us_leave.recv_timeout(Duration::from_secs(30)), Ok(0), "while the client still lives");
    drop(client);
}

#[test]
fn a_listener_that_never_accepts_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = Endpoint::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    let error = Client::new(vec![endpoint], None, quick()).unwrap().health().unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error:?}");
}

#[test]
fn a_waiting_call_may_take_its_waiting_time() {
    let refusal = r#"{"error":"Still held.","code":"LOCK_ACQUISITION_FAILED"}"#;
    let (endpoint, _requests) = stranger(vec![says(answer("409 Conflict", refusal))]);
    let ask = wire::Reserve { file_path: Some("a".to_owned()), wait_seconds: Some(60), ..wire::Reserve::default() };
    // No time at all is left but the wait's own.
    let limits = Limits { total: Duration::ZERO, ..Limits::default() };
    let error = Client::new(vec![endpoint], None, limits).unwrap().reserve("ana", &ask).unwrap_err();
    assert_eq!(error.code(), Some(wire::Code::LockAcquisitionFailed));
}

#[test]
fn an_unreachable_server_is_a_sentence_with_every_address_that_was_tried() {
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let socket = Endpoint::from(Address::Unix(dir.path().join("dibs.sock")));
    let tcp = Endpoint::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    let expected = format!(
        "no server answers at {socket} or {tcp} (no such file or directory; connection refused); is git dibs serve running?"
    );
    let error = Client::new(vec![socket, tcp], None, Limits::default()).unwrap().health().unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_socket_is_tried_first_and_the_port_is_the_second_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dibs.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        request(&mut stream);
        let _ = stream.write_all(answer("200 OK", r#"{"status":"by socket"}"#).as_bytes());
    });
    let (tcp, _requests) = stranger(vec![says(answer("200 OK", r#"{"status":"by port"}"#))]);
    let mut both = Client::new(vec![Address::Unix(path.clone()).into(), tcp], None, Limits::default()).unwrap();
    assert_eq!(&*both.health().unwrap().status, "by socket");
    std::fs::remove_file(path).unwrap();
    assert_eq!(&*both.health().unwrap().status, "by port");
}

#[test]
fn a_socket_whose_queue_is_full_is_unreachable() {
    use std::os::fd::AsRawFd;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dibs.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // SAFETY: the descriptor is the listener's own and open; listening again only changes the length of its queue.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let error = Client::new(vec![Address::Unix(path).into()], None, Limits::default()).unwrap().health().unwrap_err();
    assert!(error.to_string().contains("no connection within 200 ms"), "{error}");
}

#[test]
fn a_kept_connection_is_used_again_and_a_dead_one_is_replaced() {
    let twice: Act = Box::new(|stream| {
        let _ = stream.write_all(answer("200 OK", r#"{"status":"first"}"#).as_bytes());
        assert!(request(stream).is_some());
        let _ = stream.write_all(answer("200 OK", r#"{"status":"second"}"#).as_bytes());
        // Closed from here on, which the client can only find out by using it.
    });
    let (endpoint, _requests) = stranger(vec![twice, says(answer("200 OK", r#"{"status":"third"}"#))]);
    let mut client = client(endpoint);
    for expected in ["first", "second", "third"] {
        assert_eq!(&*client.health().unwrap().status, expected);
    }
}

#[test]
fn pages_are_put_together() {
    let row = |name: &str| {
        format!(
            r#"{{"reservationId":"res_1","filePath":"{name}","sessionId":"ana","mode":"exclusive","reservedAt":"2026-01-01T00:00:00Z","expiresAt":"2026-01-01T00:01:00Z","fence":1}}"#
        )
    };
    let page = |name: &str, more: &str| says(answer("200 OK", &format!(r#"{{"reservations":[{}]{more}}}"#, row(name))));
    let (endpoint, requests) = stranger(vec![page("a", r#","nextCursor":"c&1""#), page("b", "")]);
    let held = ReservationFilter { prefix: Some("src/ä".to_owned()), session: None };
    let all = client(endpoint).reservations(&held).unwrap();
    assert_eq!(all.iter().map(|one| &*one.file_path).collect::<Vec<_>>(), ["a", "b"]);
    assert!(requests.recv().unwrap().starts_with("GET /api/reservations?limit=1000&prefix=src%2F%C3%A4 HTTP"));
    assert!(
        requests.recv().unwrap().starts_with("GET /api/reservations?limit=1000&prefix=src%2F%C3%A4&cursor=c%261 HTTP")
    );
}

#[test]
fn an_address_that_cannot_be_asked_is_a_sentence() {
    let (endpoint, _requests) = stranger(vec![says("")]);
    let error = client(endpoint).get::<wire::Health>("/not an address").unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
}

#[test]
fn the_answer_is_there_as_it_came_with_the_servers_time() {
    let body = r#"{ "status":"ok",  "newer": [1] }"#;
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let whole = format!("HTTP/1.1 200 OK\r\ndate: {date}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (endpoint, _requests) = stranger(vec![says(whole), says("")]);
    let mut client = client(endpoint);
    client.health().unwrap();
    assert_eq!(client.latest_body(), body.as_bytes());
    assert_eq!(client.server_time().unwrap().to_string(), "1994-11-06T08:49:37.000Z");
    client.health().unwrap_err();
    assert_eq!((client.latest_body(), client.server_time()), (&b""[..], None), "an old reply is not kept");
}

#[test]
fn a_refusal_is_there_as_it_came_too() {
    let body = r#"{"error":"No.","code":"FORBIDDEN","moon":"full"}"#;
    let (endpoint, _requests) = stranger(vec![says(answer("403 Forbidden", body))]);
    let mut client = client(endpoint);
    client.health().unwrap_err();
    assert_eq!(client.latest_body(), body.as_bytes());
}

#[test]
fn the_repository_is_named_unless_the_token_does() {
    let list = r#"{"reservations":[]}"#;
    let asked = |token: &str| {
        let (endpoint, requests) = stranger(vec![says(answer("200 OK", list)), says(answer("200 OK", list))]);
        let credential = Credential::new(token, Origin::Environment).unwrap();
        let client = Client::new(vec![endpoint], Some(credential), Limits::default()).unwrap();
        let mut client = client.for_repo(Some("a b".to_owned()));
        client.reservations(&ReservationFilter::default()).unwrap();
        client.reserved_files("ana").unwrap();
        [(); 2].map(|()| requests.recv().unwrap().lines().next().unwrap().to_owned())
    };
    let [all, own] = asked("opaque");
    assert_eq!(all, "GET /api/reservations?limit=1000&repo=a%20b HTTP/1.1");
    assert_eq!(own, "GET /api/sessions/ana/reserved-files?repo=a%20b HTTP/1.1");
    // {"sub":"ana","repo":"app"}
    let [all, _] = asked("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEiLCJyZXBvIjoiYXBwIn0.x");
    assert_eq!(all, "GET /api/reservations?limit=1000 HTTP/1.1");
}
