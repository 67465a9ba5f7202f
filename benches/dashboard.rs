//! What the dashboard costs. In the server: reserves and releases with 100 dashboards open, beside none; the same while a
//! session waits, so that every dashboard asks again who waits for whom. In a real browser, and measured by it: the first render with 10,000 reservations, and frames while 100 changes arrive every second.
//!
//! `cargo bench --bench dashboard`; the second part needs chromium and chromedriver, and says so where they are missing.
//! `-- server` and `-- browser` measure one part.

mod common;

#[path = "../tests/browser/browser.rs"]
#[allow(dead_code, reason = "the bench uses a part of it")]
mod browser;
#[path = "../tests/browser/driver.rs"]
mod driver;
#[path = "../tests/browser/world.rs"]
#[allow(dead_code, unused_imports, reason = "the bench uses a part of it")]
mod world;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use browser::Browser;
use common::clock::{long, rounds, thread_cpu};
use common::http::{Http, SECRET};
use common::ready::Ready;
use common::{inside, load, support, table};
use git_dibs::journal::SqliteJournal;
use serde_json::json;
use support::http::{Address, Connection, request};
use support::mint;
use support::process::until;
use world::World;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DASHBOARDS: usize = 100;

/// How often a page asks who waits for whom, while a session waits and reservations change: `WAITS_MS` in `web/feed.js`.
const POLL: Duration = Duration::from_millis(300);
const POLLING_THREADS: usize = 4;

const ROUND: Duration = Duration::from_secs(2);

const HELD: usize = 10_000;
const CHANGES_PER_SECOND: u32 = 100;
const SECONDS: u32 = 10;

const ALL_KNOWN: &str = "return document.querySelector('nav a[aria-current] .count')?.textContent === '10,000'";

fn main() {
    // `cargo test --benches` runs this too, and only wants to know whether it starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let has = |word: &str| std::env::args().any(|arg| arg == word);
    if !has("browser") {
        open_dashboards();
        polling_dashboards();
    }
    if has("server") {
        return;
    }
    let world = World::new();
    reserve_many(&world);
    let Some(browser) = world.browser() else { return };
    first_render(&world, &browser);
    changes(&world, &browser);
}

/// Reserves and releases as fast as the server answers, with dashboards open and without, in turns.
fn open_dashboards() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = inside::runtime();
    let journal = SqliteJournal::open(&dir.path().join("journal.db")).unwrap();
    let address = inside::start(&runtime, Box::new(journal));
    table::head(&format!("Durable reserve + release over HTTP with {DASHBOARDS} dashboards open, beside none"));
    for connections in [1, 8, 64] {
        let dialect = Http::new(connections);
        let saturate = || load::saturate(address, &dialect, connections, long(ROUND));
        saturate();
        let mut pairs = Vec::new();
        let (mut bytes, mut cpu) = (0, Duration::ZERO);
        for _ in 0..rounds(5) {
            let alone = saturate();
            let readers = Readers::open(address, DASHBOARDS);
            pairs.push((saturate(), alone));
            let (read, spent) = readers.close();
            (bytes, cpu) = (bytes + read, cpu + spent);
        }
        table::row(&format!("connections: {connections}"), &pairs, table::rate);
        let seconds = long(ROUND).as_secs_f64() * rounds(5) as f64;
        table::fact("- sent to all dashboards, MB a second", &format!("{:.1}", bytes as f64 / seconds / 1e6));
        let share = 100.0 * cpu.as_secs_f64() / seconds;
        table::fact("- of one core, what the bench takes to read that", &format!("{share:.0} %"));
    }
    // The runtime's threads still serve.
    std::mem::forget(runtime);
}

/// The same while a session waits. Each dashboard asks for the waits as often as a page does at most.
fn polling_dashboards() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = inside::runtime();
    let journal = SqliteJournal::open(&dir.path().join("journal.db")).unwrap();
    let address = inside::start(&runtime, Box::new(journal));
    table::head(&format!(
        "The same while a session waits, and each of the {DASHBOARDS} asks for the waits every {POLL:?}"
    ));
    for connections in [8, 64] {
        let dialect = Http::new(connections);
        let saturate = || load::saturate(address, &dialect, connections, long(ROUND));
        let _waiting = wait_for_key(address);
        saturate();
        let (mut pairs, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..rounds(5) {
            let alone = saturate();
            let (readers, polls) = (Readers::open(address, DASHBOARDS), Polls::start(address));
            pairs.push((saturate(), alone));
            rates.push(polls.stop());
            readers.close();
        }
        table::row(&format!("connections: {connections}"), &pairs, table::rate);
        let wanted = DASHBOARDS as f64 / POLL.as_secs_f64();
        table::fact(
            &format!("- lists of waits a second, of {wanted:.0}"),
            &table::rate(table::median(rates.into_iter())),
        );
    }
    std::mem::forget(runtime);
}

