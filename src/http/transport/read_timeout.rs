//! Closes a connection whose client is too slow with the head of a request, or idle for too long.
//!
//! hyper has one time limit for both. They differ here: a client that has begun to send a head must complete it within
//! seconds, while a connection may be idle between two requests for a minute.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::progress::RequestProgress;

/// A stream whose reads fail when the client is late.
pub struct ReadTimeout<S> {
    stream: S,
    /// What was read and put back.
    put_back: Vec<u8>,
    progress: RequestProgress,
    header_time: Duration,
    idle_time: Duration,
    /// The deadline for the head that the client has begun to send, and the step count when it began. The first head
    /// begins with the connection.
    head: Option<(Instant, u64)>,
    /// When bytes were last read or written.
    last_activity: Instant,
    /// Wakes the connection. It may be set earlier than the deadline, which is then checked again.
    alarm: Pin<Box<Sleep>>,
}

impl<S> ReadTimeout<S> {
    pub fn new(stream: S, progress: RequestProgress, header_time: Duration, idle_time: Duration) -> Self {
        let now = Instant::now();
        progress.note_activity(now);
        let (head, alarm) = (Some((now + header_time, 0)), Box::pin(tokio::time::sleep_until(now + header_time)));
        let put_back = Vec::new();
        Self { stream, put_back, progress, header_time, idle_time, head, last_activity: now, alarm }
    }

    /// The next reads return these bytes again, which were read before.
    pub fn put_back(&mut self, bytes: Vec<u8>) {
        self.put_back = bytes;
    }

    /// The client's deadline; none while the server is answering.
    fn deadline(&self) -> Option<Instant> {
        let steps = self.progress.steps();
        match self.head {
            _ if steps % 2 == 1 => None,
            Some((deadline, begun)) if begun == steps => Some(deadline),
            _ => Some(self.last_activity + self.idle_time),
        }
    }

    fn note_activity(&mut self) {
        self.last_activity = Instant::now();
        self.progress.note_activity(self.last_activity);
    }

    /// The client sent bytes: the body of the current request, or a part of the next head.
    fn received(&mut self) {
        self.note_activity();
        let steps = self.progress.steps();
        if self.head.is_none_or(|(_, begun)| begun != steps) {
            self.head = Some((self.last_activity + self.header_time, steps));
        }
    }

    /// Ready when the deadline has passed; otherwise makes sure that the task is woken then.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline() else { return Poll::Pending };
        if Instant::now() >= deadline {
            return Poll::Ready(());
        }
        // The alarm is only ever moved to an earlier time here. Moving it to a later one waits until it goes off, which
        // it rarely does, because most clients go on.
        if self.alarm.deadline() > deadline {
            self.alarm.as_mut().reset(deadline);
        }
        while self.alarm.as_mut().poll(context).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.put_back.is_empty() {
            // These bytes were in time when they arrived.
            let count = self.put_back.len().min(buffer.remaining());
            buffer.put_slice(&self.put_back[..count]);
            self.put_back = self.put_back.split_off(count);
            return Poll::Ready(Ok(()));
        }
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                self.received();
                // A head that arrives byte by byte is late even while bytes arrive.
                match self.deadline() {
                    Some(deadline) if self.last_activity >= deadline => {
                        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                    }
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

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.note_activity();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.note_activity();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.progress.note_written();
        }
        // The reply was written; from here the client's deadline runs. hyper reads again only when there is something to
        // read, so the alarm is set here; when it goes off, the read finds that the client is late.
        let _ = self.poll_late(context);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_put_back_comes_first() {
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b"world").await.unwrap();
        far.shutdown().await.unwrap();
        let time = Duration::from_secs(60);
        let mut stream = ReadTimeout::new(near, RequestProgress::default(), time, time);
        stream.put_back(b"hello ".to_vec());
        let (mut first, mut rest) = ([0; 2], String::new());
        stream.read_exact(&mut first).await.unwrap();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&first, &*rest), (b"he", "llo world"));
    }
}
