//! The desk with a journal in memory and a clock that only moves when told to.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::engine::{Mode, Owner, Record, ReservationId, Reserve, Seq, SessionIdentity, Ttl, Want};
use crate::journal::{JournalReader, LoadCallback, MemoryJournal};
use crate::key::{Key, KeyRules};

fn desk() -> Desk {
    open(MemoryJournal::new()).0
}

fn open(journal: MemoryJournal) -> (Desk, JoinHandle<()>) {
    open_with(Box::new(journal), ManualClock::new(Timestamp(1_000_000)))
}

fn open_with(journal: Box<dyn Journal>, clock: ManualClock) -> (Desk, JoinHandle<()>) {
    let failed = |error| panic!("{error}");
    Desk::open("test", journal, Box::new(clock), Policy::default(), failed).unwrap()
}

fn reserve(session: &str, key: &str) -> (Actor, Command) {
    let id = SessionId::parse(session).unwrap();
    let key = Key::parse(key, &KeyRules::default()).unwrap();
    let want = Want { id: ReservationId(Uuid::now_v7()), key, ttl: Ttl::Plain(60) };
    let (wait, mode) = (Some(Duration::from_secs(60)), Mode::Exclusive);
    let reserve = Reserve { session: id.clone(), wants: [want].into(), mode, reason: None, wait, if_version: None };
    (
        Actor::Session(SessionIdentity {
            id,
            name: None,
            feature: None,
            owner: Owner::Itself,
            issued: None,
            hears_notices: true,
        }),
        Command::Reserve(reserve),
    )
}

/// A request for the files `0` to `keys - 1` of a directory. It does not wait.
fn reserve_many(session: &str, directory: &str, keys: usize) -> (Actor, Command) {
    let (actor, command) = reserve(session, directory);
    let Command::Reserve(ask) = command else { unreachable!("it is one") };
    let key = |n: usize| Key::parse(&format!("{directory}/{n}"), &KeyRules::default()).unwrap();
    let want = |n: usize| Want { id: ReservationId(Uuid::now_v7()), key: key(n), ttl: Ttl::Plain(60) };
    (actor, Command::Reserve(Reserve { wants: (0..keys).map(want).collect(), wait: None, ..ask }))
}

/// Submits a command; the reply arrives in the channel.
fn send(desk: &Desk, (actor, command): (Actor, Command)) -> Receiver<Reply> {
    let (sender, receiver) = channel();
    desk.submit(actor, command, Box::new(move |reply: Reply| sender.send(reply).unwrap())).unwrap();
    receiver
}

/// Stops the desk in the middle of a turn until something is sent. What is submitted meanwhile is decided in one turn.
fn block(desk: &Desk) -> std::sync::mpsc::Sender<()> {
    let (open_gate, gate) = channel::<()>();
    let (entered, enters) = channel();
    let blocked = move |_: StateRead<'_>| {
        entered.send(()).unwrap();
        gate.recv().unwrap();
    };
    desk.read(Actor::Reader, Box::new(blocked)).unwrap();
    enters.recv().unwrap();
    open_gate
}

/// Submits a reservation that may wait; the reply arrives in the channel.
fn submit(desk: &Desk, session: &str, key: &str) -> Receiver<Reply> {
    let (sender, receiver) = channel();
    let (actor, command) = reserve(session, key);
    desk.submit(actor, command, Box::new(move |reply: Reply| sender.send(reply).unwrap())).unwrap();
    receiver
}

/// Returns the grant in a reply, as `http` does when the connection has closed before the reply.
fn return_grant(desk: &Desk, session: &str, reply: Reply) {
    let Ok(Outcome::Granted(grants)) = reply.outcome else { panic!("{:?}", reply.outcome) };
    desk.return_grants(SessionId::parse(session).unwrap(), grants);
}

/// The held keys, once everything submitted before is decided.
fn held(desk: &Desk) -> Vec<String> {
    let (sender, receiver) = channel();
    let on_read = move |read: StateRead<'_>| {
        let keys: Vec<String> =
            read.engine.sessions().iter().flat_map(|s| read.engine.held(&s.id)).map(shown).collect();
        sender.send(keys).unwrap();
    };
    desk.read(Actor::Reader, Box::new(on_read)).unwrap();
    receiver.recv().unwrap()
}

