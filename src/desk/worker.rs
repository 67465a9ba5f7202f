//! The desk's thread: takes messages in batches, lets the engine decide, appends, publishes, replies.
//!
//! One turn takes what is in the inbox, makes all its records durable with one append, and only then sends the replies.
//! Large messages have turns of their own; see `lanes`. Start at [`Worker::run`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::contention::{KEYS_OF_REQUEST_MAX, KeyBlockers};
use super::gathering::Gathering;
use super::inbox::{Inbox, Waited};
use super::lanes::Lanes;
use super::presence::{Presence, READ_POLL, WAKE_EVERY};
use super::snapshot::Snapshots;
use super::{Clock, DeskMessage, OnReply, ReadCallback, Reply, Shared, StateRead, Submission, Ticket, log};
use crate::engine::{
    Actor, Command, Engine, Event, LeftWhy, Outcome, Record, Refusal, Seq, SessionId, SessionName, Timestamp, Turn,
    WaiterId, Why,
};
use crate::journal::{Journal, JournalError};

/// The largest number of messages in one turn. They share one sync, so the first one waits for the last one.
const BATCH_MAX: u64 = 4096;

/// The work after which a turn takes no further message: some milliseconds. See [`Engine::work`].
const TURN_WORK: u64 = 4_000_000;

/// The number of records, and of bytes of text in them, after which a turn takes no further message. What one message
/// brings is limited too, so a turn appends a bounded amount.
const TURN_RECORDS: usize = 4096;
const TURN_BYTES: usize = 4 << 20;

/// The work after which the rest of the reads waits for the next turn: a fraction of a millisecond.
const READ_WORK: u64 = 40_000;

/// A message with more keys is large: it takes a few milliseconds or more. See [`Command::weight`].
const LARGE_KEYS: usize = 500;

/// Above this number of releases still to be recorded, every turn records some: until then they take memory.
const BACKLOG_MAX: usize = 100_000;

/// How long the thread polls the inbox before it sleeps. A client that sends requests back to back sends the next one
/// within this time, and waking a sleeping thread would take about as long.
const POLL_TIME: Duration = Duration::from_micros(100);

/// After a turn with more messages it sleeps at once: many clients are busy, and the processor is theirs.
const POLL_TAKEN_MAX: u64 = 8;

/// The longest sleep while a request waits for room.
const RETRY_EVERY: Duration = Duration::from_millis(10);

/// How often the counts of refusals are recorded, if they changed.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The longest sleep while there is no deadline. It only limits how late a count is recorded.
const SLEEP_MAX: Duration = Duration::from_secs(10);

pub(super) struct Worker {
    engine: Engine,
    journal: Box<dyn Journal>,
    clock: Box<dyn Clock>,
    snapshots: Snapshots,
    presence: Presence,
    shared: Arc<Shared>,
    /// When the commands of this turn were submitted.
    submit_times: Vec<Instant>,
    /// The queue entries of waiting commands by ticket.
    tickets: HashMap<Ticket, WaiterId>,
    /// Waiting commands by queue entry.
    waiting: HashMap<WaiterId, WaitingCommand>,
    last_count: Timestamp,
    /// Messages to be handled before those in the inbox: they wait for something to expire.
    deferred: VecDeque<DeskMessage>,
    /// Requests over a quota in which reservations count that have ended, the small ones first. The first is decided again in
    /// every turn, but a large one no more often than the lanes allow.
    for_room: VecDeque<(Submission, EndedBefore)>,
    /// Large messages, and what waits behind them.
    lanes: Lanes,
    /// More has reached its deadline than could be ended in this turn.
    is_expiry_late: bool,
    gathering: Gathering,
    /// How many messages the last turn took that took any.
    last_taken: u64,
    /// A large message has this turn, so it may do more work than in one that others share.
    is_large_turn: bool,
    /// No command may begin to wait.
    closing: bool,
}

/// Whether a command brings so many keys that it has a turn of its own.
fn is_large(command: &Command) -> bool {
    command.weight() > LARGE_KEYS
}

/// When a request was found to be over a quota: what had ended by then is to be released before it is refused.
#[derive(Clone, Copy)]
struct EndedBefore {
    /// Everything that one record ended up to this one.
    head: Seq,
    /// Everything whose deadline was reached by then, if the desk may end it.
    due: Option<Timestamp>,
}

