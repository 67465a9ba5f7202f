//! Waiting: a fair queue, without requests whose clients have gone.

use std::thread;

use serde_json::{Value, json};

use crate::http::request;
use crate::world::{Session, World, text, until};

fn wait_for(key: &str) -> Value {
    json!({ "filePath": key, "waitSeconds": 60 })
}

/// The headers of a call by this session, for a connection the test keeps open.
fn raw(session: &Session<'_>, call: &str, body: &Value) -> Vec<u8> {
    let bearer = format!("Bearer {}", session.token);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    request("POST", &session.url(call), &headers, body.to_string().as_bytes())
}

fn waiters(world: &World) -> u64 {
    world.get("/api/stats", &world.reader()).ok()["waiters"].as_u64().unwrap()
}

#[test]
fn first_come_first_served() {
    let world = World::new();
    let (ana, bo, carl, dora) = (world.session("ana"), world.session("bo"), world.session("carl"), world.session("d"));
    ana.hold("a");
    thread::scope(|scope| {
        let bo_waits = bo.queue(scope, wait_for("a"));
        let carl_waits = carl.queue(scope, wait_for("a"));
        // A new request does not overtake waiting ones, and its refusal names them.
        let refusal = dora.reserve(json!({ "filePath": "a" })).refused("RESOURCE_LOCKED");
        assert_eq!((&refusal["reservedBy"], &refusal["conflicts"][0]["queueLength"]), (&json!("ana"), &json!(2)));
        ana.release("a");
        let granted = bo_waits.join().unwrap().ok();
        assert_eq!((&granted["sessionId"], &granted["filePath"]), (&json!("bo"), &json!("a")));
        assert!(!carl_waits.is_finished());
        bo.release("a");
        carl_waits.join().unwrap().ok();
    });
    assert_eq!(world.held(), ["carl a"]);
    // What is free is granted at once.
    dora.reserve(wait_for("b")).ok();
    dora.reserve(json!({ "filePath": "c", "waitSeconds": 0 })).ok();
}

#[test]
fn a_request_for_several_keys_waits_as_a_whole() {
    let world = World::new();
    let (ana, bo, carl, dora) = (world.session("ana"), world.session("bo"), world.session("carl"), world.session("d"));
    ana.hold("a");
    bo.hold("b");
    thread::scope(|scope| {
        let waiting = carl.queue(scope, json!({ "filePaths": ["a", "b", "c"], "waitSeconds": 60 }));
        // It holds nothing yet, but it is ahead in the queue: no other session gets `c`.
        let refusal = dora.reserve(json!({ "filePath": "c" })).refused("RESOURCE_LOCKED");
        assert_eq!(refusal["conflicts"][0]["waiting"], true);
        ana.release("a");
        assert_eq!(world.held(), ["bo b"]);
        assert!(!waiting.is_finished());
        bo.release("b");
        let granted = waiting.join().unwrap().ok();
        assert_eq!(granted["reserved"], json!(["a", "b", "c"]));
        assert_eq!(granted["reservations"].as_array().unwrap().len(), 3);
    });
    assert_eq!(world.held(), ["carl a", "carl b", "carl c"]);
}

