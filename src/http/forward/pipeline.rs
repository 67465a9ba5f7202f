//! Plain requests of many clients, on one connection to the leader.
//!
//! Each goes as it was received, with the signature of this node and a tag. What arrives at about the same time is sent with one
//! write; the leader works on all of it at once, and the tag of a response says whose it is
//! ([`transport::pipelined`](crate::http::transport::pipelined)).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::connections::{CONNECT_TIME_MAX, Connections, IDLE_TIME_MAX, NodeStream};
use crate::engine::Text;

/// The header that a leader returns.
pub const TAG: &str = "dibs-tag";

/// Where a response has its status.
pub const STATUS_AT: Range<usize> = 9..12;

/// Requests that are sent with one write.
const BATCH_MAX: usize = 256;

/// How many bytes of responses are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The longest response that is expected of a plain request. A leader that sends more is not understood.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuickSendError {
    /// The leader did not get the request.
    NotSent,
    /// The leader may have carried out the request.
    Unknown,
}

/// The pipelines of a node.
#[derive(Default)]
pub struct Pipelines(Mutex<HashMap<Text, Pipeline>>);

struct Pipeline {
    /// Of the leader that it leads to.
    epoch: i64,
    requests: Requests,
}

type Requests = mpsc::UnboundedSender<Piped>;

/// A request on its way. If the sender for its response is dropped, the outcome is not known. There are as many as clients that
/// wait for a response.
pub struct Piped {
    request: Vec<u8>,
    respond: oneshot::Sender<Response>,
}

/// All bytes of a response.
type Response = Result<Vec<u8>, QuickSendError>;

/// A response that is to come.
pub struct PendingResponse(oneshot::Receiver<Response>);

impl PendingResponse {
    pub async fn wait(self) -> Response {
        self.0.await.unwrap_or(Err(QuickSendError::Unknown))
    }
}

impl Pipelines {
    /// Sends a request to the leader of a repository. `start` starts [`run`] where there is no connection to this leader.
    pub fn send(
        &self,
        repository: &Text,
        epoch: i64,
        request: Vec<u8>,
        start: impl FnOnce(mpsc::UnboundedReceiver<Piped>),
    ) -> PendingResponse {
        let (respond, response) = oneshot::channel();
        if let Err(unsent) = self.requests(repository, epoch, start).send(Piped { request, respond }) {
            let _ = unsent.0.respond.send(Err(QuickSendError::NotSent));
        }
        PendingResponse(response)
    }

    fn requests(&self, repository: &Text, epoch: i64, start: impl FnOnce(mpsc::UnboundedReceiver<Piped>)) -> Requests {
        let mut pipelines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = pipelines.get(repository)
            && pipeline.epoch == epoch
            && !pipeline.requests.is_closed()
        {
            return pipeline.requests.clone();
        }
        let (requests, receiver) = mpsc::unbounded_channel();
        start(receiver);
        pipelines.insert(repository.clone(), Pipeline { epoch, requests: requests.clone() });
        requests
    }
}

/// Connects to the node at `url` and sends what comes, until the connection ends, is idle for long, or the node is `deposed`.
pub async fn run(
    connections: Arc<Connections>,
    url: Text,
    mut requests: mpsc::UnboundedReceiver<Piped>,
    deposed: impl Future<Output = ()>,
) {
    if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_TIME_MAX, connections.open(&url)).await {
        let (reader, writer) = tokio::io::split(stream);
        let connection = Connection::new(reader, writer);
        tokio::select! {
            () = connection.run(&mut requests) => {}
            () = deposed => {}
        }
    }
    refuse_unsent(&mut requests);
}

/// Takes no more requests. Those that are still in the channel were not sent.
fn refuse_unsent(requests: &mut mpsc::UnboundedReceiver<Piped>) {
    requests.close();
    while let Ok(Piped { respond, .. }) = requests.try_recv() {
        let _ = respond.send(Err(QuickSendError::NotSent));
    }
}

struct Connection {
    reader: ReadHalf<Box<dyn NodeStream>>,
    writer: WriteHalf<Box<dyn NodeStream>>,
    /// Who gets the responses, by the tags of the requests.
    waiting: BTreeMap<u64, oneshot::Sender<Response>>,
    next_tag: u64,
    output: Vec<u8>,
    /// Something was written that may still be in a buffer.
    must_flush: bool,
    input: Vec<u8>,
    /// The leader answers one request after the other from now on, because one was not plain for it.
    is_serial: bool,
}