/// A command that waits for its result.
struct WaitingCommand {
    ticket: Ticket,
    session: SessionId,
    since: Timestamp,
    /// The first of the keys that it waits for.
    keys: Vec<String>,
    /// What blocked them when the wait began.
    blockers: KeyBlockers,
    on_reply: OnReply,
}

/// What goes out once the records of the turn are durable.
#[derive(Default)]
struct Outbox {
    replies: Vec<ReadyReply>,
    /// Replies to commands that waited.
    wait_replies: Vec<ReadyReply>,
    /// They may be left for the next turn.
    reads: VecDeque<(Actor, Option<Refusal>, ReadCallback)>,
}

impl Outbox {
    fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.wait_replies.is_empty() && self.reads.is_empty()
    }
}

/// How much the messages of a turn have brought.
#[derive(Default)]
struct TurnSize {
    records: usize,
    bytes: usize,
}

impl TurnSize {
    /// Counts the records that are new. Whether the turn takes no further message.
    fn is_full(&mut self, records: &[Record]) -> bool {
        self.bytes += records[self.records..].iter().map(|record| record.event.text_bytes()).sum::<usize>();
        self.records = records.len();
        self.records > TURN_RECORDS || self.bytes > TURN_BYTES
    }
}

struct ReadyReply {
    on_reply: OnReply,
    reply: Reply,
}

impl Worker {
    /// `snapshot` is the last record in the journal's snapshot, or zero.
    pub fn new(
        engine: Engine,
        snapshot: Seq,
        journal: Box<dyn Journal>,
        clock: Box<dyn Clock>,
        shared: Arc<Shared>,
    ) -> Self {
        let last_count = clock.now();
        let (snapshots, presence) = (Snapshots::new(snapshot), Presence::new(last_count));
        let (submit_times, tickets, waiting) = (Vec::new(), HashMap::new(), HashMap::new());
        Self {
            engine,
            journal,
            clock,
            snapshots,
            presence,
            shared,
            submit_times,
            tickets,
            waiting,
            last_count,
            deferred: VecDeque::new(),
            for_room: VecDeque::new(),
            lanes: Lanes::default(),
            is_expiry_late: false,
            gathering: Gathering::default(),
            last_taken: 0,
            is_large_turn: false,
            closing: false,
        }
    }

    /// Restarts all deadlines and ends waits whose connections are gone; see [`Engine::resume`].
    pub fn begin(&mut self) -> Result<(), JournalError> {
        let (after, mut turn) = (self.engine.head(), Turn::at(self.clock.now()));
        self.shared.feed.begin(after);
        self.engine.resume(&mut turn);
        self.append(after, &turn.records)?;
        self.measure(0);
        Ok(())
    }

