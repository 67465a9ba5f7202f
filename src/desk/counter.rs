//! The loop behind the desk.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::snapshot::Snapshots;
use super::{Clock, Look, Message, OnLook, OnReply, Reply, Shared, Ticket, log};
use crate::engine::{
    Actor, Command, Engine, Few, Grant, LeftWhy, Outcome, Record, Refusal, Seq, SessionId, Timestamp, Turn,
};
use crate::journal::{Journal, JournalError};

/// Messages taken together, at the most: they share one sync, and the first of them waits for the last.
const BATCH_MAX: usize = 4096;

/// How long the thread stays awake after a turn. Whoever asks one thing after the other asks again within this time, and
/// waking a thread takes about as long.
const LINGER: Duration = Duration::from_micros(100);

/// How often the counts of refusals go on record, if they changed.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The longest sleep; it only bounds how late a count is recorded.
const SLEEP_MAX: Duration = Duration::from_secs(10);

pub(super) struct Counter {
    engine: Engine,
    journal: Box<dyn Journal>,
    clock: Box<dyn Clock>,
    snapshots: Snapshots,
    shared: Arc<Shared>,
    /// When the requests of this turn were put on the desk.
    asked: Vec<Instant>,
    /// Whoever waits: their place in the queue by ticket, and how to reach them.
    tickets: HashMap<Ticket, Seq>,
    waiting: HashMap<Seq, (Ticket, SessionId, OnReply)>,
    counted: Timestamp,
    /// Nobody may begin to wait any more.
    closing: bool,
}

/// What goes out once the records of the batch are durable.
#[derive(Default)]
struct Outbox {
    replies: Vec<Answer>,
    /// Answers to waits.
    settled: Vec<Answer>,
    looks: Vec<(Actor, Option<Refusal>, OnLook)>,
}

/// An answer on its way; a grant that reaches nobody is taken back from the session.
struct Answer {
    session: Option<SessionId>,
    on_reply: OnReply,
    reply: Reply,
}

impl Counter {
    /// With the engine as it was replayed from a snapshot at `snapshot`, or from nothing.
    pub fn new(
        engine: Engine,
        snapshot: Seq,
        journal: Box<dyn Journal>,
        clock: Box<dyn Clock>,
        shared: Arc<Shared>,
    ) -> Self {
        let counted = clock.now();
        let snapshots = Snapshots::new(snapshot);
        let (asked, tickets, waiting) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { engine, journal, clock, snapshots, shared, asked, tickets, waiting, counted, closing: false }
    }

    /// Gives everything its full time again.
    pub fn begin(&mut self) -> Result<(), JournalError> {
        let (after, mut turn) = (self.engine.head(), Turn::at(self.clock.now()));
        self.shared.feed.begin(after);
        self.engine.resume(&mut turn);
        self.append(after, &turn.records)?;
        self.measure(0);
        Ok(())
    }

    pub fn run(&mut self, messages: &Receiver<Message>) -> Result<(), JournalError> {
        // Both are used again and again, so that a busy desk asks for no memory.
        let (mut turn, mut outbox) = (Turn::default(), Outbox::default());
        loop {
            let first = self.first(messages);
            turn.now = self.clock.now();
            let after = self.engine.head();
            let (mut stop, mut taken) = (false, 0);
            // Whatever is due is over before anybody is heard, however long this thread did not run.
            self.pass_time(&mut turn, &mut outbox);
            for message in first.into_iter().chain(messages.try_iter()).take(BATCH_MAX) {
                stop |= matches!(message, Message::Stop);
                taken += 1;
                self.take(message, &mut turn, &mut outbox);
                if stop {
                    break;
                }
            }
            self.append(after, &turn.records)?;
            self.measure(taken);
            turn.records.clear();
            self.deliver(&mut outbox, &mut turn)?;
            if stop {
                return Ok(());
            }
        }
    }

