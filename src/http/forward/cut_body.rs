//! A body that ends when something else happens: an event stream of a leader that leads no more.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming};

pub struct CutBody {
    body: Incoming,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl CutBody {
    pub fn new(body: Incoming, cut: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { body, cut: Box::pin(cut) }
    }
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.cut.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            // A leader that was killed ends its streams without a last word; their clients connect again.
            Poll::Pending => Pin::new(&mut self.body).poll_frame(context).map(|frame| frame.filter(Result::is_ok)),
        }
    }
}