fn shown(grant: Grant) -> String {
    assert!(grant.fence > Seq::ZERO);
    grant.key.shown()
}

/// A client that disconnected before the decision held the key all the same, for its whole TTL.
#[test]
fn a_grant_that_reaches_no_client_is_released() {
    let desk = desk();
    let undelivered = submit(&desk, "ana", "a").recv().unwrap();
    return_grant(&desk, "ana", undelivered);
    assert_eq!(held(&desk), [""; 0]);
    let granted = submit(&desk, "bo", "a");
    assert!(matches!(granted.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    assert_eq!(held(&desk), ["a"]);
}

#[test]
fn the_next_waiter_gets_a_grant_that_reached_no_client() {
    let desk = desk();
    let first = submit(&desk, "ana", "a");
    assert!(matches!(first.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    let undelivered = submit(&desk, "bo", "a");
    let last = submit(&desk, "carl", "a");
    let (actor, _) = reserve("ana", "a");
    let session = SessionId::parse("ana").unwrap();
    desk.submit(actor, Command::ReleaseAll { session }, Box::new(|_: Reply| ())).unwrap();
    return_grant(&desk, "bo", undelivered.recv().unwrap());
    assert!(matches!(last.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    assert_eq!(held(&desk), ["a"]);
}

#[test]
fn a_returned_grant_that_the_session_had_before_is_kept() {
    let desk = desk();
    submit(&desk, "ana", "a").recv().unwrap();
    let undelivered = submit(&desk, "ana", "a").recv().unwrap();
    return_grant(&desk, "ana", undelivered);
    assert_eq!(held(&desk), ["a"], "the session knows of it from the first reply");
}

/// A server that restarted before it had written enough for a snapshot never took one, and took longer and longer to
/// start.
#[test]
fn the_next_snapshot_is_counted_from_the_last_one() {
    let journal = MemoryJournal::new();
    let (desk, thread) = open(journal.reopen());
    assert!(submit(&desk, "ana", "a").recv().is_ok() && submit(&desk, "ana", "b").recv().is_ok());
    desk.stop();
    thread.join().unwrap();
    let snapshot_of = || {
        let mut clock = ManualClock::new(Timestamp(2_000_000));
        let (engine, snapshot) = recover::recover(&mut journal.reopen(), Policy::default(), &mut clock).unwrap();
        assert_eq!(engine.head(), Seq(3));
        snapshot
    };
    assert_eq!(snapshot_of(), Seq::ZERO);
    snapshot::take(journal.reader().unwrap().as_mut(), Seq(2), Policy::default()).unwrap();
    assert_eq!(snapshot_of(), Seq(2));
}

#[test]
fn a_start_from_a_snapshot_without_records_after_it_does_not_begin_before_the_last_record() {
    let journal = MemoryJournal::new();
    let (desk, thread) = open(journal.reopen());
    submit(&desk, "ana", "a").recv().unwrap();
    desk.stop();
    thread.join().unwrap();
    snapshot::take(journal.reader().unwrap().as_mut(), Seq(u64::MAX), Policy::default()).unwrap();
    let mut clock = ManualClock::new(Timestamp(0));
    recover::recover(&mut journal.reopen(), Policy::default(), &mut clock).unwrap();
    assert_eq!(clock.now(), Timestamp(1_000_000), "the time of the last record");
}

#[test]
fn a_policy_reload_does_not_make_the_inbox_gauge_one_too_low() {
    let desk = desk();
    desk.set_policy(Policy::default());
    let (entered, enters) = channel();
    let (leave, leaves) = channel::<()>();
    // Blocks the thread, so that what comes next stays in the inbox.
    let block = move |_: StateRead<'_>| {
        entered.send(()).unwrap();
        leaves.recv().unwrap();
    };
    desk.read(Actor::Reader, Box::new(block)).unwrap();
    enters.recv().unwrap();
    assert_eq!(desk.metrics().counts().inbox, 0);
    desk.poke();
    assert_eq!(desk.metrics().counts().inbox, 1);
    leave.send(()).unwrap();
    held(&desk);
}

const MINUTE: Duration = Duration::from_secs(60);

fn heartbeat(desk: &Desk, session: &str) -> Reply {
    let (sender, receiver) = channel();
    let (actor, _) = reserve(session, "a");
    let command = Command::Heartbeat { session: SessionId::parse(session).unwrap() };
    desk.submit(actor, command, Box::new(move |reply| sender.send(reply).unwrap())).unwrap();
    receiver.recv().unwrap()
}

#[test]
fn time_while_the_desk_was_away_counts_for_at_most_a_quarter_of_a_second() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let (desk, _) = open_with(Box::new(MemoryJournal::new()), clock.clone());
    let Ok(Outcome::Granted(grants)) = submit(&desk, "ana", "a").recv().unwrap().outcome else { panic!("it is free") };
    assert_eq!(grants[0].expires, Timestamp(1_060_000));
    clock.stall(60 * MINUTE);
    desk.poke();
    assert_eq!(held(&desk), ["a"]);
    clock.advance(MINUTE - Duration::from_millis(251));
    desk.poke();
    assert_eq!(held(&desk), ["a"]);
    clock.advance(Duration::from_millis(1));
    desk.poke();
    assert_eq!(held(&desk), [""; 0], "the quarter of a second and the rest are its TTL");
    let counts = desk.metrics().counts();
    assert_eq!((counts.late_turns, counts.lost_ms), (1, 3_600_000 - 250));
    assert!((3_590_000..=3_600_000).contains(&counts.away_ms_max), "{}", counts.away_ms_max);
}

/// A journal on a disk that takes a long time for every append.
struct SlowJournal {
    journal: MemoryJournal,
    clock: ManualClock,
}

impl Journal for SlowJournal {
    fn load(&mut self, on: LoadCallback<'_>) -> Result<Seq, JournalError> {
        self.journal.load(on)
    }

    fn append(&mut self, after: Seq, records: &[Record]) -> Result<(), JournalError> {
        self.clock.stall(2 * MINUTE);
        self.journal.append(after, records)
    }

    fn reader(&self) -> Result<Box<dyn JournalReader>, JournalError> {
        self.journal.reader()
    }
}

#[test]
fn a_slow_disk_expires_nothing() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let (desk, _) = open_with(Box::new(SlowJournal { journal: MemoryJournal::new(), clock: clock.clone() }), clock);
    for key in ["a", "b", "c"] {
        submit(&desk, "ana", key).recv().unwrap();
    }
    assert_eq!(held(&desk), ["a", "b", "c"]);
}

/// Connections of which a test says how many are unread.
#[derive(Clone, Default)]
struct TestIntake(Arc<Mutex<TestConnections>>);

#[derive(Default)]
struct TestConnections {
    /// What arrives while the process is stopped, unread until then.
    arriving: usize,
    marks: usize,
    looks: usize,
    given_up: bool,
    /// Called at the next look.
    on_look: Option<Box<dyn FnOnce() + Send>>,
}

impl Intake for TestIntake {
    fn mark(&mut self) {
        self.0.lock().unwrap().marks += 1;
    }

    fn unread(&mut self) -> usize {
        let mut connections = self.0.lock().unwrap();
        connections.looks += 1;
        let on_look = connections.on_look.take();
        let unread = connections.arriving;
        drop(connections);
        on_look.into_iter().for_each(|on_look| on_look());
        unread
    }

    fn give_up(&mut self) {
        let mut connections = self.0.lock().unwrap();
        (connections.given_up, connections.arriving) = (true, 0);
    }
}

/// Pokes the desk until `done`.
fn poke_until(desk: &Desk, what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if done() {
            return;
        }
        desk.poke();
        std::thread::yield_now();
    }
    panic!("in vain until {what}");
}

#[test]
fn nothing_expires_while_a_connection_is_unread() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let (desk, _) = open_with(Box::new(MemoryJournal::new()), clock.clone());
    let intake = TestIntake::default();
    desk.set_intake(Box::new(intake.clone()));
    submit(&desk, "ana", "a").recv().unwrap();
    intake.0.lock().unwrap().arriving = 1;
    clock.advance(MINUTE);
    poke_until(&desk, "it looks", || intake.0.lock().unwrap().looks > 2);
    assert_eq!(held(&desk), ["a"]);
    // The connection is read, and a renewal comes of it.
    let renewal = desk.clone();
    intake.0.lock().unwrap().on_look = Some(Box::new(move || {
        let (actor, _) = reserve("ana", "a");
        let session = SessionId::parse("ana").unwrap();
        renewal.submit(actor, Command::Heartbeat { session }, Box::new(|_| ())).unwrap();
    }));
    intake.0.lock().unwrap().arriving = 0;
    poke_until(&desk, "it looks", || intake.0.lock().unwrap().on_look.is_none());
    assert_eq!(held(&desk), ["a"], "it was renewed before it could expire");
    clock.advance(MINUTE);
    poke_until(&desk, "it expires", || held(&desk).is_empty());
    let told = heartbeat(&desk, "ana").notices;
    assert!(matches!(&*told, [Notice::Expired { count: 1, .. }]), "{told:?}");
}

#[test]
fn a_connection_that_stays_unread_is_given_up() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let (desk, _) = open_with(Box::new(MemoryJournal::new()), clock.clone());
    let intake = TestIntake::default();
    desk.set_intake(Box::new(intake.clone()));
    submit(&desk, "ana", "a").recv().unwrap();
    intake.0.lock().unwrap().arriving = 3;
    clock.advance(MINUTE);
    poke_until(&desk, "it looks", || intake.0.lock().unwrap().looks > 0);
    clock.advance(Duration::from_millis(900));
    let looks = intake.0.lock().unwrap().looks;
    poke_until(&desk, "it looks again", || intake.0.lock().unwrap().looks > looks + 1);
    assert!(!intake.0.lock().unwrap().given_up);
    clock.advance(Duration::from_millis(200));
    poke_until(&desk, "it expires", || held(&desk).is_empty());
    assert!(intake.0.lock().unwrap().given_up);
}

