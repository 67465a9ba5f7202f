//! Whether the client of a request is still there while its request waits.
//!
//! A client may close its sending side and still read the reply, so a request that has arrived is carried out and answered
//! although its connection ends. That cannot be told from a client that is gone. So what takes long without a client, such
//! as a wait in the queue, watches the socket and ends as soon as the client has closed.

use std::future::pending;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::http::error::{ApiError, ApiResult};

tokio::task_local! {
    static CLIENT: ClientSocket;
}

/// The socket of a connection. It is used only by what belongs to the connection and ends with it: a handler, or the body
/// of a reply.
#[derive(Debug, Clone, Copy)]
pub struct ClientSocket(RawFd);

impl ClientSocket {
    pub fn new(socket: RawFd) -> Self {
        Self(socket)
    }

    /// Runs the handler of a request from this client.
    pub fn serve<F: Future>(self, handler: F) -> impl Future<Output = F::Output> {
        CLIENT.scope(self, handler)
    }

    /// Ready when the client has closed the connection, or its sending side.
    pub async fn closed(self) {
        // Without a free descriptor the client is missed when something is written to it.
        let Ok(socket) = self.watch() else { return pending().await };
        while let Ok(mut ready) = socket.readable().await {
            if ready.ready().is_read_closed() {
                return;
            }
            // The client has sent its next request; the event for its end is still to come.
            ready.clear_ready();
        }
    }

    /// A second descriptor of the socket: the runtime already watches the first one for the connection.
    fn watch(self) -> io::Result<AsyncFd<OwnedFd>> {
        // SAFETY: the task that polls this belongs to the connection, so its socket is open.
        let socket = unsafe { BorrowedFd::borrow_raw(self.0) }.try_clone_to_owned()?;
        // SAFETY: an owned descriptor stays the same until it is dropped.
        unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(io::Error::from)
    }
}

/// Does what is of no use without the client of the current request. If the client closes first, the work is dropped, and
/// the connection is closed without a reply.
pub async fn unless_gone<T>(work: impl Future<Output = ApiResult<T>>) -> ApiResult<T> {
    tokio::select! {
        biased;
        done = work => done,
        () = gone() => Err(ApiError::client_gone()),
    }
}

/// Ready when the client of the current request has closed; never without a client.
pub async fn gone() {
    match CLIENT.try_with(|client| *client) {
        Ok(client) => client.closed().await,
        Err(_) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn a_client_that_sends_more_is_there_and_one_that_closes_is_gone() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let client = ClientSocket::new(ours.as_raw_fd());
        theirs.write_all(b"the next request").unwrap();
        let work = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            Ok(7)
        };
        assert_eq!(client.serve(unless_gone(work)).await.unwrap(), 7);
        theirs.shutdown(Shutdown::Write).unwrap();
        let waiting = client.serve(unless_gone(pending::<ApiResult<()>>()));
        assert!(waiting.await.is_err());
        assert_eq!(client.serve(unless_gone(async { Ok(8) })).await.unwrap(), 8, "what is done is done");
    }
}
