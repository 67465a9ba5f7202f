//! Three servers on three members of a real etcd: nothing is lost, granted twice or answered wrongly, whatever fails.
//!
//! The tests that kill one server again and again, and those that look for an order of all answers, are those of
//! `tests/it`, on a world of several servers. `DIBS_KILL_CYCLES` and `DIBS_LINEAR_ROUNDS` make them longer. Without etcd
//! on this machine, all of this is skipped.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/etcd.rs"]
#[allow(dead_code, reason = "unit tests use the rest")]
mod etcd;

use support::{dice, http, mint};

mod network;
mod world;

mod attacks;
mod bad_input;
mod clients;
mod faults;
#[path = "../it/kill.rs"]
mod kill;
#[path = "../it/linear/mod.rs"]
mod linear;
mod logins;
mod nodes;
mod partitions;
mod pipeline;
#[path = "../it/preload.rs"]
#[expect(dead_code, reason = "only the library is used")]
mod preload;
mod proxy;
mod repositories;
mod restore;
mod sign_in;
mod simulation;
mod transfer;
mod unclear;
