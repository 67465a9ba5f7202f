//! Patterns that are expensive to compare: every command does a bounded amount of work.

use std::collections::HashSet;
use std::time::Duration;

use git_dibs::engine::{
    Actor, Command, Engine, Intent, Mode, Outcome, Owner, Pair, Policy, Refusal, ReservationId, Reserve, SessionId,
    SessionIdentity, Timestamp, Ttl, Turn, Want,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

/// No command may do more than this: the budget of a command, and the comparison that is under way when it is used up.
const COMMAND_MAX: u64 = 120_000_000;

/// The same where nothing has to be compared on the desk.
const REFUSABLE_MAX: u64 = 25_000_000;

struct TestEngine {
    engine: Engine,
    turn: Turn,
    made: u128,
    /// The most work of one command.
    most: u64,
}

impl TestEngine {
    fn new() -> TestEngine {
        TestEngine { engine: Engine::new(Policy::default()), turn: Turn::default(), made: 0, most: 0 }
    }

    fn ask(&mut self, id: &SessionId, command: Command) -> Result<Outcome, Refusal> {
        let identity = SessionIdentity {
            id: id.clone(),
            name: None,
            feature: None,
            owner: Owner::Itself,
            issued: None,
            hears_notices: true,
        };
        let before = self.engine.work();
        let result = self.engine.execute(&mut self.turn, &Actor::Session(identity), command);
        self.most = self.most.max(self.engine.work() - before);
        result
    }

    fn reserve(&mut self, id: &SessionId, keys: &[Key], wait: Option<Duration>) -> Result<Outcome, Refusal> {
        let wants = keys.iter().map(|key| {
            self.made += 1;
            Want { id: ReservationId(Uuid::from_u128(self.made)), key: key.clone(), ttl: Ttl::Plain(300) }
        });
        let (session, wants, mode) = (id.clone(), wants.collect(), Mode::Exclusive);
        self.ask(id, Command::Reserve(Reserve { session, wants, mode, reason: None, wait, if_version: None }))
    }

    /// Reserves as a caller does that compares what the refusal names.
    fn reserve_comparing(&mut self, id: &SessionId, keys: &[Key], wait: Option<Duration>) -> Result<Outcome, Refusal> {
        for _ in 0..4 {
            match self.reserve(id, keys, wait) {
                Err(Refusal::Uncompared(pairs)) => compare(pairs),
                other => return other,
            }
        }
        panic!("patterns that were compared are known");
    }
}

fn compare(pairs: Vec<Pair>) {
    for (one, other) in pairs {
        one.compare(&other);
    }
}

fn session(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

fn parse(text: &str) -> Key {
    Key::parse(text, &KeyRules::default()).unwrap()
}

/// A pattern that is expensive to compare: it overlaps no other one that ends in another digit, and every state of it can be
/// combined with every state of the other.
fn expensive(test: &str, number: usize, digit: u8) -> Key {
    let word: String = (0..40).map(|n| char::from(b'a' + ((n * 7 + number * 3 + n * n * number) % 26) as u8)).collect();
    parse(&format!("*{test}{number:03}{word}*[{digit}{}]", char::from(b'A' + digit)))
}

#[test]
fn an_expensive_pair_is_named_and_once_compared_it_is_known() {
    let mut engine = TestEngine::new();
    let (ana, bo) = (session("ana"), session("bo"));
    let (held, apart, meets) = (expensive("n", 1, 0), expensive("n", 2, 1), expensive("n", 3, 0));
    engine.reserve(&ana, std::slice::from_ref(&held), None).unwrap();
    for (key, is_free) in [(apart, true), (meets, false)] {
        let Err(Refusal::Uncompared(pairs)) = engine.reserve(&bo, std::slice::from_ref(&key), None) else {
            panic!("{key:?} is too expensive to be compared by the way");
        };
        assert_eq!(pairs, [(key.clone(), held.clone())]);
        assert_eq!(engine.engine.numbers().reservations, if is_free { 1 } else { 2 }, "nothing was granted");
        compare(pairs);
        let again = engine.reserve(&bo, std::slice::from_ref(&key), None);
        assert_eq!(matches!(again, Ok(Outcome::Granted(_))), is_free, "{again:?}");
        if let Err(Refusal::Locked(conflicts)) = again {
            let example = parse(&format!("file:{}", conflicts[0].example.as_ref().unwrap()));
            assert!(example.overlaps(&key).is_some() && example.overlaps(&held).is_some(), "{example:?}");
        }
    }
}

#[test]
fn a_session_does_not_compare_its_own_patterns() {
    let mut engine = TestEngine::new();
    let ana = session("ana");
    let keys: Vec<Key> = (0..40).map(|n| expensive("own", n, 0)).collect();
    engine.reserve(&ana, &keys, None).unwrap();
    for key in &keys {
        engine.reserve(&ana, std::slice::from_ref(key), None).unwrap();
    }
    assert!(engine.most < 1_000_000, "{}", engine.most);
}

#[test]
fn a_request_with_many_patterns_does_bounded_work_and_grants_all_or_nothing() {
    let mut engine = TestEngine::new();
    let (ana, bo) = (session("ana"), session("bo"));
    let held: Vec<Key> = (0..300).map(|n| expensive("many", n, 0)).collect();
    engine.reserve(&ana, &held, None).unwrap();
    let asked: Vec<Key> = (300..500).map(|n| expensive("many", n, 1)).collect();
    let Err(Refusal::Uncompared(pairs)) = engine.reserve(&bo, &asked, None) else { panic!("they are expensive") };
    assert!(pairs.len() <= 32_768, "{}", pairs.len());
    assert_eq!(engine.engine.numbers().reservations, 300);
    for key in &asked[..60] {
        let (_, report) = engine.engine.measured(false, |engine| engine.check(Some(&bo), 0, key, Intent::Change));
        assert!(!report.uncompared.is_empty() && report.spent < 1_000_000, "{}", report.spent);
    }
    // Names without patterns are not slowed down.
    let paths: Vec<Key> = (0..1_000).map(|n| parse(&format!("src/{n}.rs"))).collect();
    engine.reserve(&bo, &paths, None).unwrap();
    assert!(engine.most < REFUSABLE_MAX, "{}", engine.most);
}

#[test]
fn a_walk_over_everything_that_is_held_is_bounded() {
    let mut engine = TestEngine::new();
    let (ana, bo) = (session("ana"), session("bo"));
    for first in (0..60_000).step_by(10_000) {
        let paths: Vec<Key> = (first..first + 10_000).map(|n| parse(&format!("src/dir{}/{n}.rs", n % 100))).collect();
        engine.reserve(&ana, &paths, None).unwrap();
    }
    let broad: Vec<Key> = (0..200).map(|n| parse(&format!("**/*{n}x"))).collect();
    assert!(matches!(engine.reserve(&bo, &broad, None), Err(Refusal::TooMuchWork)));
    assert!(engine.most < REFUSABLE_MAX, "{}", engine.most);
    engine.reserve(&bo, &broad[..2], None).unwrap();
}

/// Holds this many files with names of 250 bytes, so that a walk over them is much work.
fn hold_long_names(engine: &mut TestEngine, id: &SessionId, count: usize) {
    let name = |n: usize| parse(&format!("src/{n:06}{}", "n".repeat(240)));
    for first in (0..count).step_by(10_000) {
        let names: Vec<Key> = (first..count.min(first + 10_000)).map(name).collect();
        engine.reserve(id, &names, None).unwrap();
    }
}

/// One key had twelve times the work of a request for many, on the thread that decides for all others.
#[test]
fn one_key_has_no_more_work_than_many() {
    let mut engine = TestEngine::new();
    let (ana, bo, broad) = (session("ana"), session("bo"), [parse("**/*x")]);
    hold_long_names(&mut engine, &ana, 20_000);
    let want = Want { id: ReservationId(Uuid::from_u128(u128::MAX)), key: broad[0].clone(), ttl: Ttl::Plain(300) };
    let (session, wants, mode) = (bo.clone(), [want].into(), Mode::Exclusive);
    let small = Command::Reserve(Reserve { session, wants, mode, reason: None, wait: None, if_version: None });
    let admin = Actor::Admin("test".into());
    let create = Command::Create { session: bo.clone(), name: None, feature: None, owner: None };
    engine.engine.execute(&mut engine.turn, &admin, create).unwrap();
    let before = engine.engine.work();
    let refused = engine.engine.execute_small(&mut engine.turn, &admin, &small);
    assert!(matches!(refused, Err(Refusal::TooMuchWork)), "{refused:?}");
    assert!(engine.engine.work() - before < 2_500_000);
    let look = |engine: &Engine| engine.check(Some(&bo), 0, &broad[0], Intent::Change);
    assert!(engine.engine.measured(false, look).1.is_exhausted);
    assert!(!engine.engine.measured(true, look).1.is_exhausted);
    engine.reserve(&bo, &broad, None).unwrap();
    engine.ask(&bo, Command::ReleaseAll { session: bo.clone() }).unwrap();

    hold_long_names(&mut engine, &ana, 90_000);
    engine.most = 0;
    assert!(matches!(engine.reserve(&bo, &broad, None), Err(Refusal::TooMuchWork)));
    assert!(engine.most < REFUSABLE_MAX, "{}", engine.most);
    assert!(
        engine.engine.measured(true, |engine| engine.check(Some(&bo), 0, &broad[0], Intent::Change)).1.is_exhausted
    );
}

/// It was looked at again and again from its deadline on, and each look took the whole budget.
#[test]
fn a_wait_that_takes_too_much_work_ends_at_its_deadline() {
    let mut engine = TestEngine::new();
    let (ana, bo, wait) = (session("ana"), session("bo"), Some(Duration::from_secs(60)));
    hold_long_names(&mut engine, &ana, 20_000);
    engine.reserve(&ana, &[parse("wanted")], None).unwrap();
    let queued = engine.reserve(&bo, &[parse("wanted"), parse("**/*x")], wait);
    assert!(matches!(queued, Ok(Outcome::Queued(_))), "{queued:?}");
    // By now it is more than one look may take.
    hold_long_names(&mut engine, &ana, 90_000);
    let wanted = [git_dibs::engine::KeyName { key: parse("wanted"), literal: None }].into();
    engine.ask(&ana, Command::Release { session: ana.clone(), keys: wanted }).unwrap();
    assert!(engine.turn.settled.is_empty(), "it takes too much work to find out that it is free");
    engine.turn.now = engine.turn.now.after(Duration::from_secs(60));
    engine.most = 0;
    engine.ask(&ana, Command::Tick).unwrap();
    assert!(matches!(engine.turn.settled[..], [(_, Err(Refusal::WaitOver { .. }))]), "{:?}", engine.turn.settled);
    assert!(engine.engine.next_due().is_none_or(|due| due > engine.turn.now));
    assert!(engine.most < 3 * REFUSABLE_MAX, "{}", engine.most);
}

#[test]
fn a_release_that_many_expensive_waits_may_wait_for_does_bounded_work() {
    let mut engine = TestEngine::new();
    let (ana, wait) = (session("ana"), Some(Duration::from_secs(300)));
    // Everyone waits for one path of ana's, each with a pattern of its own that is expensive to compare.
    let keys = |n: usize| [parse("wanted"), expensive("wait", n, (n % 9) as u8)];
    let held: Vec<Key> = [parse("wanted")].into_iter().chain((100..130).map(|n| expensive("wait", n, 9))).collect();
    engine.reserve(&ana, &held, None).unwrap();
    let waiters: Vec<SessionId> = (0..30).map(|n| session(&format!("w{n}"))).collect();
    for (n, waiter) in waiters.iter().enumerate() {
        let queued = engine.reserve_comparing(waiter, &keys(n), wait);
        assert!(matches!(queued, Ok(Outcome::Queued(_))), "{queued:?}");
    }
    engine.most = 0;
    let mut granted = HashSet::new();
    engine.ask(&ana, Command::ReleaseAll { session: ana.clone() }).unwrap();
    // Only one holds "wanted" at a time: each lets go as soon as it has its keys.
    for _ in 0..1_000 {
        let settled: Vec<_> = engine.turn.settled.drain(..).collect();
        for (_, outcome) in settled {
            let Ok(Outcome::Granted(grants)) = outcome else { panic!("{outcome:?}") };
            let number = (0..30).find(|n| keys(*n)[1] == grants[1].key).unwrap();
            assert!(granted.insert(number));
            let id = waiters[number].clone();
            engine.ask(&id, Command::ReleaseAll { session: id.clone() }).unwrap();
        }
        if granted.len() == 30 {
            break;
        }
        if let Some(due) = engine.engine.next_due().filter(|due| *due < Timestamp(200_000)) {
            engine.turn.now = engine.turn.now.max(due);
            engine.ask(&ana, Command::Tick).unwrap();
        }
    }
    assert_eq!(granted.len(), 30, "nobody is forgotten");
    assert!(engine.most < COMMAND_MAX, "{}", engine.most);
}
