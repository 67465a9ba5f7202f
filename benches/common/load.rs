//! The load: one thread that keeps many connections busy, or sends requests at a given rate.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use super::lines::{Dialect, Step, open};
use super::ready::{Ready, be_punctual};
use super::support::process::LIMIT;

/// Requests per second when every connection sends the next request as soon as it has a response.
pub fn saturate(address: SocketAddr, dialect: &dyn Dialect, connections: usize, time: Duration) -> f64 {
    let (mut lines, mut ready) = open(address, dialect, connections);
    let begin = Instant::now();
    for line in &mut lines {
        line.ask(dialect, begin);
    }
    let (mut answers, mut busy) = (0_u64, connections);
    while busy > 0 {
        let mut silent = true;
        for at in ready.wait(None) {
            silent = false;
            let line = &mut lines[at];
            if !line.hear(dialect) {
                continue;
            }
            answers += 1;
            // Every connection releases what it has reserved before it stops.
            if line.step == Step::Reserve || begin.elapsed() < time {
                line.ask(dialect, begin);
            } else {
                busy -= 1;
            }
        }
        assert!(!silent, "no answer came within {} s", LIMIT.as_secs());
    }
    answers as f64 / begin.elapsed().as_secs_f64()
}

/// The latencies of requests at a steady rate, whether or not the server keeps up. Measured from
/// when a request was due, so that one slow response also counts for the requests it delays.
pub fn pace(address: SocketAddr, dialect: &dyn Dialect, connections: usize, rate: f64, time: Duration) -> Vec<f64> {
    be_punctual();
    let (mut lines, mut ready) = open(address, dialect, connections);
    let total = (rate * time.as_secs_f64()) as u32;
    let begin = Instant::now();
    let due = |n: u32| begin + Duration::from_secs_f64(f64::from(n) / rate);
    let mut idle: Vec<usize> = (0..connections).collect();
    let (mut late, mut next) = (VecDeque::new(), 0);
    let mut times = Vec::with_capacity(total as usize);
    while times.len() < total as usize {
        let now = Instant::now();
        while next < total && due(next) <= now {
            late.push_back(due(next));
            next += 1;
        }
        while !late.is_empty() && !idle.is_empty() {
            let (at, asked) = (idle.pop().expect("one"), late.pop_front().expect("one"));
            lines[at].ask(dialect, asked);
        }
        let patience = (next < total).then(|| due(next).saturating_duration_since(Instant::now()));
        for at in ready.wait(patience) {
            if lines[at].hear(dialect) {
                times.push(lines[at].asked.elapsed().as_secs_f64());
                idle.push(at);
            }
        }
    }
    for line in lines.iter_mut().filter(|line| line.step == Step::Reserve) {
        line.ask(dialect, begin);
        while !line.hear(dialect) {}
    }
    times
}

/// The value that this share of all (0.99) is below.
pub fn percentile(times: &mut [f64], part: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() as f64 * part) as usize).min(times.len() - 1)]
}

/// Answers everything with the same bytes: the most the load can do, against a server that does nothing.
pub fn echo(listener: &TcpListener, answer: &[u8]) -> ! {
    const LISTENER: usize = usize::MAX;
    let mut ready = Ready::new();
    ready.watch(listener, LISTENER);
    let mut streams = Vec::new();
    let mut buffer = vec![0; 65536];
    loop {
        let numbers: Vec<usize> = ready.wait(None).collect();
        for number in numbers {
            if number == LISTENER {
                let (stream, _) = listener.accept().expect("somebody came");
                stream.set_nodelay(true).expect("TCP has it");
                ready.watch(&stream, streams.len());
                streams.push(Some(stream));
                continue;
            }
            let Some(stream) = &mut streams[number] else { continue };
            match stream.read(&mut buffer) {
                Ok(read) if read > 0 => stream.write_all(answer).expect("it still listens"),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Closing the socket also ends the watch.
                _ => streams[number] = None,
            }
        }
    }
}
