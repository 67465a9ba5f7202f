//! What one client, or one accident, could do to the server and to the others, tried from outside. One file for each subject.
//!
//! The numbers are small, so that each test takes seconds. `DIBS_ATTACK=long` runs them with large numbers.

mod access;
mod answers;
mod bodies;
mod connections;
mod costs;
mod departures;
mod durability;
mod growth;
mod lists;
mod patterns;
mod refusals;
mod slices;
mod stalls;
mod stop;
mod tools;
mod unlock_requests;

use serde_json::json;

use crate::world::{Session, World, until};

/// `long` where the long form of the tests was asked for, else `short`.
pub fn numbers<T>(short: T, long: T) -> T {
    if std::env::var("DIBS_ATTACK").is_ok_and(|form| form == "long") { long } else { short }
}

/// The largest memory that the server has used since its start, or since [`reset_peak`], in bytes.
pub fn peak_memory(world: &World) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.server().pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kilobytes: usize = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}

/// Forgets the peak, and returns the memory that is in use now. Otherwise an earlier peak would hide a later one.
pub fn reset_peak(world: &World) -> usize {
    std::fs::write(format!("/proc/{}/clear_refs", world.server().pid()), "5").unwrap();
    peak_memory(world)
}

/// One number of `/metrics`.
pub fn metric(world: &World, name: &str) -> f64 {
    let text = String::from_utf8(world.connect().call("GET", "/metrics", &[], b"").unwrap().body).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap_or_else(|| panic!("{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits until so many requests wait in the queue.
pub fn until_waiters(world: &World, count: usize) {
    until("they wait", || (metric(world, "dibs_waiters") as usize == count).then_some(()));
}

/// How many reservations a session has.
pub fn held_by(world: &World, session: &str) -> usize {
    let view = world.get(&format!("/api/sessions/{session}"), &world.reader()).ok();
    view["heldCount"].as_u64().unwrap() as usize
}

/// Reserves `count` files of a directory, in requests of `part` keys.
pub fn hold_many(session: &Session<'_>, directory: &str, count: usize, part: usize) {
    let names: Vec<String> = (0..count).map(|number| format!("{directory}/{number:07}")).collect();
    for part in names.chunks(part) {
        session.reserve(json!({ "filePaths": part, "ttlSeconds": 300 })).ok();
    }
}
