//! Clients that take more than their share: of memory, of connections, of the server's time.
//!
//! The numbers are small by default, so that each test takes seconds; `DIBS_ATTACK=long` sets those of a real attack. Tests
//! compare counts, bytes, statuses and the peak memory of the server, never durations.

mod answers;
mod bodies;
mod connections;
mod lists;
mod refusals;
mod stop;

use crate::world::World;

/// The long number if long attacks are asked for.
pub fn numbers<T>(short: T, long: T) -> T {
    let is_long = std::env::var_os("DIBS_ATTACK").is_some_and(|value| value == "long");
    if is_long { long } else { short }
}

/// The largest memory that the server has used so far, in bytes.
pub fn peak_memory(world: &World) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.server().pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kilobytes: usize = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}
