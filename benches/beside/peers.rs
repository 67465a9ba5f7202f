//! The servers that are measured, and their addresses.

use std::net::SocketAddr;
use std::time::Duration;

use crate::bare::Bare;
use crate::common::http::Http;
use crate::common::lines::Dialect;
use crate::common::load;
use crate::common::place::serve;
use crate::common::support::server::Server;
use crate::common::support::world::World;
use crate::etcd::Etcd;
use crate::postgres::Postgres;
use crate::redis::Redis;

/// The most connections to one server.
pub const CONNECTIONS_MAX: usize = 256;

/// A lock server.
pub struct Peer {
    /// As the table names it.
    pub name: &'static str,
    address: SocketAddr,
    dialect: Box<dyn Dialect>,
}

impl Peer {
    pub fn saturate(&self, connections: usize, time: Duration) -> f64 {
        load::saturate(self.address, &*self.dialect, connections, time)
    }

    pub fn pace(&self, connections: usize, rate: f64, time: Duration) -> Vec<f64> {
        load::pace(self.address, &*self.dialect, connections, rate, time)
    }
}

pub struct Peers {
    pub dibs: Peer,
    /// What it is compared with: a bare handler, and the lock servers that run.
    pub others: Vec<Peer>,
    /// The lock servers that do not run.
    pub missing: Vec<&'static str>,
    pub redis: Option<usize>,
    /// Only answers: the limit of the load.
    pub echo: Peer,
    // Dropped last, so that they run as long as they are used.
    _processes: (Server, Bare, Bare),
}

impl Peers {
    /// Starts git-dibs, and finds the others through the environment.
    pub fn start(place: &World) -> Peers {
        let server = serve(place, "throughput", &[]);
        let (handler, echo) = (Bare::start("bare-handler"), Bare::start("echo"));
        let http = |name, address| Peer { name, address, dialect: Box::new(Http::new(CONNECTIONS_MAX)) };
        let mut others = vec![http("a bare axum handler, nothing durable, no tokens", handler.address)];
        let mut missing = Vec::new();
        let known: [(&str, &str, Box<dyn Dialect>); 3] = [
            ("DIBS_BENCH_REDIS", "Redis, SET NX PX / DEL, appendfsync always", Box::new(Redis)),
            ("DIBS_BENCH_ETCD", "etcd, transaction / delete through its JSON gateway", Box::new(Etcd)),
            ("DIBS_BENCH_POSTGRES", "PostgreSQL, INSERT ON CONFLICT / DELETE, prepared", Box::new(Postgres)),
        ];
        let mut redis = None;
        for (variable, name, dialect) in known {
            let Some(address) = std::env::var(variable).ok().and_then(|text| text.parse().ok()) else {
                missing.push(name);
                continue;
            };
            if variable == "DIBS_BENCH_REDIS" {
                redis = Some(others.len());
            }
            others.push(Peer { name, address, dialect });
        }
        let dibs = http("git-dibs", server.tcp());
        let nothing = http("the load's own ceiling: a server that does nothing", echo.address);
        Peers { dibs, others, missing, redis, echo: nothing, _processes: (server, handler, echo) }
    }
}
