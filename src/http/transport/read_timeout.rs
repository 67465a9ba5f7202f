//! A connection that only keeps a place is given up: one that trickles the head of a request, byte by byte, and one
//! on which nothing happens.
//!
//! hyper has one time-out for both. A client must not need longer than seconds for a head it has begun with, while
//! between two requests it may well rest a minute.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How many requests were begun and answered on a connection, as the service knows and the stream needs to.
#[derive(Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// The head of a request was read.
    pub fn begin(&self) {
        // One that was never answered, or whose answer is a stream, is over with the next one.
        let steps = self.steps();
        self.0.store(steps + 1 + steps % 2, Ordering::Relaxed);
    }

    /// All of the answer to it is there and on its way.
    pub fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Odd while a request is being answered.
    fn steps(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream whose reads fail once the client has kept it waiting for too long.
pub struct Paced<S> {
    stream: S,
    progress: Progress,
    header_time: Duration,
    idle_time: Duration,
    /// When the head that the client has begun with must be there, and after how many steps it was begun. The first
    /// one begins with the connection.
    head: Option<(Instant, u64)>,
    /// When something last went over the wire.
    moved: Instant,
    /// Wakes the connection; set early rather than often, so the time is looked at again when it rings.
    alarm: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    /// With what a client may take.
    pub fn new(stream: S, progress: Progress, header_time: Duration, idle_time: Duration) -> Self {
        let now = Instant::now();
        let (head, alarm) = (Some((now + header_time, 0)), Box::pin(tokio::time::sleep_until(now + header_time)));
        Self { stream, progress, header_time, idle_time, head, moved: now, alarm }
    }

    /// When the client is late; nothing while it is our turn.
    fn due(&self) -> Option<Instant> {
        let steps = self.progress.steps();
        match self.head {
            _ if steps % 2 == 1 => None,
            Some((due, begun)) if begun == steps => Some(due),
            _ => Some(self.moved + self.idle_time),
        }
    }

    /// The client has sent something: the body of a request we know, or a piece of the next head.
    fn heard(&mut self) {
        self.moved = Instant::now();
        let steps = self.progress.steps();
        if self.head.is_none_or(|(_, begun)| begun != steps) {
            self.head = Some((self.moved + self.header_time, steps));
        }
    }

    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = self.due() else { return Poll::Pending };
        if Instant::now() >= due {
            return Poll::Ready(());
        }
        // A later alarm is set when the earlier one rings: most never do, because the client goes on.
        if self.alarm.deadline() > due {
            self.alarm.as_mut().reset(due);
        }
        while self.alarm.as_mut().poll(context).is_ready() {
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                self.heard();
                // A head that trickles in is late even while it moves.
                match self.due() {
                    Some(due) if self.moved >= due => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    _ => Poll::Ready(read),
                }
            }
            Poll::Pending => match self.poll_late(context) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.moved = Instant::now();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.moved = Instant::now();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        // With this an answer is out and the client's time begins. hyper reads again only when there is something to
        // read, so the alarm is set here; when it rings, the read finds out that it is late.
        let _ = self.poll_late(context);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
