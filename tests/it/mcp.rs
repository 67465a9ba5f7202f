//! `/mcp`: the tools over HTTP, in both generations of the protocol.

use serde_json::{Value, json};

use crate::http::{Response, request};
use crate::support::mcp::{facts, stateless};
use crate::world::{Session, World, until};

/// What a client of the older generation sends with every message.
fn headers(token: &str) -> Vec<(&'static str, String)> {
    vec![
        ("authorization", format!("Bearer {token}")),
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
    ]
}

fn raw(target: &str, headers: &[(&str, String)], message: &Value) -> Vec<u8> {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    request("POST", target, &headers, message.to_string().as_bytes())
}

#[track_caller]
fn send(world: &World, target: &str, headers: &[(&str, String)], message: &Value) -> Response {
    let mut connection = world.connect();
    connection.send(&raw(target, headers, message)).unwrap();
    connection.receive(false).unwrap()
}

fn message(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn call(tool: &str, arguments: Value) -> Value {
    message("tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// Uses a tool as this session.
#[track_caller]
fn tool(session: &Session<'_>, name: &str, arguments: Value) -> Value {
    facts(&send(session.world, "/mcp", &headers(&session.token), &call(name, arguments)).ok())
}

#[test]
fn the_tools_work_over_http_with_the_tokens_of_the_api() {
    let world = World::new();
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    let held = tool(&ana, "reserve", json!({ "paths": ["src/a.rs", "docs/"], "reason": "parser" }));
    assert_eq!((&held["status"], &held["session"]), (&json!("reserved"), &json!("ana")));
    assert_eq!(world.held(), ["ana src/a.rs", "ana docs/**"]);
    let refused = tool(&bo, "reserve", json!({ "path": "docs/x.md" }));
    assert_eq!((&refused["status"], &refused["conflicts"][0]["holder_name"]), (&json!("conflict"), &json!("Ana")));
    let asked = tool(&bo, "request_unlock", json!({ "path": "src/a.rs", "reason": "hot fix" }));
    let told = tool(&ana, "status", json!({ "mine": true }));
    assert_eq!(told["notices"][0]["request_id"], asked["request"]["request_id"]);
    let id = &asked["request"]["request_id"];
    assert_eq!(tool(&ana, "answer_unlock", json!({ "request_id": id, "approve": true }))["status"], "approved");
    assert_eq!(tool(&bo, "check", json!({ "paths": ["src/a.rs", "docs/y"] }))["clear"], json!(["src/a.rs"]));
    let released = tool(&ana, "release", json!({ "all": true }));
    assert_eq!((&released["released_count"], &released["released"]), (&json!(1), &json!(["docs/**"])));
    let absolute = tool(&ana, "reserve", json!({ "path": "/etc/passwd" }));
    assert_eq!((&absolute["status"], &absolute["code"]), (&json!("error"), &json!("INVALID_PATH")));
}

#[test]
fn what_is_reserved_over_http_outlasts_the_thinking_of_a_model() {
    let world = World::new();
    let ana = world.session("ana");
    // A model does not renew: every call is a sign of life, and a quarter of an hour may pass without one.
    let left = |held: Value| held["reservations"][0]["seconds_left"].as_u64().unwrap();
    let held = left(tool(&ana, "reserve", json!({ "path": "src/a.rs" })));
    assert!((840..=900).contains(&held), "{held}");
    let said = left(tool(&ana, "reserve", json!({ "path": "src/b.rs", "ttl_seconds": 120 })));
    assert!(said <= 120, "{said}");
}

#[test]
fn a_handshake_gives_out_a_session_id_and_needs_none() {
    let world = World::new();
    let ana = world.session("ana");
    let info = json!({ "name": "probe", "version": "1" });
    for (offered, chosen) in [("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25")]
    {
        let params = json!({ "protocolVersion": offered, "capabilities": {}, "clientInfo": info });
        let opened = send(&world, "/mcp", &headers(&ana.token), &message("initialize", params));
        assert_eq!(opened.header("mcp-session-id").map(str::len), Some(32), "{opened}");
        assert_eq!(opened.ok()["result"]["protocolVersion"], chosen);
    }
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let mut connection = world.connect();
    connection.send(&raw("/mcp", &headers(&ana.token), &note)).unwrap();
    assert_eq!(connection.head().unwrap().status, 202);
    // An id that another process of the server gave out is as good as any.
    let mut known = headers(&ana.token);
    known.push(("mcp-session-id", "0123".to_owned()));
    known.push(("mcp-protocol-version", "2025-11-25".to_owned()));
    let listed = send(&world, "/mcp", &known, &message("tools/list", json!({}))).ok();
    assert!(listed["result"]["tools"].as_array().unwrap().iter().all(|tool| tool["outputSchema"]["type"] == "object"));
    for method in ["GET", "DELETE"] {
        let bearer = format!("Bearer {}", ana.token);
        let response = world.connect().call(method, "/mcp", &[("authorization", &bearer)], b"").unwrap();
        assert_eq!((response.status, response.header("allow")), (405, Some("POST")), "{response}");
    }
}

#[test]
fn the_newer_generation_repeats_the_message_in_headers() {
    let world = World::new();
    let ana = world.session("ana");
    let with = |more: &[(&'static str, &str)]| {
        let mut all = headers(&ana.token);
        all.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        all
    };
    let (version, method, name) =
        (("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "reserve"));
    let reserve = message("tools/call", stateless(json!({ "name": "reserve", "arguments": { "path": "a" } })));
    let done = send(&world, "/mcp", &with(&[version, method, name]), &reserve).ok();
    assert_eq!((&done["result"]["resultType"], &facts(&done)["status"]), (&json!("complete"), &json!("reserved")));
    let discover = message("server/discover", stateless(json!({})));
    let found = send(&world, "/mcp", &with(&[version, ("mcp-method", "server/discover")]), &discover).ok();
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    for wrong in [
        &[version, method][..],
        &[version, name],
        &[method, name],
        &[version, method, ("mcp-name", "check")],
        &[version, ("mcp-method", "tools/list"), name],
        &[("mcp-protocol-version", "2025-11-25"), method, name],
    ] {
        let refused = send(&world, "/mcp", &with(wrong), &reserve).expect(400);
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32020)), "{wrong:?}");
    }
    let unknown = message("weather/get", stateless(json!({})));
    let refused = send(&world, "/mcp", &with(&[version, ("mcp-method", "weather/get")]), &unknown).expect(404);
    assert_eq!(refused["error"]["code"], -32601);
    // The older generation has a normal response for the same.
    let refused = send(&world, "/mcp", &with(&[]), &message("weather/get", json!({}))).ok();
    assert_eq!(refused["error"]["code"], -32601);
    let later = with(&[("mcp-protocol-version", "2030-01-01")]);
    let refused = send(&world, "/mcp", &later, &message("tools/list", json!({}))).expect(400);
    assert_eq!(refused["error"]["code"], -32022);
}

#[test]
fn a_caller_without_a_session_may_look_and_an_admin_names_one() {
    let world = World::new();
    world.session("ana").hold("src/a.rs");
    let (reader, admin) = (world.reader(), world.admin());
    let use_as = |token: &str, target: &str, name: &str, arguments: Value| {
        facts(&send(&world, target, &headers(token), &call(name, arguments)).ok())
    };
    assert_eq!(use_as(&reader, "/mcp", "check", json!({ "path": "src/a.rs" }))["status"], "conflict");
    assert_eq!(use_as(&reader, "/mcp", "status", json!({}))["reservations"][0]["holder"], "ana");
    let refused = use_as(&reader, "/mcp", "reserve", json!({ "path": "b" }));
    assert_eq!((&refused["status"], &refused["code"]), (&json!("error"), &json!("FORBIDDEN")));
    let refused = use_as(&reader, "/mcp?session=ana", "release", json!({ "all": true }));
    assert_eq!(refused["code"], "FORBIDDEN");
    let refused = use_as(&world.session("bo").token, "/mcp?session=ana", "release", json!({ "all": true }));
    assert_eq!(refused["code"], "FORBIDDEN", "a session's token acts for no other session");
    assert_eq!(use_as(&admin, "/mcp?session=ana", "release", json!({ "all": true }))["status"], "released");
}

#[test]
fn a_request_without_a_valid_token_is_refused_before_its_body_is_read() {
    let world = World::new();
    for token in ["", "nonsense"] {
        let bearer = format!("Bearer {token}");
        let mut head = vec![("content-type", "application/json"), ("authorization", &*bearer)];
        head.truncate(if token.is_empty() { 1 } else { 2 });
        let response = world.connect().call("POST", "/mcp", &head, call("check", json!({})).to_string().as_bytes());
        let response = response.unwrap();
        assert_eq!((response.status, response.header("www-authenticate")), (401, Some("Bearer")), "{response}");
        let body = response.json();
        assert_eq!((&body["jsonrpc"], &body["error"]["data"]["code"]), (&json!("2.0"), &json!("UNAUTHENTICATED")));
    }
    let ana = world.session("ana");
    let mut foreign = headers(&ana.token);
    foreign.push(("origin", "https://evil.example".to_owned()));
    assert_eq!(send(&world, "/mcp", &foreign, &call("status", json!({}))).status, 403);
    let mut plain = headers(&ana.token);
    plain[1].1 = "text/plain".to_owned();
    assert_eq!(send(&world, "/mcp", &plain, &call("status", json!({}))).status, 415);
    let large = call("check", json!({ "path": "a".repeat(2 << 20) }));
    assert_eq!(send(&world, "/mcp", &headers(&ana.token), &large).status, 413);
    let bad = send(&world, "/mcp", &headers(&ana.token), &json!([]));
    assert_eq!(bad.expect(400)["error"]["code"], -32600);
}

/// Sends a wait, and returns its connection once the request is in the queue.
#[track_caller]
fn queue(session: &Session<'_>, more: &[(&'static str, &str)]) -> crate::http::Connection {
    let mut all = headers(&session.token);
    all.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let mut connection = session.world.connect();
    connection.send(&raw("/mcp", &all, &call("wait", json!({ "path": "a", "seconds": 60 })))).unwrap();
    until("the request waits", || (waiting(session) == 1).then_some(()));
    connection
}

fn waiting(session: &Session<'_>) -> usize {
    let response = session.world.get(&format!("/api/sessions/{}", session.id), &session.world.reader());
    if response.status == 404 { 0 } else { response.ok()["waitingFor"].as_array().unwrap().len() }
}

/// The message at the end of a stream; none if it ends without one.
#[track_caller]
fn streamed(connection: &mut crate::http::Connection) -> Option<Value> {
    let head = connection.head().unwrap();
    assert_eq!(head.header("content-type"), Some("text/event-stream"), "{head}");
    let mut text = String::new();
    while let Some(chunk) = connection.chunk().unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(text.starts_with(": waiting\n\n"), "{text}");
    text.lines().find_map(|line| line.strip_prefix("data: ")).map(|data| serde_json::from_str(data).unwrap())
}

#[test]
fn a_wait_is_a_stream_that_ends_with_the_result() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    let mut connection = queue(&bo, &[]);
    ana.release("a");
    let reply = streamed(&mut connection).unwrap();
    assert_eq!((&reply["id"], &facts(&reply)["status"]), (&json!(1), &json!("reserved")));
    assert_eq!(world.held(), ["bo a"]);
}

