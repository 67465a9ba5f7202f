//! Carries replies from the desk's thread to the tasks of the handlers.
//!
//! Waking a task from another thread costs far more than waking it from a task of the same runtime, and a desk sends
//! dozens of replies at once. So the desk wakes one task, and that task wakes all the others.

use std::sync::OnceLock;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::desk::{Desk, OnReply, Reply, ReplyReceiver};
use crate::engine::{Outcome, SessionId};

/// Replies taken from the channel at once.
const BATCH_MAX: usize = 256;

/// The channel of one repository. Its task starts with the first request.
#[derive(Default)]
pub struct ReplyChannel {
    queue: OnceLock<UnboundedSender<QueuedReply>>,
}

/// The desk and session to return a grant to, if its reply reaches no handler.
type GrantReturn = (Desk, SessionId);

/// A reply on its way to a handler.
struct QueuedReply {
    to: oneshot::Sender<Reply>,
    reply: Reply,
    grant_return: Option<GrantReturn>,
}

impl ReplyChannel {
    /// The callback for the desk, which sends the reply to `to`. Must be called on the runtime of the handlers.
    pub fn reply_to(&self, to: oneshot::Sender<Reply>, grant_return: Option<GrantReturn>) -> OnReply {
        let queue = self.queue.get_or_init(|| {
            let (queue, replies) = unbounded_channel();
            tokio::spawn(deliver(replies));
            queue
        });
        Box::new(Receiver { queue: queue.clone(), to, grant_return })
    }
}

/// Sends the reply of the desk to the channel.
struct Receiver {
    queue: UnboundedSender<QueuedReply>,
    to: oneshot::Sender<Reply>,
    grant_return: Option<GrantReturn>,
}

impl ReplyReceiver for Receiver {
    /// A request for keys is of no use without its client; everything else is carried out in any case.
    fn is_abandoned(&self) -> bool {
        self.grant_return.is_some() && self.to.is_closed()
    }

    fn receive(self: Box<Self>, reply: Reply) {
        let Receiver { queue, to, grant_return } = *self;
        // The queue is open as long as the runtime runs. Without the runtime there is no client either.
        let _ = queue.send(QueuedReply { to, reply, grant_return });
    }
}

async fn deliver(mut replies: UnboundedReceiver<QueuedReply>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while replies.recv_many(&mut batch, BATCH_MAX).await > 0 {
        for QueuedReply { to, reply, grant_return } in batch.drain(..) {
            let undelivered = to.send(reply).err();
            if let (Some(Reply { outcome: Ok(Outcome::Granted(grants)), .. }), Some((desk, session))) =
                (undelivered, grant_return)
            {
                desk.return_grants(session, grants);
            }
        }
    }
}
