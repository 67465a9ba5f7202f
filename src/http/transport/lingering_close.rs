//! Closes a connection so that a refusal reaches a client that is still sending.
//!
//! A socket that is closed while there is unread input resets the connection, and the client may lose the reply: many
//! clients read it only after they have sent everything. So the server first closes its own direction, and then reads and
//! drops what still arrives, a bounded amount for a bounded time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::progress::RequestProgress;

/// How much of a refused request is still read and dropped, and for how long.
const DRAIN_BYTES_MAX: usize = 64 * 1024 * 1024;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes dropped at once.
const PIECE_BYTES: usize = 16 * 1024;

/// A stream whose shutdown waits for a client that is still sending a refused request.
pub struct LingeringClose<S> {
    stream: S,
    progress: RequestProgress,
    draining: Option<Draining>,
}

struct Draining {
    bytes_left: usize,
    timer: Pin<Box<Sleep>>,
}

impl<S> LingeringClose<S> {
    pub fn new(stream: S, progress: RequestProgress) -> Self {
        Self { stream, progress, draining: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> LingeringClose<S> {
    /// Ready when the client has sent everything, or when it takes too long or is too much.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(draining) = &mut self.draining else { return Poll::Ready(()) };
        if draining.timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut piece = [std::mem::MaybeUninit::uninit(); PIECE_BYTES];
        loop {
            let mut buffer = ReadBuf::uninit(&mut piece);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            let bytes = buffer.filled().len();
            draining.bytes_left = draining.bytes_left.saturating_sub(bytes);
            if read.is_err() || bytes == 0 || draining.bytes_left == 0 {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringClose<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringClose<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.draining.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            if self.progress.is_still_sent() {
                let timer = Box::pin(tokio::time::sleep(DRAIN_TIME_MAX));
                self.draining = Some(Draining { bytes_left: DRAIN_BYTES_MAX, timer });
            }
        }
        ready!(self.poll_drain(context));
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_close_waits_for_a_client_that_is_still_sending_and_for_no_other() {
        let (near, mut far) = tokio::io::duplex(64);
        let progress = RequestProgress::default();
        progress.note_still_sent();
        let mut near = LingeringClose::new(near, progress.clone());
        near.write_all(b"no").await.unwrap();
        let client = tokio::spawn(async move {
            far.write_all(&[b'x'; 100_000]).await.unwrap();
            far.shutdown().await.unwrap();
            let mut reply = Vec::new();
            far.read_to_end(&mut reply).await.unwrap();
            reply
        });
        near.shutdown().await.unwrap();
        assert_eq!(client.await.unwrap(), b"no");

        let (near, _far) = tokio::io::duplex(64);
        progress.begin();
        LingeringClose::new(near, progress).shutdown().await.unwrap();
    }

    /// A client that sends without an end is dropped after so many bytes.
    #[tokio::test]
    async fn a_close_reads_a_bounded_amount() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let progress = RequestProgress::default();
        progress.note_still_sent();
        let client = tokio::spawn(async move {
            let (piece, mut sent) = (vec![b'x'; 1 << 16], 0);
            while let Ok(bytes) = far.write(&piece).await {
                sent += bytes;
            }
            sent
        });
        let mut near = LingeringClose::new(near, progress);
        near.shutdown().await.unwrap();
        drop(near);
        let sent = client.await.unwrap();
        assert!((DRAIN_BYTES_MAX..=DRAIN_BYTES_MAX + (1 << 20)).contains(&sent), "{sent}");
    }

    /// So is one that says it will send more, and does not.
    #[tokio::test]
    async fn a_close_waits_for_a_bounded_time() {
        let (near, far) = tokio::io::duplex(64);
        let progress = RequestProgress::default();
        progress.note_still_sent();
        let mut near = LingeringClose::new(near, progress);
        assert!(tokio::time::timeout(DRAIN_TIME_MAX / 20, near.shutdown()).await.is_err(), "it waits for the client");
        tokio::time::timeout(4 * DRAIN_TIME_MAX, near.shutdown()).await.expect("not for ever").unwrap();
        drop(far);
    }
}
