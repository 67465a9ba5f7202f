//! One thread per repository: execute → append → publish → reply. The only clock.
//!
//! There is no HTTP and no git here. A caller submits a command with a closure for the reply; the closure is called once
//! the records behind the reply are durable. Start at [`Desk::open`] and [`Desk::submit`]; messages arrive in `inbox`, the
//! loop is in `worker`, which messages go first in `lanes`, which ones share an append in `gathering`, start-up in
//! `recover`, snapshots in `snapshot`, the stream of durable records in `feed`, counts of refusals and waits in `contention`,
//! the sessions that compete for a key in `contenders`, and the list of refusals in `refusal_list`. `presence` sees to it
//! that time in which the desk did not listen counts against no deadline.

mod clock;
mod contenders;
mod contention;
mod feed;
mod gathering;
mod inbox;
mod lanes;
mod log;
mod metrics;
mod presence;
mod recover;
mod refusal_list;
mod snapshot;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

pub use clock::{Clock, ManualClock, SystemClock};
pub use contention::{COUNTED_TIME, Contention, ContentionReport, CountWindow, KeyCounts, KeyDetails};
pub use feed::{BufferPage, Feed, FeedPage, Follower};
pub use log::{DECISIONS, is_on as logs_decisions, tame};
pub use metrics::{Counts, Histogram, Metrics};
pub use presence::Intake;
pub use refusal_list::{RefusalKind, RefusedRequest};

use inbox::{SendError, Sender};

use crate::engine::{
    Actor, Command, Engine, Few, Grant, Notice, Outcome, Policy, Refusal, Seq, SessionId, Text, Timestamp,
};
use crate::journal::{Journal, JournalError};
use crate::threads;

/// Messages the inbox holds; further requests are refused with [`SubmitError::Busy`]. Enough for every connection of a
/// busy server, few enough that the last message is still answered within a second.
pub const INBOX_MAX: usize = 8192;

/// A handle to the desk of one repository. Cheap to clone; [`Desk::stop`] ends the thread.
#[derive(Clone)]
pub struct Desk {
    inbox: Sender<DeskMessage>,
    shared: Arc<Shared>,
}

/// What the thread and the handles share.
struct Shared {
    /// The repository's name.
    name: Text,
    feed: Arc<Feed>,
    metrics: Metrics,
    contention: Contention,
    /// The last append failed, but its records may be in the journal all the same.
    outcome_unknown: AtomicBool,
}

/// Why a message was not taken, or why its reply never came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The inbox is full. Nothing was done.
    #[error("too many requests are waiting to be decided; try again in a moment")]
    Busy,
    /// The server is stopping or cannot write its journal. Nothing was done.
    #[error("the server is stopping; try again in a moment")]
    Stopped,
    /// The disk failed during the append. Only the next start shows whether the command was done.
    #[error("the server is stopping, and it is not known whether this was done; ask again")]
    OutcomeUnknown,
}

/// The reply to a command.
#[derive(Debug)]
pub struct Reply {
    pub outcome: Result<Outcome, Refusal>,
    /// For the session that submitted the command.
    pub notices: Vec<Notice>,
    /// The last record at the time of the decision.
    pub seq: Seq,
    /// The time of the decision.
    pub now: Timestamp,
    /// How much work the decision was; see [`Engine::work`].
    pub work: u64,
}

/// The state between two turns, for a caller that reads it.
pub struct StateRead<'a> {
    /// Everything in it is durable.
    pub engine: &'a Engine,
    /// Why the actor may not read the state; the closure must respect it.
    pub refusal: Option<Refusal>,
    /// For the session that reads.
    pub notices: Vec<Notice>,
    pub now: Timestamp,
}

/// Receives the reply to a command. Every closure that takes a reply is one.
pub trait ReplyReceiver: Send {
    /// No client waits for the reply, and the command is not to be carried out without one.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// Takes the reply, on the desk's thread. If a grant in it reaches no client, [`Desk::return_grants`] gives it back.
    fn receive(self: Box<Self>, reply: Reply);
}

impl<F: FnOnce(Reply) + Send> ReplyReceiver for F {
    fn receive(self: Box<Self>, reply: Reply) {
        self(reply);
    }
}

/// See [`ReplyReceiver`].
pub type OnReply = Box<dyn ReplyReceiver>;

