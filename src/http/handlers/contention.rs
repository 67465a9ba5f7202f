//! `GET /api/refusals` and `GET /api/hotspots`: which keys sessions compete for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::desk::{CountWindow, KeyCounts, KeyDetails, RefusalKind};
use crate::engine::Timestamp;
use crate::http::caller::Caller;
use crate::http::error::ApiResult;
use crate::http::extract::{Json, QueryParams};
use crate::http::openapi::{params, refusals};
use crate::http::outcome::{self, time};
use crate::http::submit::read_state;
use crate::wire::{self, Code, HotspotWindow, Text, Time};

/// The keys, directories and sessions that `GET /api/hotspots` lists.
const LISTED_MAX: usize = 100;

/// The keys that directories are counted from.
const KEYS_MAX: usize = 2_000;

const MINUTE: Duration = Duration::from_secs(60);

/// List the requests that were refused in the last hour.
///
/// Refusals are no events: they change nothing. The list is in memory and begins anew when the server starts.
#[utoipa::path(
    get,
    path = "/api/refusals",
    operation_id = "listRefusals",
    tag = "Monitoring and administration",
    params(params::RefusalQuery),
    responses((status = 200, description = "The newest first.", body = wire::Refusals), refusals::Look),
)]
pub async fn list_refusals(caller: Caller, query: QueryParams) -> ApiResult<Json<wire::Refusals>> {
    let since = query.time("since")?.map(|Time(ms)| Timestamp(ms));
    let reply = read_state(&caller.repo.desk, caller.look(), |_, now| now).await?;
    let (list, dropped) = caller.repo.desk.contention().refusals(reply.value, since);
    let refusals = list.into_iter().map(refused_request).collect();
    Ok(Json(wire::Refusals { refusals, dropped, notices: outcome::notices(reply.notices) }))
}

fn refused_request(refused: crate::desk::RefusedRequest) -> wire::RefusedRequest {
    let blockers = refused.blockers.into_iter().map(|blocker| wire::Blocker {
        session_id: blocker.who.session.as_str().into(),
        session_name: blocker.who.name,
        key: blocker.key,
    });
    wire::RefusedRequest {
        at: time(refused.at),
        first_at: time(refused.first_at),
        count: refused.count,
        session_id: refused.who.session.as_str().into(),
        session_name: refused.who.name,
        code: match refused.kind {
            RefusalKind::Locked => Code::ResourceLocked,
            RefusalKind::TimedOut => Code::LockAcquisitionFailed,
            RefusalKind::Deadlock => Code::PossibleDeadlock,
            RefusalKind::Paused => Code::FeaturePaused,
        },
        keys: refused.keys,
        blockers: blockers.collect(),
        cycle: refused.cycle.iter().map(outcome::cycle_step).collect(),
    }
}

/// Find out which files sessions compete for.
///
/// Counts of refused and waiting requests of the last hour, day or week, by key and by directory, and of reservations that
/// expired without a release. They are saved every minute, and the keys with the lowest counts make room for new ones.
#[utoipa::path(
    get,
    path = "/api/hotspots",
    operation_id = "listHotspots",
    tag = "Monitoring and administration",
    params(params::HotspotQuery),
    responses((status = 200, description = "The highest counts first.", body = wire::Hotspots), refusals::Look),
)]
pub async fn hotspots(caller: Caller, query: QueryParams) -> ApiResult<Json<wire::Hotspots>> {
    let windows = [("hour", HotspotWindow::Hour), ("day", HotspotWindow::Day), ("week", HotspotWindow::Week)];
    let window = query.word("window", &windows)?.unwrap_or(HotspotWindow::Hour);
    // The current step has only begun, so there is one more; of a week, one hour is missing instead.
    let (step, steps) = match window {
        HotspotWindow::Hour => (10 * MINUTE, 7),
        HotspotWindow::Day => (60 * MINUTE, 25),
        HotspotWindow::Week => (24 * 60 * MINUTE, 7),
    };
    let reply = read_state(&caller.repo.desk, caller.look(), |_, now| now).await?;
    let counted = CountWindow::new(reply.value, step, steps);
    let report = caller.repo.desk.contention().report(&counted, KEYS_MAX, LISTED_MAX);
    let directories = directories(&report.keys);
    let expired = report.expired.into_iter().take(LISTED_MAX).map(|(id, name, expired)| wire::ExpiringSession {
        session_id: Text::from(id.as_str()),
        session_name: name,
        expired,
    });
    Ok(Json(wire::Hotspots {
        window,
        since: time(counted.since()),
        step_seconds: step.as_secs(),
        paths: report.keys.into_iter().zip(report.details).map(hot_path).collect(),
        directories,
        sessions: expired.collect(),
        total_conflicts: report.total.conflicts,
        notices: outcome::notices(reply.notices),
    }))
}

fn hot_path(((key, counts), details): ((String, KeyCounts), KeyDetails)) -> wire::HotPath {
    let average_wait_seconds = match counts.waits {
        0 => 0.0,
        waits => counts.waited_ms as f64 / 1000.0 / waits as f64,
    };
    let between = details.between.into_iter();
    let between =
        between.map(|who| wire::Contender { session_id: who.session.as_str().into(), session_name: who.name });
    wire::HotPath {
        key,
        conflicts: counts.conflicts,
        waits: counts.waits,
        average_wait_seconds,
        by_step: details.by_step,
        between: between.collect(),
    }
}

/// The counts by directory, the highest first. Only paths and patterns are in one.
fn directories(keys: &[(String, KeyCounts)]) -> Vec<wire::HotDirectory> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, count) in keys {
        if let Some(directory) = directory_of(key) {
            *counts.entry(directory).or_default() += count.conflicts;
        }
    }
    let row = |(directory, conflicts): (&str, u64)| wire::HotDirectory { directory: directory.to_owned(), conflicts };
    let mut rows: Vec<_> = counts.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.conflicts));
    rows.truncate(LISTED_MAX);
    rows
}

/// The directory of a path or pattern, `.` at the top; none for a name. A pattern is in the directory before its first
/// wildcard, and a directory that is reserved as a whole is in the one above it. `splitPath` of the dashboard does the same.
fn directory_of(key: &str) -> Option<&str> {
    let path = key.strip_prefix("file:").or(Some(key).filter(|key| !key.contains(':')))?;
    let path = path.strip_suffix("/**").unwrap_or(path);
    let literal = path.split(['*', '?', '[', '{']).next().unwrap_or_default();
    Some(literal.rsplit_once('/').map_or(".", |(directory, _)| directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_patterns_are_in_the_directory_that_the_dashboard_shows() {
        for (key, directory) in [
            ("a.rs", Some(".")),
            ("src/cli/args.rs", Some("src/cli")),
            ("src/parser/**", Some("src")),
            ("src/**/*.rs", Some("src")),
            ("**", Some(".")),
            ("file:app/[id]/page.tsx", Some("app")),
            ("file:odd:name", Some(".")),
            ("db:migration-slot", None),
            ("deploy://api-prod", None),
        ] {
            assert_eq!(directory_of(key), directory, "{key}");
        }
    }
}
