//! Decisions without HTTP: commands on the desk, answered after the sync of their batch, and how their cost grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use git_dibs::desk::{Desk, SubmitError};
use git_dibs::engine::{Command, Outcome, SessionId};
use git_dibs::journal::SqliteJournal;
use git_dibs::key::Key;

use crate::common::clock::{computed, long, rounds};
use crate::common::commands::{Full, actor, parse, path, release, reserve};
use crate::common::place::Place;
use crate::common::{inside, table};

/// What one has to beat.
const GOAL: f64 = 742_000.0;

const ROUND: Duration = Duration::from_secs(2);
const THREADS: usize = 2;

/// What a thread asks before it waits for answers; together they fit on the desk.
const OUTSTANDING: usize = 3_500;

pub fn measure(place: &Place) {
    table::head("Decisions in this process, reserve + release");
    let journal = SqliteJournal::open(&place.dir.join("decisions.db")).expect("a journal");
    let desk = inside::desk(Box::new(journal));
    let pairs: Vec<table::Pair> = (0..=rounds(5)).map(|_| (decide(&desk), GOAL)).skip(1).collect();
    let what = format!("durable, through the desk, {THREADS} threads, beside the goal");
    table::row(&what, &pairs, table::rate);
    desk.stop();
    growth();
}

/// Decisions made and durable in a second.
fn decide(desk: &Desk) -> f64 {
    static ANSWERS: AtomicU64 = AtomicU64::new(0);
    let (begin, before) = (Instant::now(), ANSWERS.load(Ordering::Relaxed));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || ask(desk, thread, begin, &ANSWERS));
        }
    });
    (ANSWERS.load(Ordering::Relaxed) - before) as f64 / begin.elapsed().as_secs_f64()
}

/// Reserves and releases one key after the other until the time is up, and waits for the last answer.
fn ask(desk: &Desk, thread: usize, begin: Instant, answers: &'static AtomicU64) {
    let session = SessionId::parse(&format!("thread-{thread}")).expect("an id");
    let actor = actor(&session);
    // Made before the clock runs: keys come from the door.
    let keys: Vec<Key> = (0..OUTSTANDING).map(|n| parse(&path(thread * OUTSTANDING + n))).collect();
    let open = Arc::new(AtomicUsize::new(0));
    let submit = |command: Command| {
        while open.load(Ordering::Acquire) >= OUTSTANDING {
            std::thread::yield_now();
        }
        open.fetch_add(1, Ordering::AcqRel);
        let open = open.clone();
        let heard = move |reply: git_dibs::desk::Reply| {
            assert!(matches!(reply.outcome, Ok(Outcome::Granted(_) | Outcome::Released { .. })), "{:?}", reply.outcome);
            answers.fetch_add(1, Ordering::Relaxed);
            open.fetch_sub(1, Ordering::AcqRel);
        };
        match desk.submit(actor.clone(), command, Box::new(heard)) {
            Ok(_) => {}
            Err(SubmitError::Busy) => unreachable!("the desk has room for all of them"),
            Err(trouble) => panic!("{trouble}"),
        }
    };
    for key in keys.iter().cycle() {
        submit(reserve(&session, key.clone()));
        submit(release(&session, key.clone()));
        if begin.elapsed() >= long(ROUND) {
            break;
        }
    }
    while open.load(Ordering::Acquire) > 0 {
        std::thread::yield_now();
    }
}

/// The same pair among few and among very many, in CPU time.
fn growth() {
    const TIMES: usize = 20_000;
    let (mut few, mut many) = (Full::of(1_000, 0), Full::of(1_000_000, 0));
    let keys: Vec<Key> = (1_000_000..1_001_000).map(|n| parse(&path(n))).collect();
    let each = |full: &mut Full| computed(|| full.reserve_and_release(&keys, TIMES)) / TIMES as f64;
    let pairs: Vec<table::Pair> = (0..rounds(15)).map(|_| (each(&mut many), each(&mut few))).collect();
    table::row("the engine alone among 1,000,000, beside among 1,000, CPU time", &pairs, table::time);
}
