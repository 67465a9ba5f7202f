//! Metrics: they are correct, they parse, and they contain no names.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use serde_json::{Value, json};

use crate::http::{Response, request};
use crate::mint;
use crate::world::{World, until};

/// One reading, by name and labels as they are written.
struct Metrics(BTreeMap<String, f64>);

fn ask(world: &World, token: &str) -> Response {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer)];
    let headers = if token.is_empty() { &[][..] } else { &headers };
    world.connect().call("GET", "/metrics", headers, b"").unwrap()
}

#[track_caller]
fn read(world: &World) -> Metrics {
    let answer = ask(world, "");
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    parse(&String::from_utf8(answer.body).unwrap())
}

/// Strict about the format: every sample belongs to the family announced last, and nothing comes twice.
#[track_caller]
fn parse(text: &str) -> Metrics {
    let (mut samples, mut families, mut family, mut kind) = (BTreeMap::new(), BTreeSet::new(), "", "");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split_once(' ').unwrap().0;
            assert!(families.insert(family), "{family} is announced twice");
            let (name, said) = lines.next().unwrap().strip_prefix("# TYPE ").unwrap().split_once(' ').unwrap();
            assert_eq!(name, family);
            kind = said;
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
        match kind {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            "counter" => assert!(suffix.is_empty() && name.ends_with("_total"), "{line}"),
            "gauge" => assert!(suffix.is_empty(), "{line}"),
            other => panic!("{other}: {line}"),
        }
        assert!(samples.insert(sample.to_owned(), value.parse().unwrap()).is_none(), "{sample} comes twice");
    }
    Metrics(samples)
}

impl Metrics {
    #[track_caller]
    fn get(&self, sample: &str) -> f64 {
        *self.0.get(sample).unwrap_or_else(|| panic!("no {sample} in {:?}", self.0.keys()))
    }

    /// A number of the repository.
    #[track_caller]
    fn of(&self, name: &str) -> f64 {
        self.get(&format!("{name}{{repo=\"repo\"}}"))
    }

    /// How often something was measured; its buckets must add up.
    #[track_caller]
    fn measured(&self, name: &str) -> f64 {
        let bucket = format!("{name}_bucket{{repo=\"repo\",le=\"");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (sample, count) in self.0.iter().filter(|(sample, _)| sample.starts_with(&bucket)) {
            let bound = sample[bucket.len()..].trim_end_matches("\"}");
            buckets.push((bound.replace("+Inf", "inf").parse().unwrap(), *count));
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.len() > 10 && buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
        let count = self.of(&format!("{name}_count"));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{name}");
        assert_eq!(count > 0.0, self.of(&format!("{name}_sum")) > 0.0, "{name}");
        count
    }
}

#[test]
fn metrics_are_correct() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let before = read(&world);
    for name in ["dibs_reservations", "dibs_waiters", "dibs_sessions", "dibs_grants_total", "dibs_conflicts_total"] {
        assert_eq!(before.of(name), 0.0, "{name}");
    }
    assert_eq!(before.get(concat!("dibs_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}")), 1.0);
    assert!(before.get("process_start_time_seconds") > 1e9);

    ana.reserve(json!({ "filePaths": ["a", "b", "c"] })).ok();
    bo.hold("d");
    bo.reserve(json!({ "filePath": "a" })).refused("RESOURCE_LOCKED");
    bo.reserve(json!({ "filePath": "e", "ttlSeconds": 1 })).ok();
    let stream = thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "b", "waitSeconds": 60 }));
        ana.reserve(json!({ "filePath": "d", "waitSeconds": 60 })).refused("POSSIBLE_DEADLOCK");
        let mut stream = world.connect();
        let bearer = format!("Bearer {}", world.reader());
        stream.send(&request("GET", "/api/events", &[("authorization", &bearer)], b"")).unwrap();
        assert_eq!(stream.head().unwrap().status, 200);
        let during = until("it has run out", || Some(read(&world)).filter(|now| now.of("dibs_expiries_total") == 1.0));
        assert_eq!((during.of("dibs_reservations"), during.of("dibs_waiters")), (4.0, 1.0));
        assert_eq!((during.of("dibs_sessions"), during.of("dibs_event_readers")), (2.0, 1.0));
        ana.end();
        waiting.join().unwrap().ok();
        stream
    });
    drop(stream);
    let after = until("the follower has left", || Some(read(&world)).filter(|now| now.of("dibs_event_readers") == 0.0));
    for (name, number) in [
        ("dibs_reservations", 2.0),
        ("dibs_waiters", 0.0),
        ("dibs_sessions", 1.0),
        ("dibs_grants_total", 6.0),
        ("dibs_conflicts_total", 1.0),
        ("dibs_expiries_total", 1.0),
        ("dibs_deadlocks_refused_total", 1.0),
        ("dibs_inbox_depth", 0.0),
        ("dibs_inbox_refused_total", 0.0),
    ] {
        assert_eq!(after.of(name), number, "{name}");
    }
    // Six reserves and an end were decided; reads are no decisions.
    assert_eq!(after.measured("dibs_decision_seconds"), 7.0);
    let appends = after.measured("dibs_journal_append_seconds");
    assert!(appends >= 5.0 && after.measured("dibs_journal_sync_seconds") == appends);
    assert_eq!(after.measured("dibs_batch_records"), appends);
    let (all, synced) = (after.of("dibs_journal_append_seconds_sum"), after.of("dibs_journal_sync_seconds_sum"));
    assert!(synced <= all, "{synced} of {all}");
    assert_eq!(after.of("dibs_batch_records_sum"), after.of("dibs_records_total"));
}