impl Connection {
    fn new(reader: ReadHalf<Box<dyn NodeStream>>, writer: WriteHalf<Box<dyn NodeStream>>) -> Self {
        let (waiting, output, input) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { reader, writer, waiting, next_tag: 0, output, must_flush: false, input, is_serial: false }
    }

    async fn run(mut self, requests: &mut mpsc::UnboundedReceiver<Piped>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            // The next requests go to a new connection.
            if self.is_serial && self.output.is_empty() {
                refuse_unsent(requests);
                if self.waiting.is_empty() {
                    return;
                }
            }
            self.input.reserve(READ_BYTES);
            tokio::select! {
                biased;
                read = self.reader.read_buf(&mut self.input) => {
                    if !read.is_ok_and(|bytes| bytes > 0) || !self.respond() {
                        return;
                    }
                }
                written = write(&mut self.writer, &self.output), if self.must_flush || !self.output.is_empty() => {
                    match written {
                        Ok(0) if self.output.is_empty() => self.must_flush = false,
                        Ok(bytes) if bytes > 0 => {
                            self.output.drain(..bytes);
                            self.must_flush = true;
                        }
                        _ => return,
                    }
                }
                count = requests.recv_many(&mut batch, BATCH_MAX), if self.output.is_empty() && !self.is_serial => {
                    if count == 0 {
                        return;
                    }
                    // The other clients whose requests have arrived go first, so that theirs are sent with this one.
                    tokio::task::yield_now().await;
                    while batch.len() < BATCH_MAX && let Ok(piped) = requests.try_recv() {
                        batch.push(piped);
                    }
                    for Piped { request, respond } in batch.drain(..) {
                        self.output.extend_from_slice(&with_header(&request, TAG, &self.next_tag.to_string()));
                        self.waiting.insert(self.next_tag, respond);
                        self.next_tag += 1;
                    }
                }
                () = tokio::time::sleep(IDLE_TIME_MAX), if self.waiting.is_empty() => return,
            }
        }
    }

    /// Passes complete responses on. False if the leader sent something else.
    fn respond(&mut self) -> bool {
        let mut passed = 0;
        loop {
            match response_length(&self.input[passed..]) {
                Ok(Some(length)) => {
                    let (tag, response) = take_tag(&self.input[passed..passed + length]);
                    let respond = match tag {
                        Some(tag) => self.waiting.remove(&tag),
                        // The leader answers the rest in order, each without a tag.
                        None => {
                            self.is_serial = true;
                            self.waiting.pop_first().map(|(_, respond)| respond)
                        }
                    };
                    let Some(respond) = respond else { return false };
                    let _ = respond.send(Ok(response));
                    passed += length;
                }
                Ok(None) => break,
                Err(()) => return false,
            }
        }
        self.input.drain(..passed);
        self.input.len() <= RESPONSE_BYTES_MAX
    }
}

/// Writes some of the bytes and returns how many. Without any, it flushes what was written.
async fn write(writer: &mut WriteHalf<Box<dyn NodeStream>>, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() { writer.flush().await.map(|()| 0) } else { writer.write(bytes).await }
}

/// The length of the response that the bytes begin with; none while it is incomplete. An error if it has no length.
fn response_length(bytes: &[u8]) -> Result<Option<usize>, ()> {
    const HEAD_END: &[u8] = b"\r\n\r\n";
    let Some(head) = bytes.windows(HEAD_END.len()).position(|end| end == HEAD_END) else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..head]).map_err(drop)?;
    let mut lines = text.split("\r\n");
    if !lines.next().is_some_and(|line| line.starts_with("HTTP/1.1 ") && line.len() >= STATUS_AT.end) {
        return Err(());
    }
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.filter(|length| *length <= RESPONSE_BYTES_MAX).ok_or(())?;
    let end = head + HEAD_END.len() + length;
    Ok((end <= bytes.len()).then_some(end))
}

/// The tag of a response, and the response without it. The tag is its first header.
fn take_tag(response: &[u8]) -> (Option<u64>, Vec<u8>) {
    let tagged = response.iter().position(|byte| *byte == b'\n').and_then(|end| {
        let (line, rest) = response.split_at(end + 1);
        let value = rest.strip_prefix(TAG.as_bytes())?.strip_prefix(b": ")?;
        let end = value.iter().position(|byte| *byte == b'\r')?;
        let tag = std::str::from_utf8(&value[..end]).ok()?.parse().ok()?;
        Some((tag, [line, value.get(end + 2..)?].concat()))
    });
    tagged.map_or_else(|| (None, response.to_vec()), |(tag, response)| (Some(tag), response))
}

