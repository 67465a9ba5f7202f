//! What clients may use of the server: sizes, rates, times, numbers of connections.
//!
//! Limits of the rules (such as reservations per session) are in the engine's [`Policy`](crate::engine::Policy). Both come
//! from `[limits]` of the configuration file.

use std::time::Duration;

use crate::wire::limits::{CHECK_PATHS_MAX, RESERVE_KEYS_MAX};

/// The limits of a server. A reload of the configuration replaces all of them at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// The largest body of any call, in bytes. Most calls accept less; see `extract`.
    pub body_bytes: usize,
    /// The most paths one check may name.
    pub keys_per_check: usize,
    /// The most keys one reserve may name.
    pub keys_per_reserve: usize,
    /// Requests a session may make per second, with bursts of one second's worth. 0 means no limit.
    pub requests_per_second: u32,
    /// Connections that each listener serves at the same time.
    pub connections: usize,
    /// How many of them one peer may have; see `transport::connections`.
    pub connections_per_peer: usize,
    /// How long a client may take to send the head of a request.
    pub header_time: Duration,
    /// How long a client may take to send the body of a request.
    pub body_time: Duration,
    /// How long a connection may be idle between two requests.
    pub idle_time: Duration,
    /// Event streams of one repository at the same time.
    pub event_readers: usize,
    /// How often an event stream sends a comment when there are no events. It keeps proxies from closing the connection,
    /// and the token is checked again each time.
    pub event_keep_alive: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 32 * 1024 * 1024,
            keys_per_check: CHECK_PATHS_MAX,
            keys_per_reserve: RESERVE_KEYS_MAX,
            // More than a small machine can serve, so it matters only where it is set lower: one session may stand for
            // a whole fleet behind an orchestrator.
            requests_per_second: 100_000,
            connections: 10_000,
            connections_per_peer: 1_000,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
            event_readers: 512,
            event_keep_alive: Duration::from_secs(15),
        }
    }
}
