//! Plain requests of many clients, on one connection to the leader.
//!
//! Each goes as it was received, with the signature of this node. What arrives at about the same time is sent with one write;
//! the leader works on all of it at once and answers in order ([`transport::pipelined`](crate::http::transport::pipelined)).

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::connections::{CONNECT_TIME_MAX, Connections, IDLE_TIME_MAX, NodeStream};
use crate::engine::Text;

/// Where a response has its status.
pub const STATUS_AT: Range<usize> = 9..12;

/// Requests that are sent with one write.
const BATCH_MAX: usize = 256;

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
        let connection = Connection { reader, writer, waiting: VecDeque::new(), output: Vec::new(), input: Vec::new() };
        tokio::select! {
            () = connection.run(&mut requests) => {}
            () = deposed => {}
        }
    }
    // What is still in the channel was not sent.
    requests.close();
    while let Ok(piped) = requests.try_recv() {
        let _ = piped.respond.send(Err(QuickSendError::NotSent));
    }
}

struct Connection {
    reader: ReadHalf<Box<dyn NodeStream>>,
    writer: WriteHalf<Box<dyn NodeStream>>,
    /// Who gets the next responses, in the order of the requests.
    waiting: VecDeque<oneshot::Sender<Response>>,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    async fn run(mut self, requests: &mut mpsc::UnboundedReceiver<Piped>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            tokio::select! {
                biased;
                read = self.reader.read_buf(&mut self.input) => {
                    if !read.is_ok_and(|bytes| bytes > 0) || !self.respond() {
                        return;
                    }
                }
                written = self.writer.write(&self.output), if !self.output.is_empty() => match written {
                    Ok(bytes) if bytes > 0 => drop(self.output.drain(..bytes)),
                    _ => return,
                },
                count = requests.recv_many(&mut batch, BATCH_MAX), if self.output.is_empty() => {
                    if count == 0 {
                        return;
                    }
                    // The other clients whose requests have arrived go first, so that theirs are sent with this one.
                    tokio::task::yield_now().await;
                    while batch.len() < BATCH_MAX && let Ok(piped) = requests.try_recv() {
                        batch.push(piped);
                    }
                    for Piped { request, respond } in batch.drain(..) {
                        self.output.extend_from_slice(&request);
                        self.waiting.push_back(respond);
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
                    let Some(respond) = self.waiting.pop_front() else { return false };
                    let _ = respond.send(Ok(self.input[passed..passed + length].to_vec()));
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

/// The request with one more header, after its first line.
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

    /// A leader that answers each request with its path.
    async fn echo(stream: &mut tokio::io::DuplexStream, count: usize) {
        let mut input = Vec::new();
        for _ in 0..count {
            while !input.windows(4).any(|end| end == b"\r\n\r\n") {
                assert!(stream.read_buf(&mut input).await.unwrap() > 0);
            }
            let end = input.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            let path = std::str::from_utf8(&input[..end]).unwrap().split(' ').nth(1).unwrap().to_owned();
            input.drain(..end);
            let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn every_client_gets_its_own_response_and_a_cut_leaves_the_outcome_unknown() {
        let (near, mut far) = tokio::io::duplex(64);
        let (reader, writer) = tokio::io::split(Box::new(near) as Box<dyn NodeStream>);
        let connection = Connection { reader, writer, waiting: VecDeque::new(), output: Vec::new(), input: Vec::new() };
        let (requests, mut receiver) = mpsc::unbounded_channel();
        let sending = tokio::spawn(async move { connection.run(&mut receiver).await });
        let send = |path: String| {
            let (respond, response) = oneshot::channel();
            let request = format!("POST {path} HTTP/1.1\r\n\r\n").into_bytes();
            assert!(requests.send(Piped { request, respond }).is_ok());
            response
        };
        let responses: Vec<_> = (0..50).map(|n| send(format!("/{n}"))).collect();
        echo(&mut far, 50).await;
        for (n, response) in responses.into_iter().enumerate() {
            let response = String::from_utf8(response.await.unwrap().unwrap()).unwrap();
            assert!(response.ends_with(&format!("\r\n/{n}")), "{response}");
        }
        let cut = send("/cut".to_owned());
        echo(&mut far, 0).await;
        drop(far);
        sending.await.unwrap();
        assert!(cut.await.is_err());
    }
}
