//! Keys, commands and engines full of reservations.

use std::sync::atomic::{AtomicUsize, Ordering};

use git_dibs::engine::{
    Actor, Command, Engine, KeyName, Mode, Outcome, Owner, Policy, Refusal, ReservationId, Reserve, SessionId,
    SessionIdentity, Timestamp, Ttl, Turn, Want,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

/// A policy without limits on what is held.
pub fn roomy() -> Policy {
    let (reservations_per_session, reservations, text_bytes) = (usize::MAX, usize::MAX, usize::MAX);
    Policy { reservations_per_session, reservations, text_bytes, ..Policy::default() }
}

/// The time of every command in a bench without a clock.
pub const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// An engine, and a session that holds everything in it.
pub struct Full {
    pub engine: Engine,
    pub actor: Actor,
    pub session: SessionId,
    turn: Turn,
}

impl Full {
    /// Nothing is held yet.
    pub fn new() -> Full {
        let session = SessionId::parse("bench").unwrap();
        let actor = actor(&session);
        Full { engine: Engine::new(roomy()), actor, session, turn: Turn::at(NOW) }
    }

    /// With this many paths and patterns held.
    pub fn of(paths: usize, globs: usize) -> Full {
        let mut full = Full::new();
        full.hold((0..paths).map(path));
        full.hold((0..globs).map(glob));
        full
    }

    pub fn hold(&mut self, keys: impl Iterator<Item = String>) {
        for text in keys {
            let outcome = self.execute(reserve(&self.session, parse(&text)));
            assert!(matches!(outcome, Ok(Outcome::Granted(_))), "{text}: {outcome:?}");
        }
    }

    pub fn execute(&mut self, command: Command) -> Result<Outcome, Refusal> {
        self.turn.records.clear();
        self.engine.execute(&mut self.turn, &self.actor, command)
    }

    /// Reserves and releases the keys in turn, `rounds` times in all.
    pub fn reserve_and_release(&mut self, keys: &[Key], rounds: usize) {
        for key in keys.iter().cycle().take(rounds) {
            std::hint::black_box(&self.execute(reserve(&self.session, key.clone())));
            std::hint::black_box(&self.execute(release(&self.session, key.clone())));
        }
    }
}

pub fn actor(session: &SessionId) -> Actor {
    Actor::Session(SessionIdentity {
        id: session.clone(),
        name: None,
        feature: None,
        owner: Owner::Itself,
        issued: None,
        hears_notices: true,
    })
}

pub fn reserve(session: &SessionId, key: Key) -> Command {
    Command::Reserve(Reserve {
        session: session.clone(),
        wants: [Want { id: id(), key, ttl: Ttl::Plain(60) }].into(),
        mode: Mode::Exclusive,
        reason: None,
        wait: None,
        if_version: None,
    })
}

pub fn release(session: &SessionId, key: Key) -> Command {
    Command::Release { session: session.clone(), keys: [KeyName::from(key)].into() }
}

/// Ids are made by the HTTP server; making them is not measured.
pub fn id() -> ReservationId {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    ReservationId(Uuid::from_u128(NEXT.fetch_add(1, Ordering::Relaxed) as u128))
}

/// A path of typical length and depth.
pub fn path(n: usize) -> String {
    format!("src/area_{}/part_{}/file_{n}.rs", n % 97, n % 1009)
}

/// Patterns that match none of the paths.
pub fn glob(n: usize) -> String {
    format!("lib/area_{}/part_{n}/**/*.rs", n % 50)
}

pub fn parse(text: &str) -> Key {
    Key::parse(text, &KeyRules::default()).unwrap()
}
