//! The one connection on which a follower sends the plain requests of all its clients to the leader.

use serde_json::{Value, json};

use crate::http::{Connection, request};
use crate::world::{World, has_etcd, until};

fn reserve(path: &str) -> Value {
    json!({ "filePath": path, "ttlSeconds": 60 })
}

#[test]
fn the_clients_of_a_follower_get_their_own_replies() {
    if !has_etcd() {
        return;
    }
    let world = World::with(2);
    let follower = world.follower();
    world.session("holder").post("files/reserve", reserve("taken")).ok();
    std::thread::scope(|scope| {
        for client in 0..16 {
            let world = &world;
            scope.spawn(move || {
                let id = format!("s{client}");
                let bearer = format!("Bearer {}", world.session(&id).token());
                let headers = [("authorization", &*bearer), ("content-type", "application/json")];
                let mut line = Connection::open(&world.at(follower)).unwrap();
                let mut call = |call: &str, body: Value| {
                    let target = format!("/api/sessions/{id}/{call}");
                    line.call("POST", &target, &headers, body.to_string().as_bytes()).unwrap()
                };
                for round in 0..20 {
                    let path = format!("{client}/{round}");
                    let granted = call("files/reserve", reserve(&path)).ok();
                    assert_eq!((&granted["sessionId"], &granted["filePath"]), (&json!(id), &json!(path)));
                    call("files/reserve", reserve("taken")).refused("RESOURCE_LOCKED");
                    assert_eq!(call("heartbeat", json!({})).ok()["renewedCount"], 1);
                    assert_eq!(call("files/release", json!({ "filePath": path })).ok()["releasedCount"], 1);
                }
                // What is no plain request goes another way, on the same connection of the client.
                call("files/reserve", json!({ "filePaths": [format!("{client}/a"), format!("{client}/*.rs")] })).ok();
                call("files/reserve", json!({ "filePath": "../up" })).refused("INVALID_PATH");
                call("files/release-all", json!({})).ok();
            });
        }
    });
    assert_eq!(world.reservations().len(), 1, "only what the holder has");
}

/// Others would wait behind it on the way to the leader.
#[test]
fn a_wait_holds_no_other_client_of_a_follower_up() {
    if !has_etcd() {
        return;
    }
    let world = World::with(2);
    let follower = world.follower();
    world.session("ana").post("files/reserve", reserve("a")).ok();
    let waits = [r#"{"filePath":"a","waitSeconds":60}"#, r#"{"filePath":"a","\u0077aitSeconds":60}"#];
    let mut lines = Vec::new();
    for (number, body) in waits.iter().enumerate() {
        let id = format!("waiter-{number}");
        let bearer = format!("Bearer {}", world.session(&id).token());
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let mut line = Connection::open(&world.at(follower)).unwrap();
        line.send(&request("POST", &format!("/api/sessions/{id}/files/reserve"), &headers, body.as_bytes())).unwrap();
        lines.push(line);
        until("it waits", || {
            let list = world.get("/api/waits", &world.reader()).ok();
            (list["waits"].as_array()?.len() == number + 1).then_some(())
        });
    }
    world.session("bo").post_at(follower, "files/reserve", reserve("b")).unwrap().ok();
    world.session("bo").post_at(follower, "heartbeat", json!({})).unwrap().ok();
    world.session("ana").post_at(follower, "files/release", json!({ "filePath": "a" })).unwrap().ok();
    lines[0].receive(false).unwrap().ok();
}

/// Only nodes are trusted to send requests that others do not wait behind; a client that sends several at once is answered
/// one by one.
#[test]
fn a_client_that_sends_several_requests_at_once_is_answered_in_order() {
    if !has_etcd() {
        return;
    }
    let world = World::with(2);
    for node in [world.leader(), world.follower()] {
        let bearer = format!("Bearer {}", world.session("ana").token());
        for hop in [None, Some(format!("n0 {}", "0".repeat(64)))] {
            let mut headers = vec![("authorization", &*bearer), ("content-type", "application/json")];
            headers.extend(hop.as_deref().map(|hop| ("dibs-hop", hop)));
            let mut line = Connection::open(&world.at(node)).unwrap();
            let all: Vec<u8> = (0..20)
                .flat_map(|n| {
                    let body = reserve(&format!("{node}/{n}")).to_string();
                    request("POST", "/api/sessions/ana/files/reserve", &headers, body.as_bytes())
                })
                .collect();
            line.send(&all).unwrap();
            for n in 0..20 {
                assert_eq!(line.receive(false).unwrap().ok()["filePath"], format!("{node}/{n}"));
            }
        }
    }
}
