//! The contract from outside: a real server, real git, real sockets. One file for each section of the contract, and
//! one each for what no section promises alone: restarts, bad input, pulled plugs, full disks and the ledger.

mod http;
mod mint;
mod world;

mod ground_rules;

mod tokens;

mod keys;

mod sessions;

mod checks;
mod files;
mod reservations;

mod waiting;

mod unlock_requests;

mod pause;

mod operating;

mod events;

mod logs;
mod metrics;

mod bad_input;
mod restart;

mod db;
mod disk;
mod kill;
mod ledger;

mod config;
mod limits;
mod packaging;
mod security;
