//! One thread per repository: execute → append → publish → reply. The only clock.
//!
//! Nothing in here knows HTTP or git. Whoever asks hands over a command and a closure for the answer, and hears it
//! once the records behind it are durable. Start at [`Desk::open`] and [`Desk::submit`]; the loop is in `counter`.

mod clock;
mod counter;
mod feed;
mod figures;
mod log;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

pub use clock::{Clock, ManualClock, SystemClock};
pub use feed::{AtHand, Feed, Follower, Past};
pub use figures::{Counts, Figures, Histogram};
pub use log::{DECISIONS, is_on as logs_decisions, tame};

use crate::engine::{
    Actor, Command, Engine, Few, Grant, Notice, Outcome, Policy, Refusal, Seq, SessionId, Text, Timestamp,
};
use crate::journal::{Journal, JournalError, Loaded};

/// Requests that may lie on the desk at once; one more is told to come back. Enough for every connection of a busy
/// server, few enough that the last in line is still answered within a second.
pub const INBOX_MAX: usize = 8192;

/// The desk of one repository. Cheap to clone; the thread ends when [`Desk::stop`] was called.
#[derive(Clone)]
pub struct Desk {
    inbox: SyncSender<Message>,
    shared: Arc<Shared>,
}

/// What the desk and those who come to it both see.
struct Shared {
    /// The repository's name.
    name: Text,
    feed: Arc<Feed>,
    figures: Figures,
    /// The last append failed, and may be found in the journal all the same.
    unclear: AtomicBool,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Too many requests lie on the desk. Nothing was done.
    #[error("too many requests are waiting to be decided; try again in a moment")]
    Busy,
    /// The server is going down or cannot write. Nothing was done.
    #[error("the server is stopping; try again in a moment")]
    Stopped,
    /// Whether it was done shows when the journal is read again: the disk failed while it was written.
    #[error("the server is stopping, and whether this was done is not known; ask again")]
    Unclear,
}

/// An answer, with what the session should know besides.
#[derive(Debug)]
pub struct Reply {
    /// What came of the command.
    pub outcome: Result<Outcome, Refusal>,
    /// For the session that asked.
    pub notices: Vec<Notice>,
    /// The last record when it was decided.
    pub seq: Seq,
    /// When it was decided.
    pub now: Timestamp,
}

/// A look at everything, between two decisions.
pub struct Look<'a> {
    /// What there is to see; all of it is durable.
    pub engine: &'a Engine,
    /// Why the asker may not look.
    pub refusal: Option<Refusal>,
    /// For the session that asked.
    pub notices: Vec<Notice>,
    /// When it was looked at.
    pub now: Timestamp,
}

/// Hears the answer, and gives it back where nobody was there to hear it.
pub type OnReply = Box<dyn FnOnce(Reply) -> Result<(), Reply> + Send>;

