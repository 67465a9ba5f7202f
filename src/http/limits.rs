//! How much of everything the door takes. The rules' own limits are in the engine's
//! [`Policy`](crate::engine::Policy); both come from `[limits]` of the configuration file.

use std::time::Duration;

use crate::wire::limits::{CHECK_PATHS_MAX, RESERVE_KEYS_MAX};

/// How much of everything the door takes; changed as a whole while the server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest body of any call, in bytes. Calls that have less to say take less; see `extract`.
    pub body_bytes: usize,
    /// The most paths one check may name.
    pub keys_per_check: usize,
    /// The most keys one reserve may name.
    pub keys_per_reserve: usize,
    /// Requests a session may make each second, on average; it may save up to a second of them. 0 is as many as it
    /// likes.
    pub requests_per_second: u32,
    /// Connections each listener serves at once.
    pub connections: usize,
    /// How long a client may take for the head of a request, once it has begun with it.
    pub header_time: Duration,
    /// How long a client may take for the body of a request.
    pub body_time: Duration,
    /// How long a connection may lie idle between two requests.
    pub idle_time: Duration,
    /// Clients that may follow the events of one repository.
    pub event_readers: usize,
    /// How often something is sent to them where nothing happens, so that proxies keep the connection and a token that
    /// does not count any more is noticed.
    pub event_keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 * 1024 * 1024,
            keys_per_check: CHECK_PATHS_MAX,
            keys_per_reserve: RESERVE_KEYS_MAX,
            // More than a small machine can answer, so that only who sets it lower meets it: one session may be a whole
            // fleet behind an orchestrator.
            requests_per_second: 100_000,
            connections: 10_000,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
            event_readers: 512,
            event_keep_alive: Duration::from_secs(15),
        }
    }
}