    /// The next message, or nothing when it is time to look at the clock.
    fn first(&self, messages: &Receiver<Message>) -> Option<Message> {
        let begun = Instant::now();
        while begun.elapsed() < LINGER {
            match messages.try_recv() {
                Ok(message) => return Some(message),
                // Whoever else has something to do goes first.
                Err(_) => std::thread::yield_now(),
            }
        }
        match messages.recv_timeout(self.patience()) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
        }
    }

    fn patience(&self) -> Duration {
        match self.engine.next_due() {
            Some(due) => self.clock.now().until(due).min(SLEEP_MAX),
            None => SLEEP_MAX,
        }
    }

    fn pass_time(&mut self, turn: &mut Turn, outbox: &mut Outbox) {
        let now = turn.now;
        if self.engine.next_due().is_some_and(|due| due <= now) {
            let before = turn.records.len();
            self.run_own(Command::Tick, turn);
            log::passed(&self.shared.name, &turn.records[before..]);
            self.settle(turn, outbox);
        }
        if self.counted.until(now) >= COUNT_EVERY {
            self.counted = now;
            self.run_own(Command::Count, turn);
        }
    }

    fn take(&mut self, message: Message, turn: &mut Turn, outbox: &mut Outbox) {
        let now = turn.now;
        match message {
            Message::Ask { actor, command, ticket, asked, reply } => {
                self.asked.push(asked);
                let session = match &command {
                    Command::Reserve(ask) => Some(ask.session.clone()),
                    _ => None,
                };
                let outcome = self.engine.execute(turn, &actor, command);
                match outcome {
                    Ok(Outcome::Queued(waiter)) if self.closing => {
                        let leave = Command::Leave { waiter, why: LeftWhy::Stopped };
                        self.run_own(leave, turn);
                        let outcome = Err(Refusal::WaitOver { why: LeftWhy::Stopped, conflicts: Vec::new() });
                        let stopped = Reply { outcome, notices: Vec::new(), seq: self.engine.head(), now };
                        outbox.replies.push(Answer { session, on_reply: reply, reply: stopped });
                    }
                    Ok(Outcome::Queued(seq)) => {
                        let session = self.engine.waiter(seq).expect("just queued");
                        self.tickets.insert(ticket, seq);
                        self.waiting.insert(seq, (ticket, session, reply));
                    }
                    outcome => {
                        let notices = match &actor {
                            Actor::Session(intro) => self.engine.take_notices(&intro.id),
                            _ => Vec::new(),
                        };
                        let decided = Reply { outcome, notices, seq: self.engine.head(), now };
                        outbox.replies.push(Answer { session, on_reply: reply, reply: decided });
                    }
                }
            }
            Message::Look { actor, look } => {
                let refusal = self.engine.execute(turn, &actor, Command::Touch).err();
                outbox.looks.push((actor, refusal, look));
            }
            Message::Gone(ticket) => {
                if let Some(waiter) = self.tickets.get(&ticket).copied() {
                    let leave = Command::Leave { waiter, why: LeftWhy::Gone };
                    self.run_own(leave, turn);
                }
            }
            Message::Unheard { session, grants } => self.take_back(session, grants, turn),
            Message::Policy(policy) => self.engine.set_policy(policy),
            Message::Poke => {}
            Message::Close | Message::Stop => {
                self.closing = true;
                let waiters: Vec<Seq> = self.waiting.keys().copied().collect();
                for waiter in waiters {
                    let leave = Command::Leave { waiter, why: LeftWhy::Stopped };
                    self.run_own(leave, turn);
                }
                self.run_own(Command::Count, turn);
            }
        }
        self.settle(turn, outbox);
    }

    /// Pairs the waits that just ended with whoever waits for the answer.
    fn settle(&mut self, turn: &mut Turn, outbox: &mut Outbox) {
        let now = turn.now;
        for (seq, outcome) in turn.settled.drain(..) {
            let Some((ticket, session, on_reply)) = self.waiting.remove(&seq) else { continue };
            self.tickets.remove(&ticket);
            let notices = self.engine.take_notices(&session);
            let reply = Reply { outcome, notices, seq: self.engine.head(), now };
            outbox.settled.push(Answer { session: Some(session), on_reply, reply });
        }
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        if records.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        if let Err(error) = self.journal.append(after, records) {
            // Before the answers are dropped, so that whoever waits for one hears why there is none.
            self.shared.unclear.store(error.leaves_open(), Ordering::SeqCst);
            return Err(error);
        }
        let figures = &self.shared.figures;
        figures.appends.time(begun.elapsed());
        if let Some(time) = self.journal.sync_time() {
            figures.syncs.time(time);
        }
        figures.batches.count(records.len() as u64);
        self.shared.feed.publish(records);
        self.snapshots.consider(&self.engine, self.journal.as_ref());
        Ok(())
    }

    /// Notes how long the requests of this turn took, and where it left the desk.
    fn measure(&mut self, taken: u64) {
        let (figures, now) = (&self.shared.figures, Instant::now());
        for asked in self.asked.drain(..) {
            figures.decisions.time(now.saturating_duration_since(asked));
        }
        figures.turn(taken, self.engine.head(), &self.engine.numbers());
    }

    /// Everything is durable now. Grants that reach nobody are released at once, which may answer others.
    fn deliver(&mut self, outbox: &mut Outbox, turn: &mut Turn) -> Result<(), JournalError> {
        let now = turn.now;
        let mut unheard = tell(&mut outbox.replies);
        for (actor, refusal, look) in outbox.looks.drain(..) {
            let notices = match &actor {
                Actor::Session(intro) => self.engine.take_notices(&intro.id),
                _ => Vec::new(),
            };
            look(Look { engine: &self.engine, refusal, notices, now });
        }
        unheard.extend(tell(&mut outbox.settled));
        while !unheard.is_empty() {
            let after = self.engine.head();
            for (session, grants) in unheard {
                self.take_back(session, grants, turn);
            }
            self.settle(turn, outbox);
            self.append(after, &turn.records)?;
            self.measure(0);
            turn.records.clear();
            unheard = tell(&mut outbox.settled);
        }
        Ok(())
    }

    fn take_back(&mut self, session: SessionId, grants: Few<Grant>, turn: &mut Turn) {
        self.run_own(Command::Unheard { session, grants }, turn);
    }

    /// Runs a command of the desk itself. Those are never refused.
    fn run_own(&mut self, command: Command, turn: &mut Turn) {
        self.engine.execute(turn, &Actor::Desk, command).expect("a command of the desk is never refused");
    }
}

/// Answers everybody, and says what was granted to those who were not there any more.
fn tell(answers: &mut Vec<Answer>) -> Vec<(SessionId, Few<Grant>)> {
    let unheard = |answer: Answer| match ((answer.on_reply)(answer.reply), answer.session) {
        (Err(Reply { outcome: Ok(Outcome::Granted(grants)), .. }), Some(session)) => Some((session, grants)),
        _ => None,
    };
    answers.drain(..).filter_map(unheard).collect()
}
