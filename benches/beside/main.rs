//! git-dibs compared with its alternatives, in one run on one machine: `./bench` starts the others and this.
//!
//! `cargo bench --bench beside` alone works too and leaves out what is not running; words in [`main`] select some of
//! the tables, and numbers the numbers of connections. The server is the real program in a process of its own; so are the bare handler and the echo, which are
//! this program started again. Everything compared takes turns, round by round.

#[path = "../common/mod.rs"]
mod common;

mod bare;
mod checks;
mod decisions;
mod etcd;
mod latency;
mod peers;
mod postgres;
mod redis;
mod start;
mod throughput;

use std::path::PathBuf;

use common::place::scratch_in;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if let [server] = &words[..]
        && bare::serve(server)
    {
        return;
    }
    let place = scratch_in(&data_dir());
    let wants = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    if wants("throughput") || wants("latency") {
        let peers = peers::Peers::start(&place);
        if wants("throughput") {
            let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
            throughput::measure(&place, &peers, &numbers);
        }
        if wants("latency") {
            latency::measure(&peers);
        }
    }
    if wants("decisions") {
        decisions::measure(&place);
    }
    if wants("checks") {
        checks::measure(&place);
    }
    if wants("start") {
        start::measure(&place);
    }
}

/// Where everything that is durable goes. It must be a disk: on a file system in memory, syncing costs nothing.
fn data_dir() -> PathBuf {
    std::env::var_os("DIBS_BENCH_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}
