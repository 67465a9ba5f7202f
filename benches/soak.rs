//! A server under mixed load for any length of time: its memory, files and latencies over time.
//!
//! `cargo bench --bench soak -- MINUTES` (20 seconds without). Memory, the journal, open files and times should level
//! off: memory once as many keys are remembered as the load ever names, the journal with the second snapshot. The
//! ledger grows with what happens, because it is the history.

mod common;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::http::{SECRET, connect};
use common::place::{scratch, serve};
use common::support::mint;
use common::support::server::Server;
use serde_json::json;

const SESSIONS: usize = 16;

/// Calls a second that each session makes: enough to pass a few snapshots in ten minutes, little enough that the
/// machine is not what is measured.
const CALLS_A_SECOND: u32 = 60;

fn main() {
    let minutes: Option<f64> = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let whole = minutes.map_or(Duration::from_secs(20), |minutes| Duration::from_secs_f64(minutes * 60.0));
    let world = scratch();
    let server = Soaked { server: serve(&world, "repo", &[]), repository: world.path("repo") };
    let (stop, calls, times) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::default());
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let claims = json!({ "sub": format!("soak-{number}"), "exp": mint::now() + 24 * 3600 });
            let (address, token) = (server.server.tcp(), mint::hs256(&claims, SECRET.as_bytes()));
            let (stop, calls, times) = (Arc::clone(&stop), Arc::clone(&calls), Arc::clone(&times));
            std::thread::spawn(move || work(number, address, &token, &stop, &calls, &times))
        })
        .collect();
    println!(
        "{:>7} {:>10} {:>10} {:>12} {:>11} {:>6} {:>9} {:>9} {:>9}",
        "second", "calls", "memory kB", "journal kB", "ledger kB", "files", "p50", "p99", "most"
    );
    let (begin, step) = (Instant::now(), (whole / 20).max(Duration::from_secs(1)));
    while begin.elapsed() < whole {
        std::thread::sleep(step);
        server.report(begin.elapsed(), calls.load(Ordering::Relaxed), &times);
    }
    stop.store(true, Ordering::Relaxed);
    sessions.into_iter().for_each(|session| session.join().expect("a session went wrong"));
}

/// Reserves, shares, waits, checks, renews and releases, over and over.
fn work(
    number: usize,
    address: SocketAddr,
    token: &str,
    stop: &AtomicBool,
    calls: &AtomicU64,
    times: &Mutex<Vec<Duration>>,
) {
    let mut connection = connect(address);
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let mut round = number as u64;
    let files = format!("/api/sessions/soak-{number}/files");
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        // Some keys are the session's own, some common to all, some patterns over both.
        let (own, common) = (format!("own/{number}/{}.rs", round % 500), format!("common/{}.rs", round % 40));
        let plan = [
            ("reserve", format!(r#"{{"filePath":"{own}","ttlSeconds":30}}"#)),
            ("reserve", format!(r#"{{"filePath":"{common}","ttlSeconds":5,"mode":"shared","reason":"soak {round}"}}"#)),
            ("reserve", format!(r#"{{"filePath":"{common}","ttlSeconds":5,"waitSeconds":1}}"#)),
            ("reserve", format!(r#"{{"filePaths":["area/{}/**","db:schema:soak_{}"]}}"#, round % 64, round % 64)),
            ("check-conflicts", format!(r#"{{"paths":["{own}","{common}","area/{}/x.rs"]}}"#, round % 64)),
            ("renew", format!(r#"{{"filePath":"{own}"}}"#)),
            ("release", format!(r#"{{"filePath":"{own}"}}"#)),
            ("release-all", "{}".to_owned()),
        ];
        for (call, body) in plan {
            let begin = Instant::now();
            let response = connection.call("POST", &format!("{files}/{call}"), &headers, body.as_bytes());
            let status = response.expect("the server answers").status;
            assert!([200, 403, 409, 410].contains(&status), "{call} {body}: {status}");
            // A wait takes as long as others hold the key; that is not the server's time.
            if !body.contains("waitSeconds") {
                times.lock().unwrap().push(begin.elapsed());
            }
            calls.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1) / CALLS_A_SECOND);
        }
    }
}

struct Soaked {
    server: Server,
    repository: PathBuf,
}

impl Soaked {
    fn report(&self, at: Duration, calls: u64, times: &Mutex<Vec<Duration>>) {
        let mut times = std::mem::take(&mut *times.lock().unwrap());
        times.sort();
        let part = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
        let process = format!("/proc/{}", self.server.pid());
        let status = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
        let memory = memory.split_whitespace().next().unwrap_or("0");
        let files = fs::read_dir(format!("{process}/fd")).map_or(0, Iterator::count);
        let data = self.repository.join(".git/dibs");
        let ledger = size(&data.join("ledger.git"));
        let journal = size(&data) - ledger;
        println!(
            "{:>7} {calls:>10} {memory:>10} {:>12} {:>11} {files:>6} {:>9.2?} {:>9.2?} {:>9.2?}",
            at.as_secs(),
            journal / 1024,
            ledger / 1024,
            part(0.5),
            part(0.99),
            times.last().copied().unwrap_or_default()
        );
    }
}

fn size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return fs::metadata(path).map_or(0, |found| found.len()) };
    entries.flatten().map(|entry| size(&entry.path())).sum()
}