/// Connections that are read more slowly than new ones arrive must not hold up expiry forever.
#[test]
fn expiry_is_held_up_for_ten_seconds_at_most() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let (desk, _) = open_with(Box::new(MemoryJournal::new()), clock.clone());
    let intake = TestIntake::default();
    desk.set_intake(Box::new(intake.clone()));
    submit(&desk, "ana", "a").recv().unwrap();
    clock.advance(MINUTE);
    let mut seconds = 0;
    intake.0.lock().unwrap().arriving = 1_000;
    poke_until(&desk, "it expires", || {
        let (looks, given_up) = {
            let mut connections = intake.0.lock().unwrap();
            connections.arriving -= usize::from(connections.arriving > 0);
            (connections.looks, connections.given_up)
        };
        if given_up {
            return held(&desk).is_empty();
        }
        poke_until(&desk, "it looks again", || {
            let connections = intake.0.lock().unwrap();
            connections.looks > looks + 1 || connections.given_up
        });
        clock.advance(Duration::from_millis(500));
        seconds += 1;
        false
    });
    assert!((18..=22).contains(&seconds), "{seconds} half seconds");
}

/// An idle server used 2 % of a processor for hours: it waited for connections to be read, and looked at none of them until
/// the next deadline.
#[test]
fn after_an_absence_the_desk_woke_every_5_ms_until_the_next_deadline() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let (desk, _) = open_with(Box::new(MemoryJournal::new()), clock.clone());
    let intake = TestIntake::default();
    desk.set_intake(Box::new(intake.clone()));
    submit(&desk, "ana", "a").recv().unwrap();
    clock.stall(60 * MINUTE);
    poke_until(&desk, "it looks", || intake.0.lock().unwrap().looks > 0);
    assert_eq!(held(&desk), ["a"]);
    let looks = intake.0.lock().unwrap().looks;
    for _ in 0..100 {
        desk.poke();
    }
    assert_eq!(held(&desk), ["a"]);
    assert_eq!(intake.0.lock().unwrap().looks, looks, "everything is read, so it need not look again");
}

