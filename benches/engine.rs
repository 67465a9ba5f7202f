//! The engine alone, beside what one would take instead: a bare `HashMap`. Ratios of CPU time within one run; no
//! network, no disk.
//!
//! `cargo bench --bench engine`

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use git_dibs::engine::{
    Actor, Command, Engine, Event, Intro, Mode, Named, Outcome, Owner, Policy, Record, ReservationId, Reserve, Seq,
    SessionId, Timestamp, Ttl, Want,
};
use git_dibs::key::{Key, KeyRules};
use uuid::Uuid;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn main() {
    // One part alone, for a profiler.
    match std::env::args().nth(1).as_deref() {
        Some("profile") => return profile(),
        Some("waits") => return queue_up(),
        _ => {}
    }
    println!("{:<62} {:>12} {:>12} {:>8}", "", "here", "beside", "ratio");
    for live in [1_000, 1_000_000] {
        reserve_and_release(live);
    }
    check();
    queue_up();
    replay();
}

/// One session's reserve + release of a key among `live` others, against insert + remove in a bare map.
fn reserve_and_release(live: usize) {
    let (mut engine, actor, session) = filled(live, 0);
    // The least a table of locks must know: who, and until when.
    let holder = "session-17".to_owned();
    let mut map: HashMap<String, (String, i64)> = (0..live).map(|n| (path(n), (holder.clone(), NOW.0))).collect();
    let mut bare: HashMap<String, u64> = (0..live).map(|n| (path(n), 0)).collect();
    let fresh: Vec<String> = (live..live + 1000).map(path).collect();
    let keys: Vec<Key> = fresh.iter().map(|path| parse(path)).collect();
    let mut records = Vec::new();
    let ours = |rounds: usize, engine: &mut Engine, records: &mut Vec<Record>| {
        let begin = cpu_time();
        for round in 0..rounds {
            let key = &keys[round % keys.len()];
            black_box(engine.execute(&actor, reserve(&session, key.clone()), NOW, records));
            let release = Command::Release { session: session.clone(), keys: [Named::from(key.clone())].into() };
            black_box(engine.execute(&actor, release, NOW, records));
            records.clear();
        }
        (cpu_time() - begin) / u32::try_from(rounds).unwrap()
    };
    let theirs = |rounds: usize, map: &mut HashMap<String, (String, i64)>| {
        let begin = cpu_time();
        for round in 0..rounds {
            let path = &fresh[round % fresh.len()];
            black_box(map.insert(path.clone(), (holder.clone(), NOW.0)));
            black_box(map.remove(path));
        }
        (cpu_time() - begin) / u32::try_from(rounds).unwrap()
    };
    let barest = |rounds: usize, map: &mut HashMap<String, u64>| {
        let begin = cpu_time();
        for round in 0..rounds {
            let path = &fresh[round % fresh.len()];
            black_box(map.insert(path.clone(), round as u64));
            black_box(map.remove(path));
        }
        (cpu_time() - begin) / u32::try_from(rounds).unwrap()
    };
    let (mut locks, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let here = ours(20_000, &mut engine, &mut records);
        locks.push((here, theirs(20_000, &mut map)));
        numbers.push((here, barest(20_000, &mut bare)));
    }
    row(&format!("reserve + release among {live}, beside a map to (holder, until)"), locks);
    row(&format!("reserve + release among {live}, beside a map to a number"), numbers);
}

/// One loop and nothing else, for callgrind.
fn profile() {
    let (mut engine, actor, session) = filled(1_000, 0);
    let keys: Vec<Key> = (1_000..1_100).map(|n| parse(&path(n))).collect();
    let mut records = Vec::new();
    for round in 0..100_000 {
        let key = &keys[round % keys.len()];
        black_box(engine.execute(&actor, reserve(&session, key.clone()), NOW, &mut records));
        let release = Command::Release { session: session.clone(), keys: [Named::from(key.clone())].into() };
        black_box(engine.execute(&actor, release, NOW, &mut records));
        records.clear();
    }
}

