//! TLS over a connection. The handshake happens with the first read, so that it has the time limit of a request's head and
//! counts as a connection.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{Accept, TlsAcceptor, server};

/// The certificate and key of the server, which can be replaced while it runs. New connections use the new ones.
pub type TlsIdentity = Arc<ArcSwap<ServerConfig>>;

/// A connection that speaks TLS.
pub struct TlsStream<S> {
    state: State<S>,
    socket: RawFd,
}

enum State<S> {
    Handshake(Box<Accept<S>>),
    Open(Box<server::TlsStream<S>>),
    Failed,
}

impl<S: AsyncRead + AsyncWrite + AsRawFd + Unpin> TlsStream<S> {
    pub fn new(stream: S, identity: &TlsIdentity) -> Self {
        let socket = stream.as_raw_fd();
        let handshake = TlsAcceptor::from(identity.load_full()).accept(stream);
        Self { state: State::Handshake(Box::new(handshake)), socket }
    }
}

impl<S> AsRawFd for TlsStream<S> {
    fn as_raw_fd(&self) -> RawFd {
        self.socket
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// The open stream, after the handshake.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut server::TlsStream<S>>>> {
        if let State::Handshake(handshake) = &mut self.state {
            match ready!(Pin::new(handshake).poll(context)) {
                Ok(stream) => self.state = State::Open(Box::new(stream)),
                Err(error) => {
                    self.state = State::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        match &mut self.state {
            State::Open(stream) => Poll::Ready(Ok(Pin::new(stream))),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_open(context))?.poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(context))?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(context))?.poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open(stream) => Pin::new(stream).poll_flush(context),
            // Nothing was written yet.
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open(stream) => Pin::new(stream).poll_shutdown(context),
            _ => Poll::Ready(Ok(())),
        }
    }
}
