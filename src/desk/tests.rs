//! The desk with a journal in memory and a clock that does not move.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::engine::{Mode, Owner, ReservationId, Reserve, Seq, SessionIdentity, Ttl, Want};
use crate::journal::MemoryJournal;
use crate::key::{Key, KeyRules};

fn desk() -> Desk {
    open(MemoryJournal::new()).0
}

fn open(journal: MemoryJournal) -> (Desk, JoinHandle<()>) {
    let clock = Box::new(ManualClock::new(Timestamp(1_000_000)));
    let failed = |error| panic!("{error}");
    Desk::open("test", Box::new(journal), clock, Policy::default(), failed).unwrap()
}

fn reserve(session: &str, key: &str) -> (Actor, Command) {
    let id = SessionId::parse(session).unwrap();
    let key = Key::parse(key, &KeyRules::default()).unwrap();
    let want = Want { id: ReservationId(Uuid::now_v7()), key, ttl: Ttl(60) };
    let (wait, mode) = (Some(Duration::from_secs(60)), Mode::Exclusive);
    let reserve = Reserve { session: id.clone(), wants: [want].into(), mode, reason: None, wait, if_version: None };
    (
        Actor::Session(SessionIdentity { id, name: None, feature: None, owner: Owner::Itself, issued: None }),
        Command::Reserve(reserve),
    )
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
