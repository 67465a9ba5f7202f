//! What one session feels while another does its worst within the limits: p99 of its reserve and release, beside the
//! same alone. Then the peak memory of the server after all of it.
//!
//! The requests of the load are made once and sent again and again: real ones come from other machines, and here they would
//! take the processor from the server.
//!
//! `cargo bench --bench neighbour`; `-- NAME` runs the rows whose name contains it.

mod common;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::clock::{long, rounds};
use common::http::{call, connect, token};
use common::place::{scratch, serve};
use common::support::http::request;
use common::{load, table};
use git_dibs::threads;

const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 4;

const ALL_AT_ONCE: &str = "the same after all of them at once, with 410,000 keys held besides";

/// How long all kinds of load work at once.
const MIX: Duration = Duration::from_secs(8);

/// How many requests of 10,000 keys fill the repository meanwhile, and how many of them a session may have. What is left of
/// the limit is for the load, which would only be refused otherwise.
const FULL_PARTS: usize = 41;
const PARTS_OF_SESSION: usize = 10;

/// The patterns that are held.
const HELD_PATTERNS: usize = 1_000;

/// One kind of load: its name, and what one connection of it does over and over.
type Kind = (&'static str, fn(&Neighbour, usize));

const KINDS: [Kind; 8] = [
    ("999 patterns in one request", patterns),
    ("checks of patterns that the session hangs up on", hang_up),
    ("10,000 keys reserved and released together", batches),
    ("waits for 10,000 keys, given up", waits),
    ("checks of 1,000 paths against 1,000 patterns", wide_answers),
    ("bodies full of empty strings", empty_strings),
    ("lists of everything", lists),
    ("event streams that are not read", unread_streams),
];

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let world = scratch();
    let server = serve(&world, "repo", &[]);
    let address = server.tcp();
    let holder = Neighbour::new(address, "holder");
    holder.prepare();
    table::head("p99 of a session's reserve + release while another session does its worst, beside the same alone");
    for (name, work) in KINDS.iter().filter(|(name, _)| name.contains(&filter)) {
        let pairs: Vec<table::Pair> = (0..rounds(ROUNDS))
            .map(|_| {
                holder.renew();
                let alone = quiet_p99(address);
                (beside(address, *work), alone)
            })
            .collect();
        table::row(name, &pairs, table::time);
    }
    let peak = peak_memory(server.pid());
    table::fact("peak memory of the server after all of these", &format!("{} MB", peak / 1024));
    if ALL_AT_ONCE.contains(&filter) {
        holder.renew();
        fill(address);
        let works: Vec<_> = KINDS.iter().map(|(_, work)| *work).collect();
        with_load(address, &works, || std::thread::sleep(long(MIX)));
        let peak = peak_memory(server.pid());
        table::fact(ALL_AT_ONCE, &format!("{} MB", peak / 1024));
    }
}

/// Holds almost as much as the limits of a repository allow.
fn fill(address: SocketAddr) {
    for part in 0..FULL_PARTS {
        let holder = Neighbour::new(address, &format!("full-{}", part / PARTS_OF_SESSION));
        let directory = format!("full/{part}/{}", "d".repeat(60));
        let keys = array((0..10_000).map(|n| format!("{directory}/{}/file-{n:05}.rs", n / 100)));
        holder.accepted("files/reserve", &format!(r#"{{"filePaths":[{keys}],"ttlSeconds":300}}"#));
    }
}

/// What the quiet session sees while every connection of the other one works.
fn beside(address: SocketAddr, work: fn(&Neighbour, usize)) -> f64 {
    with_load(address, &[work], || quiet_p99(address))
}

/// Runs `during` while connections do this work.
fn with_load<T>(address: SocketAddr, works: &[fn(&Neighbour, usize)], during: impl FnOnce() -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..CONNECTIONS * works.len())
        .map(|number| {
            let (stop, work) = (Arc::clone(&stop), works[number % works.len()]);
            std::thread::spawn(move || {
                // The load stands for other machines, and only takes what is left of the processors here.
                threads::go_last(19);
                let neighbour = Neighbour::new(address, &format!("busy-{number}"));
                while !stop.load(Ordering::Relaxed) {
                    work(&neighbour, number);
                }
            })
        })
        .collect();
    let result = during();
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().expect("the load works"));
    result
}