/// Reads the state, on the desk's thread.
pub type ReadCallback = Box<dyn FnOnce(StateRead<'_>) + Send>;

/// Identifies a submitted command, so that [`Desk::cancel`] can end its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// A command to be decided.
struct Submission {
    actor: Actor,
    command: Command,
    ticket: Ticket,
    submitted: Instant,
    on_reply: OnReply,
}

impl Submission {
    /// The session that it is about, or that sends it.
    fn session(&self) -> Option<&SessionId> {
        self.command.session().or(self.actor.session())
    }
}

enum DeskMessage {
    Submit(Submission),
    Read {
        actor: Actor,
        /// It takes long, so it has a turn of its own.
        is_large: bool,
        on_read: ReadCallback,
    },
    Cancel(Ticket),
    ReturnGrants {
        session: SessionId,
        grants: Few<Grant>,
    },
    Policy(Policy),
    Intake(Box<dyn Intake>),
    /// Only wakes the thread, so that it reads the clock.
    Poke,
    /// Ends the thread: another server decides from now on.
    Abandon,
    /// Ends every wait, and refuses new ones.
    Close,
    Stop,
}

impl Desk {
    /// Replays the journal and starts the thread. If an append fails, the thread ends and calls `on_failure`. No client has
    /// heard of the records of that append; the process should end, so that the next start replays what is stored.
    pub fn open(
        name: &str,
        mut journal: Box<dyn Journal>,
        mut clock: Box<dyn Clock>,
        policy: Policy,
        on_failure: impl FnOnce(JournalError) + Send + 'static,
    ) -> Result<(Desk, JoinHandle<()>), JournalError> {
        let (engine, snapshot) = recover::recover(journal.as_mut(), policy, clock.as_mut())?;
        let (inbox, mut messages) = inbox::inbox(INBOX_MAX);
        let feed = Arc::new(Feed::new(journal.reader()?));
        let shared = Arc::new(Shared {
            name: name.into(),
            feed,
            metrics: Metrics::new(),
            contention: Contention::default(),
            outcome_unknown: AtomicBool::new(false),
        });
        let desk = Desk { inbox, shared: shared.clone() };
        let mut worker = worker::Worker::new(engine, snapshot, journal, clock, shared);
        worker.begin()?;
        let run = move || {
            threads::go_first();
            if let Err(error) = worker.run(&mut messages) {
                on_failure(error);
            }
        };
        let thread = std::thread::Builder::new().name(format!("desk {name}")).spawn(run);
        Ok((desk, thread.expect("a thread can be started")))
    }

    /// Submits a command. If the server stops before the decision, the closure is dropped without a call.
    pub fn submit(&self, actor: Actor, command: Command, on_reply: OnReply) -> Result<Ticket, SubmitError> {
        let ticket = Ticket(self.shared.metrics.count_sent());
        let submitted = Instant::now();
        self.send(DeskMessage::Submit(Submission { actor, command, ticket, submitted, on_reply }))?;
        Ok(ticket)
    }

    /// Reads the state between two turns. Like every call of a session, it keeps the session alive.
    pub fn read(&self, actor: Actor, on_read: ReadCallback) -> Result<(), SubmitError> {
        self.shared.metrics.count_sent();
        self.send(DeskMessage::Read { actor, is_large: false, on_read })
    }

    /// The same for what takes long: it waits behind the small messages of all other sessions.
    pub fn read_large(&self, actor: Actor, on_read: ReadCallback) -> Result<(), SubmitError> {
        self.shared.metrics.count_sent();
        self.send(DeskMessage::Read { actor, is_large: true, on_read })
    }

    /// The repository's name.
    pub fn name(&self) -> &Text {
        &self.shared.name
    }

    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Which requests were refused or had to wait.
    pub fn contention(&self) -> &Contention {
        &self.shared.contention
    }

    /// The records of this repository, as they become durable.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.shared.feed
    }

    /// Ends the wait of a command whose client disconnected. Does nothing if the command is not waiting.
    pub fn cancel(&self, ticket: Ticket) {
        self.send_or_block(DeskMessage::Cancel(ticket));
    }

    /// These grants reached no client: it was gone when the reply arrived. They are released, except where the session
    /// has asked for them again since.
    pub fn return_grants(&self, session: SessionId, grants: Few<Grant>) {
        self.send_or_block(DeskMessage::ReturnGrants { session, grants });
    }

    /// Commands submitted after this are decided by the new policy; see [`Engine::set_policy`].
    pub fn set_policy(&self, policy: Policy) {
        self.send_or_block(DeskMessage::Policy(policy));
    }

    /// Before anything expires, everything that has arrived on these connections is heard.
    pub fn set_intake(&self, intake: Box<dyn Intake>) {
        self.send_or_block(DeskMessage::Intake(intake));
    }

    /// Makes the thread read its clock now.
    pub fn poke(&self) {
        self.send_or_block(DeskMessage::Poke);
    }

    /// Ends every wait with [`LeftWhy::Stopped`](crate::engine::LeftWhy::Stopped); later commands do not wait either.
    pub fn close(&self) {
        self.send_or_block(DeskMessage::Close);
    }

    /// Closes, and ends the thread once everything submitted before is decided and durable.
    pub fn stop(&self) {
        self.send_or_block(DeskMessage::Stop);
    }

    /// Ends the thread as a failed append does, with [`JournalError::Deposed`], because another server decides now. What
    /// waits gets no reply.
    pub fn abandon(&self) {
        self.send_or_block(DeskMessage::Abandon);
    }

    /// The error for a command whose closure was dropped without a call.
    pub fn no_reply_error(&self) -> SubmitError {
        if self.shared.outcome_unknown.load(Ordering::SeqCst) {
            SubmitError::OutcomeUnknown
        } else {
            SubmitError::Stopped
        }
    }

    fn send(&self, message: DeskMessage) -> Result<(), SubmitError> {
        self.inbox.try_send(message).map_err(|error| {
            self.shared.metrics.count_refused();
            match error {
                SendError::Full => SubmitError::Busy,
                SendError::Closed => SubmitError::Stopped,
            }
        })
    }

    /// For messages that must not get lost: waits where the inbox is full. They are rare, and the thread is quick. If
    /// the thread has ended, the message is dropped.
    fn send_or_block(&self, message: DeskMessage) {
        self.shared.metrics.count_sent();
        if self.inbox.send(message).is_err() {
            self.shared.metrics.count_refused();
        }
    }
}