    pub fn run(&mut self, messages: &mut Inbox<DeskMessage>) -> Result<(), JournalError> {
        // Reused by every turn, so that a busy desk does not allocate.
        let (mut turn, mut outbox) = (Turn::default(), Outbox::default());
        let mut has_listened = false;
        loop {
            // What is in the inbox by now goes ahead of a large message, and what comes after that does not.
            let is_ready = self.lanes.may_take(Instant::now());
            let is_large = is_ready && has_listened;
            has_listened = is_ready && !is_large;
            let (first, slept) = match is_large {
                true => (None, Duration::ZERO),
                false => self.next_message(messages, !outbox.reads.is_empty()),
            };
            let (start, metrics) = (Instant::now(), &self.shared.metrics);
            turn.now = self.presence.begin_turn(self.clock.as_ref(), slept, &mut self.engine, metrics);
            let after = self.engine.head();
            let (mut stop, mut abandon, mut taken, work_before) = (false, false, 0, self.engine.work());
            let mut is_emptied = !is_large;
            // What is due ends before any message is decided, unless there may be renewals that were not heard yet.
            let has_swept = self.expire_due(&mut turn, &mut outbox, start);
            for message in std::mem::take(&mut self.deferred) {
                self.handle(message, &mut turn, &mut outbox);
            }
            let has_retried_large = !is_large && self.retry_for_room(&mut turn, &mut outbox, start);
            if is_large {
                self.is_large_turn = true;
                for message in self.lanes.take() {
                    self.handle(message, &mut turn, &mut outbox);
                }
                self.is_large_turn = false;
            } else {
                let (mut size, mut first) = (TurnSize::default(), first);
                while let Some(message) =
                    first.take().or_else(|| self.next_of_turn(messages, taken, !turn.records.is_empty()))
                {
                    stop |= matches!(message, DeskMessage::Stop);
                    abandon |= matches!(message, DeskMessage::Abandon);
                    taken += 1;
                    if let Some(message) = self.pass(message, taken, start) {
                        self.handle(message, &mut turn, &mut outbox);
                    }
                    let is_full = self.engine.work() - work_before > TURN_WORK || size.is_full(&turn.records);
                    if stop || abandon || is_full || taken == BATCH_MAX {
                        is_emptied = false;
                        break;
                    }
                }
            }
            if stop {
                self.is_large_turn = true;
                for message in self.lanes.take_all() {
                    self.handle(message, &mut turn, &mut outbox);
                }
                for (submission, ended) in std::mem::take(&mut self.for_room) {
                    self.decide(submission, Some(ended), &mut turn, &mut outbox);
                    self.settle(&mut turn, &mut outbox);
                }
            }
            if abandon {
                return Err(JournalError::Deposed);
            }
            self.append(after, &turn.records)?;
            // An append has shown that no other server decides. Without one, the journal must know.
            if turn.records.is_empty() && !outbox.is_empty() {
                self.journal.confirm()?;
            }
            if taken > 0 {
                self.last_taken = taken;
                self.gathering.end_turn(taken);
            }
            self.measure(taken);
            self.presence.end_turn(is_emptied, || self.lanes.oldest(), &self.shared.metrics);
            self.deliver(&mut outbox, turn.now, stop);
            self.journal.maintain();
            let work = self.engine.work() - work_before;
            self.shared.metrics.note_turn(turn.records.len() as u64, work);
            turn.records.clear();
            if stop {
                return Ok(());
            }
            let end = Instant::now();
            if is_large || has_retried_large {
                self.lanes.rest(end - start, end);
            } else if has_swept {
                self.lanes.rest_from_sweep(end - start, end);
            }
        }
    }

    /// Returns the message if it is to be decided in this turn, which has taken `taken` of them from the inbox.
    fn pass(&mut self, message: DeskMessage, taken: u64, now: Instant) -> Option<DeskMessage> {
        let session = match &message {
            DeskMessage::Cancel(ticket) if self.lanes.cancel(*ticket) => return None,
            DeskMessage::Submit(submission) => submission.session(),
            DeskMessage::Read { actor, .. } => actor.session(),
            DeskMessage::Cancel(ticket) => {
                self.tickets.get(ticket).and_then(|waiter| self.waiting.get(waiter)).map(|waiting| &waiting.session)
            }
            DeskMessage::ReturnGrants { session, .. } => Some(session),
            // They belong to no session.
            _ => return Some(message),
        };
        let (session, is_large) = (session.cloned(), self.is_large(&message));
        session.iter().for_each(|session| self.gathering.note_session(session));
        self.lanes.pass(message, session, is_large, self.shared.metrics.taken() + taken, now)
    }

    fn is_large(&self, message: &DeskMessage) -> bool {
        match message {
            DeskMessage::Submit(Submission { command, .. }) => is_large(command),
            DeskMessage::Read { is_large, .. } => *is_large,
            DeskMessage::Cancel(ticket) => self.tickets.get(ticket).is_some_and(|waiter| {
                let keys = self.engine.waited_keys(*waiter, LARGE_KEYS + 1);
                keys.count() > LARGE_KEYS
            }),
            DeskMessage::ReturnGrants { grants, .. } => grants.len() > LARGE_KEYS,
            _ => false,
        }
    }

    /// A further message for a turn that has taken `taken` of them. A turn that appends may wait a moment for it.
    fn next_of_turn(&mut self, messages: &mut Inbox<DeskMessage>, taken: u64, appends: bool) -> Option<DeskMessage> {
        if let Some(message) = messages.try_next() {
            return Some(message);
        }
        if !appends || taken == 0 {
            return None;
        }
        let (wanted, left) = self.gathering.wait(taken, Instant::now())?;
        match messages.await_messages(wanted, left) {
            Waited::Message(message) => Some(message),
            Waited::TimeOver | Waited::Abandoned => None,
        }
    }

