//! Durable reserves and releases over HTTP, beside a bare axum handler that parses the same JSON and answers the same
//! bytes. Both run in this process with the same runtime and the same load, in turns, so that a profiler sees both.
//! Then: the time from a release to the next waiter's grant, beside an uncontended reserve.
//!
//! `cargo bench --bench http`; `-- 64` measures one number of connections only, and `-- 64 ours` without the comparison.
//! `-- at 127.0.0.1:3427 64` measures a server that runs elsewhere with [`common::http::SECRET`].

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::clock::{long, process_cpu, rounds};
use common::http::{Http, call, connect, receive, send, token};
use common::support::process::until;
use common::{inside, load, table};
use git_dibs::journal::SqliteJournal;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUND: Duration = Duration::from_millis(1500);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().expect("a number of connections");
    let (counts, alone) = match args[..] {
        ["at", address, connections] => return elsewhere(address.parse().expect("an address"), number(connections)),
        [connections, ref more @ ..] => (vec![number(connections)], more == ["ours"]),
        [] => (vec![1, 8, 64, 256], false),
    };
    let dir = tempfile::tempdir().unwrap();
    let runtime = inside::runtime();
    let journal = SqliteJournal::open(&dir.path().join("journal.db")).unwrap();
    let ours = inside::start(&runtime, Box::new(journal));
    let bare = inside::serve(&runtime, inside::bare());
    let dialect = Http::new(256);
    let load = |address, connections| {
        let begin = process_cpu();
        let rate = load::saturate(address, &dialect, connections, long(ROUND));
        (rate, (process_cpu() - begin).as_secs_f64() / rate / long(ROUND).as_secs_f64())
    };
    table::head("Durable reserve + release over HTTP, all in one process");
    for connections in counts {
        if alone {
            println!("{:?}", load(ours, connections));
            continue;
        }
        let samples: Vec<_> = (0..rounds(5)).map(|_| (load(ours, connections), load(bare, connections))).collect();
        let rates: Vec<table::Pair> = samples.iter().map(|(a, b)| (a.0, b.0)).collect();
        let times: Vec<table::Pair> = samples.iter().map(|(a, b)| (a.1, b.1)).collect();
        table::row(&format!("connections: {connections}, beside a bare axum handler"), &rates, table::rate);
        table::row("- CPU time of a request, server and client together", &times, table::time);
    }
    wake_up(ours);
    std::process::exit(0);
}

/// Only the load, for a server that is observed with other tools.
fn elsewhere(address: SocketAddr, connections: usize) {
    for _ in 0..rounds(5) {
        println!("{}", table::rate(load::saturate(address, &Http::new(connections), connections, long(ROUND))));
    }
}

/// 100 keys held by one session, a request of another waiting for each: from a release to the waiter's grant, beside
/// a reserve of a free key from request to answer.
fn wake_up(address: SocketAddr) {
    let (holder, waiter) = (token("holder"), token("waiter"));
    let [reserve, release] = ["reserve", "release"].map(|call| format!("/api/sessions/holder/files/{call}"));
    let mut holding = connect(address);
    let mut waiting = Vec::new();
    for n in 0..100 {
        call(&mut holding, &reserve, &holder, &format!(r#"{{"filePath":"wait/{n}","ttlSeconds":300}}"#));
        let mut stream = connect(address);
        let wait = format!(r#"{{"filePath":"wait/{n}","ttlSeconds":300,"waitSeconds":300}}"#);
        send(&mut stream, "/api/sessions/waiter/files/reserve", &waiter, &wait);
        waiting.push(stream);
    }
    until("all of them wait", || {
        let bearer = format!("Bearer {holder}");
        let stats = connect(address).call("GET", "/api/stats", &[("authorization", &bearer)], b"");
        (stats.expect("the server answers").ok()["waiters"] == 100).then_some(())
    });
    let mut samples = Vec::new();
    for (n, stream) in waiting.iter_mut().enumerate() {
        let begin = Instant::now();
        send(&mut holding, &release, &holder, &format!(r#"{{"filePath":"wait/{n}"}}"#));
        receive(stream);
        let woken = begin.elapsed();
        receive(&mut holding);
        let begin = Instant::now();
        call(&mut holding, &reserve, &holder, &format!(r#"{{"filePath":"free/{n}","ttlSeconds":300}}"#));
        samples.push((woken.as_secs_f64(), begin.elapsed().as_secs_f64()));
    }
    table::row("from a release to the waiter's grant, beside a reserve", &samples, table::time);
}
