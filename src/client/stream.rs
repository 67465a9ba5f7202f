//! Follows the events of a server: a call whose reply does not end.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, header};
use tokio::time::timeout;

use super::exchange::ClientConnection;
use super::{Client, ClientError};

/// The longest line of a stream, in bytes. An event is one line.
const LINE_BYTES_MAX: usize = 16 << 20;

/// A stream on which nothing arrives for this time is lost. The server sends a comment every 15 s unless it is configured
/// otherwise.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// What a follower hears.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Connected. Everything after the given position follows.
    Connected,
    /// An event with its name and its data, which is JSON.
    Event { name: String, data: String },
    /// Everything up to this record was heard. To continue after it, follow from here.
    Position(u64),
    /// Nothing arrived for the time that the follower gave.
    Quiet,
}

impl Client {
    /// Follows the events after a record, or from now on. Returns when `hear` breaks; that the stream has ended is an error.
    /// While nothing arrives, `hear` is called after each `pause`.
    pub fn follow(
        &mut self,
        after: Option<u64>,
        pause: Duration,
        mut hear: impl FnMut(Heard) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let (connection, mut body) = self.or_started(|client| client.begin_stream(after))?;
        if hear(Heard::Connected).is_break() {
            return Ok(());
        }
        let endpoint = self.endpoints[connection.endpoint].to_string();
        let ended = |why: &str| ClientError::Unreachable { at: endpoint.clone(), why: why.to_owned() };
        let mut lines = EventLines::default();
        let mut last = Instant::now();
        loop {
            // `hear` runs between the pieces, outside of the runtime, so that it can make calls with another client.
            match self.block_on(async |_| timeout(pause, body.frame()).await) {
                Err(_) if last.elapsed() > SILENCE_MAX => return Err(ended("nothing arrives any more")),
                Err(_) => {
                    if hear(Heard::Quiet).is_break() {
                        return Ok(());
                    }
                }
                Ok(Some(Ok(frame))) => {
                    last = Instant::now();
                    lines.bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                    while let Some(heard) = lines.next() {
                        if hear(heard).is_break() {
                            return Ok(());
                        }
                    }
                    if lines.bytes.len() > LINE_BYTES_MAX {
                        let what = format!("an event of more than {LINE_BYTES_MAX} bytes");
                        return Err(ClientError::Garbage { at: endpoint, what });
                    }
                }
                Ok(Some(Err(_))) => return Err(ended("the connection broke")),
                Ok(None) => return Err(ended("the stream ended")),
            }
        }
    }

    /// Sends the request and waits until the reply begins. The connection is open as long as it is not dropped.
    fn begin_stream(&mut self, after: Option<u64>) -> Result<(ClientConnection, Incoming), ClientError> {
        let limit = self.limits().total;
        let late = ClientError::TimedOut { at: self.at(), limit };
        let begun = self.block_on(async move |client| {
            let begin = async {
                let mut connection = client.connect().await?;
                client.first = connection.endpoint;
                let endpoint = &client.endpoints[connection.endpoint];
                let lost = |why: &dyn std::fmt::Display| ClientError::Unreachable {
                    at: endpoint.to_string(),
                    why: why.to_string(),
                };
                let mut request = client
                    .request(endpoint, &Method::GET, "/api/events", None)
                    .map_err(|error| lost(&format!("not an address: {error}")))?;
                let headers = request.headers_mut();
                headers.insert(header::ACCEPT, header::HeaderValue::from_static("text/event-stream"));
                if let Some(after) = after {
                    headers.insert("last-event-id", after.into());
                }
                connection.sender.ready().await.map_err(|error| lost(&error))?;
                let response = connection.sender.send_request(request).await.map_err(|error| lost(&error))?;
                if !response.status().is_success() {
                    return Err(client.refusal(response).await);
                }
                Ok((connection, response.into_body()))
            };
            timeout(limit, begin).await.unwrap_or(Err(late))
        });
        if begun.is_err() {
            self.leave_node();
        }
        begun
    }
}

/// Splits what arrives into events.
#[derive(Default)]
struct EventLines {
    bytes: Vec<u8>,
    id: Option<u64>,
    name: String,
    data: String,
    /// Heard with the event before it.
    position: Option<u64>,
}

impl EventLines {
    /// The next event of which every line has arrived.
    fn next(&mut self) -> Option<Heard> {
        if let Some(id) = self.position.take() {
            return Some(Heard::Position(id));
        }
        loop {
            let end = self.bytes.iter().position(|&b| b == b'\n')?;
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let (id, name, data) = (self.id.take(), std::mem::take(&mut self.name), std::mem::take(&mut self.data));
                match (id, data.is_empty()) {
                    (id, false) => {
                        self.position = id;
                        return Some(Heard::Event { name, data });
                    }
                    (Some(id), true) => return Some(Heard::Position(id)),
                    (None, true) => continue,
                }
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => self.id = value.parse().ok(),
                "event" => self.name = value.to_owned(),
                "data" => self.data.push_str(value),
                // A comment, or a field that only newer servers send.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text =
            ": git-dibs\nid: 4\n\nid: 5\nevent: reserved\ndata: {\"a\": 1}\n\n:\n\nevent: notices\ndata:{}\r\n\r\n";
        let expected = [
            Heard::Position(4),
            Heard::Event { name: "reserved".to_owned(), data: "{\"a\": 1}".to_owned() },
            Heard::Position(5),
            Heard::Event { name: "notices".to_owned(), data: "{}".to_owned() },
        ];
        for size in 1..text.len() {
            let (mut lines, mut heard) = (EventLines::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                lines.bytes.extend_from_slice(piece);
                while let Some(one) = lines.next() {
                    heard.push(one);
                }
            }
            assert_eq!(heard, expected, "pieces of {size} bytes");
        }
    }
}
