//! The rules of the engine, tried without a clock, a file or a socket.
//!
//! `scenarios` plays the scenes of `fixtures/scenarios/`, the first place for a rule. `simulation` throws seeded random
//! commands at the engine and at `model`, which knows the same rules but is written to be obviously right.

mod keys;
mod model;
mod runner;
mod scale;
mod scenarios;
mod simulation;
mod text;