/// One session holds a key and another one waits for it, as long as the connection is open.
fn wait_for_key(address: SocketAddr) -> Connection {
    let token = |session: &str| mint::hs256(&mint::claims(json!({ "sub": session })), SECRET.as_bytes());
    let reserve = |connection: &mut Connection, session: &str, body: serde_json::Value| {
        let bearer = format!("Bearer {}", token(session));
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let target = format!("/api/sessions/{session}/files/reserve");
        connection.send(&request("POST", &target, &headers, body.to_string().as_bytes())).unwrap();
    };
    let mut holder = Connection::open(&Address::Tcp(address)).unwrap();
    reserve(&mut holder, "holder", json!({ "filePath": "wanted", "ttlSeconds": 300 }));
    holder.receive(false).unwrap().ok();
    let mut waiting = Connection::open(&Address::Tcp(address)).unwrap();
    reserve(&mut waiting, "waiter", json!({ "filePath": "wanted", "waitSeconds": 290 }));
    let bearer = reader();
    let has_wait = || {
        let answer = holder.call("GET", "/api/waits", &[("authorization", &*bearer)], b"").unwrap().ok();
        (!answer["waits"].as_array().unwrap().is_empty()).then_some(())
    };
    until("the session waits", has_wait);
    waiting
}

fn reader() -> String {
    let claims = mint::claims(json!({ "sub": "reader", "scope": "read" }));
    format!("Bearer {}", mint::hs256(&claims, SECRET.as_bytes()))
}

/// Pages that ask who waits for whom.
struct Polls {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
    start: Instant,
}

impl Polls {
    fn start(address: SocketAddr) -> Polls {
        let stop = Arc::new(AtomicBool::new(false));
        let pause = POLL * u32::try_from(POLLING_THREADS).unwrap() / u32::try_from(DASHBOARDS).unwrap();
        let start = Instant::now();
        let poll = move |stop: Arc<AtomicBool>| {
            let (bearer, mut connection) = (reader(), Connection::open(&Address::Tcp(address)).unwrap());
            let mut count = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                connection.call("GET", "/api/waits", &[("authorization", &*bearer)], b"").unwrap().ok();
                count += 1;
                let due = pause * u32::try_from(count).expect("a bench is short");
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
            count
        };
        let thread = |_| {
            std::thread::spawn({
                let stop = stop.clone();
                move || poll(stop)
            })
        };
        let threads = (0..POLLING_THREADS).map(thread).collect();
        Polls { stop, threads, start }
    }

    /// How many lists came in a second.
    fn stop(self) -> f64 {
        let seconds = self.start.elapsed().as_secs_f64();
        self.stop.store(true, Ordering::Relaxed);
        let count: u64 = self.threads.into_iter().map(|thread| thread.join().expect("the poll is well")).sum();
        count as f64 / seconds
    }
}

/// Event streams that are read, and whose contents are thrown away.
struct Readers {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, Duration)>,
}

impl Readers {
    fn open(address: SocketAddr, count: usize) -> Readers {
        let bearer = reader();
        let text = request("GET", "/api/events?live=1", &[("authorization", &*bearer)], b"");
        let mut ready = Ready::new();
        let streams: Vec<TcpStream> = (0..count)
            .map(|number| {
                let mut stream = TcpStream::connect(address).expect("the server listens");
                stream.write_all(&text).expect("the server reads");
                ready.watch(&stream, number);
                stream
            })
            .collect();
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, begun) = (stop.clone(), begun.clone());
            move || {
                let (mut bytes, mut has_begun) = (0, vec![false; count]);
                while !stop.load(Ordering::Relaxed) {
                    for number in ready.wait(Some(Duration::from_millis(20))) {
                        bytes += discard(&streams[number]);
                        if !std::mem::replace(&mut has_begun[number], true) {
                            begun.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                (bytes, thread_cpu())
            }
        });
        until("all dashboards are open", || (begun.load(Ordering::Relaxed) == count as u64).then_some(()));
        Readers { stop, thread }
    }