/// A desk that wakes for nothing costs power.
#[test]
fn a_desk_without_deadlines_looks_at_no_connection() {
    let desk = desk();
    let intake = TestIntake::default();
    desk.set_intake(Box::new(intake.clone()));
    for _ in 0..100 {
        desk.poke();
    }
    assert_eq!(held(&desk), [""; 0]);
    assert_eq!(intake.0.lock().unwrap().looks, 0);
}

/// Requests of thousands of keys made the small requests of all other sessions wait.
#[test]
fn small_messages_of_others_go_ahead_of_large_ones_and_each_session_keeps_its_order() {
    let (desk, thread) = open(MemoryJournal::new());
    let (open_gate, gate) = channel::<()>();
    let blocked = move |_: StateRead<'_>| gate.recv().unwrap();
    desk.read(Actor::Reader, Box::new(blocked)).unwrap();
    let (sender, replies) = channel();
    let send = |name: &'static str, session: &str, keys: usize| {
        let (actor, command) = reserve_many(session, name, keys);
        let sender = sender.clone();
        let on_reply = move |reply: Reply| sender.send((name, reply.outcome.is_ok(), reply.seq)).unwrap();
        desk.submit(actor, command, Box::new(on_reply)).unwrap();
    };
    // All of them are in the inbox when the desk looks.
    send("ana large", "ana", 2_000);
    send("ana large again", "ana", 2_000);
    send("ana small", "ana", 1);
    send("bo small", "bo", 1);
    send("bo large", "bo", 2_000);
    send("carl small", "carl", 1);
    open_gate.send(()).unwrap();
    let order: Vec<_> = replies.iter().take(6).collect();
    assert!(order.iter().all(|(_, is_granted, _)| *is_granted) && order.is_sorted_by_key(|(.., seq)| *seq));
    let names: Vec<&str> = order.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["bo small", "carl small", "ana large", "bo large", "ana large again", "ana small"]);

    // What is held back when the server stops is decided.
    send("dora large", "dora", 2_000);
    send("dora small", "dora", 1);
    desk.stop();
    thread.join().unwrap();
    let names: Vec<&str> = replies.iter().take(2).map(|(name, ..)| name).collect();
    assert_eq!(names, ["dora large", "dora small"]);
}

