//! Checks: whether paths are free, however much is held by others.

use std::hint::black_box;

use git_dibs::engine::{Intent, Mode};

use crate::bare::Bare;
use crate::common::clock::{computed, rounds, took};
use crate::common::commands::{Full, glob, parse, path};
use crate::common::http::{call, connect, token};
use crate::common::place::{Place, Server};
use crate::common::table;

const PATHS: [usize; 3] = [1, 100, 10_000];
const HELD: [usize; 3] = [1_000, 100_000, 1_000_000];
const GLOBS: [usize; 3] = [0, 100, 10_000];

/// Paths checked in a round, whatever the size of one check.
const EACH_ROUND: usize = 20_000;

pub fn measure(place: &Place) {
    table::head("Checks in the engine, one path in ten held, beside the same with 1,000 held and no globs, CPU time");
    let least = Full::of(HELD[0], GLOBS[0]);
    for held in HELD {
        let mut full = Full::of(held, 0);
        let mut globs_held = 0;
        for globs in GLOBS {
            full.hold((globs_held..globs).map(glob));
            globs_held = globs;
            for count in PATHS {
                compare(&full, &least, count, held, globs);
            }
        }
    }
    over_http(place);
}

fn compare(full: &Full, least: &Full, count: usize, held: usize, globs: usize) {
    let paths = asked(count);
    let times = EACH_ROUND / count;
    let check = |full: &Full| {
        let run = || {
            for _ in 0..times {
                for (position, path) in paths.iter().enumerate() {
                    black_box(full.engine.check(None, position, &parse(path), Intent::Reserve(Mode::Exclusive)));
                }
            }
        };
        computed(run) / times as f64
    };
    let pairs: Vec<table::Pair> = (0..rounds(9)).map(|_| (check(full), check(least))).collect();
    let [count, held, globs] = [count, held, globs].map(|number| table::count(number as f64));
    table::row(&format!("{count} paths, {held} held, {globs} globs"), &pairs, table::time);
}

/// Every tenth is held in each of the engines; the others are nobody's, and half of those lie where the globs are.
fn asked(count: usize) -> Vec<String> {
    let path = |n: usize| match n % 10 {
        3 => path(n % HELD[0]),
        at if at % 2 == 0 => format!("lib/area_{}/part_{n}/file.txt", n % 50),
        _ => format!("other/tree_{}/file_{n}.rs", n % 100),
    };
    (0..count).map(path).collect()
}

/// The real server with 10,000 reservations, beside a handler that reads and writes the same JSON.
fn over_http(place: &Place) {
    let (server, bare) = (Server::start(place, "checks", &[]), Bare::start("bare-handler"));
    let token = token("holder");
    let (mut ours, mut theirs) = (connect(server.address), connect(bare.address));
    let held: Vec<String> = (0..10_000).map(path).collect();
    let body = serde_json::json!({ "filePaths": held, "ttlSeconds": 300 }).to_string();
    call(&mut ours, "/api/sessions/holder/files/reserve", &token, &body);
    for count in PATHS {
        // All of them are free, so that both answer the same.
        let paths: Vec<String> = (20_000..20_000 + count).map(path).collect();
        let body = serde_json::json!({ "paths": paths }).to_string();
        let times = (2_000 / count).max(5);
        let pairs: Vec<table::Pair> = (0..rounds(9))
            .map(|_| {
                let each = |stream: &mut _| {
                    took(|| {
                        for _ in 0..times {
                            call(stream, "/api/check-conflicts", &token, &body);
                        }
                    }) / times as f64
                };
                (each(&mut ours), each(&mut theirs))
            })
            .collect();
        let count = table::count(count as f64);
        table::row(
            &format!("over HTTP: {count} paths, 10,000 held, beside a bare axum handler, time"),
            &pairs,
            table::time,
        );
    }
}
