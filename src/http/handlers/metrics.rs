//! `GET /metrics`: numbers about the server, in Prometheus' text format.
//!
//! Written by hand: there are some twenty numbers, kept as plain atomics where they are counted, and all that is left to do
//! is to print them. No session and no key is ever named.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;

use crate::desk::{Counts, Histogram};
use crate::engine::Text;
use crate::http::app::{App, Repository};
use crate::http::caller::{Caller, authenticate, choose_repository};
use crate::http::error::ApiResult;
use crate::http::forward::Standing;
use crate::http::middleware::request_count::RequestCount;
use crate::http::openapi::refusals;
use crate::http::submit::read_state;
use crate::token::{Claims, Scope};

/// A number that another room keeps.
pub struct Gauge {
    /// The name of the metric.
    pub name: &'static str,
    /// One sentence about the metric.
    pub help: &'static str,
    pub repo: Text,
    /// Returns the current value; must not block.
    pub read: Box<dyn Fn() -> f64 + Send + Sync>,
}

/// Numbers about the server, for Prometheus.
///
/// A server that only this machine can reach needs no token for this call. Otherwise a token is needed, which shows the
/// numbers of its own repository.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "getMetrics",
    tag = "Monitoring and administration",
    responses(
        (status = 200, description = "Metrics in Prometheus' text format.", content_type = "text/plain", body = String),
        refusals::Metrics,
    ),
    security((), ("token" = [])),
)]
pub async fn metrics(State(app): State<Arc<App>>, parts: Parts) -> ApiResult<Response> {
    let only = match app.open_metrics {
        true => None,
        false => {
            let claims = authenticate(&parts, &app)?;
            refuse_ended(&app, &claims).await?;
            let all = claims.scope == Scope::Admin || app.repositories.only().is_some();
            // With several repositories, a token that names none is for none of them.
            claims.repo.or_else(|| (!all).then(|| "".into()))
        }
    };
    let text = render(&app, only.as_deref());
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Refuses the token of a session that has ended, as every other call does.
async fn refuse_ended(app: &App, claims: &Claims) -> ApiResult<()> {
    if claims.session.is_none() {
        return Ok(());
    }
    let repo = choose_repository(app, claims, None)?;
    let caller = Caller { claims: claims.clone(), repo, is_browser_read: false, is_browser: false };
    read_state(&caller.repo.desk, caller.look(), |_, _| ()).await?;
    Ok(())
}

fn render(app: &App, only: Option<&str>) -> String {
    let open: Vec<Arc<Repository>> =
        app.repositories.open().filter(|repo| only.is_none_or(|name| *repo.name == *name)).collect();
    let repositories: Vec<&Repository> = open.iter().map(|repo| &**repo).collect();
    let mut text = MetricsText(String::with_capacity(16 * 1024));
    text.family("dibs_build_info", "gauge", "The version of git-dibs.");
    text.line("dibs_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    text.family("process_start_time_seconds", "gauge", "When the server was started, in seconds since 1970.");
    text.line("process_start_time_seconds", &[], app.started as f64);
    text.family("dibs_http_requests_total", "counter", "Requests answered, by route and status.");
    for RequestCount { method, route, status, count } in app.requests.read() {
        let labels = [("method", &*method), ("route", route), ("status", &*status)];
        text.line("dibs_http_requests_total", &labels, count as f64);
    }
    let counts: Vec<(&Repository, Counts)> =
        repositories.iter().map(|repo| (*repo, repo.desk.metrics().counts())).collect();
    type Read = fn(&Counts) -> u64;
    let numbers: [(&str, &str, &str, Read); 13] = [
        ("dibs_reservations", "gauge", "Reservations held now.", |counts| counts.reservations),
        ("dibs_waiters", "gauge", "Requests waiting in the queue now.", |counts| counts.waiters),
        ("dibs_sessions", "gauge", "Active sessions now.", |counts| counts.sessions),
        ("dibs_grants_total", "counter", "Reservations granted since the journal began.", |counts| counts.granted),
        ("dibs_conflicts_total", "counter", "Requests refused because of another session.", |counts| counts.conflicts),
        ("dibs_expiries_total", "counter", "Reservations that expired.", |counts| counts.expired),
        (
            "dibs_deadlocks_refused_total",
            "counter",
            "Waits refused because they would have closed a cycle.",
            |counts| counts.deadlocks,
        ),
        ("dibs_records_total", "counter", "Records in the journal since it began.", |counts| counts.head),
        ("dibs_inbox_depth", "gauge", "Requests in the desk's inbox.", |counts| counts.inbox),
        ("dibs_inbox_refused_total", "counter", "Requests refused because the inbox was full.", |counts| {
            counts.refused
        }),
        (
            "dibs_desk_turn_records_max",
            "gauge",
            "The most records that were appended together since the start.",
            |counts| counts.turn_records_max,
        ),
        (
            "dibs_desk_turn_work_max",
            "gauge",
            "The most steps of some nanoseconds each that the desk compared keys for in one turn since the start.",
            |counts| counts.turn_work_max,
        ),
        ("dibs_desk_late_turns_total", "counter", "How often the desk was away for more than a second.", |counts| {
            counts.late_turns
        }),
    ];
    for (name, kind, help, read) in numbers {
        text.family(name, kind, help);
        for (repo, counts) in &counts {
            text.line(name, &[("repo", &repo.name)], read(counts) as f64);
        }
    }
    let seconds: [(&str, &str, &str, Read); 2] = [
        ("dibs_desk_away_max_seconds", "gauge", "The longest time that the desk was away since the start.", |counts| {
            counts.away_ms_max
        }),
        (
            "dibs_desk_lost_seconds_total",
            "counter",
            "Time in which the desk did not listen and that counted against no reservation.",
            |counts| counts.lost_ms,
        ),
    ];
    for (name, kind, help, read_ms) in seconds {
        text.family(name, kind, help);
        for (repo, counts) in &counts {
            text.line(name, &[("repo", &repo.name)], read_ms(counts) as f64 / 1000.0);
        }
    }
    text.family("dibs_event_readers", "gauge", "Clients that follow the events now.");
    for repo in &repositories {
        text.line("dibs_event_readers", &[("repo", &repo.name)], repo.desk.feed().followers() as f64);
    }
    type Find = fn(&Repository) -> &Histogram;
    let times: [(&str, &str, Find); 3] = [
        ("dibs_decision_seconds", "Time from receiving a command to making its decision durable.", |repo| {
            &repo.desk.metrics().decisions
        }),
        ("dibs_journal_append_seconds", "Time to make a batch of records durable.", |repo| {
            &repo.desk.metrics().appends
        }),
        ("dibs_journal_sync_seconds", "Time to write and sync the journal file.", |repo| &repo.desk.metrics().syncs),
    ];
    for (name, help, find) in times {
        text.family(name, "histogram", help);
        // Bounds are in microseconds, sums in nanoseconds.
        repositories.iter().for_each(|repo| text.histogram(name, repo, find(repo), 1e-6, 1e-9));
    }
    text.family("dibs_batch_records", "histogram", "Records made durable together.");
    repositories
        .iter()
        .for_each(|repo| text.histogram("dibs_batch_records", repo, &repo.desk.metrics().batches, 1.0, 1.0));
    if let Some(forwarder) = &app.forwarder {
        text.family("dibs_cluster_leads", "gauge", "Whether this node leads the repository.");
        for name in app.repositories.names().filter(|name| only.is_none_or(|only| ***name == *only)) {
            let leads = matches!(forwarder.view().standing(name), Standing::Leads { .. });
            text.line("dibs_cluster_leads", &[("repo", name)], f64::from(u8::from(leads)));
        }
        text.family("dibs_cluster_quorum", "gauge", "Whether etcd answered this node lately.");
        text.line("dibs_cluster_quorum", &[], f64::from(u8::from(forwarder.view().has_quorum())));
        text.family("dibs_cluster_forwarded_total", "counter", "Requests that were sent to the node that leads.");
        text.line("dibs_cluster_forwarded_total", &[], forwarder.forwarded() as f64);
    }
    let mut described = "";
    let mut gauges: Vec<&Gauge> = repositories.iter().flat_map(|repo| &repo.gauges).collect();
    gauges.sort_by_key(|gauge| gauge.name);
    for gauge in gauges {
        if gauge.name != described {
            text.family(gauge.name, "gauge", gauge.help);
            described = gauge.name;
        }
        text.line(gauge.name, &[("repo", &gauge.repo)], (gauge.read)());
    }
    text.0
}

struct MetricsText(String);

impl MetricsText {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("a String accepts every write");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            self.0.push(if n == 0 { '{' } else { ',' });
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(self.0, "{label}=\"{text}\"").expect("a String accepts every write");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        writeln!(self.0, " {value}").expect("a String accepts every write");
    }

    fn histogram(&mut self, name: &str, repo: &Repository, histogram: &Histogram, bound_unit: f64, sum_unit: f64) {
        let (buckets, sum) = histogram.read();
        let mut total = 0;
        for (bound, count) in buckets {
            total += count;
            let bound = bound.map_or("+Inf".to_owned(), |bound| format!("{}", bound as f64 * bound_unit));
            self.line(&format!("{name}_bucket"), &[("repo", &repo.name), ("le", &bound)], total as f64);
        }
        self.line(&format!("{name}_sum"), &[("repo", &repo.name)], sum as f64 * sum_unit);
        self.line(&format!("{name}_count"), &[("repo", &repo.name)], total as f64);
    }
}
