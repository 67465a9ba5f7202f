//! One handler for each call, in a file named after what the call is about.

pub mod check;
pub mod contention;
pub mod docs;
pub mod entities;
pub mod events;
#[cfg(test)]
mod events_tests;
pub mod health;
pub mod held;
pub mod history;
pub mod login;
pub mod mcp;
pub mod mcp_calls;
mod mcp_stream;
pub mod metrics;
pub mod pages;
pub mod ports;
pub mod pushes;
pub mod release;
pub mod renew;
pub mod reservation_history;
pub mod reservations;
pub mod reserve;
pub mod sessions;
pub mod stats;
pub mod unlock_requests;
pub mod waits;
