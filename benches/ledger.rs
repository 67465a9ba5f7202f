//! The cost of the ledger: bytes per event after 100,000 of them, one path's history with plain git, whether a flush
//! slows down as history grows, and grants over HTTP with a ledger beside them and without.
//!
//! `cargo bench --bench ledger`

mod common;

use std::path::Path;
use std::process::Command as Program;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::clock::{long, quick, rounds, took};
use common::commands::{parse, release, roomy};
use common::http::Http;
use common::support::process::{Run, until};
use common::{inside, load, table};
use git_dibs::engine::{
    Actor, Command, Engine, Mode, Owner, ReservationId, Reserve, SessionId, SessionIdentity, Timestamp, Ttl, Turn, Want,
};
use git_dibs::journal::{Journal, SqliteJournal};
use git_dibs::ledger::{Ledger, LedgerStatus, RetainingJournal, Writer, repack};

const EVENTS: u64 = 100_000;

/// Events in a flush, where `DIBS_BENCH_PER_FLUSH` says nothing else: what a hundred busy sessions do in half a second.
const PER_FLUSH: u64 = 50;

/// The number of files that are worked on.
const FILES: u64 = 5_000;

fn main() {
    table::head("The ledger");
    history();
    grants();
    std::process::exit(0);
}

/// Writes a long history, and measures as it grows.
fn history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.git");
    let mut journal = SqliteJournal::open(&dir.path().join("journal.db")).unwrap();
    let mut reader = journal.reader().unwrap();
    let mut writer = Writer::open(&path, reader.as_mut()).unwrap();
    let per_flush = std::env::var("DIBS_BENCH_PER_FLUSH").ok().and_then(|text| text.parse().ok()).unwrap_or(PER_FLUSH);
    let mut work = Work::new();
    let mut times = Vec::new();
    // The thousandth flush must be among them.
    let count = if quick() { 1_100 * per_flush } else { EVENTS };
    while work.engine.head().0 < count {
        work.flush(&mut journal, per_flush);
        let begin = Instant::now();
        writer.flush(reader.as_mut()).unwrap();
        times.push(begin.elapsed());
        if times.len() % 32 == 0 {
            repack(&path).unwrap();
        }
    }
    repack(&path).unwrap();
    let events = work.engine.head().0;
    let around = |n: usize| times[n - 5..n + 6].iter().map(Duration::as_secs_f64);
    let pairs: Vec<table::Pair> = around(1_000).zip(around(10)).collect();
    table::row("flush 1,000, beside flush 10", &pairs, table::time);
    let bytes = size(&path);
    let events_told = table::count(events as f64);
    table::fact(&format!("bytes of an event after {events_told} of them"), &(bytes / events).to_string());
    let name = file(17);
    let args = ["log", "--format=%h %s", "ledger", "--", &name];
    let look = table::median((0..5).map(|_| git(&path, &args).as_secs_f64()));
    table::fact(&format!("git log -- {name}, {} commits", times.len()), &table::time(look));
}

/// Sessions that reserve and release files, as agents do.
struct Work {
    engine: Engine,
    now: Timestamp,
    dice: u64,
}

impl Work {
    fn new() -> Work {
        Work { engine: Engine::new(roomy()), now: Timestamp(1_790_000_000_000), dice: 3 }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    /// Makes the events of one flush.
    fn flush(&mut self, journal: &mut SqliteJournal, events: u64) {
        let after = self.engine.head();
        let mut turn = Turn::default();
        while (turn.records.len() as u64) < events {
            self.now = self.now.after(Duration::from_millis(10));
            let session = SessionId::parse(&format!("agent-{}", self.roll(100))).unwrap();
            let name = Some(format!("Agent {session}").into());
            let intro = SessionIdentity {
                id: session.clone(),
                name,
                feature: None,
                owner: Owner::Itself,
                issued: None,
                hears_notices: true,
            };
            let held = self.engine.held(&session);
            let command = if held.len() < 3 {
                let key = parse(&file(self.roll(FILES)));
                let want = Want { id: ReservationId(uuid::Uuid::now_v7()), key, ttl: Ttl::Plain(120) };
                let wants = [want].into_iter().collect();
                let reason = Some("working on the parser".into());
                let mode = Mode::Exclusive;
                Command::Reserve(Reserve { session, wants, mode, reason, wait: None, if_version: None })
            } else {
                let at = self.roll(held.len() as u64) as usize;
                release(&session, held[at].key.clone())
            };
            turn.now = self.now;
            let _ = self.engine.execute(&mut turn, &Actor::Session(intro), command);
        }
        journal.append(after, &turn.records).unwrap();
    }
}

fn file(n: u64) -> String {
    format!("crates/area_{}/src/part_{}/file_{n}.rs", n % 20, n % 100)
}

fn git(path: &Path, args: &[&str]) -> Duration {
    let begin = Instant::now();
    let output = Program::new("git").arg("--git-dir").arg(path).args(args).run();
    assert!(output.status.success() && !output.stdout.is_empty());
    begin.elapsed()
}

fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().flatten();
    files.map(|file| if file.path().is_dir() { size(&file.path()) } else { file.metadata().unwrap().len() }).sum()
}

const ROUND: Duration = Duration::from_millis(2500);
const ROUNDS: usize = 5;

/// Durable reserves and releases over HTTP, with a ledger and without, in turns. Nothing of the one is left to do while
/// the other is measured.
fn grants() {
    let runtime = inside::runtime();
    let dir = tempfile::tempdir().unwrap();
    let status = Arc::<LedgerStatus>::default();
    let journal = |name: &str| SqliteJournal::open(&dir.path().join(name)).unwrap();
    let kept = journal("with.db");
    let reader = kept.reader().unwrap();
    let with = inside::start(&runtime, Box::new(RetainingJournal::new(Box::new(kept), status.clone())));
    let ledger = Ledger::start("bench", dir.path().join("ledger.git"), reader, status.clone());
    let without = inside::start(&runtime, Box::new(journal("without.db")));
    let dialect = Http::new(64);
    for connections in [8, 64] {
        let (mut rates, mut most, mut catching_up) = (Vec::new(), 0, Vec::new());
        for _ in 0..rounds(ROUNDS) {
            let on = load::saturate(with, &dialect, connections, long(ROUND));
            most = most.max(status.lag().records);
            catching_up.push(took(|| {
                until("the ledger has caught up", || (status.lag().records == 0).then_some(()));
            }));
            rates.push((on, load::saturate(without, &dialect, connections, long(ROUND))));
        }
        table::row(&format!("requests with a ledger, {connections} connections, beside none"), &rates, table::rate);
        let time = table::time(table::median(catching_up.into_iter()));
        table::fact("- most records behind, and until caught up", &format!("{most}, {time}"));
    }
    drop(ledger);
}