    /// The next message, or none when something is due; and how long the thread meant to sleep for it.
    fn next_message(&self, messages: &mut Inbox<DeskMessage>, has_reads: bool) -> (Option<DeskMessage>, Duration) {
        let start = Instant::now();
        if has_reads
            || self.may_sweep(start)
            || self.may_retry(start)
            || !self.deferred.is_empty()
            || self.lanes.may_take(start)
        {
            return (messages.try_next(), Duration::ZERO);
        }
        while self.last_taken <= POLL_TAKEN_MAX && start.elapsed() < POLL_TIME {
            match messages.try_next() {
                Some(message) => return (Some(message), Duration::ZERO),
                // Not a yield: Linux takes it for a wish to run later, and would let the thread wait for a tick, 4 ms, the next
                // time that it is woken while others compute.
                None => std::hint::spin_loop(),
            }
        }
        let time = self.sleep_time();
        let message = match messages.next_within(time) {
            Waited::Message(message) => Some(message),
            Waited::TimeOver => None,
            Waited::Abandoned => Some(DeskMessage::Stop),
        };
        (message, time)
    }

    fn sleep_time(&self) -> Duration {
        let time = match self.engine.next_due() {
            Some(_) if self.presence.is_reading() => READ_POLL,
            Some(due) => self.clock.now().until(due).min(WAKE_EVERY),
            None => SLEEP_MAX,
        };
        let time = if self.for_room.is_empty() { time } else { time.min(RETRY_EVERY) };
        match self.engine.has_backlog() || !self.lanes.is_empty() {
            true => time.min(self.lanes.rest_left(Instant::now())),
            false => time,
        }
    }

    /// Whether there are releases to be recorded, and now is the time for some of them.
    fn may_sweep(&self, now: Instant) -> bool {
        let is_needed = self.engine.backlog() > BACKLOG_MAX
            || self.for_room.front().is_some_and(|(waits, _)| !is_large(&waits.command));
        self.engine.has_backlog() && (is_needed || self.lanes.may_sweep(now))
    }

    /// Whether a request waits for room, and may be decided again now.
    fn may_retry(&self, now: Instant) -> bool {
        self.for_room.front().is_some_and(|(waits, _)| {
            !is_large(&waits.command) && self.is_expiry_late
                || is_large(&waits.command) && self.lanes.is_rested(waits.session(), now)
        })
    }

    /// Ends what is due, and records the counts from time to time. Returns whether releases were recorded that no client
    /// waits for.
    fn expire_due(&mut self, turn: &mut Turn, outbox: &mut Outbox, start: Instant) -> bool {
        let now = turn.now;
        let is_due = |engine: &Engine| engine.next_due().is_some_and(|due| due <= now);
        self.is_expiry_late = false;
        // After an absence the connections are read at once, and not only when something is due: until then the thread does
        // not sleep for long.
        let must_look = is_due(&self.engine) || self.presence.is_reading();
        if must_look && self.presence.may_expire(now, &self.shared.metrics) && is_due(&self.engine) {
            let before = turn.records.len();
            self.run_own(Command::Tick, turn);
            log::log_expired(&self.shared.name, &turn.records[before..]);
            self.settle(turn, outbox);
            self.is_expiry_late = is_due(&self.engine);
        }
        let sweeps = self.may_sweep(start);
        if sweeps {
            self.run_own(Command::Sweep, turn);
            self.settle(turn, outbox);
        }
        if self.last_count.until(now) >= COUNT_EVERY {
            self.last_count = now;
            self.run_own(Command::Count, turn);
        }
        sweeps
    }

    /// Decides requests again that had too little room, until one has too little room again. Whether the last one was large.
    fn retry_for_room(&mut self, turn: &mut Turn, outbox: &mut Outbox, now: Instant) -> bool {
        while let Some((submission, ended)) = self.for_room.pop_front() {
            let is_large = is_large(&submission.command);
            if is_large && !self.lanes.is_rested(submission.session(), now) {
                self.for_room.push_front((submission, ended));
                return false;
            }
            let without_room = self.decide(submission, Some(ended), turn, outbox);
            self.settle(turn, outbox);
            let is_again = without_room.is_some();
            without_room.into_iter().for_each(|waits| self.for_room.push_front(waits));
            if is_again || is_large {
                return is_large;
            }
        }
        false
    }

