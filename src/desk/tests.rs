//! The desk with a journal in memory and a clock that stands still.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::engine::{Intro, Mode, Owner, ReservationId, Reserve, Seq, Ttl, Want};
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

fn ask(session: &str, key: &str) -> (Actor, Command) {
    let id = SessionId::parse(session).unwrap();
    let key = Key::parse(key, &KeyRules::default()).unwrap();
    let want = Want { id: ReservationId(Uuid::now_v7()), key, ttl: Ttl(60) };
    let (wait, mode) = (Some(Duration::from_secs(60)), Mode::Exclusive);
    let reserve = Reserve { session: id.clone(), wants: [want].into(), mode, reason: None, wait, if_version: None };
    (Actor::Session(Intro { id, name: None, feature: None, owner: Owner::Itself }), Command::Reserve(reserve))
}

/// Asks and stays to hear the answer.
fn heard(desk: &Desk, session: &str, key: &str) -> Receiver<Reply> {
    let (sender, receiver) = channel();
    let (actor, command) = ask(session, key);
    let hear = move |reply| sender.send(reply).map_err(|unsent| unsent.0);
    desk.submit(actor, command, Box::new(hear)).unwrap();
    receiver
}

/// Asks and is gone before the answer comes.
fn unheard(desk: &Desk, session: &str, key: &str) {
    let (actor, command) = ask(session, key);
    desk.submit(actor, command, Box::new(Err)).unwrap();
}

/// What is held once everything before is decided.
fn held(desk: &Desk) -> Vec<String> {
    let (sender, receiver) = channel();
    let look = move |look: Look<'_>| {
        let keys: Vec<String> =
            look.engine.sessions().iter().flat_map(|s| look.engine.held(&s.id)).map(shown).collect();
        sender.send(keys).unwrap();
    };
    desk.look(Actor::Reader, Box::new(look)).unwrap();
    receiver.recv().unwrap()
}

fn shown(grant: Grant) -> String {
    assert!(grant.fence > Seq::ZERO);
    grant.key.shown()
}

/// A caller who was gone before a free key was decided on had it all the same, for its whole TTL.
#[test]
fn a_grant_that_nobody_hears_is_given_back() {
    let desk = desk();
    unheard(&desk, "ana", "a");
    // Two looks: the first may be in the same batch, and so before the grant is given back.
    held(&desk);
    assert_eq!(held(&desk), [""; 0]);
    let granted = heard(&desk, "bo", "a");
    assert!(matches!(granted.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    assert_eq!(held(&desk), ["a"]);
}

#[test]
fn whoever_waits_behind_an_unheard_grant_is_seated() {
    let desk = desk();
    let first = heard(&desk, "ana", "a");
    assert!(matches!(first.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    unheard(&desk, "bo", "a");
    let last = heard(&desk, "carl", "a");
    let (actor, _) = ask("ana", "a");
    let session = SessionId::parse("ana").unwrap();
    desk.submit(actor, Command::ReleaseAll { session }, Box::new(|_| Ok(()))).unwrap();
    assert!(matches!(last.recv().unwrap().outcome, Ok(Outcome::Granted(_))));
    assert_eq!(held(&desk), ["a"]);
}

#[test]
fn what_was_asked_for_again_is_kept() {
    let desk = desk();
    let first = heard(&desk, "ana", "a");
    first.recv().unwrap();
    unheard(&desk, "ana", "a");
    held(&desk);
    assert_eq!(held(&desk), ["a"], "the session knows of it from the first time");
}

/// A server that was restarted before it had written enough for a snapshot never took one, and took ever longer to start.
#[test]
fn the_next_snapshot_is_counted_from_the_latest_one() {
    let journal = MemoryJournal::new();
    let (desk, thread) = open(journal.reopen());
    assert!(heard(&desk, "ana", "a").recv().is_ok() && heard(&desk, "ana", "b").recv().is_ok());
    desk.stop();
    thread.join().unwrap();
    let snapshot_of = || {
        let mut clock = ManualClock::new(Timestamp(2_000_000));
        let (engine, snapshot) = replay(&mut journal.reopen(), Policy::default(), &mut clock).unwrap();
        assert_eq!(engine.head(), Seq(3));
        snapshot
    };
    assert_eq!(snapshot_of(), Seq::ZERO);
    snapshot::take(journal.reader().unwrap().as_mut(), Seq(2), Policy::default()).unwrap();
    assert_eq!(snapshot_of(), Seq(2));
}
