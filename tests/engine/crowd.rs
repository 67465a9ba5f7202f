//! A thousand sessions at one key: every release wakes one of them, the next in line, and nobody else.

use std::time::Duration;

use git_dibs::engine::{
    Actor, Command, Engine, Event, Intro, Mode, Outcome, Owner, Policy, ReservationId, Reserve, SessionId, Timestamp,
    Ttl, Want,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

const CROWD: usize = 1_000;

#[test]
fn a_release_wakes_one_of_a_thousand() {
    let mut engine = Engine::new(Policy::default());
    let key = Key::parse("src/a.rs", &KeyRules::default()).unwrap();
    let sessions: Vec<SessionId> = (0..CROWD).map(|i| SessionId::parse(&format!("s{i}")).unwrap()).collect();
    let actor =
        |id: &SessionId| Actor::Session(Intro { id: id.clone(), name: None, feature: None, owner: Owner::Itself });
    let mut records = Vec::new();
    for (session, id) in sessions.iter().zip(1..) {
        let wants = vec![Want { id: ReservationId(Uuid::from_u128(id)), key: key.clone(), ttl: Ttl(300) }];
        let wait = Some(Duration::from_secs(300));
        let mode = Mode::Exclusive;
        let ask = Reserve { session: session.clone(), wants, mode, reason: None, wait, if_version: None };
        let outcome = engine.execute(&actor(session), Command::Reserve(ask), Timestamp(0), &mut records);
        assert_eq!(matches!(outcome, Outcome::Granted(_)), id == 1, "only the first is granted at once");
    }
    for (session, next) in sessions.iter().zip(&sessions[1..]) {
        records.clear();
        let keys = vec![key.clone().into()];
        let release = Command::Release { session: session.clone(), keys };
        engine.execute(&actor(session), release, Timestamp(1), &mut records);
        let events: Vec<&Event> = records.iter().map(|record| &record.event).collect();
        let [Event::Released { .. }, Event::Seated { session: seated, .. }, Event::Reserved { .. }] = events[..] else {
            panic!("one release, one wake-up: {events:?}");
        };
        assert_eq!(seated, next);
        let [(_, Outcome::Granted(_))] = engine.take_settled()[..] else { panic!("one answer") };
    }
}
