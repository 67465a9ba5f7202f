//! The log: one line for each decision, without tokens, and a slow reader blocks nothing.

use serde_json::{Value, json};

use crate::http::{Address, Connection};
use crate::support::server::Server;
use crate::world::{PROGRAM, World, text, until};

/// The lines about decisions, once there are `count` of them.
fn decisions(world: &World, count: usize) -> Vec<Value> {
    until("the lines are written", || {
        let said = world.stderr();
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
        let lines: Vec<_> = lines.filter(|line| line.get("outcome").is_some()).collect();
        (lines.len() >= count).then_some(lines)
    })
}

#[test]
fn every_decision_is_a_line_of_json() {
    let mut world = World::with(&["--log", "json"]);
    {
        let (ana, bo) = (world.session("ana"), world.session("bo"));
        let headers = |token: &str| format!("Bearer {token}");
        let (bearer, body) = (headers(&ana.token), json!({ "filePaths": ["a", "b", "c"], "reason": "hush" }));
        let headers = [("authorization", &*bearer), ("content-type", "application/json"), ("x-request-id", "req-1")];
        world.send("POST", &ana.url("files/reserve"), &headers, body.to_string().as_bytes()).ok();
        bo.reserve(json!({ "filePath": "b" })).refused("RESOURCE_LOCKED");
        let taken = ana.hold("d");
        let target = format!("/api/reservations/{}", text(&taken["reservationId"]));
        world.delete(&target, &world.admin(), json!({ "reason": "hush" })).ok();
        bo.get("reserved-files").ok();
        ana.reserve(json!({ "filePath": "src/**", "ttlSeconds": 1 })).ok();
        until("it has run out", || (world.reservations().len() == 3).then_some(()));
        ana.end();
        ana.post("heartbeat", json!({})).refused("SESSION_ENDED");
    }
    let lines = decisions(&world, 8);
    let fields = ["repo", "seq", "session", "by", "call", "key", "keys", "outcome"];
    let seen: Vec<Value> = lines.iter().map(|line| fields.iter().map(|field| line[field].clone()).collect()).collect();
    let expected = [
        json!(["repo", 4, "ana", null, "reserve", "a", 3, "granted"]),
        json!(["repo", 5, "bo", null, "reserve", "b", null, "refused"]),
        json!(["repo", 6, "ana", null, "reserve", "d", null, "granted"]),
        json!(["repo", 7, null, "Ops", "override", null, null, "released"]),
        json!(["repo", 8, "ana", null, "reserve", "src/**", null, "granted"]),
        json!(["repo", 9, "ana", null, null, "src/**", null, "expired"]),
        json!(["repo", 13, "ana", null, "end", null, null, "ended"]),
        json!(["repo", 13, "ana", null, "heartbeat", null, null, "sessionEnded"]),
    ];
    assert_eq!(seen, expected);
    assert_eq!(lines[0]["request"], "req-1");
    assert!(lines.iter().all(|line| line["level"] == "INFO" && line["timestamp"].is_string()));
    let asked = lines.iter().filter(|line| line["message"] == "decided");
    assert!(asked.clone().count() == 7 && asked.clone().all(|line| line["request"].is_string()));
    let ended = world.stop();
    for secret in ["hush", "eyJ", "Bearer"] {
        assert!(!ended.stderr.contains(secret), "{}", ended.stderr);
    }
}

#[test]
fn no_name_can_forge_a_log_line() {
    for format in ["text", "json"] {
        let mut world = World::with(&["--log", format]);
        let ana = world.session("ana");
        let forged = "x\n2026-01-01T00:00:00Z  INFO forged seq=1\u{1b}[2J\u{9b}2J\r\u{202e}";
        let coded: String = forged.bytes().map(|byte| format!("%{byte:02X}")).collect();
        ana.reserve(json!({ "filePath": format!("file:{coded}"), "encoding": "percent" })).ok();
        ana.reserve(json!({ "filePath": "a", "reason": forged })).ok();
        let long = format!("{}/{}", "l".repeat(200), "m".repeat(200));
        ana.hold(&long);
        // A request id is logged only if it is harmless.
        let bearer = format!("Bearer {}", ana.token);
        let headers = [("authorization", &*bearer), ("x-request-id", "a b\tseq=9")];
        world.send("POST", &ana.url("heartbeat"), &headers, b"").ok();
        let said = world.stop().stderr;
        assert_eq!(said.lines().count(), 4, "{said}");
        let year = jiff::Timestamp::now().to_string()[..4].to_owned();
        for line in said.lines() {
            let begins = if format == "json" { format!("{{\"timestamp\":\"{year}-") } else { format!("{year}-") };
            assert!(line.starts_with(&begins) && line.contains("decided"), "{line}");
            assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
            assert!(line.len() < 500 && !line.contains("seq=9"), "{line}");
        }
        assert!(said.contains("%0A2026-01-01T00:00:00Z"), "{said}");
        assert!(said.contains(&format!("{}…{}", "l".repeat(60), "m".repeat(60))), "{said}");
    }
}

#[test]
fn by_default_only_problems_are_logged() {
    let mut world = World::new();
    world.session("ana").hold("a");
    assert_eq!(world.stop().stderr, "");
    world.env("DIBS_LOG", "info");
    world.start();
    world.session("ana").hold("b");
    assert!(world.stop().stderr.contains("decided"), "DIBS_LOG asks for more");
    world.args(&["--log", "json"]);
    world.env("DIBS_LOG", "error");
    world.start();
    world.session("ana").hold("c");
    assert_eq!(world.stop().stderr, "", "and for less");
}

#[test]
fn a_log_that_is_not_read_blocks_nothing() {
    let world = World::not_started();
    world.git_init("repo");
    // A pipe that is open for reading, so that writing is no error, and is never read.
    let script = "mkfifo log; exec \"$0\" serve --listen 127.0.0.1:0 --json --log json 2<>log";
    let server = Server::start(world.command("sh", "repo").args(["-c", script, PROGRAM]));
    let server = server.unwrap_or_else(|ended| panic!("{}{}", ended.stdout, ended.stderr));
    let token = world.token(json!({ "sub": "ana" }));
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let mut connection = Connection::open(&Address::Tcp(server.tcp())).unwrap();
    // Several times what a pipe holds.
    for _ in 0..2000 {
        connection.call("POST", "/api/sessions/ana/heartbeat", &headers, b"{}").unwrap().ok();
    }
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().status.code(), Some(0));
}