    /// Decides a command. Returns it if it is over a quota in which reservations count that have ended. `ended` says since
    /// when it is known to be.
    fn decide(
        &mut self,
        submission: Submission,
        ended: Option<EndedBefore>,
        turn: &mut Turn,
        outbox: &mut Outbox,
    ) -> Option<(Submission, EndedBefore)> {
        let now = turn.now;
        if submission.on_reply.is_abandoned() {
            self.submit_times.push(submission.submitted);
            return None;
        }
        if self.is_expiry_late && !self.engine.expire_in_the_way(turn, &submission.command) {
            self.deferred.push_back(DeskMessage::Submit(submission));
            return None;
        }
        let Submission { actor, command, .. } = &submission;
        let work_before = self.engine.work();
        let outcome = match self.is_large_turn {
            true => self.engine.execute(turn, actor, command),
            false => self.engine.execute_small(turn, actor, command),
        };
        if matches!(outcome, Err(Refusal::TooMuchWork)) && !self.is_large_turn {
            let session = submission.session().cloned();
            self.lanes.pass(
                DeskMessage::Submit(submission),
                session,
                true,
                self.shared.metrics.taken(),
                Instant::now(),
            );
            return None;
        }
        let work = self.engine.work() - work_before;
        if matches!(outcome, Err(Refusal::OverQuota { .. })) && command.needs_room() && !self.closing {
            let due = self.is_expiry_late.then_some(now);
            let ended = ended.unwrap_or(EndedBefore { head: self.engine.head(), due });
            if self.engine.counts_ended(ended.head, ended.due) {
                return Some((submission, ended));
            }
        }
        let Submission { actor, ticket, submitted, on_reply, .. } = submission;
        self.submit_times.push(submitted);
        match outcome {
            Ok(Outcome::Queued(waiter)) if self.closing => {
                let leave = Command::Leave { waiter, why: LeftWhy::Stopped };
                self.run_own(leave, turn);
                let outcome = Err(Refusal::WaitOver { why: LeftWhy::Stopped, conflicts: Vec::new() });
                let reply = Reply { outcome, notices: Vec::new(), seq: self.engine.head(), now, work };
                outbox.replies.push(ReadyReply { on_reply, reply });
            }
            Ok(Outcome::Queued(seq)) => {
                let session = self.engine.waiter(seq).expect("just queued");
                let keys = self.engine.waited_keys(seq, KEYS_OF_REQUEST_MAX).map(|key| key.shown()).collect();
                let blockers = self.engine.first_blockers(seq);
                self.tickets.insert(ticket, seq);
                let waiting = WaitingCommand { ticket, session, since: now, keys, blockers, on_reply };
                self.waiting.insert(seq, waiting);
            }
            outcome => {
                if let (Err(refusal), Actor::Session(intro)) = (&outcome, &actor) {
                    let who = SessionName { session: intro.id.clone(), name: intro.name.clone() };
                    self.shared.contention.note_refusal(now, who, refusal);
                }
                let notices = match &actor {
                    Actor::Session(intro) => self.engine.take_own_notices(intro),
                    _ => Vec::new(),
                };
                let reply = Reply { outcome, notices, seq: self.engine.head(), now, work };
                outbox.replies.push(ReadyReply { on_reply, reply });
            }
        }
        None
    }