#[test]
fn a_timed_out_wait_names_its_blockers() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let held = ana.hold("src/**");
    let refusal = bo.reserve(json!({ "filePath": "src/a", "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
    assert_eq!((&refusal["reservedBy"], &refusal["expiresAt"]), (&json!("ana"), &held["expiresAt"]));
    let conflict = &refusal["conflicts"][0];
    assert_eq!((&conflict["key"], &conflict["example"]), (&json!("src/**"), &json!("src/a")));
    assert_eq!(waiters(&world), 0);
    ana.release("src/**");
    assert_eq!(world.held(), [""; 0], "whoever gave up gets nothing later");
}

#[test]
fn expiry_end_and_override_grant_the_next_waiter() {
    let world = World::new();
    let (ana, bo, carl, dora) = (world.session("ana"), world.session("bo"), world.session("carl"), world.session("d"));
    ana.reserve(json!({ "filePath": "a", "ttlSeconds": 1 })).ok();
    thread::scope(|scope| {
        let bo_waits = bo.queue(scope, wait_for("a"));
        let carl_waits = carl.queue(scope, wait_for("a"));
        let dora_waits = dora.queue(scope, wait_for("a"));
        bo_waits.join().unwrap().ok();
        bo.end();
        let held = carl_waits.join().unwrap().ok();
        let target = format!("/api/reservations/{}", text(&held["reservationId"]));
        world.delete(&target, &world.admin(), json!({ "reason": "x" })).ok();
        dora_waits.join().unwrap().ok();
    });
    assert_eq!(world.held(), ["d a"]);
    // Ending while waiting ends the wait.
    thread::scope(|scope| {
        let waiting = carl.queue(scope, wait_for("a"));
        carl.end();
        waiting.join().unwrap().refused("SESSION_ENDED");
    });
}

#[test]
fn the_history_of_a_wait_that_was_refused_could_not_be_asked() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    ana.hold("b");
    let states = |id: &Value| {
        let path = format!("/api/reservations/{}/history", id.as_str().unwrap());
        let history = world.get(&path, &world.reader()).ok();
        history["states"].as_array().unwrap().iter().map(|state| state["state"].clone()).collect::<Vec<_>>()
    };
    let refusal =
        bo.reserve(json!({ "filePaths": ["a", "b", "a"], "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
    let ids = refusal["reservationIds"].as_array().unwrap();
    assert_eq!(ids.len(), 2, "one for each key: {refusal}");
    for id in ids {
        assert_eq!(states(id), ["Waiting", "Failed"]);
    }
    let refusal = bo.reserve(json!({ "filePath": "a" })).refused("RESOURCE_LOCKED");
    assert_eq!(refusal.get("reservationIds"), None, "it never waited");
    // Also while it waits, and in the event.
    thread::scope(|scope| {
        let waiting = bo.queue(scope, wait_for("a"));
        let waits = world.get("/api/waits", &world.reader()).ok();
        let id = &waits["waits"][0]["reservationIds"][0];
        assert_eq!(states(id), ["Waiting"]);
        let history = world.get("/api/history?path=a&limit=1", &world.reader()).ok();
        assert_eq!(&history["events"][0]["reservationIds"][0], id, "{history}");
        ana.release("a");
        let granted = waiting.join().unwrap().ok();
        assert_eq!(&granted["reservationId"], id);
        assert_eq!(states(id), ["Waiting", "Acquired"]);
    });
}

#[test]
fn a_refused_deadlock_was_not_counted_as_a_conflict() {
    let mut world = World::new();
    let counted = |world: &World| world.get("/api/stats", &world.reader()).ok()["conflictsDetected"].clone();
    {
        let (ana, bo) = (world.session("ana"), world.session("bo"));
        ana.hold("a");
        bo.hold("b");
        thread::scope(|scope| {
            let waiting = ana.queue(scope, wait_for("b"));
            bo.reserve(wait_for("a")).refused("POSSIBLE_DEADLOCK");
            assert_eq!(counted(&world), 1);
            bo.release("b");
            waiting.join().unwrap().ok();
        });
    }
    world.stop();
    world.start();
    assert_eq!(counted(&world), 1, "it does not go back across a restart");
}

#[test]
fn a_closed_connection_leaves_the_queue() {
    let world = World::new();
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    ana.hold("a");
    let mut bo_line = world.connect();
    bo_line.send(&raw(&bo, "files/reserve", &wait_for("a"))).unwrap();
    until("bo waits", || (waiters(&world) == 1).then_some(()));
    thread::scope(|scope| {
        let waiting = carl.queue(scope, wait_for("a"));
        drop(bo_line);
        until("bo is gone", || (waiters(&world) == 1).then_some(()));
        ana.release("a");
        waiting.join().unwrap().ok();
    });
    carl.release("a");
    assert_eq!(world.held(), [""; 0], "bo was granted nothing");
    assert_eq!(world.get("/api/sessions/bo", &world.reader()).ok()["waitingFor"], json!([]));
}

#[test]
fn a_wait_that_would_close_a_cycle_is_refused_at_once() {
    let world = World::new();
    let (ana, bo, carl) = (world.session("ana"), world.session("bo"), world.session("carl"));
    ana.hold("a");
    bo.hold("b/**");
    carl.hold("c");
    thread::scope(|scope| {
        let ana_waits = ana.queue(scope, wait_for("b/x"));
        let bo_waits = bo.queue(scope, wait_for("c"));
        let refusal = carl.reserve(wait_for("a")).refused("POSSIBLE_DEADLOCK");
        let mut cycle: Vec<_> = refusal["cycle"].as_array().unwrap().clone();
        let first = cycle.iter().position(|step| step["session"] == "ana").unwrap();
        cycle.rotate_left(first);
        assert_eq!(
            cycle,
            [
                json!({ "session": "ana", "holds": "a", "wants": "b/x" }),
                json!({ "session": "bo", "holds": "b/**", "wants": "c" }),
                json!({ "session": "carl", "holds": "c", "wants": "a" }),
            ]
        );
        // Without waiting it is an ordinary conflict, and a release resolves it.
        carl.reserve(json!({ "filePath": "a" })).refused("RESOURCE_LOCKED");
        carl.release("c");
        bo_waits.join().unwrap().ok();
        bo.end();
        ana_waits.join().unwrap().ok();
    });
}

#[test]
fn a_wait_that_ends_leaves_no_edges() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    bo.hold("b");
    // One wait times out, one loses its connection; neither may leave an edge in the graph.
    ana.reserve(json!({ "filePath": "b", "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
    bo.reserve(json!({ "filePath": "a", "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
    let mut line = world.connect();
    line.send(&raw(&ana, "files/reserve", &wait_for("b"))).unwrap();
    until("ana waits", || (waiters(&world) == 1).then_some(()));
    bo.reserve(wait_for("a")).refused("POSSIBLE_DEADLOCK");
    drop(line);
    until("ana is gone", || (waiters(&world) == 0).then_some(()));
    bo.reserve(json!({ "filePath": "a", "waitSeconds": 1 })).refused("LOCK_ACQUISITION_FAILED");
}

#[test]
fn versions_and_quotas_apply_to_waits() {
    let world = World::new();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold("a");
    bo.reserve(json!({ "filePath": "a", "ifVersion": 5, "waitSeconds": 60 })).refused("VERSION_MISMATCH");
    thread::scope(|scope| {
        let waiting = bo.queue(scope, json!({ "filePath": "a", "ifVersion": 0, "waitSeconds": 60 }));
        ana.release("a");
        let refusal = waiting.join().unwrap().refused("VERSION_MISMATCH");
        assert_eq!(refusal["version"], 1, "letting go made it another version");
    });
    assert_eq!(world.held(), [""; 0]);
}