#[test]
fn requests_are_counted_by_route_and_status() {
    let world = World::new();
    let ana = world.session("ana");
    ana.hold("a");
    ana.hold("b");
    ana.reserve(json!({ "filePath": "../x" })).refused("INVALID_PATH");
    world.session("bo").reserve(json!({ "filePath": "a" })).refused("RESOURCE_LOCKED");
    world.get("/api/reservations", "").refused("UNAUTHENTICATED");
    world.get("/nowhere/ana/a", &ana.token).refused("NOT_FOUND");
    world.call("PATCH", "/api/stats", &ana.token, None).refused("METHOD_NOT_ALLOWED");
    let metrics = read(&world);
    let count = |method: &str, route: &str, status: &str| {
        let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
        metrics.get(&format!("dibs_http_requests_total{{{labels}}}"))
    };
    let reserve = "/api/sessions/{id}/files/reserve";
    assert_eq!(count("POST", reserve, "200"), 2.0);
    assert_eq!(count("POST", reserve, "400"), 1.0);
    assert_eq!(count("POST", reserve, "409"), 1.0);
    assert_eq!(count("GET", "/api/reservations", "401"), 1.0);
    assert_eq!(count("GET", "other", "404"), 1.0);
    assert_eq!(count("other", "/api/stats", "405"), 1.0);
    assert_eq!(metrics.0.keys().filter(|sample| sample.starts_with("dibs_http_requests_total")).count(), 6);
}

#[test]
fn metrics_contain_no_names() {
    let world = World::new();
    let ana = world.session_with("secret-session", json!({ "name": "secret-name", "feature": "secret-feature" }));
    ana.reserve(json!({ "filePath": "secret-file", "reason": "secret-reason" })).ok();
    world.get("/secret-path?secret=query", &ana.token).refused("NOT_FOUND");
    let text = String::from_utf8(ask(&world, "").body).unwrap();
    assert!(text.contains("dibs_sessions{repo=\"repo\"} 1\n"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn metrics_need_a_token_behind_a_proxy() {
    let (mut world, data) = World::of_two(["one", "two"]);
    let shown = |answer: Response| {
        assert_eq!(answer.status, 200, "{answer}");
        let text = String::from_utf8(answer.body).unwrap();
        parse(&text);
        ["one", "two"].map(|name| text.contains(&format!("repo=\"{name}\"")))
    };
    ask(&world, "").refused("UNAUTHENTICATED");
    world.stop();
    world.args(&["--behind-proxy"]);
    world.start();
    let secret = crate::world::secret_in(&data);
    let token = |claims: Value| mint::hs256(&mint::claims(claims), &secret);
    for bad in ["", "x.y.z"] {
        let answer = ask(&world, bad);
        answer.check_ground_rules();
        answer.refused("UNAUTHENTICATED");
    }
    assert_eq!(shown(ask(&world, &token(json!({ "sub": "p", "scope": "admin" })))), [true, true]);
    assert_eq!(shown(ask(&world, &token(json!({ "sub": "p", "scope": "read", "repo": "one" })))), [true, false]);
    assert_eq!(shown(ask(&world, &token(json!({ "sub": "p", "scope": "admin", "repo": "two" })))), [false, true]);
    assert_eq!(shown(ask(&world, &token(json!({ "sub": "p", "scope": "read" })))), [false, false]);
}

/// The dashboard and the alerts only use metrics that exist.
#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_exist() {
    let world = World::new();
    let text = String::from_utf8(ask(&world, "").body).unwrap();
    let families: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let dashboard = std::fs::read_to_string(root.join("packaging/grafana.json")).unwrap();
    let alerts = std::fs::read_to_string(root.join("docs/operations.md")).unwrap();
    let panels: Value = serde_json::from_str(&dashboard).unwrap();
    assert!(panels["panels"].as_array().unwrap().len() > 10);
    let mut named = BTreeSet::new();
    for word in
        dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').chain(alerts.split(['`', '(', '[', '{', ' ']))
    {
        if !word.starts_with("dibs_") {
            continue;
        }
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word);
        named.insert(base);
    }
    let missing: Vec<_> = named.iter().filter(|name| !families.contains(**name)).collect();
    assert!(named.len() > 12 && missing.is_empty(), "{missing:?} are not in /metrics");
    let unused: Vec<_> =
        families.iter().filter(|name| name.starts_with("dibs_") && !dashboard.contains(**name)).collect();
    assert!(unused.is_empty(), "{unused:?} are not on the dashboard");
}