    /// How many bytes came, and the CPU time that reading took.
    fn close(self) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the readers are well")
    }
}

/// Takes what has arrived without copying it: the browsers are on other machines, and their work does not count here.
fn discard(stream: &TcpStream) -> u64 {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: with MSG_TRUNC the kernel discards what a TCP socket has, and writes nothing.
    let count = unsafe { libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), 1 << 20, flags) };
    u64::try_from(count).unwrap_or(0)
}

fn reserve_many(world: &World) {
    let keys: Vec<String> = (0..HELD).map(|n| format!("src/module{}/part{}/file{n}.rs", n % 100, n % 7)).collect();
    for (n, some) in keys.chunks(1000).enumerate() {
        let body = json!({ "filePaths": some, "ttlSeconds": 300, "reason": "a large change" });
        world.named(&format!("agent-{n}"), &format!("Agent {n}")).reserve(body).ok();
    }
}

fn first_render(world: &World, browser: &Browser) {
    // Time on the CPU: what else runs on this machine does not count.
    browser.devtools("Performance.enable", json!({ "timeDomain": "threadTicks" }));
    browser.go(&world.login_url(&world.reader(), ""));
    browser.until("all are known", ALL_KNOWN);
    let [script, layout, task] = ["ScriptDuration", "LayoutDuration", "TaskDuration"].map(|name| metric(browser, name));
    table::head(&format!("The dashboard in a browser, with {HELD} reservations"));
    let times = format!("{script:.0} ms of script, {layout:.0} ms of layout, {task:.0} ms of all tasks");
    table::fact("first render", &times);
    let files = "return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).filter((one) => !one.name.includes('/api/'))";
    let count = browser.run(&format!("{files}.length"));
    let bytes = browser.run(&format!("{files}.reduce((sum, one) => sum + one.encodedBodySize, 0)"));
    table::fact("files, those that are loaded later included", &format!("{count} requests, {bytes} bytes compressed"));
}

fn changes(world: &World, browser: &Browser) {
    browser.run("window.gaps = []; let last = 0; const next = (at) => { if (last) window.gaps.push(at - last); last = at; requestAnimationFrame(next) }; requestAnimationFrame(next)");
    let (script, start) = (metric(browser, "ScriptDuration"), Instant::now());
    let mut connection = world.connect();
    let busy = world.named("busy", "Busy");
    for n in 0..CHANGES_PER_SECOND * SECONDS {
        let (call, key) = if n % 2 == 0 { ("reserve", n) } else { ("release", n - 1) };
        change(&mut connection, &busy.token, call, &format!("src/module3/part1/busy{key}.rs"));
        let due = Duration::from_secs(1) * (n + 1) / CHANGES_PER_SECOND;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    let took = start.elapsed().as_secs_f64();
    let script = (metric(browser, "ScriptDuration") - script) / took;
    let frames = browser.run("const gaps = window.gaps.sort((a, b) => a - b); return `${gaps.length} frames, median ${gaps[gaps.length >> 1].toFixed(1)} ms, 99 % below ${gaps[Math.floor(gaps.length * 0.99)].toFixed(1)} ms, longest ${gaps.at(-1).toFixed(1)} ms, ${gaps.filter((gap) => gap > 25).length} dropped`");
    let count = CHANGES_PER_SECOND * SECONDS;
    let what = format!("{count} changes in {took:.1} s");
    table::fact(&what, &format!("{script:.0} ms of script a second; {}", frames.as_str().unwrap()));
}

fn change(connection: &mut Connection, token: &str, call: &str, key: &str) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let body = json!({ "filePath": key }).to_string();
    connection.call("POST", &format!("/api/sessions/busy/files/{call}"), &headers, body.as_bytes()).unwrap().ok();
}

/// A figure of the browser, in milliseconds of CPU time.
fn metric(browser: &Browser, name: &str) -> f64 {
    let metrics = browser.devtools("Performance.getMetrics", json!({}))["metrics"].clone();
    let found = metrics.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["value"].as_f64();
    found.unwrap() * 1000.0
}
