//! The connection of another node, which sends many plain requests without waiting for the replies.
//!
//! The node works on all of them at once and answers in their order, with one write for the replies that are ready together.
//! Nothing that waits in a queue comes this way: the requests behind it would wait, too.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client_watch::ClientSocket;
use super::progress::RequestProgress;
use crate::http::quick::{FirstCall, QuickCall, QuickCalls, QuickEnd, QuickReply};

/// How much is read at once, and how many bytes of requests that were not begun are kept.
const READ_BYTES: usize = 16 * 1024;
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// The most requests that are worked on at once. More are left unread.
const CALLS_MAX: usize = 1024;

/// The connection while its requests are plain.
pub struct Pipelined {
    client: ClientSocket,
    progress: RequestProgress,
    /// What was read and not begun.
    input: Vec<u8>,
    /// The input begins with something else than a plain request, or the other node has closed.
    is_over: bool,
    calls: VecDeque<Pin<Box<dyn Future<Output = QuickEnd> + Send>>>,
    /// Replies to be written. Their permits are kept until then.
    output: Vec<u8>,
    written: usize,
    replies: Vec<QuickReply>,
}

impl Pipelined {
    /// `input` is what was read so far.
    pub fn new(client: ClientSocket, progress: RequestProgress, input: Vec<u8>) -> Self {
        let (calls, replies) = (VecDeque::new(), Vec::new());
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
            self.begin_calls(quick, context);
            if self.take_replies(context).is_err() {
                return Poll::Ready(None);
            }
            let written = self.poll_write(stream, context);
            match written {
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(())) if self.is_over && self.calls.is_empty() => {
                    let input = std::mem::take(&mut self.input);
                    return Poll::Ready((!input.is_empty()).then_some(input));
                }
                _ => {}
            }
            if self.is_over || self.calls.len() >= CALLS_MAX || self.input.len() >= INPUT_BYTES_MAX {
                return Poll::Pending;
            }
            ready!(self.poll_read(stream, context));
        }
    }

    /// Begins the calls of all complete requests.
    fn begin_calls(&mut self, quick: &QuickCalls, context: &mut Context<'_>) {
        let mut begun = 0;
        while self.calls.len() < CALLS_MAX {
            match quick.begin_first(&self.input[begun..]) {
                FirstCall::Call(call, length) => {
                    begun += length;
                    self.begin(call, context);
                }
                FirstCall::Incomplete if self.input.len() - begun < INPUT_BYTES_MAX => break,
                FirstCall::Incomplete | FirstCall::Other => {
                    self.is_over = true;
                    break;
                }
            }
        }
        self.input.drain(..begun);
    }

    fn begin(&mut self, call: QuickCall, context: &mut Context<'_>) {
        if self.calls.is_empty() {
            self.progress.begin();
        }
        let mut call = Box::pin(self.client.serve(call));
        // The first poll submits the command.
        let call: Pin<Box<dyn Future<Output = QuickEnd> + Send>> = match call.as_mut().poll(context) {
            Poll::Ready(end) => Box::pin(std::future::ready(end)),
            Poll::Pending => call,
        };
        self.calls.push_back(call);
    }

    /// Takes the replies that are ready, in order. An error means that the connection is to be closed.
    fn take_replies(&mut self, context: &mut Context<'_>) -> Result<(), ()> {
        while let Some(call) = self.calls.front_mut() {
            let Poll::Ready(end) = call.as_mut().poll(context) else { break };
            self.calls.pop_front();
            match end {
                QuickEnd::Reply(reply) => {
                    self.output.extend_from_slice(&reply.bytes);
                    self.replies.push(reply);
                }
                // A request of another node is not sent on.
                QuickEnd::Close | QuickEnd::HandOver(_) => return Err(()),
            }
            if self.calls.is_empty() {
                self.progress.end();
            }
        }
        Ok(())
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