/// 10,000 paths against few and against many reservations.
fn check() {
    let (few, _, _) = filled(1_000, 10);
    let (many, _, _) = filled(100_000, 1_000);
    let asked: Vec<String> = (0..10_000).map(|n| path(n % 1_000)).collect();
    let run = |engine: &Engine| {
        let begin = cpu_time();
        for (position, path) in asked.iter().enumerate() {
            black_box(engine.check(None, position, &parse(path), Mode::Exclusive));
        }
        cpu_time() - begin
    };
    let free: Vec<String> = (0..10_000).map(|n| format!("other/tree/{}/file_{n}.txt", n % 100)).collect();
    let run_free = |engine: &Engine| {
        let begin = cpu_time();
        for (position, path) in free.iter().enumerate() {
            black_box(engine.check(None, position, &parse(path), Mode::Exclusive));
        }
        cpu_time() - begin
    };
    row(
        "check 10,000 free paths: 100k + 1k globs, beside 1k + 10",
        (0..15).map(|_| (run_free(&many), run_free(&few))).collect(),
    );
    row("check 10,000 held paths: 100k + 1k globs, beside 1k + 10", (0..15).map(|_| (run(&many), run(&few))).collect());
}

/// One more wait where 10,000 wait already, each check for a circle included.
fn queue_up() {
    const WAITERS: usize = 10_000;
    let mut engine = Engine::new(Policy::default());
    let mut records = Vec::new();
    let mut ask = |engine: &mut Engine, who: usize, path: String, wait: bool| {
        let session = SessionId::parse(&format!("s{who}")).unwrap();
        let intro = Intro { id: session.clone(), name: None, feature: None, owner: Owner::Itself };
        let Command::Reserve(mut ask) = reserve(&session, parse(&path)) else { unreachable!() };
        ask.wait = wait.then_some(Duration::from_secs(300));
        let begin = cpu_time();
        let outcome = engine.execute(&Actor::Session(intro), Command::Reserve(ask), NOW, &mut records);
        records.clear();
        (outcome, cpu_time() - begin)
    };
    // Everybody holds one key and waits for the next one's: a chain that only the last wait would close.
    for who in 0..=WAITERS {
        assert!(matches!(ask(&mut engine, who, format!("chain/{who}"), false).0, Outcome::Granted(_)));
    }
    let mut times = Vec::new();
    for who in 0..WAITERS {
        let (outcome, time) = ask(&mut engine, who, format!("chain/{}", who + 1), true);
        assert!(matches!(outcome, Outcome::Queued(_)), "{outcome:?}");
        times.push(time);
    }
    times.sort();
    let (median, most) = (times[WAITERS / 2], times[WAITERS - 1]);
    println!("{:<62} {median:>12?} {most:>12?}", "a wait that makes a chain of up to 10,000 longer: median, most");
    // And everybody waits for one more key of somebody who waits for nobody.
    let _ = ask(&mut engine, WAITERS + 1, "popular".to_owned(), false);
    let mut times: Vec<_> = (0..WAITERS).map(|who| ask(&mut engine, who, "popular".to_owned(), true).1).collect();
    times.sort();
    let (median, most) = (times[WAITERS / 2], times[WAITERS - 1]);
    println!("{:<62} {median:>12?} {most:>12?}", "a wait for one key among up to 10,000 others: median, most");
    let (outcome, time) = ask(&mut engine, WAITERS, "chain/0".to_owned(), true);
    assert!(matches!(outcome, Outcome::Deadlock(_)), "{outcome:?}");
    println!("{:<62} {time:>12?}", "the wait that would close a circle of 10,001, refused");
    // Everybody holds one key and stands in one queue, and those who hold and wait are asked for what they hold.
    let mut engine = Engine::new(Policy::default());
    for who in 0..WAITERS {
        let _ = ask(&mut engine, who, format!("own/{who}"), false);
        let _ = ask(&mut engine, who, "popular".to_owned(), who > 0);
    }
    let mut times = Vec::new();
    for who in 0..WAITERS {
        let _ = ask(&mut engine, WAITERS + who, format!("far/{who}"), false);
        times.push(ask(&mut engine, who, format!("far/{who}"), true).1);
        times.push(ask(&mut engine, WAITERS + who, format!("own/{}", WAITERS - 1 - who), true).1);
    }
    times.sort();
    let (median, most) = (times[WAITERS], times[2 * WAITERS - 1]);
    println!("{:<62} {median:>12?} {most:>12?}", "a wait among 10,000 who hold, and wait in one queue: median, most");
}