/// The message with one more header, after its first line.
pub fn with_header(request: &[u8], name: &str, value: &str) -> Vec<u8> {
    let line = request.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut bytes = Vec::with_capacity(request.len() + name.len() + value.len() + 4);
    bytes.extend_from_slice(&request[..line]);
    for text in [name, ": ", value, "\r\n"] {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&request[line..]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    #[test]
    fn responses_are_told_apart_by_their_length() {
        for end in 0..RESPONSE.len() {
            assert_eq!(response_length(&RESPONSE[..end]), Ok(None));
        }
        assert_eq!(response_length(&RESPONSE.repeat(2)), Ok(Some(RESPONSE.len())));
        for bad in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "hello\r\n\r\n"] {
            assert_eq!(response_length(bad.as_bytes()), Err(()), "{bad:?}");
        }
    }

    #[test]
    fn a_header_is_added_after_the_first_line() {
        let request = with_header(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n{}", "x", "1");
        assert_eq!(request, b"POST / HTTP/1.1\r\nx: 1\r\nHost: a\r\n\r\n{}");
    }

    #[test]
    fn a_tag_is_taken_out_again() {
        let tagged = with_header(RESPONSE, TAG, "17");
        assert_eq!(take_tag(&tagged), (Some(17), RESPONSE.to_vec()));
        assert_eq!(take_tag(RESPONSE), (None, RESPONSE.to_vec()));
    }

    /// A leader that answers requests with their paths: with tags and the last one first, or without and in order.
    async fn answer(stream: &mut tokio::io::DuplexStream, count: usize, has_tags: bool) {
        let (mut input, mut responses) = (Vec::new(), Vec::new());
        for _ in 0..count {
            while !input.windows(4).any(|end| end == b"\r\n\r\n") {
                assert!(stream.read_buf(&mut input).await.unwrap() > 0);
            }
            let end = input.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            let head = String::from_utf8(input.drain(..end).collect()).unwrap();
            let (path, tag) = (head.split(' ').nth(1).unwrap(), head.split("dibs-tag: ").nth(1).unwrap().trim());
            let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len()).into_bytes();
            responses.push(if has_tags { with_header(&response, TAG, tag) } else { response });
        }
        if has_tags {
            responses.reverse();
        }
        stream.write_all(&responses.concat()).await.unwrap();
    }

    #[tokio::test]
    async fn every_client_gets_its_own_response_and_a_cut_leaves_the_outcome_unknown() {
        let (near, mut far) = tokio::io::duplex(64);
        let (reader, writer) = tokio::io::split(Box::new(near) as Box<dyn NodeStream>);
        let connection = Connection::new(reader, writer);
        let (requests, mut receiver) = mpsc::unbounded_channel();
        let sending = tokio::spawn(async move { connection.run(&mut receiver).await });
        let send = |path: String| {
            let (respond, response) = oneshot::channel();
            let request = format!("POST {path} HTTP/1.1\r\n\r\n").into_bytes();
            assert!(requests.send(Piped { request, respond }).is_ok());
            response
        };
        let responses: Vec<_> = (0..50).map(|n| send(format!("/{n}"))).collect();
        answer(&mut far, 50, true).await;
        for (n, response) in responses.into_iter().enumerate() {
            let response = String::from_utf8(response.await.unwrap().unwrap()).unwrap();
            assert!(response.ends_with(&format!("\r\n/{n}")) && !response.contains(TAG), "{response}");
        }
        let cut = send("/cut".to_owned());
        drop(far);
        sending.await.unwrap();
        assert!(cut.await.is_err());
    }

    /// One request that the leader does not take for a plain one made all clients of a follower wait for each other.
    #[tokio::test]
    async fn a_leader_that_answers_in_order_gets_no_more_requests_on_this_connection() {
        let (near, mut far) = tokio::io::duplex(64);
        let (reader, writer) = tokio::io::split(Box::new(near) as Box<dyn NodeStream>);
        let connection = Connection::new(reader, writer);
        let (requests, mut receiver) = mpsc::unbounded_channel();
        let sending = tokio::spawn(async move { connection.run(&mut receiver).await });
        let mut responses = Vec::new();
        for n in 0..5 {
            let (respond, response) = oneshot::channel();
            assert!(
                requests.send(Piped { request: format!("POST /{n} HTTP/1.1\r\n\r\n").into_bytes(), respond }).is_ok()
            );
            responses.push(response);
        }
        answer(&mut far, 5, false).await;
        for (n, response) in responses.into_iter().enumerate() {
            assert!(response.await.unwrap().unwrap().ends_with(format!("\r\n/{n}").as_bytes()));
        }
        sending.await.unwrap();
        assert!(requests.is_closed());
    }
}
