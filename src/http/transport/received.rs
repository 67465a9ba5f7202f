//! A stream of which something was read before.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that begins with bytes that were received already.
pub struct Received<S> {
    bytes: Vec<u8>,
    /// How many of them were read again.
    read: usize,
    stream: S,
}

impl<S> Received<S> {
    pub fn new(bytes: Vec<u8>, stream: S) -> Self {
        Self { bytes, read: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Received<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.bytes[self.read..];
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.read += count;
        if self.read == self.bytes.len() {
            (self.bytes, self.read) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Received<S> {
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
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_received_comes_first() {
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b"world").await.unwrap();
        far.shutdown().await.unwrap();
        let mut stream = Received::new(b"hello ".to_vec(), near);
        let (mut first, mut rest) = ([0; 2], String::new());
        stream.read_exact(&mut first).await.unwrap();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&first, &*rest), (b"he", "llo world"));
    }
}
