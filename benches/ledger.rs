//! What the ledger costs: bytes of an event after 100,000 of them, one path's history with plain git, whether a flush
//! slows down as history grows, and grants over HTTP with a ledger beside them and without.
//!
//! `cargo bench --bench ledger`

use std::path::Path;
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use git_dibs::desk::{Desk, SystemClock};
use git_dibs::engine::{
    Actor, Command, Engine, Intro, Mode, Named, Owner, Policy, ReservationId, Reserve, SessionId, Timestamp, Ttl, Want,
};
use git_dibs::http::{App, Gate, Limits, Listener, Repository, Server, router};
use git_dibs::journal::{Journal, JournalReader, SqliteJournal};
use git_dibs::key::{Key, KeyRules};
use git_dibs::ledger::{Kept, Ledger, Status, Writer, tidy};
use git_dibs::token::{Keyring, KeyringConfig, Mint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const EVENTS: u64 = 100_000;

/// Events in a flush, where `DIBS_BENCH_PER_FLUSH` says nothing else: what a hundred busy sessions do in half a second.
const PER_FLUSH: u64 = 50;

/// Files people work on.
const FILES: u64 = 5_000;

fn main() {
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
    while work.engine.head().0 < EVENTS {
        work.flush(&mut journal, per_flush);
        let begin = Instant::now();
        writer.flush(reader.as_mut()).unwrap();
        times.push(begin.elapsed());
        if times.len() % 32 == 0 {
            tidy(&path).unwrap();
        }
    }
    tidy(&path).unwrap();
    let events = work.engine.head().0;
    let (early, late) = (median(&times[5..16]), median(&times[995..1006]));
    println!("{:<44} {:>12?} {:>12?} {:>7.2}x", "flush 1,000, beside flush 10", late, early, ratio(late, early));
    let bytes = size(&path);
    println!("{:<44} {:>12} {:>12} {:>5} B each", "events and bytes", events, bytes, bytes / events);
    let name = file(17);
    let args = ["log", "--format=%h %s", "ledger", "--", &name];
    let mut looks: Vec<Duration> = (0..5).map(|_| git(&path, &args)).collect();
    looks.sort();
    println!("{:<44} {:>12?}", format!("git log -- {name}, {} commits", times.len()), looks[2]);
}

/// Sessions that reserve and release files, as agents do.
struct Work {
    engine: Engine,
    now: Timestamp,
    dice: u64,
}

impl Work {
    fn new() -> Work {
        Work { engine: Engine::new(Policy::default()), now: Timestamp(1_790_000_000_000), dice: 3 }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    /// As much as one flush takes.
    fn flush(&mut self, journal: &mut SqliteJournal, events: u64) {
        let after = self.engine.head();
        let mut records = Vec::new();
        while (records.len() as u64) < events {
            self.now = self.now.after(Duration::from_millis(10));
            let session = SessionId::parse(&format!("agent-{}", self.roll(100))).unwrap();
            let name = Some(format!("Agent {session}").into());
            let intro = Intro { id: session.clone(), name, feature: None, owner: Owner::Itself };
            let key = |n| Key::parse(&file(n), &KeyRules::default()).unwrap();
            let held = self.engine.held(&session);
            let command = if held.len() < 3 {
                let key = key(self.roll(FILES));
                let want = Want { id: ReservationId(uuid::Uuid::now_v7()), key, ttl: Ttl(120) };
                let wants = [want].into_iter().collect();
                let reason = Some("working on the parser".into());
                let mode = Mode::Exclusive;
                Command::Reserve(Reserve { session, wants, mode, reason, wait: None, if_version: None })
            } else {
                let at = self.roll(held.len() as u64) as usize;
                let keys = [Named::from(held[at].key.clone())].into_iter().collect();
                Command::Release { session, keys }
            };
            self.engine.execute(&Actor::Session(intro), command, self.now, &mut records);
        }
        journal.append(after, &records).unwrap();
    }
}

fn file(n: u64) -> String {
    format!("crates/area_{}/src/part_{}/file_{n}.rs", n % 20, n % 100)
}

fn git(path: &Path, args: &[&str]) -> Duration {
    let begin = Instant::now();
    let output = Program::new("git").arg("--git-dir").arg(path).args(args).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
    begin.elapsed()
}

fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().flatten();
    files.map(|file| if file.path().is_dir() { size(&file.path()) } else { file.metadata().unwrap().len() }).sum()
}

const ROUND: Duration = Duration::from_millis(2500);
const ROUNDS: usize = 5;

/// Durable reserves over HTTP, with a ledger and without, in turns. Nothing of the one is left to do while the other is
/// measured.
fn grants() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let status = Arc::<Status>::default();
    let (with, token, ledger) = start(&runtime, &dir.path().join("with"), Some(status.clone()));
    let (without, _, _) = start(&runtime, &dir.path().join("without"), None);
    for connections in [8, 64] {
        let mut samples = Vec::new();
        let mut lags = Vec::new();
        for _ in 0..ROUNDS {
            let on = load(with, &token, connections);
            lags.push(status.lag());
            let begin = Instant::now();
            while status.lag().records > 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
            let caught_up = begin.elapsed();
            let off = load(without, &token, connections);
            samples.push((on, off, caught_up));
        }
        samples.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (on, off, caught_up) = samples[ROUNDS / 2];
        let what = format!("grants/s with a ledger, {connections} connections");
        println!("{what:<44} {on:>12.0} {off:>12.0} {:>7.2}x", on / off);
        let lag = lags.iter().map(|lag| lag.records).max().unwrap();
        println!("{:<44} {lag:>12} {caught_up:>12?}", "  most records behind, and until caught up");
    }
    drop(ledger);
}

