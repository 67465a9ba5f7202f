//! Brings answers from the desk's thread to the tasks that wait for them.
//!
//! Waking a task from another thread costs far more than waking it from a task, and a desk answers dozens at once. So
//! the desk wakes one task, the courier, which wakes all the others.

use std::sync::OnceLock;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::desk::{Desk, OnReply, Reply};
use crate::engine::{Outcome, SessionId};

/// Answers taken out of the bag at once.
const ARMFUL: usize = 256;

/// See the module. There is one for each repository; it starts with the first request.
#[derive(Default)]
pub struct Courier {
    bag: OnceLock<UnboundedSender<Parcel>>,
}

/// Where a grant goes back to that reached nobody.
type Return = (Desk, SessionId);

struct Parcel {
    to: oneshot::Sender<Reply>,
    reply: Reply,
    back: Option<Return>,
}

impl Courier {
    /// What the desk calls with the answer. Must be called on the runtime the courier is to work on.
    pub fn bring(&self, to: oneshot::Sender<Reply>, back: Option<Return>) -> OnReply {
        let bag = self.bag.get_or_init(|| {
            let (bag, parcels) = unbounded_channel();
            tokio::spawn(walk(parcels));
            bag
        });
        let bag = bag.clone();
        Box::new(move |reply| {
            // The bag is open as long as the runtime runs; without it, nobody hears anything.
            bag.send(Parcel { to, reply, back }).map_err(|unsent| unsent.0.reply)
        })
    }
}

async fn walk(mut parcels: UnboundedReceiver<Parcel>) {
    let mut armful = Vec::with_capacity(ARMFUL);
    while parcels.recv_many(&mut armful, ARMFUL).await > 0 {
        for Parcel { to, reply, back } in armful.drain(..) {
            let unheard = to.send(reply).err();
            if let (Some(Reply { outcome: Ok(Outcome::Granted(grants)), .. }), Some((desk, session))) = (unheard, back)
            {
                desk.unheard(session, grants);
            }
        }
    }
}
