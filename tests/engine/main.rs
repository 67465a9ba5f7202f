//! Tests of the engine's rules.
//!
//! `scenarios` runs `fixtures/scenarios/`, the first place for a rule. `simulation` sends seeded random commands to the
//! engine and to `model`, which has the same rules but is written to be obviously right. `scale` tests limits and long
//! queues.

mod keys;
mod model;
mod runner;
mod scale;
mod scenarios;
mod simulation;
mod text;
mod work;