    fn handle(&mut self, message: DeskMessage, turn: &mut Turn, outbox: &mut Outbox) {
        match message {
            DeskMessage::Submit(submission) => {
                if let Some(waits) = self.decide(submission, None, turn, outbox) {
                    let small = self.for_room.partition_point(|(other, _)| !is_large(&other.command));
                    let at = if is_large(&waits.0.command) { self.for_room.len() } else { small };
                    self.for_room.insert(at, waits);
                }
            }
            DeskMessage::Read { actor, on_read, .. } => {
                let refusal = self.engine.execute(turn, &actor, Command::Touch).err();
                outbox.reads.push_back((actor, refusal, on_read));
            }
            DeskMessage::Cancel(ticket) => {
                if let Some(waiter) = self.tickets.get(&ticket).copied() {
                    let leave = Command::Leave { waiter, why: LeftWhy::Gone };
                    self.run_own(leave, turn);
                }
            }
            DeskMessage::ReturnGrants { session, grants } => self.run_own(Command::Unheard { session, grants }, turn),
            DeskMessage::Intake(intake) => self.presence.set_intake(intake),
            DeskMessage::Policy(policy) => self.engine.set_policy(policy),
            DeskMessage::Poke | DeskMessage::Abandon => {}
            DeskMessage::Close | DeskMessage::Stop => {
                self.closing = true;
                let waiters: Vec<WaiterId> = self.waiting.keys().copied().collect();
                for waiter in waiters {
                    let leave = Command::Leave { waiter, why: LeftWhy::Stopped };
                    self.run_own(leave, turn);
                }
                self.run_own(Command::Count, turn);
            }
        }
        self.settle(turn, outbox);
    }

    /// Prepares the replies of waits that have just ended.
    fn settle(&mut self, turn: &mut Turn, outbox: &mut Outbox) {
        let now = turn.now;
        for (seq, outcome) in turn.settled.drain(..) {
            let Some(waiting) = self.waiting.remove(&seq) else { continue };
            let WaitingCommand { ticket, session, since, keys, blockers, on_reply } = waiting;
            self.tickets.remove(&ticket);
            let contention = &self.shared.contention;
            let who = self.engine.session_name_by_id(&session);
            contention.note_wait(now, who.clone(), keys, blockers, since.until(now));
            if let Err(refusal) = &outcome {
                contention.note_refusal(now, who, refusal);
            }
            let notices = self.engine.take_notices(&session);
            let reply = Reply { outcome, notices, seq: self.engine.head(), now, work: 0 };
            outbox.wait_replies.push(ReadyReply { on_reply, reply });
        }
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        if records.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        if let Err(error) = self.journal.append(after, records) {
            // Set before the reply closures are dropped: their clients ask for the reason then.
            self.shared.outcome_unknown.store(error.may_be_stored(), Ordering::SeqCst);
            return Err(error);
        }
        let (metrics, time) = (&self.shared.metrics, start.elapsed());
        self.gathering.note_append(time);
        metrics.appends.add_time(time);
        if let Some(time) = self.journal.sync_time() {
            metrics.syncs.add_time(time);
        }
        metrics.batches.add_number(records.len() as u64);
        for record in records {
            if let Event::Released { session, why: Why::Expired, .. } = &record.event {
                self.shared.contention.note_expired(record.at, self.engine.session_name_by_id(session));
            }
        }
        self.shared.feed.publish(records);
        self.snapshots.start_if_due(records, &self.engine, self.journal.as_ref());
        Ok(())
    }

    /// Updates the metrics after a turn that took `taken` messages.
    fn measure(&mut self, taken: u64) {
        let (metrics, now) = (&self.shared.metrics, Instant::now());
        for submitted in self.submit_times.drain(..) {
            metrics.decisions.add_time(now.saturating_duration_since(submitted));
        }
        metrics.end_turn(taken, self.engine.head(), &self.engine.numbers());
    }

    /// Calls the closures of the turn, now that its records are durable. Reads beyond [`READ_WORK`] wait for the next turn,
    /// unless this is the `last` one.
    fn deliver(&mut self, outbox: &mut Outbox, now: Timestamp, last: bool) {
        for ReadyReply { on_reply, reply } in outbox.replies.drain(..) {
            on_reply.receive(reply);
        }
        for ReadyReply { on_reply, reply } in outbox.wait_replies.drain(..) {
            on_reply.receive(reply);
        }
        let work_before = self.engine.work();
        while (last || self.engine.work() - work_before <= READ_WORK)
            && let Some((actor, refusal, on_read)) = outbox.reads.pop_front()
        {
            let notices = match &actor {
                Actor::Session(intro) => self.engine.take_own_notices(intro),
                _ => Vec::new(),
            };
            on_read(StateRead { engine: &self.engine, refusal, notices, now });
        }
    }

    /// Executes a command of the desk itself.
    fn run_own(&mut self, command: Command, turn: &mut Turn) {
        self.engine.execute(turn, &Actor::Desk, command).expect("a command of the desk is never refused");
    }
}
