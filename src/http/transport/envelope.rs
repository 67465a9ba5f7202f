//! Refusals of requests that cannot be parsed, in the envelope of the contract.
//!
//! hyper replies to such a request by itself, with a bare status, before any handler sees it. That reply is recognized
//! where it is written, and replaced. It is the last one on its connection, it is written as one piece, and no reply of the
//! handlers looks like it: those have a body, and an error has a `content-type` first.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::progress::RequestProgress;
use crate::http::ids::new_id;
use crate::wire::{Code, ErrorBody};

/// What hyper's own replies begin with, and the refusal that each stands for.
const BARE: &[(&[u8], Code, &str)] = &[
    (
        b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n",
        Code::InvalidRequest,
        "the request is not valid HTTP/1.1; check its first line and its headers",
    ),
    (
        b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n",
        Code::UriTooLong,
        "the URL is too long; send long lists in the body of a POST",
    ),
    (
        b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n",
        Code::HeadersTooLarge,
        "the head of the request is too large; send fewer and shorter headers",
    ),
];

/// A stream that replaces hyper's bare refusals.
pub struct Envelope<S> {
    stream: S,
    progress: RequestProgress,
    /// The rest of the refusal that is being written instead.
    refusal: Option<Vec<u8>>,
}

impl<S> Envelope<S> {
    pub fn new(stream: S, progress: RequestProgress) -> Self {
        Self { stream, progress, refusal: None }
    }

    /// Whether these are the bytes of a bare refusal. Begins to replace it then.
    fn is_replaced(&mut self, bytes: &[u8]) -> bool {
        // Every reply is written through here, and nearly all of them end with this comparison.
        if !bytes.starts_with(b"HTTP/1.1 4") || !self.progress.is_between_requests() {
            return false;
        }
        if self.refusal.is_none()
            && let Some((_, code, sentence)) = BARE.iter().find(|(head, ..)| bytes.starts_with(head))
        {
            self.refusal = Some(refusal(*code, sentence));
            // The rest of a request that cannot be parsed is not read.
            self.progress.note_still_sent();
        }
        self.refusal.is_some()
    }
}

/// The whole reply of a refusal.
fn refusal(code: Code, sentence: &str) -> Vec<u8> {
    let body = serde_json::to_string(&ErrorBody::new(code, sentence)).expect("an error body is plain data");
    let status = http::StatusCode::from_u16(code.status()).expect("codes have valid statuses");
    format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\
         x-request-id: {}\r\n\r\n{body}",
        status.as_str(),
        status.canonical_reason().unwrap_or_default(),
        body.len(),
        new_id().simple(),
    )
    .into_bytes()
}

impl<S: AsyncWrite + Unpin> Envelope<S> {
    /// Ready when the refusal is written. `bare` is the length of what it replaces.
    fn poll_refusal(&mut self, context: &mut Context<'_>, bare: usize) -> Poll<io::Result<usize>> {
        while let Some(rest) = self.refusal.as_mut().filter(|rest| !rest.is_empty()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            rest.drain(..written);
        }
        Poll::Ready(Ok(bare))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Envelope<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Envelope<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_replaced(bytes) {
            return self.poll_refusal(context, bytes.len());
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [bytes] = slices
            && self.is_replaced(bytes)
        {
            return self.poll_refusal(context, bytes.len());
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