/// A desk with room for ten reservations, which ends two in one step.
fn small_desk(clock: &ManualClock) -> Desk {
    let policy = Policy { reservations: 10, reservations_per_session: 10, records_per_slice: 2, ..Policy::default() };
    let journal = Box::new(MemoryJournal::new());
    Desk::open("test", journal, Box::new(clock.clone()), policy, |error| panic!("{error}")).unwrap().0
}

/// Reservations that a session had just released counted in the quotas until their releases were recorded, slices later.
#[test]
fn a_request_is_not_refused_for_what_is_released_already() {
    let desk = small_desk(&ManualClock::new(Timestamp(1_000_000)));
    assert!(send(&desk, reserve_many("ana", "a", 10)).recv().unwrap().outcome.is_ok());
    let open_gate = block(&desk);
    let (actor, session) = (reserve("ana", "a").0, SessionId::parse("ana").unwrap());
    let released = send(&desk, (actor, Command::ReleaseAll { session }));
    let granted = send(&desk, reserve_many("bo", "b", 10));
    open_gate.send(()).unwrap();
    assert!(matches!(released.recv().unwrap().outcome, Ok(Outcome::Released { count: 10, .. })));
    assert!(matches!(granted.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    let refused = send(&desk, reserve_many("carl", "c", 1));
    assert!(matches!(refused.recv().unwrap().outcome, Err(Refusal::OverQuota { limit: 10, .. })), "bo has all of it");
}

/// The same for reservations whose deadline had passed, and whose expiry came slices later.
#[test]
fn a_request_is_not_refused_for_what_is_overdue() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let desk = small_desk(&clock);
    assert!(send(&desk, reserve_many("ana", "a", 10)).recv().unwrap().outcome.is_ok());
    let open_gate = block(&desk);
    clock.advance(MINUTE);
    // What is overdue is its own.
    let again = send(&desk, reserve_many("ana", "b", 10));
    open_gate.send(()).unwrap();
    assert!(matches!(again.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    let refused = send(&desk, reserve_many("bo", "c", 1));
    assert!(matches!(refused.recv().unwrap().outcome, Err(Refusal::OverQuota { limit: 10, .. })));
}

/// A server that stops answers the requests that wait for room.
#[test]
fn a_request_without_room_is_decided_when_the_desk_stops() {
    let desk = small_desk(&ManualClock::new(Timestamp(1_000_000)));
    assert!(send(&desk, reserve_many("ana", "a", 10)).recv().unwrap().outcome.is_ok());
    let open_gate = block(&desk);
    let (actor, session) = (reserve("ana", "a").0, SessionId::parse("ana").unwrap());
    let _released = send(&desk, (actor, Command::ReleaseAll { session }));
    let reply = send(&desk, reserve_many("bo", "b", 10));
    desk.stop();
    open_gate.send(()).unwrap();
    assert!(matches!(reply.recv().unwrap().outcome, Err(Refusal::OverQuota { .. })));
}

/// One pattern that is compared with very much took a turn that others shared.
#[test]
fn a_pattern_that_takes_long_waits_behind_small_messages() {
    let desk = desk();
    let name = "n".repeat(240);
    let (actor, command) = reserve_many("ana", "src", 10_000);
    let Command::Reserve(mut ask) = command else { unreachable!("it is one") };
    for (n, want) in ask.wants.iter_mut().enumerate() {
        want.key = Key::parse(&format!("src/{n:06}{name}"), &KeyRules::default()).unwrap();
    }
    assert!(send(&desk, (actor, Command::Reserve(ask))).recv().unwrap().outcome.is_ok());
    let open_gate = block(&desk);
    let (sender, order) = channel();
    for (session, key) in [("bo", "**/*x"), ("carl", "a"), ("bo", "b"), ("dora", "c")] {
        let sender = sender.clone();
        let (actor, command) = reserve(session, key);
        let on_reply = move |reply: Reply| sender.send((key, reply.outcome.is_ok())).unwrap();
        desk.submit(actor, command, Box::new(on_reply)).unwrap();
    }
    let (looked, looks) = channel();
    let broad = Key::parse("**/*y", &KeyRules::default()).unwrap();
    let look = move |read: StateRead<'_>| {
        let (_, report) =
            read.engine.measured(true, |engine| engine.check(None, 0, &broad, crate::engine::Intent::Look));
        looked.send(report.is_exhausted).unwrap();
    };
    desk.read_large(Actor::Reader, Box::new(look)).unwrap();
    open_gate.send(()).unwrap();
    let order: Vec<_> = order.iter().take(4).collect();
    assert_eq!(order, [("a", true), ("c", true), ("**/*x", true), ("b", true)]);
    assert!(!looks.recv().unwrap(), "a large read may take as long");
}

/// Only a slice of what is overdue expires in one turn, but what is in the way of a request goes first.
#[test]
fn a_request_for_something_overdue_is_granted_although_expiry_lags() {
    let clock = ManualClock::new(Timestamp(1_000_000));
    let policy = Policy { records_per_slice: 2, ..Policy::default() };
    let journal = Box::new(MemoryJournal::new());
    let (desk, _) = Desk::open("test", journal, Box::new(clock.clone()), policy, |error| panic!("{error}")).unwrap();
    assert!(send(&desk, reserve_many("ana", "a", 100)).recv().unwrap().outcome.is_ok());
    let open_gate = block(&desk);
    clock.advance(MINUTE);
    let (actor, Command::Reserve(ask)) = reserve("bo", "a/99") else { unreachable!("it is one") };
    let granted = send(&desk, (actor, Command::Reserve(Reserve { wait: None, ..ask })));
    let (counted, counts) = channel();
    let count = move |read: StateRead<'_>| counted.send(read.engine.numbers().reservations).unwrap();
    desk.read(Actor::Reader, Box::new(count)).unwrap();
    open_gate.send(()).unwrap();
    assert!(matches!(granted.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    assert!(counts.recv().unwrap() > 90, "the others were not looked at yet");
}
