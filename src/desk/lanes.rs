//! Large messages wait here, so that the small messages of other sessions go ahead of them.
//!
//! A message that brings thousands of keys takes the desk for tens of milliseconds, and a session may send many of them. So
//! does one with a pattern that is to be compared with everything that is held.
//!
//! * A small message is decided in the turn that takes it from the inbox.
//! * A large one waits in the lane of its session, and what the session sends after it waits behind it. So the messages of
//!   one session keep their order.
//! * A turn decides one large message at most, and no message from the inbox. The owners of the sessions take turns, and so do
//!   the sessions of one owner: a worker has no more of the time because it has many sessions.
//! * A wait whose client has gone leaves its lane at once. Otherwise clients that give up and ask again would fill it.
//! * While other sessions are active, large messages have a small share of the desk's time: after each of them the lanes
//!   rest for a multiple of the time that it took. A session that is alone does not rest.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{DeskMessage, Submission, Ticket};
use crate::engine::{Actor, Command, Owner, SessionId};

/// After a large message, the lanes rest this many times as long as it took: it has a 49th of the time. A session that sends
/// one small request after another then meets a large one in far less than one of a hundred.
const REST_FACTOR: u32 = 48;

/// The same after a slice of releases that are recorded afterwards. A slice takes a millisecond or two, and what is over
/// counts as held until its release is recorded.
const SWEEP_REST_FACTOR: u32 = 12;

/// The longest rest, so that a slow disk does not stop large messages altogether.
const REST_MAX: Duration = Duration::from_millis(500);

/// A session whose last message is older than this is not active.
const ACTIVE_TIME: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Lanes {
    /// By session. Callers without one share a lane.
    held: HashMap<Option<SessionId>, Lane>,
    /// The sessions with messages here by the one that they belong to, the next one first.
    sessions: HashMap<LaneOwner, VecDeque<Option<SessionId>>>,
    /// The owners of these sessions, the next one first.
    order: VecDeque<LaneOwner>,
    /// The sessions of the waits here. They can be cancelled.
    waits: HashMap<Ticket, Option<SessionId>>,
    rest_until: Option<Instant>,
    sweep_rest_until: Option<Instant>,
    /// The session that sent the last small message, and the last one of another session. None is a caller without one.
    active: [Option<(Option<SessionId>, Instant)>; 2],
}

/// Who takes turns with others.
#[derive(Clone, PartialEq, Eq, Hash)]
enum LaneOwner {
    /// A session with a token of its own, or the callers without a session.
    Session(Option<SessionId>),
    /// A worker, for all of its sessions.
    Worker(Owner),
}

impl LaneOwner {
    /// The owner of a session that sends this message.
    fn of(session: Option<&SessionId>, message: &DeskMessage) -> LaneOwner {
        match message {
            DeskMessage::Submit(Submission { actor: Actor::Session(caller), .. })
            | DeskMessage::Read { actor: Actor::Session(caller), .. }
                if caller.owner != Owner::Itself =>
            {
                LaneOwner::Worker(caller.owner.clone())
            }
            _ => LaneOwner::Session(session.cloned()),
        }
    }
}

struct Lane {
    owner: LaneOwner,
    messages: VecDeque<HeldMessage>,
}

struct HeldMessage {
    message: DeskMessage,
    is_large: bool,
    /// As which one it was taken from the inbox.
    number: u64,
}

impl Lanes {
    /// Returns the message if it is to be decided now. Otherwise keeps it for [`Lanes::take`].
    pub fn pass(
        &mut self,
        message: DeskMessage,
        session: Option<SessionId>,
        is_large: bool,
        number: u64,
        now: Instant,
    ) -> Option<DeskMessage> {
        // A small message of a caller without a session follows no other.
        let is_behind = session.is_some() && self.held.contains_key(&session);
        match is_large || is_behind {
            true => {
                if let Some(ticket) = ticket_of_wait(&message) {
                    self.waits.insert(ticket, session.clone());
                }
                if !self.held.contains_key(&session) {
                    let owner = LaneOwner::of(session.as_ref(), &message);
                    self.line_up(owner.clone(), session.clone());
                    self.held.insert(session.clone(), Lane { owner, messages: VecDeque::new() });
                }
                let lane = self.held.get_mut(&session).expect("it has a lane by now");
                lane.messages.push_back(HeldMessage { message, is_large, number });
                None
            }
            false => {
                self.note_active(session, now);
                Some(message)
            }
        }
    }