fn start(
    runtime: &tokio::runtime::Runtime,
    dir: &Path,
    status: Option<Arc<Status>>,
) -> (std::net::SocketAddr, String, Option<Ledger>) {
    std::fs::create_dir_all(dir).unwrap();
    let secret = vec![b's'; 32];
    let keyring = Keyring::new(KeyringConfig { secret: Some(secret), ..KeyringConfig::default() }).unwrap();
    let now = unix_seconds();
    let mint = Mint { subject: "bench".into(), issued: now, expires: now + 3600, ..Mint::default() };
    let token = keyring.mint(&mint).unwrap();
    let mut journal: Box<dyn Journal> = Box::new(SqliteJournal::open(&dir.join("journal.db")).unwrap());
    let follow = status.map(|status| {
        let reader: Box<dyn JournalReader> = journal.reader().unwrap();
        (status, reader)
    });
    if let Some((status, _)) = &follow {
        journal = Box::new(Kept::new(journal, status.clone()));
    }
    let policy = Policy { reservations_per_session: usize::MAX, ..Policy::default() };
    let failed = |error| panic!("{error}");
    let (desk, _) = Desk::open("bench", journal, Box::new(SystemClock::new()), policy, failed).unwrap();
    let ledger = follow.map(|(status, reader)| Ledger::follow("bench", dir.join("ledger.git"), reader, status));
    let repository = Repository::new("bench".into(), desk);
    let app = App::new(vec![repository], Arc::new(keyring), unix_seconds);
    // One session asks for all, and as fast as it can.
    app.set_limits(Limits { requests_per_second: 0, ..Limits::default() });
    let address = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let stop = watch::Sender::new(false);
            Server::new(router(Arc::new(app), Gate::Loopback), vec![Listener::Tcp(listener)])
                .run(stop.subscribe(), || {})
                .await;
            drop(stop);
        });
        address
    });
    (address, token, ledger)
}

/// Requests answered per second. Each reserves a file and lets go of it again.
fn load(address: std::net::SocketAddr, token: &str, connections: usize) -> f64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let begin = Instant::now();
        let clients: Vec<_> = (0..connections)
            .map(|_| {
                let token = token.to_owned();
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    let mut buffer = vec![0; 4096];
                    let mut done = 0u64;
                    while begin.elapsed() < ROUND {
                        let name = file(NEXT.fetch_add(1, Ordering::Relaxed));
                        let body = format!(r#"{{"filePath":"{name}","ttlSeconds":60}}"#);
                        send(&mut stream, &token, "bench/files/reserve", &body).await;
                        read_answer(&mut stream, &mut buffer).await;
                        let body = format!(r#"{{"filePath":"{name}"}}"#);
                        send(&mut stream, &token, "bench/files/release", &body).await;
                        read_answer(&mut stream, &mut buffer).await;
                        done += 2;
                    }
                    done
                })
            })
            .collect();
        let mut total = 0;
        for client in clients {
            total += client.await.unwrap();
        }
        total as f64 / begin.elapsed().as_secs_f64()
    })
}

async fn send(stream: &mut TcpStream, token: &str, call: &str, body: &str) {
    let request = format!(
        "POST /api/sessions/{call} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await.unwrap();
        assert!(read > 0, "the server hung up");
        filled += read;
        let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head]).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if filled >= head + 4 + length {
            return;
        }
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}
