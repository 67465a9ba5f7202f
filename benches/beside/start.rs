//! The program with a million reservations: start-up time, memory, and throughput.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use git_dibs::engine::{Command, Engine, Outcome, Seq, SessionId, Ttl, Turn};
use git_dibs::journal::{Journal, SqliteJournal};

use crate::common::clock::{long, rounds};
use crate::common::commands::{NOW, actor, parse, path, reserve, roomy};
use crate::common::http::{Http, connect};
use crate::common::place::serve;
use crate::common::support::server::Server;
use crate::common::support::world::World;
use crate::common::{load, table};

const MILLION: usize = 1_000_000;
const CONNECTIONS: usize = 64;

/// More than the default limits allow.
const LIMITS: &str = "[limits]\nreservations-per-session = 2000000\nreservations-per-repository = 2000000\n\
                      text-bytes-per-repository = 4000000000\n";

pub fn measure(place: &World) {
    table::head("The program with a million reservations (--no-ledger)");
    fs::write(place.path("limits.toml"), LIMITS).expect("a file");
    seed(place, "replayed", MILLION, false);
    seed(place, "large", MILLION, true);
    seed(place, "small", 1_000, true);
    let mut pairs = [Vec::new(), Vec::new()];
    for _ in 0..rounds(3) {
        let empty = ready(place, "empty").1;
        for (pairs, name) in pairs.iter_mut().zip(["large", "replayed"]) {
            pairs.push((ready(place, name).1, empty));
        }
    }
    table::row("started and ready: a snapshot of a million, beside nothing", &pairs[0], table::time);
    table::row("started and ready: a million records and no snapshot, beside nothing", &pairs[1], table::time);

    let (large, small) = (ready(place, "large").0, ready(place, "small").0);
    let each = resident(large.pid()).saturating_sub(resident(small.pid())) / MILLION as u64;
    table::fact("memory of the process for each, right after the start, bytes", &each.to_string());

    let dialect = Http::new(CONNECTIONS);
    let rate = |server: &Server| load::saturate(server.tcp(), &dialect, CONNECTIONS, long(Duration::from_secs(1)));
    let pairs: Vec<table::Pair> = (0..=rounds(5)).map(|_| (rate(&large), rate(&small))).skip(1).collect();
    table::row("requests over HTTP among 1,000,000, 64 connections, beside among 1,000", &pairs, table::rate);
}

/// Starts the program and asks whether it is ready. Returns how long that took, in seconds.
fn ready(place: &World, name: &str) -> (Server, f64) {
    let begin = Instant::now();
    let limits = place.path("limits.toml");
    // The ledger would still be writing the million records during other measurements.
    let server = serve(place, name, &["--no-ledger", "--config", limits.to_str().expect("a path of ours")]);
    connect(server.tcp()).call("GET", "/readyz", &[], b"").expect("it answers").ok();
    (server, begin.elapsed().as_secs_f64())
}

/// Writes the journal of a server with this many reservations, with a snapshot or with records alone.
fn seed(place: &World, name: &str, count: usize, snapshot: bool) {
    const BATCH: usize = 5_000;
    place.git_in("", &["init", "-q", name]);
    let dir = place.path(name).join(".git/dibs");
    fs::create_dir(&dir).expect("a directory");
    let mut journal = SqliteJournal::open(&dir.join("journal.db")).expect("a journal");
    let mut engine = Engine::new(roomy());
    let mut turn = Turn::at(NOW);
    for begin in (0..count).step_by(BATCH) {
        let after = engine.head();
        for n in begin..(begin + BATCH).min(count) {
            let session = SessionId::parse(&format!("session-{}", n % 100)).expect("an id");
            let Command::Reserve(mut ask) = reserve(&session, parse(&path(n))) else { unreachable!() };
            (ask.wants[0].ttl, ask.reason) =
                (Ttl::Plain(3600), Some("moving the parser into a crate of its own".into()));
            let outcome = engine.execute(&mut turn, &actor(&session), Command::Reserve(ask));
            assert!(matches!(outcome, Ok(Outcome::Granted(_))), "{outcome:?}");
        }
        journal.append(after, &turn.records).expect("it is written");
        turn.records.clear();
    }
    if snapshot {
        let state = serde_json::to_vec(&engine.image()).expect("plain data");
        let mut reader = journal.reader().expect("a second hand");
        reader.save_snapshot(engine.head(), &state, Seq(engine.head().0.saturating_sub(200_000))).expect("it is kept");
    }
}

/// What a process has in memory, in bytes.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says so");
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
}
