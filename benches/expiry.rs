//! How long the desk is busy with one thing while very many reservations of one session expire together: the longest time that
//! another session waits for a durable reserve or release meanwhile.
//!
//! `cargo bench --bench expiry`.

mod common;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::clock::quick;
use common::commands::{NOW, actor, id, parse, path, release, reserve, roomy};
use common::{load, table};
use git_dibs::desk::{Desk, ManualClock, Reply};
use git_dibs::engine::{Actor, Command, Outcome, Reserve, SessionId, Ttl, Want};
use git_dibs::journal::SqliteJournal;

/// The reservations that expire, and how many of them one request reserves.
const MANY: usize = 1_000_000;
const AT_ONCE: usize = 10_000;

/// The desk must not be busy for longer with one of its slices.
const GOAL: Duration = Duration::from_millis(50);

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db")).expect("a journal");
    let clock = ManualClock::new(NOW);
    let failed = |error| panic!("{error}");
    let (desk, _) = Desk::open("bench", Box::new(journal), Box::new(clock.clone()), roomy(), failed).expect("a desk");
    let (holder, other) = (SessionId::parse("holder").unwrap(), SessionId::parse("other").unwrap());
    let many = if quick() { MANY / 10 } else { MANY };
    for first in (0..many).step_by(AT_ONCE) {
        let Command::Reserve(ask) = reserve(&holder, parse(&path(first))) else { unreachable!("it is one") };
        let wants = (first..first + AT_ONCE).map(|n| Want { id: id(), key: parse(&path(n)), ttl: Ttl::Plain(60) });
        decide(&desk, &holder, Command::Reserve(Reserve { wants: wants.collect(), ..ask }));
    }
    let key = parse("another/file.rs");
    let turn = || {
        [reserve(&other, key.clone()), release(&other, key.clone())].map(|command| {
            let start = Instant::now();
            decide(&desk, &other, command);
            start.elapsed().as_secs_f64()
        })
    };
    let mut alone: Vec<f64> = (0..200).flat_map(|_| turn()).collect();
    clock.advance(Duration::from_secs(61));
    desk.poke();
    let (start, mut during) = (Instant::now(), Vec::new());
    while held(&desk) > 0 {
        during.extend(turn());
    }
    let took = start.elapsed();
    table::head(&format!("Another session's durable decision while {many} reservations of one session expire"));
    for (what, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let pair = (load::percentile(&mut during, quantile), load::percentile(&mut alone, quantile));
        table::row(&format!("{what}, beside the same before"), &[pair], table::time);
    }
    let longest = Duration::from_secs_f64(load::percentile(&mut during, 1.0));
    table::fact(&format!("the longest of {}, at most {GOAL:?} is the goal", during.len()), &format!("{longest:.2?}"));
    table::fact("until all have expired", &format!("{took:.2?}"));
}

fn decide(desk: &Desk, session: &SessionId, command: Command) {
    let (sender, receiver) = channel();
    let on_reply = move |reply: Reply| sender.send(reply.outcome).expect("the bench waits for it");
    desk.submit(actor(session), command, Box::new(on_reply)).expect("the desk runs");
    let outcome = receiver.recv().expect("a reply");
    assert!(matches!(outcome, Ok(Outcome::Granted(_) | Outcome::Released { .. })), "{outcome:?}");
}

/// How much is held, and not yet recorded as released.
fn held(desk: &Desk) -> usize {
    let (sender, receiver) = channel();
    let read = move |state: git_dibs::desk::StateRead<'_>| {
        sender.send(state.engine.numbers().reservations).expect("the bench waits for it");
    };
    desk.read(Actor::Reader, Box::new(read)).expect("the desk runs");
    receiver.recv().expect("a reply")
}
