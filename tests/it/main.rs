//! The contract, tested from outside: a real server, real git, real sockets. One file for each section of the contract,
//! and one for each property of the whole: restarts, bad input, kills, full disks, the ledger, linearizability, clients
//! that take more than their share.

#[path = "../support/mod.rs"]
mod support;

use support::{dice, document, http, mint};

mod preload;
mod world;

mod attacks;
mod ground_rules;

mod tokens;

mod keys;

mod sessions;

mod checks;
mod files;
mod reservations;
mod while_session;

mod contention;
mod waiting;

mod entities;
mod unlock_requests;

mod pause;

mod ports;
mod pushes;

mod operating;

mod events;

mod logs;
mod metrics;

mod openapi;

mod lfs;

mod login;
mod pages;

mod mcp;
mod mcp_clients;

mod clients;

mod bad_input;
mod plain_requests;
mod restart;

mod clock;
mod db;
mod disk;
mod faults;
mod kill;
mod ledger;
mod linear;

mod upgrade;

mod config;
mod limits;
mod packaging;
mod security;
mod tls;
