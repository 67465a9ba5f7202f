//! The text of a long reply: written as it is found out, kept in pieces, and dropped piece by piece as it is sent.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

/// The size of a piece. A reply that fits into one piece is sent as it is.
const PIECE_BYTES: usize = 256 * 1024;

/// JSON text in pieces.
#[derive(Default)]
pub struct ReplyText {
    complete: VecDeque<Bytes>,
    last: Vec<u8>,
}

impl ReplyText {
    pub fn push_str(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    pub fn push_json(&mut self, value: &impl Serialize) {
        serde_json::to_writer(self, value).expect("replies are plain data");
    }

    pub fn append(&mut self, mut more: ReplyText) {
        if more.complete.is_empty() {
            return self.push_bytes(&more.last);
        }
        self.end_piece();
        self.complete.append(&mut more.complete);
        self.last = more.last;
    }

    /// As the body of a JSON reply.
    pub fn into_response(mut self) -> Response {
        let json = [(CONTENT_TYPE, "application/json")];
        if self.complete.is_empty() {
            return (json, self.last).into_response();
        }
        self.end_piece();
        let bytes_left = self.complete.iter().map(|piece| piece.len() as u64).sum();
        (json, Body::new(PiecesBody { pieces: self.complete, bytes_left })).into_response()
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        if self.last.len() >= PIECE_BYTES {
            self.end_piece();
        }
    }

    fn end_piece(&mut self) {
        if !self.last.is_empty() {
            self.complete.push_back(std::mem::take(&mut self.last).into());
        }
    }
}

impl io::Write for ReplyText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push_bytes(bytes);
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.push_bytes(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A list in JSON, without its brackets.
#[derive(Default)]
pub struct ListText {
    text: ReplyText,
    pub is_empty: bool,
}

impl ListText {
    pub fn new() -> Self {
        ListText { text: ReplyText::default(), is_empty: true }
    }

    pub fn push(&mut self, entry: &impl Serialize) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.text.push_str(",");
        }
        self.text.push_json(entry);
    }

    /// Adds the list to a text, as a field of this name.
    pub fn write_to(self, text: &mut ReplyText, before: &str) {
        text.push_str(before);
        text.append(self.text);
        text.push_str("]");
    }
}

/// A body of known length.
struct PiecesBody {
    pieces: VecDeque<Bytes>,
    bytes_left: u64,
}

impl hyper::body::Body for PiecesBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = self.pieces.pop_front();
        self.bytes_left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_reply_in_pieces_is_the_same_text() {
        for count in [0, 1, 3, 200_000] {
            let (mut numbers, mut words) = (ListText::new(), ListText::new());
            for n in 0..count {
                numbers.push(&n);
                words.push(&format!("\"{n}"));
            }
            let mut text = ReplyText::default();
            numbers.write_to(&mut text, "{\"numbers\":[");
            words.write_to(&mut text, ",\"words\":[");
            text.push_str("}");
            let body = text.into_response().into_body();
            let length = hyper::body::Body::size_hint(&body).exact().unwrap();
            let bytes = body.collect().await.unwrap().to_bytes();
            assert_eq!(bytes.len() as u64, length);
            let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(read["numbers"].as_array().unwrap().len(), count);
            assert_eq!(read["words"].as_array().unwrap().last().is_some(), count > 0);
        }
    }
}