#[test]
fn a_wait_whose_client_leaves_or_cancels_leaves_the_queue() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    drop(queue(&bo, &[]));
    until("the wait has left the queue", || (waiting(&bo) == 0).then_some(()));
    let mut connection = queue(&bo, &[("mcp-session-id", "one")]);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let notify = |session: &Session<'_>, id: &str| {
        let mut all = headers(&session.token);
        all.push(("mcp-session-id", id.to_owned()));
        let mut connection = world.connect();
        connection.send(&raw("/mcp", &all, &cancel)).unwrap();
        assert_eq!(connection.head().unwrap().status, 202);
    };
    // Another client of the same session, and another session, cancel nothing.
    notify(&bo, "two");
    notify(&ana, "one");
    assert_eq!(waiting(&bo), 1);
    notify(&bo, "one");
    until("the wait has left the queue", || (waiting(&bo) == 0).then_some(()));
    assert_eq!(streamed(&mut connection), None);
}

#[test]
fn a_client_that_takes_no_stream_gets_the_result_of_a_wait_as_json() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    let mut plain = headers(&bo.token);
    plain[2].1 = "application/json".to_owned();
    let late = send(&world, "/mcp", &plain, &call("wait", json!({ "path": "a", "seconds": 1 }))).ok();
    assert_eq!(facts(&late)["status"], "timed_out");
}

