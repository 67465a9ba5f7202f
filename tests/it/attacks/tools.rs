//! Calls of tools over `/mcp` that wait for minutes.

use serde_json::{Value, json};

use super::{numbers, peak_memory, reset_peak, until_waiters};
use crate::http::{Connection, request};
use crate::world::World;

const MIB: usize = 1024 * 1024;

const FIRST_CALLS: usize = 10;

/// A call of the tool `wait` for a key that is held. `junk` is no argument of it.
fn waiting_call(world: &World, token: &str, session: usize, accept: &str, junk: &Value) -> Connection {
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "wait", "arguments": { "paths": ["held"], "seconds": 120 }, "_meta": { "junk": junk } },
    });
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json"), ("accept", accept)];
    let mut connection = world.connect();
    let target = format!("/mcp?session=s{session}");
    connection.send(&request("POST", &target, &headers, message.to_string().as_bytes())).unwrap();
    connection
}

/// 300 calls of 450 KB each took 3.2 GB as long as they waited.
#[test]
fn a_waiting_tool_call_keeps_nothing_of_its_message_but_its_keys() {
    let (calls, numbers_each) = numbers((40, 200_000), (300, 400_000));
    let world = World::new();
    let worker = world.token(json!({ "sub": "host", "scope": "worker" }));
    world.session("ana").hold("held");
    let junk = json!(vec![0; numbers_each]);
    let call = |n: usize| {
        let call = waiting_call(&world, &worker, n, "application/json, text/event-stream", &junk);
        // One after the other, so that only what stays is measured.
        until_waiters(&world, n + 1);
        call
    };
    // The first ones also show what it takes to read one of them.
    let mut open: Vec<_> = (0..FIRST_CALLS).map(call).collect();
    let before = reset_peak(&world);
    open.extend((FIRST_CALLS..calls).map(call));
    let grown = peak_memory(&world).saturating_sub(before);
    assert!(grown < 96 * MIB, "{grown} for {calls} calls");
    drop(open);
    until_waiters(&world, 0);
}

/// Such calls held the room for the bodies of all callers, and large requests of others were refused.
#[test]
fn a_waiting_tool_call_takes_no_room_from_the_bodies_of_others() {
    let world = World::new();
    let worker = |name: &str| world.token(json!({ "sub": name, "scope": "worker" }));
    let tokens = ["one", "two", "three"].map(worker);
    world.session("ana").hold("held");
    let junk = json!("x".repeat(MIB - 1_000));
    let mut open = Vec::new();
    for n in 0..75 {
        open.push(waiting_call(&world, &tokens[n % 3], n, "application/json", &junk));
        until_waiters(&world, n + 1);
    }
    let body = json!({ "paths": ["a"], "more": "x".repeat(3 * MIB) });
    world.session("bo").post("files/check-conflicts", body).ok();
    drop(open);
}
