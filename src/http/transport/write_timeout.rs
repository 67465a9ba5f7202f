//! Closes a connection whose client does not read what is sent to it, and sends large replies in turns.
//!
//! Without the time limit, a client that requests a large reply and reads none of it would keep its connection, and the
//! memory of the reply, for as long as it likes. Without the turns, the other connections would wait until the system has
//! copied megabytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The bytes of a reply that are written before other connections have their turn. To copy them takes some ten microseconds.
const TURN_BYTES: usize = 64 * 1024;

/// A stream whose writes fail when the client accepts no bytes for `time_max`.
pub struct WriteTimeout<S> {
    stream: S,
    time_max: Duration,
    /// The bytes that were written in this turn.
    written: usize,
    /// The turn of the others, which comes next.
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Runs while a write is blocked.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub fn new(stream: S, time_max: Duration) -> Self {
        Self { stream, time_max, written: 0, pause: None, timer: None }
    }

    /// How many bytes may be written now. Pending if other connections have their turn first.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        if self.written >= TURN_BYTES {
            // Unlike a wake of its own, this lets the runtime look for input first.
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::task::yield_now()));
            ready!(pause.as_mut().poll(context));
            (self.pause, self.written) = (None, 0);
        }
        Poll::Ready(TURN_BYTES - self.written)
    }

    fn count(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written += bytes;
        }
    }

    fn or_timeout<T>(&mut self, result: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.timer = None;
            return result;
        }
        let time_max = self.time_max;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(time_max)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let room = ready!(self.poll_turn(context));
        let result = Pin::new(&mut self.stream).poll_write(context, &bytes[..bytes.len().min(room)]);
        self.count(&result);
        self.or_timeout(result, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if result.is_ready() {
            self.written = 0;
        }
        self.or_timeout(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.or_timeout(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = ready!(self.poll_turn(context));
        let mut whole = 0;
        let fits = parts.iter().take_while(|part| {
            whole += part.len();
            whole <= room
        });
        let result = match (fits.count(), parts) {
            (0, [first, ..]) => Pin::new(&mut self.stream).poll_write(context, &first[..first.len().min(room)]),
            (count, parts) => Pin::new(&mut self.stream).poll_write_vectored(context, &parts[..count]),
        };
        self.count(&result);
        self.or_timeout(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_cut_off_and_one_that_reads_is_not() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = WriteTimeout::new(near, Duration::from_millis(20));
        near.write_all(b"12345678").await.unwrap();
        let blocked = near.write_all(b"9").await.unwrap_err();
        assert_eq!(blocked.kind(), io::ErrorKind::TimedOut);
        let mut read = [0; 8];
        far.read_exact(&mut read).await.unwrap();
        near.write_all(b"abcdefgh").await.unwrap();
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"abcdefgh");
    }

    #[tokio::test]
    async fn a_large_reply_lets_others_have_their_turns() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut near = WriteTimeout::new(near, Duration::from_secs(60));
        let turns = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let other = tokio::spawn({
            let turns = turns.clone();
            async move {
                loop {
                    turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            }
        });
        let reply: Vec<u8> = (0..5 * TURN_BYTES).map(|n| n as u8).collect();
        let (one, two) = reply.split_at(TURN_BYTES + 1);
        near.write_all(one).await.unwrap();
        // One part that is larger than a turn, and small ones.
        let mut rest: Vec<&[u8]> = vec![&two[..2 * TURN_BYTES]];
        rest.extend(two[2 * TURN_BYTES..].chunks(1000));
        while !rest.is_empty() {
            let slices: Vec<_> = rest.iter().take(64).map(|part| io::IoSlice::new(part)).collect();
            let mut count = near.write_vectored(&slices).await.unwrap();
            while count > 0 {
                let part = rest[0].len().min(count);
                rest[0] = &rest[0][part..];
                count -= part;
                if rest[0].is_empty() {
                    rest.remove(0);
                }
            }
        }
        near.flush().await.unwrap();
        assert!(turns.load(std::sync::atomic::Ordering::Relaxed) >= 3);
        let mut received = vec![0; reply.len()];
        far.read_exact(&mut received).await.unwrap();
        assert!(received == reply);
        other.abort();
    }
}
