//! The server's HTTP interface: a handler parses a request, submits it to the desk, and replies.
//!
//! No rules live here. What a request means is decided by the engine behind the [`Desk`](crate::desk::Desk); what it
//! looks like in JSON is in [`wire`](crate::wire). Start at `router.rs`, the one list of routes. A call is in
//! `handlers/`, what every request passes on its way there in `middleware/`, sockets and connections in `transport/`. The most
//! frequent requests take a shorter way, through `quick/`, to the same handlers.

mod app;
mod background;
mod byte_budget;
mod caller;
mod compat;
mod conflict_list;
mod decision_log;
mod entity;
mod error;
mod event_json;
mod event_texts;
mod extract;
mod forward;
mod handlers;
mod history_backend;
mod ids;
mod key_policy;
mod lfs;
mod limits;
mod live_events;
mod login;
mod middleware;
mod openapi;
mod outcome;
mod pattern_work;
mod port_policy;
mod port_pool;
mod quick;
mod reply_channel;
mod reply_text;
mod request_fields;
mod router;
mod submit;
mod transport;
mod web;

pub use app::{App, Repositories, Repository};
pub use error::{ApiError, ApiResult};
pub use event_json::event_json;
pub use forward::{ClusterView, Forwarder, Leader, Standing};
pub use handlers::metrics::Gauge;
pub use history_backend::{HistoryBackend, HistoryError, HistoryPage, HistoryQuery};
pub use key_policy::{ExclusiveRule, KeyPolicy};
pub use lfs::{LfsForce, LfsPolicy, TrackedFiles};
pub use limits::ServerLimits;
pub use middleware::host_check::HostCheck;
pub use port_policy::PortPolicy;
pub use router::router;
pub use transport::server::{HttpServer, Listener, runtime};
pub use transport::tls::TlsIdentity;
