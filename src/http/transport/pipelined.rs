//! The connection of another node, which sends many plain requests without waiting for the replies.
//!
//! The requests are worked on at once. A reply has the tag of its request and is sent as soon as it is ready, so no request waits
//! behind another one. Replies that are ready together are sent with one write.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client_watch::ClientSocket;
use super::progress::RequestProgress;
use crate::http::forward::{TAG, with_header};
use crate::http::quick::{FirstCall, QuickCalls, QuickEnd, QuickReply};

/// How much is read at once, and how many bytes of requests that were not begun are kept.
const READ_BYTES: usize = 16 * 1024;
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// The most requests that are worked on at once; the others are left unread. A node has one for each of its connections.
const CALLS_MAX: usize = 16 * 1024;

/// When so many bytes of replies are not written yet, no more of them are taken, and nothing is read.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// How a call of another node ends, and the tag of its request.
type TaggedCall = Pin<Box<dyn Future<Output = (QuickEnd, String)> + Send>>;

/// The connection while its requests are plain.
pub struct Pipelined {
    client: ClientSocket,
    progress: RequestProgress,
    /// What was read and not begun.
    input: Vec<u8>,
    /// The input begins with something else than a plain request, or the other node has closed.
    is_over: bool,
    calls: FuturesUnordered<TaggedCall>,
    /// Replies to be written. Their permits are kept until then.
    output: Vec<u8>,
    written: usize,
    replies: Vec<QuickReply>,
}

impl Pipelined {
    /// `input` is what was read so far.
    pub fn new(client: ClientSocket, progress: RequestProgress, input: Vec<u8>) -> Self {
        let (calls, replies) = (FuturesUnordered::new(), Vec::new());
        Self { client, progress, input, is_over: false, calls, output: Vec::new(), written: 0, replies }
    }

    /// Ready when all requests so far are answered and something else comes, which is returned; none if the connection is over.
    pub fn poll_serve<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        quick: &QuickCalls,
        context: &mut Context<'_>,
    ) -> Poll<Option<Vec<u8>>> {
        loop {
            let is_full = self.begin_calls(quick);
            let Ok(is_long) = self.take_replies(context) else { return Poll::Ready(None) };
            match self.poll_write(stream, context) {
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                // What was left because of a limit wakes no one again, so it has its turn now.
                Poll::Ready(Ok(())) if is_long || (is_full && self.calls.len() < CALLS_MAX) => continue,
                Poll::Ready(Ok(())) if self.is_over && self.calls.is_empty() => {
                    let input = std::mem::take(&mut self.input);
                    return Poll::Ready((!input.is_empty()).then_some(input));
                }
                Poll::Pending if is_long => return Poll::Pending,
                _ => {}
            }
            if self.is_over || is_full {
                return Poll::Pending;
            }
            ready!(self.poll_read(stream, context));
        }
    }

    /// Reads no more. What was begun is answered.
    pub fn stop(&mut self) {
        self.is_over = true;
        self.input.clear();
    }

    /// Begins the calls of all complete requests. Returns whether some may be left because there are too many.
    fn begin_calls(&mut self, quick: &QuickCalls) -> bool {
        let mut begun = 0;
        while !self.is_over && self.calls.len() < CALLS_MAX {
            match quick.begin_first(&self.input[begun..]) {
                FirstCall::Call { call, tag, length } => {
                    begun += length;
                    if self.calls.is_empty() {
                        self.progress.begin();
                    }
                    let call = self.client.serve(call);
                    self.calls.push(Box::pin(async move { (call.await, tag) }));
                }
                FirstCall::Incomplete if self.input.len() - begun < INPUT_BYTES_MAX => break,
                FirstCall::Incomplete | FirstCall::Other => self.is_over = true,
            }
        }
        self.input.drain(..begun);
        self.calls.len() >= CALLS_MAX
    }

    /// Takes the replies that are ready. Returns whether some may be left because there are too many bytes to be written. An
    /// error means that the connection is to be closed.
    fn take_replies(&mut self, context: &mut Context<'_>) -> Result<bool, ()> {
        while self.output.len() < OUTPUT_BYTES_MAX {
            let Poll::Ready(Some((end, tag))) = self.calls.poll_next_unpin(context) else { return Ok(false) };
            match end {
                QuickEnd::Reply(reply) => {
                    self.output.extend_from_slice(&with_header(&reply.bytes, TAG, &tag));
                    self.replies.push(reply);
                }
                // A request of another node is not sent on.
                QuickEnd::Close | QuickEnd::HandOver(_) => return Err(()),
            }
            if self.calls.is_empty() {
                self.progress.end();
            }
        }
        Ok(true)
    }

    fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        while self.written < self.output.len() {
            match ready!(Pin::new(&mut *stream).poll_write(context, &self.output[self.written..])) {
                Ok(0) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Ok(count) => self.written += count,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.output.clear();
        self.written = 0;
        self.replies.clear();
        Pin::new(stream).poll_flush(context)
    }

    /// Ready when there is more input, or its end.
    fn poll_read<S: AsyncRead + Unpin>(&mut self, stream: &mut S, context: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut bytes);
        let read = ready!(Pin::new(stream).poll_read(context, &mut buffer));
        if read.is_err() || buffer.filled().is_empty() {
            self.is_over = true;
            self.input.clear();
        }
        self.input.extend_from_slice(buffer.filled());
        Poll::Ready(())
    }
}
