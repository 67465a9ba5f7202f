//! Searches for a linearization: an order in which a history could have happened step by step.
//!
//! Every step takes effect at one moment between its request and its response. The search follows the responses and keeps
//! every state the server may be in, each with the pending requests that have taken effect already. If a response fits
//! none of these states, the history has no linearization. This is the algorithm of Wing and Gong with the lazy steps
//! of Lowe: a step is only taken when a response needs it.

use std::collections::HashSet;

use super::lock::{Did, Lock, Op, Part, Request, overlap};

/// A step of a history: an operation, or a part of one.
#[derive(Clone, Copy)]
struct Step {
    op: u32,
    part: Part,
}

/// A state the server may be in, and which of the pending steps led there, in ascending order.
type Config = (Lock, Vec<usize>);

/// The place in the history of an answer that cannot be, whatever came before it.
pub fn impossible(history: &[Op]) -> Option<usize> {
    let (mut steps, mut moments) = (Vec::new(), Vec::new());
    for (op, done) in (0..).zip(history) {
        for part in done.parts() {
            moments.extend([(done.from, 0, steps.len()), (done.to, 1, steps.len())]);
            steps.push(Step { op, part: *part });
        }
    }
    // What begins at the moment something else ends may have come before it.
    moments.sort_unstable();
    let mut search = Search { history, steps, pending: Vec::new() };
    let mut configs: HashSet<Config> = HashSet::from([Default::default()]);
    for (_, ends, step) in moments {
        if ends == 0 {
            search.pending.push(step);
            configs = configs.into_iter().map(|config| search.with_looks(config)).collect();
            continue;
        }
        configs = search.with(step, configs);
        search.pending.retain(|other| *other != step);
        if configs.is_empty() {
            return Some(search.steps[step].op as usize);
        }
    }
    None
}

struct Search<'h> {
    history: &'h [Op],
    steps: Vec<Step>,
    /// Steps that may have happened by now, and need not have.
    pending: Vec<usize>,
}

impl Search<'_> {
    /// Every way in which this step has happened by now.
    fn with(&self, step: usize, configs: HashSet<Config>) -> HashSet<Config> {
        let mut found = HashSet::new();
        let mut open: Vec<Config> = configs.iter().cloned().collect();
        let mut seen = configs;
        while let Some((lock, mut done)) = open.pop() {
            if let Ok(place) = done.binary_search(&step) {
                done.remove(place);
                found.insert((lock, done));
                continue;
            }
            let Step { op, part } = self.steps[step];
            let happened = &self.history[op as usize];
            if happened.is_lost() {
                found.insert((lock, done));
                continue;
            }
            // What was released in time does not expire.
            if matches!(happened.did, Did::Expire(..)) && lock.after(self.history, op, part).is_empty() {
                found.insert((lock, done));
                continue;
            }
            for &next in &self.pending {
                let Step { op, part } = self.steps[next];
                if done.contains(&next) || self.too_early(next, &done) {
                    continue;
                }
                for lock in lock.after(self.history, op, part) {
                    let mut done = done.clone();
                    done.insert(done.partition_point(|other| *other < next), next);
                    let config = self.with_looks((lock, done));
                    if seen.insert(config.clone()) {
                        open.push(config);
                    }
                }
            }
        }
        found
    }

    /// What only looks, and would see what it saw, has happened now: it changes nothing, so no way is lost by that.
    fn with_looks(&self, (lock, mut done): Config) -> Config {
        for &step in &self.pending {
            let Step { op, part } = self.steps[step];
            let looks = self.history[op as usize].only_looks(part) && !done.contains(&step);
            if looks && !self.too_early(step, &done) && !lock.after(self.history, op, part).is_empty() {
                done.insert(done.partition_point(|other| *other < step), step);
            }
        }
        (lock, done)
    }

    /// The parts of a request happen one after the other.
    fn too_early(&self, step: usize, done: &[usize]) -> bool {
        self.steps[step].part == Part::Settle && self.pending.contains(&(step - 1)) && !done.contains(&(step - 1))
    }
}

/// Takes a history apart into histories that have nothing to do with each other: a server is right about all keys if it
/// is right about each group of keys that overlap or were asked for together.
pub fn groups(history: &[Op]) -> Vec<Vec<Op>> {
    let mut group: Vec<usize> = (0..super::lock::KEYS.len()).collect();
    let mut join = |a: u8, b: u8| {
        let (from, to) = (group[a as usize], group[b as usize]);
        group.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
    };
    for a in 0..super::lock::KEYS.len() as u8 {
        (0..a).filter(|b| overlap(a, *b)).for_each(|b| join(a, b));
    }
    for op in history {
        if let Did::Reserve { keys, .. }
        | Did::Release { keys, .. }
        | Did::Check { keys, .. }
        | Did::Lost(Request::Reserve { keys, .. } | Request::Release(keys)) = &op.did
        {
            keys.windows(2).for_each(|pair| join(pair[0], pair[1]));
        }
    }
    let names: std::collections::BTreeSet<usize> = group.iter().copied().collect();
    let of = |name: usize| {
        let inside = |key: u8| group[key as usize] == name;
        let part = |op: &Op| {
            let did = match &op.did {
                Did::Reserve { keys, .. }
                | Did::Release { keys, .. }
                | Did::Check { keys, .. }
                | Did::Lost(Request::Reserve { keys, .. } | Request::Release(keys)) => {
                    inside(keys[0]).then(|| op.did.clone())
                }
                Did::Lost(Request::ReleaseAll) => Some(op.did.clone()),
                Did::End(keys) => Some(Did::End(keys.iter().copied().filter(|key| inside(*key)).collect())),
                Did::Renew(key, _) | Did::Expire(key, _) => inside(*key).then(|| op.did.clone()),
                Did::ReleaseAll(keys) => {
                    Some(Did::ReleaseAll(keys.iter().copied().filter(|key| inside(*key)).collect()))
                }
                Did::List(all) => Some(Did::List(all.iter().copied().filter(|hold| inside(hold.key)).collect())),
            };
            did.map(|did| Op { did, ..op.clone() })
        };
        history.iter().filter_map(part).collect()
    };
    names.into_iter().map(of).collect()
}
