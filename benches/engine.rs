//! The engine alone, compared with a bare `HashMap`. Ratios of CPU time within one run; no network, no disk.
//!
//! `cargo bench --bench engine` runs all parts, `-- waits` only that one. `-- profile NAME ROUNDS` runs a single loop for
//! callgrind; the names are in [`profile`].

mod common;

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use common::clock::{computed, rounds, thread_cpu};
use common::commands::{Full, NOW, actor, id, parse, path, reserve};
use common::table;
use git_dibs::engine::{
    Command, Engine, Event, Intent, Mode, Outcome, Policy, Record, Refusal, Seq, SessionId, Ttl, Turn,
};
use git_dibs::key::Key;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["profile", name, rounds] => return profile(name, rounds.parse().expect("a number of rounds")),
        ["waits"] => return queue_up(),
        _ => {}
    }
    table::head("The engine, in CPU time");
    for live in [1_000, 1_000_000] {
        reserve_and_release(live);
    }
    check();
    queue_up();
    replay();
}

/// One session's reserve + release of a key among `live` others, against insert + remove in a bare map.
fn reserve_and_release(live: usize) {
    const TIMES: usize = 20_000;
    let mut full = Full::of(live, 0);
    // A lock table must know at least the holder and the deadline.
    let holder = "session-17".to_owned();
    let mut map: HashMap<String, (String, i64)> = (0..live).map(|n| (path(n), (holder.clone(), NOW.0))).collect();
    let mut bare: HashMap<String, u64> = (0..live).map(|n| (path(n), 0)).collect();
    let fresh: Vec<String> = (live..live + 1000).map(path).collect();
    let keys: Vec<Key> = fresh.iter().map(|path| parse(path)).collect();
    let each = |work: &mut dyn FnMut()| computed(work) / TIMES as f64;
    let (mut locks, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..rounds(15) {
        let here = each(&mut || full.reserve_and_release(&keys, TIMES));
        let theirs = each(&mut || {
            for path in fresh.iter().cycle().take(TIMES) {
                black_box(map.insert(path.clone(), (holder.clone(), NOW.0)));
                black_box(map.remove(path));
            }
        });
        let barest = each(&mut || {
            for (n, path) in (0..).zip(fresh.iter().cycle().take(TIMES)) {
                black_box(bare.insert(path.clone(), n));
                black_box(bare.remove(path));
            }
        });
        locks.push((here, theirs));
        numbers.push((here, barest));
    }
    let among = table::count(live as f64);
    table::row(&format!("reserve + release among {among}, beside a map to (holder, until)"), &locks, table::time);
    table::row(&format!("reserve + release among {among}, beside a map to a number"), &numbers, table::time);
}

/// A single loop, for callgrind. The difference between two runs of different length is the cost of the rounds.
fn profile(name: &str, rounds: usize) {
    let mut full = Full::of(1_000, 10);
    let texts: Vec<String> = (950..1_050).map(path).collect();
    let keys: Vec<Key> = (1_000..1_100).map(|n| parse(&path(n))).collect();
    let globs = [parse("src/**/file_*.rs"), parse("src/area_1*/**"), parse("lib/**/*.rs"), parse("src/{a,b}/[cd]?.rs")];
    match name {
        "reserve-release" => full.reserve_and_release(&keys, rounds),
        // Half of the paths are held, half are free.
        "check" => {
            for (position, text) in texts.iter().cycle().take(rounds).enumerate() {
                black_box(full.engine.check(None, position, &parse(text), Intent::Reserve(Mode::Exclusive)));
            }
        }
        "parse" => {
            for text in texts.iter().cycle().take(rounds) {
                black_box(parse(text));
            }
        }
        "overlap-path-glob" => {
            for (key, glob) in keys.iter().cycle().zip(globs.iter().cycle()).take(rounds) {
                black_box(key.overlaps(glob));
            }
        }
        "overlap-glob-glob" => {
            for round in 0..rounds {
                black_box(globs[round % 4].overlaps(&globs[(round / 4) % 4]));
            }
        }
        "record" => {
            for record in records(100).iter().cycle().take(rounds) {
                black_box(serde_json::to_vec(record).unwrap());
            }
        }
        _ => panic!("there is no profile {name}"),
    }
}

/// 10,000 paths against few and against many reservations.
fn check() {
    let (few, many) = (Full::of(1_000, 10), Full::of(100_000, 1_000));
    let held: Vec<String> = (0..10_000).map(|n| path(n % 1_000)).collect();
    let free: Vec<String> = (0..10_000).map(|n| format!("other/tree/{}/file_{n}.txt", n % 100)).collect();
    for (what, paths) in [("free", free), ("held", held)] {
        let run = |full: &Full| {
            computed(|| {
                for (position, path) in paths.iter().enumerate() {
                    black_box(full.engine.check(None, position, &parse(path), Intent::Reserve(Mode::Exclusive)));
                }
            })
        };
        let pairs: Vec<_> = (0..rounds(15)).map(|_| (run(&many), run(&few))).collect();
        table::row(&format!("check 10,000 {what} paths: 100k + 1k globs, beside 1k + 10"), &pairs, table::time);
    }
}

/// One more wait where 10,000 wait already, the search for a cycle included.
fn queue_up() {
    const WAITERS: usize = 10_000;
    let mut engine = Engine::new(Policy::default());
    let mut turn = Turn::at(NOW);
    let mut ask = |engine: &mut Engine, who: usize, path: String, wait: bool| {
        let session = SessionId::parse(&format!("s{who}")).unwrap();
        let Command::Reserve(mut ask) = reserve(&session, parse(&path)) else { unreachable!() };
        ask.wait = wait.then_some(Duration::from_secs(300));
        let begin = thread_cpu();
        let outcome = engine.execute(&mut turn, &actor(&session), Command::Reserve(ask));
        turn.records.clear();
        (outcome, thread_cpu() - begin)
    };
    // Each session holds one key and waits for that of the next session: a chain that only the last wait would close.
    for who in 0..=WAITERS {
        assert!(matches!(ask(&mut engine, who, format!("chain/{who}"), false).0, Ok(Outcome::Granted(_))));
    }
    let mut times = Vec::new();
    for who in 0..WAITERS {
        let (outcome, time) = ask(&mut engine, who, format!("chain/{}", who + 1), true);
        assert!(matches!(outcome, Ok(Outcome::Queued(_))), "{outcome:?}");
        times.push(time);
    }
    times_of("a wait that makes a chain of up to 10,000 longer", times);
    // Each session waits for one more key, of a session that does not wait.
    let _ = ask(&mut engine, WAITERS + 1, "popular".to_owned(), false);
    let times: Vec<_> = (0..WAITERS).map(|who| ask(&mut engine, who, "popular".to_owned(), true).1).collect();
    times_of("a wait for one key among up to 10,000 others", times);
    let (outcome, time) = ask(&mut engine, WAITERS, "chain/0".to_owned(), true);
    assert!(matches!(outcome, Err(Refusal::Deadlock(_))), "{outcome:?}");
    times_of("the wait that would close a cycle of 10,001, refused", vec![time]);
    // Each session holds one key and waits in the same queue, while others wait for the key it holds.
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
    times_of("a wait among 10,000 sessions that hold keys and wait in one queue", times);
}

fn times_of(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    table::fact(what, &format!("{median:.2?}, at most {most:.2?}"));
}

/// A million records, as a server reads them at start.
fn replay() {
    let count = 1_000_000;
    let json: Vec<Vec<u8>> = records(count).iter().map(|record| serde_json::to_vec(record).unwrap()).collect();
    let begin = thread_cpu();
    let mut engine = Engine::new(Policy::default());
    for line in &json {
        engine.apply(&serde_json::from_slice(line).unwrap());
    }
    table::fact("replay of a million records, parsing included", &format!("{:.2?}", thread_cpu() - begin));
    assert_eq!(engine.head(), Seq(count as u64));
}

fn records(count: usize) -> Vec<Record> {
    let session = SessionId::parse("bench").unwrap();
    let opened = Event::Opened { session: session.clone(), name: None, feature: None, owner: None };
    let reserved = (0..count - 1).map(|n| Event::Reserved {
        id: id(),
        session: session.clone(),
        key: parse(&path(n)),
        mode: Mode::Exclusive,
        ttl: Ttl::Plain(60),
        reason: None,
    });
    let events = std::iter::once(opened).chain(reserved);
    (1..).zip(events).map(|(seq, event)| Record { seq: Seq(seq), at: NOW, event }).collect()
}
