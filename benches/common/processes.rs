//! Processes that are timed in turns.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::clock::{children_cpu, rounds};
use super::table;

/// The wall-clock time and the CPU time of a command.
#[derive(Clone, Copy)]
pub struct Sample {
    wall: Duration,
    cpu: Duration,
}

/// Runs each in turn, so that other load on this machine affects all of them.
pub fn turns(count: usize, names: &[&str], mut run: impl FnMut(&str) -> Sample) -> Vec<Vec<Sample>> {
    let mut samples = vec![Vec::new(); names.len()];
    for round in 0..=rounds(count) {
        for (at, name) in names.iter().enumerate() {
            let sample = run(name);
            // The first round only warms up.
            if round > 0 {
                samples[at].push(sample);
            }
        }
    }
    samples
}

/// Runs a command with nothing on stdin.
pub fn time(command: &mut Command) -> Sample {
    time_with(command, Stdio::null())
}

/// Runs a command, which must succeed.
pub fn time_with(command: &mut Command, stdin: Stdio) -> Sample {
    command.stdin(stdin).stdout(Stdio::null());
    let (begun, cpu) = (Instant::now(), children_cpu());
    assert!(command.status().expect("it starts").success(), "{command:?}");
    Sample { wall: begun.elapsed(), cpu: children_cpu() - cpu }
}

pub fn row(what: &str, here: &[Sample], beside: &[Sample]) {
    let pairs = |of: fn(&Sample) -> Duration| -> Vec<table::Pair> {
        here.iter().zip(beside).map(|(here, beside)| (of(here).as_secs_f64(), of(beside).as_secs_f64())).collect()
    };
    table::row(what, &pairs(|sample| sample.wall), table::time);
    table::row("- the same in CPU time", &pairs(|sample| sample.cpu), table::time);
}