    /// Adds a session behind the others of its owner.
    fn line_up(&mut self, owner: LaneOwner, session: Option<SessionId>) {
        let order = &mut self.order;
        let sessions = self.sessions.entry(owner).or_insert_with_key(|owner| {
            order.push_back(owner.clone());
            VecDeque::new()
        });
        sessions.push_back(session);
    }

    /// The next session, if there is one.
    fn next(&self) -> Option<Option<&SessionId>> {
        let sessions = self.sessions.get(self.order.front()?)?;
        sessions.front().map(Option::as_ref)
    }

    fn note_active(&mut self, session: Option<SessionId>, now: Instant) {
        let [last, other] = &mut self.active;
        if last.as_ref().is_some_and(|(active, _)| *active != session) {
            *other = last.take();
        }
        *last = Some((session, now));
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether the next large message may be decided now.
    pub fn may_take(&self, now: Instant) -> bool {
        self.next().is_some_and(|session| self.is_rested(session, now))
    }

    /// Whether a large message of this session may be decided now.
    pub fn is_rested(&self, session: Option<&SessionId>, now: Instant) -> bool {
        self.rest_until.is_none_or(|until| now >= until) || !self.is_another_active(session, now)
    }

    /// Whether a slice of releases may be recorded now.
    pub fn may_sweep(&self, now: Instant) -> bool {
        self.sweep_rest_until.is_none_or(|until| now >= until) || !self.is_another_active(None, now)
    }

    fn is_another_active(&self, session: Option<&SessionId>, now: Instant) -> bool {
        let is_other = |active: &Option<SessionId>| session.is_none() || active.as_ref() != session;
        self.active.iter().flatten().any(|(active, at)| is_other(active) && now < *at + ACTIVE_TIME)
    }

    /// How long until the rests are over, at most.
    pub fn rest_left(&self, now: Instant) -> Duration {
        let left = |until: &Instant| until.saturating_duration_since(now);
        let rests = [self.rest_until.filter(|_| !self.is_empty()), self.sweep_rest_until];
        rests.iter().flatten().map(left).filter(|left| !left.is_zero()).min().unwrap_or_default().min(ACTIVE_TIME)
    }

    /// Rests after a large message that took `time`.
    pub fn rest(&mut self, time: Duration, now: Instant) {
        self.rest_until = Some(now + (time * REST_FACTOR).min(REST_MAX));
    }

    /// Rests after a slice of releases that took `time`.
    pub fn rest_from_sweep(&mut self, time: Duration, now: Instant) {
        self.sweep_rest_until = Some(now + (time * SWEEP_REST_FACTOR).min(REST_MAX));
    }

    /// The next large message, with the small ones of its session around it.
    pub fn take(&mut self) -> Vec<DeskMessage> {
        let Some(owner) = self.order.pop_front() else { return Vec::new() };
        let sessions = self.sessions.get_mut(&owner).expect("every owner in the order has sessions");
        let session = sessions.pop_front().expect("and at least one");
        if sessions.is_empty() {
            self.sessions.remove(&owner);
        } else {
            self.order.push_back(owner.clone());
        }
        let lane = &mut self.held.get_mut(&session).expect("every session in line has messages").messages;
        let is_large = |held: &HeldMessage| held.is_large;
        let first = lane.iter().position(is_large).unwrap_or(0);
        let count = lane.iter().skip(first + 1).position(is_large).map_or(lane.len(), |more| first + 1 + more);
        let messages: Vec<DeskMessage> = lane.drain(..count).map(|held| held.message).collect();
        if lane.is_empty() {
            self.held.remove(&session);
        } else {
            self.line_up(owner, session);
        }
        for ticket in messages.iter().filter_map(ticket_of_wait) {
            self.waits.remove(&ticket);
        }
        messages
    }

    /// Drops a wait whose client has gone. Returns whether it was here.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(session) = self.waits.remove(&ticket) else { return false };
        let lane = self.held.get_mut(&session).expect("its message is here");
        lane.messages.retain(|held| ticket_of_wait(&held.message) != Some(ticket));
        if lane.messages.is_empty() {
            let owner = self.held.remove(&session).expect("it was here").owner;
            let sessions = self.sessions.get_mut(&owner).expect("a session with a lane is in line");
            sessions.retain(|other| *other != session);
            if sessions.is_empty() {
                self.sessions.remove(&owner);
                self.order.retain(|other| *other != owner);
            }
        }
        true
    }