/// One connection that reserves and releases as fast as it is answered.
fn quiet_p99(address: SocketAddr) -> f64 {
    // It stands for another machine, with a processor that is free.
    threads::go_first();
    let (mut connection, token) = (connect(address), token("quiet"));
    let [reserve, release] = ["reserve", "release"].map(|call| format!("/api/sessions/quiet/files/{call}"));
    let (mut times, begin) = (Vec::new(), Instant::now());
    while begin.elapsed() < long(ROUND) {
        let body = format!(r#"{{"filePath":"quiet/{}.rs"}}"#, times.len() % 100);
        let start = Instant::now();
        call(&mut connection, &reserve, &token, &body);
        call(&mut connection, &release, &token, &body);
        times.push(start.elapsed().as_secs_f64());
    }
    load::percentile(&mut times, 0.99)
}

/// A session that asks for much. Whether it is served or refused is its own affair.
struct Neighbour {
    address: SocketAddr,
    session: String,
    bearer: String,
    /// The requests that were made so far, by their names.
    requests: RefCell<HashMap<&'static str, Rc<[u8]>>>,
}

impl Neighbour {
    fn new(address: SocketAddr, session: &str) -> Neighbour {
        let (session, bearer) = (session.to_owned(), format!("Bearer {}", token(session)));
        Neighbour { address, session, bearer, requests: RefCell::default() }
    }

    /// Patterns with long reasons, for the kinds of load that meet them. They are exclusive, so that every other pattern must be
    /// compared with them.
    fn prepare(&self) {
        for part in 0..10 {
            let keys = array((0..HELD_PATTERNS / 10).map(|n| format!("held/**/{part}*{n}*.rs")));
            let reason = "r".repeat(900);
            let body = format!(r#"{{"filePaths":[{keys}],"ttlSeconds":300,"reason":"{reason}"}}"#);
            self.accepted("files/reserve", &body);
        }
    }

    /// Renews the patterns, which must all be held still.
    fn renew(&self) {
        let reply = self.accepted("heartbeat", "{}");
        assert!(reply.contains(&format!(r#""renewedCount":{HELD_PATTERNS}"#)), "the patterns are not held: {reply}");
    }

    /// Sends a request that must be served, and returns the reply.
    fn accepted(&self, call: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream.write_all(&self.bytes(call, body)).expect("the server reads");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("the server replies");
        let head: String = reply.chars().take(600).collect();
        assert!(reply.starts_with("HTTP/1.1 200 "), "{} for {call}: {head}", self.session);
        reply
    }

    fn headers(&self) -> [(&str, &str); 3] {
        [("authorization", &self.bearer), ("content-type", "application/json"), ("connection", "close")]
    }

    fn bytes(&self, call: &str, body: &str) -> Vec<u8> {
        request("POST", &format!("/api/sessions/{}/{call}", self.session), &self.headers(), body.as_bytes())
    }

    /// A request with this body, which is made once.
    fn request(&self, call: &'static str, body: impl FnOnce() -> String) -> Rc<[u8]> {
        self.requests.borrow_mut().entry(call).or_insert_with(|| self.bytes(call, &body()).into()).clone()
    }

    /// Sends a request and reads the response, whatever it is.
    fn post(&self, call: &'static str, body: impl FnOnce() -> String) {
        self.exchange(&self.request(call, body), Duration::from_secs(20));
    }

    /// Sends, and reads until the server closes, the response is complete, or the time is over.
    fn exchange(&self, bytes: &[u8], time: Duration) {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(time)).expect("a timeout");
        if stream.write_all(bytes).is_ok() {
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    }
}

/// The elements of a JSON array.
fn array(elements: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = elements.map(|element| format!("\"{element}\"")).collect();
    quoted.join(",")
}

fn patterns(neighbour: &Neighbour, number: usize) {
    neighbour.post("files/reserve", || {
        let keys = array((0..999).map(|n| format!("held/**/*{n}*{number}*/{{a,b}}*.rs")));
        format!(r#"{{"filePaths":[{keys}]}}"#)
    });
    neighbour.post("files/release-all", || "{}".to_owned());
}

fn hang_up(neighbour: &Neighbour, number: usize) {
    let bytes = neighbour.request("files/check-conflicts", || {
        let paths = array((0..60).map(|n| format!("held/**/*{n}*{number}*a*b*c*d*e*f/**/*.rs")));
        format!(r#"{{"paths":[{paths}]}}"#)
    });
    let mut stream = TcpStream::connect(neighbour.address).expect("the server listens");
    let _ = stream.write_all(&bytes);
    std::thread::sleep(Duration::from_millis(20));
    let _ = stream.shutdown(Shutdown::Both);
}

fn batches(neighbour: &Neighbour, number: usize) {
    neighbour.post("files/reserve", || {
        let keys = array((0..10_000).map(|n| format!("batch/{number}/{n}.rs")));
        format!(r#"{{"filePaths":[{keys}],"reason":"{}"}}"#, "r".repeat(1000))
    });
    neighbour.post("files/release-all", || "{}".to_owned());
}

fn waits(neighbour: &Neighbour, number: usize) {
    let bytes = neighbour.request("files/reserve", || {
        let keys = array((0..9_999).map(|n| format!("wait/{number}/{n}.rs")).chain(["held/x/11.rs".to_owned()]));
        format!(r#"{{"filePaths":[{keys}],"waitSeconds":60}}"#)
    });
    neighbour.exchange(&bytes, Duration::from_millis(50));
}

fn wide_answers(neighbour: &Neighbour, _: usize) {
    neighbour.post("files/check-conflicts", || {
        let paths = array((0..1_000).map(|n| format!("held/x/{}{n:03}0123456789.rs", n % 10)));
        format!(r#"{{"paths":[{paths}]}}"#)
    });
}

fn empty_strings(neighbour: &Neighbour, _: usize) {
    neighbour.post("files/check-conflicts", || format!(r#"{{"paths":[{}""]}}"#, r#""","#.repeat(8 << 20)));
}

fn lists(neighbour: &Neighbour, _: usize) {
    let bytes = request("GET", "/api/reservations?limit=1000", &neighbour.headers(), b"");
    neighbour.exchange(&bytes, Duration::from_secs(20));
}

fn unread_streams(neighbour: &Neighbour, _: usize) {
    let bytes = request("GET", "/api/events?after=0", &neighbour.headers(), b"");
    let streams: Vec<TcpStream> = (0..50)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(neighbour.address).ok()?;
            stream.write_all(&bytes).ok()?;
            stream.read_exact(&mut [0]).ok()?;
            Some(stream)
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    drop(streams);
}

/// In kB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak is in there");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}
