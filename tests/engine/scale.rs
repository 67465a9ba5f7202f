//! Long queues, and more of everything than is remembered.

use std::time::Duration;

use git_dibs::engine::{
    Actor, Command, EndState, Engine, Event, Mode, Outcome, Owner, Policy, Refusal, ReservationId, Reserve, SessionId,
    SessionIdentity, Timestamp, Ttl, Turn, UnlockAnswer, Want,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

/// An engine, and helpers to send commands to it.
struct TestEngine {
    engine: Engine,
    turn: Turn,
    made: u128,
}

impl TestEngine {
    fn new() -> TestEngine {
        TestEngine { engine: Engine::new(Policy::default()), turn: Turn::default(), made: 0 }
    }

    /// The records are those of the last command.
    fn ask(&mut self, session: &SessionId, command: Command) -> Result<Outcome, Refusal> {
        let intro = SessionIdentity {
            id: session.clone(),
            name: None,
            feature: None,
            owner: Owner::Itself,
            issued: None,
            hears_notices: true,
        };
        self.turn.records.clear();
        self.engine.execute(&mut self.turn, &Actor::Session(intro), command)
    }

    /// Records everything that is due or to be recorded, one slice after the other.
    fn finish(&mut self) {
        while self.engine.has_backlog() || self.engine.next_due().is_some_and(|due| due <= self.turn.now) {
            for command in [Command::Tick, Command::Sweep] {
                self.engine.execute(&mut self.turn, &Actor::Desk, command).unwrap();
            }
        }
    }

    fn reserve(
        &mut self,
        session: &SessionId,
        keys: impl Iterator<Item = Key>,
        if_version: Option<u64>,
    ) -> Result<Outcome, Refusal> {
        let wants = keys.map(|key| Want { id: ReservationId(self.make_id()), key, ttl: Ttl::Plain(300) }).collect();
        let (session_id, wait, mode) = (session.clone(), Some(Duration::from_secs(300)), Mode::Exclusive);
        let ask = Reserve { session: session_id, wants, mode, reason: None, wait, if_version };
        self.ask(session, Command::Reserve(ask))
    }

    fn make_id(&mut self) -> Uuid {
        self.made += 1;
        Uuid::from_u128(self.made)
    }
}

fn session(number: usize) -> SessionId {
    SessionId::parse(&format!("s{number}")).unwrap()
}

fn key(number: usize) -> Key {
    Key::parse(&format!("src/{number}.rs"), &KeyRules::default()).unwrap()
}

#[test]
fn a_release_wakes_one_of_a_thousand() {
    let mut engine = TestEngine::new();
    for number in 0..1_000 {
        let outcome = engine.reserve(&session(number), [key(0)].into_iter(), None);
        assert_eq!(matches!(outcome, Ok(Outcome::Granted(_))), number == 0, "only the first is granted at once");
    }
    for number in 0..999 {
        let release = Command::Release { session: session(number), keys: [key(0).into()].into() };
        engine.ask(&session(number), release).unwrap();
        let events: Vec<&Event> = engine.turn.records.iter().map(|record| &record.event).collect();
        let [Event::Released { .. }, Event::Seated { session: seated, .. }, Event::Reserved { .. }] = events[..] else {
            panic!("one release, one wake-up: {events:?}");
        };
        assert_eq!(*seated, session(number + 1));
        let [(_, Ok(Outcome::Granted(_)))] = engine.turn.settled[..] else { panic!("one answer") };
        engine.turn.settled.clear();
    }
}

#[test]
fn the_session_that_ended_first_is_forgotten_first() {
    let mut engine = TestEngine::new();
    let remembered = 100_000;
    for number in 0..=remembered {
        let session = session(number);
        engine.ask(&session, Command::End { session: session.clone(), state: EndState::Completed }).unwrap();
    }
    assert!(matches!(engine.ask(&session(1), Command::Touch), Err(Refusal::SessionEnded { .. })));
    assert!(matches!(engine.ask(&session(remembered), Command::Touch), Err(Refusal::SessionEnded { .. })));
    assert_eq!(engine.ask(&session(0), Command::Touch), Ok(Outcome::Done));
}

#[test]
fn the_unlock_request_that_was_answered_first_is_forgotten_first() {
    let mut engine = TestEngine::new();
    let (holder, asker) = (session(0), session(1));
    engine.reserve(&holder, [key(0)].into_iter(), None).unwrap();
    let mut requests = Vec::new();
    for _ in 0..=10_000 {
        let request = engine.make_id();
        let (key, reason) = (key(0).into(), "please".into());
        engine.ask(&asker, Command::Ask { session: asker.clone(), request, key, reason }).unwrap();
        engine.ask(&holder, reject(&holder, request)).unwrap();
        requests.push(request);
    }
    assert_eq!(engine.ask(&holder, reject(&holder, requests[0])), Err(Refusal::UnknownRequest));
    assert!(matches!(engine.ask(&holder, reject(&holder, requests[1])), Ok(Outcome::Request(_))));
}

fn reject(session: &SessionId, request: Uuid) -> Command {
    Command::Respond { session: session.clone(), request, answer: UnlockAnswer::Rejected, note: None, hand_over: None }
}

#[test]
fn the_key_that_ran_out_first_is_forgotten_first() {
    let mut engine = TestEngine::new();
    let session = session(0);
    engine.reserve(&session, (0..257).map(key), None).unwrap();
    engine.turn.now = Timestamp(300_000);
    engine.finish();
    let mut renew = |number| {
        let keys = [key(number).into()].into();
        engine.ask(&session, Command::Renew { session: session.clone(), keys, ttl: None })
    };
    assert!(matches!(renew(0), Err(Refusal::NotHeld { .. })));
    assert!(matches!(renew(1), Err(Refusal::Lapsed { .. })));
    assert!(matches!(renew(256), Err(Refusal::Lapsed { .. })));
}

#[test]
fn a_key_whose_version_is_forgotten_starts_above_it() {
    let mut engine = TestEngine::new();
    let session = session(0);
    let release_all = || Command::ReleaseAll { session: session.clone() };
    // Some hundred bytes for each.
    let (keys, mut before_last_release) = (300_000, 0);
    for first in (0..keys).step_by(50_000) {
        let Ok(Outcome::Granted(grants)) = engine.reserve(&session, (first..first + 50_000).map(key), None) else {
            panic!("they are free");
        };
        before_last_release = grants[grants.len() - 1].version;
        engine.ask(&session, release_all()).unwrap();
        engine.finish();
    }
    let mut version = |number| match engine.reserve(&session, [key(number)].into_iter(), Some(999)) {
        Err(Refusal::WrongVersion { version, .. }) => version,
        other => panic!("{other:?}"),
    };
    assert_eq!(version(keys - 1), before_last_release + 1, "it is remembered");
    let forgotten = version(0);
    assert!(forgotten > 1, "it was 1; a client that saw 1 must not believe that the key was never released since");
    assert_eq!(version(2_000_000), forgotten, "it may have been forgotten too");
}