/// A million records, as a start reads them.
fn replay() {
    let count = 1_000_000;
    let json: Vec<Vec<u8>> = records(count).iter().map(|record| serde_json::to_vec(record).unwrap()).collect();
    let begin = cpu_time();
    let mut engine = Engine::new(Policy::default());
    for line in &json {
        engine.apply(&serde_json::from_slice(line).unwrap());
    }
    println!("{:<62} {:>12?}", "replay of a million records, parsing included", cpu_time() - begin);
    assert_eq!(engine.head(), Seq(count as u64));
}

fn filled(paths: usize, globs: usize) -> (Engine, Actor, SessionId) {
    let mut engine = Engine::new(Policy::default());
    let session = SessionId::parse("bench").unwrap();
    let intro = Intro { id: session.clone(), name: None, feature: None, owner: Owner::Itself };
    let actor = Actor::Session(intro);
    let mut records = Vec::new();
    let all = (0..paths).map(path).chain((0..globs).map(|n| format!("lib/area_{}/part_{n}/**/*.rs", n % 50)));
    for path in all {
        let outcome = engine.execute(&actor, reserve(&session, parse(&path)), NOW, &mut records);
        assert!(matches!(outcome, Outcome::Granted(_)), "{path}: {outcome:?}");
        records.clear();
    }
    (engine, actor, session)
}

fn records(count: usize) -> Vec<Record> {
    let session = SessionId::parse("bench").unwrap();
    let opened = Event::Opened { session: session.clone(), name: None, feature: None, owner: None };
    let reserved = (0..count - 1).map(|n| Event::Reserved {
        id: id(),
        session: session.clone(),
        key: parse(&path(n)),
        mode: Mode::Exclusive,
        ttl: Ttl(60),
        reason: None,
    });
    let events = std::iter::once(opened).chain(reserved);
    (1..).zip(events).map(|(seq, event)| Record { seq: Seq(seq), at: NOW, event }).collect()
}

fn reserve(session: &SessionId, key: Key) -> Command {
    Command::Reserve(Reserve {
        session: session.clone(),
        wants: [Want { id: id(), key, ttl: Ttl(60) }].into(),
        mode: Mode::Exclusive,
        reason: None,
        wait: None,
        if_version: None,
    })
}

/// Ids are made at the door; making them is not what is measured here.
fn id() -> ReservationId {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    ReservationId(Uuid::from_u128(NEXT.fetch_add(1, Ordering::Relaxed) as u128))
}

fn path(n: usize) -> String {
    format!("src/area_{}/part_{}/file_{n}.rs", n % 97, n % 1009)
}

fn parse(text: &str) -> Key {
    Key::parse(text, &KeyRules::default()).unwrap()
}

/// What this thread has computed so far; other programs on the machine do not count.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and the call writes nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Medians of interleaved runs, and their ratio.
fn row(what: &str, samples: Vec<(Duration, Duration)>) {
    let median = |mut list: Vec<Duration>| {
        list.sort();
        list[list.len() / 2]
    };
    let mut ratios: Vec<f64> = samples.iter().map(|(a, b)| a.as_secs_f64() / b.as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    let (ours, theirs) = samples.into_iter().unzip();
    println!("{what:<62} {:>12?} {:>12?} {:>7.2}x", median(ours), median(theirs), ratios[ratios.len() / 2]);
}