    /// All messages, for the last turn.
    pub fn take_all(&mut self) -> Vec<DeskMessage> {
        let mut all = Vec::new();
        while !self.is_empty() {
            all.append(&mut self.take());
        }
        all
    }

    /// The number of the oldest message here.
    pub fn oldest(&self) -> Option<u64> {
        self.held.values().filter_map(|lane| lane.messages.front()).map(|held| held.number).min()
    }
}

/// Of a request that may wait. All others are carried out although their clients have gone.
fn ticket_of_wait(message: &DeskMessage) -> Option<Ticket> {
    match message {
        DeskMessage::Submit(Submission { command: Command::Reserve(ask), ticket, .. }) if ask.wait.is_some() => {
            Some(*ticket)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::Reply;
    use crate::engine::{Few, Mode, Reserve, SessionIdentity};

    fn session(id: &str) -> SessionId {
        SessionId::parse(id).unwrap()
    }

    fn numbers(messages: Vec<DeskMessage>) -> Vec<u64> {
        let number = |message: DeskMessage| match message {
            DeskMessage::Cancel(Ticket(number)) => number,
            _ => unreachable!("the tests use no other"),
        };
        messages.into_iter().map(number).collect()
    }

    /// Sends messages: the session, and whether it is large. Returns the numbers of those that are decided now.
    fn send(lanes: &mut Lanes, now: Instant, messages: &[(&str, bool)]) -> Vec<u64> {
        let send = |(number, (id, is_large)): (u64, &(&str, bool))| {
            lanes.pass(DeskMessage::Cancel(Ticket(number)), Some(session(id)), *is_large, number, now)
        };
        numbers((1..).zip(messages).filter_map(send).collect())
    }

    #[test]
    fn small_messages_go_ahead_and_the_messages_of_a_session_keep_their_order() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let messages = [("ana", false), ("ana", true), ("bo", false), ("ana", false), ("ana", true), ("bo", true)];
        assert_eq!(send(&mut lanes, now, &messages), [1, 3]);
        assert_eq!(lanes.oldest(), Some(2));
        assert_eq!(numbers(lanes.take()), [2, 4], "one large message, and the small one behind it");
        assert_eq!(numbers(lanes.take()), [6], "then the other session");
        assert_eq!(lanes.oldest(), Some(5));
        assert_eq!(numbers(lanes.take_all()), [5]);
        assert_eq!((lanes.is_empty(), lanes.oldest()), (true, None));
        assert_eq!(send(&mut lanes, now, &[("ana", false)]), [1], "nothing of it is left to wait behind");
    }

    fn reserve(id: &str, number: u64, wait: Option<Duration>) -> DeskMessage {
        let (session, wants) = (session(id), Few::default());
        let ask = Reserve { session, wants, mode: Mode::Exclusive, reason: None, wait, if_version: None };
        DeskMessage::Submit(Submission {
            actor: Actor::Desk,
            command: Command::Reserve(ask),
            ticket: Ticket(number),
            submitted: Instant::now(),
            on_reply: Box::new(|_: Reply| {}),
        })
    }

    fn of_worker(id: &str, worker: &str, number: u64) -> DeskMessage {
        let owner = Owner::Worker { iss: None, sub: worker.into() };
        let caller =
            SessionIdentity { id: session(id), name: None, feature: None, owner, issued: None, hears_notices: true };
        match reserve(id, number, None) {
            DeskMessage::Submit(submission) => {
                DeskMessage::Submit(Submission { actor: Actor::Session(caller), ..submission })
            }
            other => other,
        }
    }

    /// With 600 sessions of one worker that each sent large requests, those of another session took 33 s.
    #[test]
    fn a_worker_with_many_sessions_takes_turns_as_one() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let mut number = 0;
        let mut send = |lanes: &mut Lanes, id: &str, worker: &str| {
            number += 1;
            let message = of_worker(id, worker, number);
            assert!(lanes.pass(message, Some(session(id)), true, number, now).is_none());
        };
        for n in 0..9 {
            send(&mut lanes, &format!("many{n}"), "crowd");
            send(&mut lanes, &format!("many{n}"), "crowd");
        }
        send(&mut lanes, "one", "alone");
        send(&mut lanes, "one", "alone");
        let mut next = || match lanes.take().pop() {
            Some(DeskMessage::Submit(Submission { command, .. })) => command.session().unwrap().to_string(),
            _ => panic!("a message"),
        };
        let turns: Vec<String> = (0..6).map(|_| next()).collect();
        assert_eq!(turns, ["many0", "one", "many1", "one", "many2", "many3"]);
        assert_eq!(lanes.take_all().len(), 18 - 4);
        assert!(lanes.is_empty() && lanes.sessions.is_empty() && lanes.held.is_empty());
    }

    /// Clients that gave up large waits and asked again filled the memory with what they did not wait for any more.
    #[test]
    fn a_wait_leaves_its_lane_with_its_client() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let wait = Some(Duration::from_secs(60));
        for (number, wait) in [(1, wait), (2, None), (3, wait)] {
            assert!(lanes.pass(reserve("ana", number, wait), Some(session("ana")), true, number, now).is_none());
        }
        assert!(lanes.cancel(Ticket(1)) && !lanes.cancel(Ticket(1)));
        assert!(!lanes.cancel(Ticket(2)), "what does not wait is carried out");
        assert_eq!((lanes.oldest(), lanes.take().len()), (Some(2), 1));
        assert!(lanes.cancel(Ticket(3)));
        assert_eq!((lanes.is_empty(), lanes.held.len(), lanes.sessions.len(), lanes.waits.len()), (true, 0, 0, 0));
        lanes.pass(reserve("ana", 4, wait), Some(session("ana")), true, 4, now);
        assert_eq!(lanes.take().len(), 1);
        assert!(!lanes.cancel(Ticket(4)), "it is being decided");
    }

    #[test]
    fn large_messages_rest_while_another_session_is_active() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let after = |milliseconds: u64| now + Duration::from_millis(milliseconds);
        assert!(!lanes.may_take(now));
        send(&mut lanes, now, &[("ana", false), ("ana", true)]);
        lanes.rest(Duration::from_millis(1), now);
        assert!(lanes.may_take(now), "ana is alone");
        lanes.rest_from_sweep(Duration::from_micros(100), now);
        assert!(!lanes.may_sweep(now) && lanes.may_sweep(after(2)));
        send(&mut lanes, after(1), &[("bo", false)]);
        send(&mut lanes, after(2), &[("carl", false)]);
        assert!(!lanes.may_take(after(3)));
        assert_eq!(lanes.rest_left(after(3)), Duration::from_millis(45));
        assert!(lanes.may_take(after(48)), "the rest is over");
        lanes.rest(Duration::from_secs(10), after(80));
        assert!(!lanes.may_take(after(101)), "carl was active");
        assert!(lanes.may_take(after(102)), "no other session is active");
        send(&mut lanes, after(200), &[("bo", false)]);
        assert!(!lanes.may_take(after(201)));
        assert!(lanes.may_take(after(580)), "a rest has an end");
    }
}
