//! What one client, or one accident, could do to the server and to the others, tried from outside. One file for each subject.
//!
//! The numbers are small, so that each test takes seconds. `DIBS_ATTACK=long` runs them with large numbers.

mod access;
mod answers;
mod bodies;
mod connections;
mod durability;
mod lists;
mod refusals;
mod stalls;
mod stop;
mod unlock_requests;

use crate::world::World;

/// `long` where the long form of the tests was asked for, else `short`.
pub fn numbers<T>(short: T, long: T) -> T {
    if std::env::var("DIBS_ATTACK").is_ok_and(|form| form == "long") { long } else { short }
}

/// The largest memory that the server has used so far, in bytes.
pub fn peak_memory(world: &World) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.server().pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kilobytes: usize = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}
