//! Real git, real hooks, the real program, a real server: which paths each operation is judged by, what becomes of it,
//! and what installing does.

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod autostart;
mod doctor;
mod failures;
mod holder;
mod identity;
mod install;
mod lfs;
mod managers;
mod moments;
mod names;
mod newer;
mod notices;
mod outage;
mod pause;
mod processes;
mod record;
mod server;
mod situations;
mod stopped;
mod transports;
mod upgrade;
mod verdicts;
mod words;
mod world;