/// Looks at the state.
pub type OnLook = Box<dyn FnOnce(Look<'_>) + Send>;

/// Names a request that may wait, so that whoever made it can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

enum Message {
    Ask {
        actor: Actor,
        command: Command,
        ticket: Ticket,
        asked: Instant,
        reply: OnReply,
    },
    Look {
        actor: Actor,
        look: OnLook,
    },
    /// Whoever waited under this ticket is gone.
    Gone(Ticket),
    /// A grant reached nobody.
    Unheard {
        session: SessionId,
        grants: Few<Grant>,
    },
    /// Decide by this from now on.
    Policy(Policy),
    /// Look at the clock.
    Poke,
    /// Nobody waits any more.
    Close,
    Stop,
}

impl Desk {
    /// Replays the journal and opens the desk. `failed` is called, once, when the journal cannot be written: nobody
    /// was told of what was lost with it, and the process should end so that a replay puts everything right.
    pub fn open(
        name: &str,
        mut journal: Box<dyn Journal>,
        mut clock: Box<dyn Clock>,
        policy: Policy,
        failed: impl FnOnce(JournalError) + Send + 'static,
    ) -> Result<(Desk, JoinHandle<()>), JournalError> {
        let (engine, snapshot) = replay(journal.as_mut(), policy, clock.as_mut())?;
        let (inbox, messages) = sync_channel(INBOX_MAX);
        let feed = Arc::new(Feed::new(journal.reader()?));
        let shared =
            Arc::new(Shared { name: name.into(), feed, figures: Figures::new(), unclear: AtomicBool::new(false) });
        let desk = Desk { inbox, shared: shared.clone() };
        let mut counter = counter::Counter::new(engine, snapshot, journal, clock, shared);
        counter.begin()?;
        let run = move || {
            if let Err(error) = counter.run(&messages) {
                failed(error);
            }
        };
        let thread = std::thread::Builder::new().name(format!("desk {name}")).spawn(run);
        Ok((desk, thread.expect("a thread can be started")))
    }

    /// Puts a command on the desk. The closure is dropped unheard if the server stops first.
    pub fn submit(&self, actor: Actor, command: Command, reply: OnReply) -> Result<Ticket, Trouble> {
        let ticket = Ticket(self.shared.figures.send());
        self.send(Message::Ask { actor, command, ticket, asked: Instant::now(), reply })?;
        Ok(ticket)
    }

    /// Looks at the state. A session's look is a sign of life like any other call.
    pub fn look(&self, actor: Actor, look: OnLook) -> Result<(), Trouble> {
        self.shared.figures.send();
        self.send(Message::Look { actor, look })
    }

    /// The repository's name.
    pub fn name(&self) -> &Text {
        &self.shared.name
    }

    /// The desk in numbers.
    pub fn figures(&self) -> &Figures {
        &self.shared.figures
    }

    /// What happens here, as it happens.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.shared.feed
    }

    /// Whoever holds this ticket does not wait for the answer any more.
    pub fn gone(&self, ticket: Ticket) {
        // This must not get lost, so it waits where a request would be refused; it is rare and the desk is quick.
        self.insist(Message::Gone(ticket));
    }

    /// The grants of a wait arrived where nobody was left to hear them.
    pub fn unheard(&self, session: SessionId, grants: Few<Grant>) {
        self.insist(Message::Unheard { session, grants });
    }

    /// Whatever comes after this is decided by another policy; see [`Engine::set_policy`].
    pub fn set_policy(&self, policy: Policy) {
        let _ = self.inbox.send(Message::Policy(policy));
    }

    /// Makes the desk look at its clock now.
    pub fn poke(&self) {
        self.insist(Message::Poke);
    }

    /// Answers everybody who waits that the server stops; whoever would wait from now on hears the same.
    pub fn close(&self) {
        self.insist(Message::Close);
    }

    /// Closes, and ends the thread once everything before this is decided and durable.
    pub fn stop(&self) {
        self.insist(Message::Stop);
    }

    /// What to say where an answer was promised and never came.
    pub fn silence(&self) -> Trouble {
        if self.shared.unclear.load(Ordering::SeqCst) { Trouble::Unclear } else { Trouble::Stopped }
    }

    fn send(&self, message: Message) -> Result<(), Trouble> {
        self.inbox.try_send(message).map_err(|error| {
            self.shared.figures.refuse();
            match error {
                TrySendError::Full(_) => Trouble::Busy,
                TrySendError::Disconnected(_) => Trouble::Stopped,
            }
        })
    }

    /// Waits for room, where a desk that has stopped needs to hear nothing more.
    fn insist(&self, message: Message) {
        self.shared.figures.send();
        if self.inbox.send(message).is_err() {
            self.shared.figures.refuse();
        }
    }
}

/// What the journal adds up to, and up to where a snapshot told of it.
fn replay(journal: &mut dyn Journal, policy: Policy, clock: &mut dyn Clock) -> Result<(Engine, Seq), JournalError> {
    let mut engine = Engine::new(policy.clone());
    let mut snapshot = Seq::ZERO;
    journal.load(&mut |loaded| {
        match loaded {
            Loaded::Snapshot { at, state } => {
                engine = Engine::restore(policy.clone(), snapshot::read(at, state)?);
                snapshot = at;
            }
            Loaded::Record(record) => {
                clock.not_before(record.at);
                engine.apply(&record);
            }
        }
        Ok(())
    })?;
    Ok((engine, snapshot))
}