#[test]
fn a_call_that_names_another_session_is_not_granted_to_the_caller() {
    let world = World::new();
    let ana = world.session("ana");
    assert_eq!(tool(&ana, "allocate_ports", json!({ "session_id": "ana", "count": 1 }))["status"], "allocated");
    assert_eq!(tool(&ana, "allocate_ports", json!({ "session_id": "bo" }))["code"], "FORBIDDEN");
    let lock = |agent: &str| json!({ "file_path": "a", "agent_id": agent, "session_id": "theirs" });
    assert_eq!(tool(&ana, "acquire_lock", lock("bo"))["code"], "FORBIDDEN");
    assert_eq!(tool(&ana, "acquire_lock", lock("ana"))["success"], true);
    // A worker acts for the session that it names.
    let worker = world.token(json!({ "sub": "w", "scope": "worker" }));
    let taken = send(&world, "/mcp", &headers(&worker), &call("acquire_lock", lock("cy"))).ok();
    assert_eq!(facts(&taken)["locked_by"], "ana", "{taken}");
}

#[test]
fn tool_calls_count_against_the_rate_of_the_session() {
    let world = World::configured("[limits]\nrequests-per-second = 2\n");
    let ana = world.session("ana");
    let limited = until("a call is refused", || {
        let response = send(&world, "/mcp", &headers(&ana.token), &call("status", json!({})));
        (response.status != 200).then_some(response)
    });
    assert_eq!(limited.header("retry-after"), Some("1"), "{limited}");
    assert_eq!(limited.expect(429)["error"]["data"]["code"], "QUOTA_EXCEEDED");
}
