//! Linearizability: whatever clients do at the same time, some sequential order explains all responses.
//!
//! Clients record their requests, the responses, and when each was sent and received. Then a sequential order is searched
//! in which a server that does one thing at a time would have given the same responses, each between its request and its
//! response. If there is none, the history is shown up to there, with the seed. `DIBS_LINEAR_ROUNDS` sets the number of
//! rounds, and `DIBS_LINEAR_SEED` the seed.

mod clients;
mod lock;
mod search;
mod wrong;

use std::collections::BTreeSet;

use self::clients::{Reach, Round, work};
use self::lock::{Did, Op, Outcome};
use crate::dice::number_from_env;
use crate::kill::Field;
use crate::world::World;

/// So many rounds go on at once, on keys that have nothing to do with each other: most of a round is waiting.
const AT_ONCE: usize = 4;

#[test]
fn every_history_is_linearizable() {
    in_rounds(number_from_env("DIBS_LINEAR_ROUNDS", 8), |number, seed| Round {
        number,
        seed,
        clients: 6,
        ops: 60,
        ttl_seconds: 300,
        pause_ms: 0,
    });
}

#[test]
fn every_history_with_expiry_is_linearizable() {
    in_rounds(number_from_env("DIBS_LINEAR_ROUNDS", 8_u64).div_ceil(2), |number, seed| Round {
        number,
        seed,
        clients: 4,
        ops: 40,
        ttl_seconds: 1,
        pause_ms: 150,
    });
}

/// Lets clients work until the failures are over, and finds an order of what they saw. Each one waits a little between its calls:
/// others load the server.
pub fn check_through_failures(field: &Field) {
    let round = Round { number: 0, seed: seed(), clients: 4, ops: 0, ttl_seconds: 300, pause_ms: 10 };
    let history = work(Reach::Failing(field), round);
    let lost = history.iter().filter(|op| op.is_lost()).count();
    let calls = one_after_the_other(&history, round);
    eprintln!("{calls} calls have an order, {lost} of them without a response (seed {})", round.seed);
}

fn in_rounds(rounds: u64, round: impl Fn(u64, u64) -> Round) {
    let (seed, world) = (seed(), World::new());
    let all: Vec<Round> = (0..rounds).map(|number| round(number, seed)).collect();
    let mut calls = 0;
    for some in all.chunks(AT_ONCE) {
        let world = &world;
        calls += std::thread::scope(|scope| {
            let run = |round: &Round| {
                let round = *round;
                scope.spawn(move || one_after_the_other(&work(Reach::Steady(world), round), round))
            };
            let threads: Vec<_> = some.iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        clear(world);
    }
    eprintln!("{calls} calls in {rounds} rounds have an order (seed {seed})");
}

/// Another one each time, so that more is tried as time goes on; a failure says which it was.
fn seed() -> u64 {
    number_from_env("DIBS_LINEAR_SEED", std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 % 1_000_000)
}

/// Finds the order, and returns the number of calls in it.
fn one_after_the_other(history: &[Op], round: Round) -> usize {
    let (number, seed) = (round.number, round.seed);
    if let Some([before, after]) = fences_that_shrink(history) {
        panic!("seed {seed}, round {number}: fences do not grow from {before:?} to {after:?}");
    }
    for group in search::groups(history) {
        if let Some(odd) = search::impossible(&group) {
            let at = group[odd].to;
            let mut story: Vec<&Op> = group.iter().filter(|op| op.from <= at).collect();
            story.sort_by_key(|op| op.to);
            let story: Vec<String> = story.iter().rev().take(40).rev().map(|op| format!("{op:?}")).collect();
            panic!("seed {seed}, round {number}: no order leads to {:?} after\n{}", group[odd], story.join("\n"));
        }
    }
    history.iter().filter(|op| !matches!(op.did, Did::Expire(..))).count()
}

/// Two grants, one asked for after the other was heard of or seen in a list, whose fences say the opposite. This holds across
/// all keys.
fn fences_that_shrink(history: &[Op]) -> Option<[&Op; 2]> {
    let granted = |op: &Op| match &op.did {
        Did::Reserve { came: Outcome::Granted(grants), .. } => grants.iter().map(|(_, fence, _)| *fence).collect(),
        _ => Vec::new(),
    };
    let listed = |op: &Op| match &op.did {
        Did::List(all) => all.iter().map(|hold| hold.fence).collect(),
        _ => Vec::new(),
    };
    let all = |fences: &dyn Fn(&Op) -> Vec<u64>| -> Vec<(u64, usize)> {
        let of = |(at, op): (usize, &Op)| fences(op).into_iter().map(move |fence| (fence, at)).collect::<Vec<_>>();
        history.iter().enumerate().flat_map(of).collect()
    };
    let mut grants = all(&granted);
    grants.sort_by_key(|(_, at)| history[*at].to);
    // What is held keeps its fence when it is asked for again; the first to hear of it was granted it.
    let mut seen = BTreeSet::new();
    grants.retain(|(fence, _)| seen.insert(*fence));
    let heard = [grants.clone(), all(&listed)].concat();
    heard.iter().find_map(|(before, one)| {
        let shrinks = |(after, other): &&(u64, usize)| history[*one].to < history[*other].from && before > after;
        grants.iter().find(shrinks).map(|(_, other)| [&history[*one], &history[*other]])
    })
}

/// Ends every session, so that the next round finds nothing of this one.
fn clear(world: &World) {
    let admin = world.admin();
    for one in world.reservations() {
        let target = format!("/api/sessions/{}/end", crate::world::text(&one["sessionId"]));
        world.post(&target, &admin, serde_json::json!({})).ok();
    }
}
