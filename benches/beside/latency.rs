//! Latency at half of the saturated rate, with requests at that rate whatever happens.

use std::time::Duration;

use crate::common::clock::{long, rounds};
use crate::common::{load, table};
use crate::peers::{Peer, Peers};

const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

pub fn measure(peers: &Peers) {
    table::head("Time to an answer at half of the saturated rate (64 connections, open loop)");
    let Some(redis) = peers.redis else {
        return table::note("left out, because Redis does not run");
    };
    let both = [&peers.dibs, &peers.others[redis]];
    let halves = both.map(|peer| {
        let saturated = (0..3).map(|_| peer.saturate(CONNECTIONS, long(ROUND / 2)));
        table::median(saturated) / 2.0
    });
    let look = |peer: &Peer, rate| {
        let mut times = peer.pace(CONNECTIONS, rate, long(ROUND));
        PERCENTILES.map(|(_, part)| load::percentile(&mut times, part))
    };
    let samples: Vec<_> = (0..rounds(ROUNDS)).map(|_| (look(both[0], halves[0]), look(both[1], halves[1]))).collect();
    let rates = halves.map(table::rate);
    for (at, (name, _)) in PERCENTILES.iter().enumerate() {
        let pairs: Vec<table::Pair> = samples.iter().map(|(here, beside)| (here[at], beside[at])).collect();
        let what = format!("{name} at {}, beside Redis at {}", rates[0], rates[1]);
        table::row(&what, &pairs, table::time);
    }
}
