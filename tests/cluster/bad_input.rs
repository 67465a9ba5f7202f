//! What can be wrong with a cluster: each is a sentence where an operator looks, and nothing is granted.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::http::{Address, Connection};
use crate::mint;
use crate::proxy::{Fate, Proxy};
use crate::world::{Run, World, has_etcd, until};

/// Starts a node that must give up, and returns what it said.
#[track_caller]
fn refused(world: &World) -> String {
    let output = world.serve(0).run();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// Writes a key with the JSON that etcd speaks over HTTP.
pub fn put(world: &World, key: &str, value: &str) {
    put_at(world.members[0].client_port(), key, value);
}

fn put_at(port: u16, key: &str, value: &str) {
    let body = json!({ "key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value) });
    etcd_call_at(port, "/v3/kv/put", &body);
}

/// The value of a key, which is JSON.
pub fn get(world: &World, key: &str) -> Value {
    let found = etcd_call(world, "/v3/kv/range", &json!({ "key": BASE64_STANDARD.encode(key) }));
    let value = BASE64_STANDARD.decode(found["kvs"][0]["value"].as_str().unwrap()).unwrap();
    serde_json::from_slice(&value).unwrap()
}

fn etcd_call(world: &World, path: &str, body: &Value) -> Value {
    etcd_call_at(world.members[0].client_port(), path, body)
}

fn etcd_call_at(port: u16, path: &str, body: &Value) -> Value {
    let mut line = Connection::open(&Address::Tcp(([127, 0, 0, 1], port).into())).unwrap();
    line.call("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes()).unwrap().ok()
}

fn reserve(path: &str) -> Value {
    json!({ "filePaths": [path], "ttlSeconds": 300 })
}

#[test]
fn a_prefix_with_foreign_keys_or_a_newer_format_is_refused() {
    if !has_etcd() {
        return;
    }
    let world = World::without_nodes(1);
    put(&world, "foreign/x", "1");
    put(&world, "newer/cluster", r#"{"program":"git-dibs","format":9,"secret":"x"}"#);
    put(&world, "other/cluster", r#"{"program":"another"}"#);
    for (prefix, sentence) in [
        ("/foreign", "has keys that git-dibs did not write, such as foreign/x"),
        ("/newer", "has format 9, and this git-dibs knows formats up to 1"),
        ("/other", "was not written by git-dibs"),
    ] {
        let address = world.address().replace("/dibs", prefix);
        for command in [world.serve(0), world.cluster(&["status"])] {
            let output = world.changed(&command, "--cluster", Some(&address)).run();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(sentence), "{said}");
        }
    }
}

#[test]
fn a_node_that_starts_while_another_begins_the_cluster_joins_it() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(1);
    let port = world.members[0].client_port();
    // The other node is there after this one has found that there is no cluster, and before it looks for foreign keys.
    let begin = move |path: &str, message: &[u8]| {
        if path.ends_with("/Range") && message.windows(6).any(|found| found == b"\x05dibs0") {
            put_at(port, "dibs/cluster", r#"{"program":"git-dibs","format":1,"secret":"0123"}"#);
        }
        Fate::Passes
    };
    let proxy = Proxy::start(&world.members, Box::new(begin));
    world.set_node_etcd(proxy.address("dibs"));
    world.start_node(0);
    assert_eq!(get(&world, "dibs/cluster")["secret"], "0123");
    world.session("ana").post("files/reserve", reserve("a")).ok();
}

#[test]
fn a_second_node_with_the_same_name_does_not_start() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    world.start_node(0);
    let output = world.changed(&world.serve(1), "--node", Some("n0")).run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("a node named n0 is in the cluster already"), "{said}");
    // Without keys that all nodes share.
    let said = String::from_utf8(world.changed(&world.serve(1), "--secret-file", None).run().stderr).unwrap();
    assert!(said.contains("all nodes of a cluster verify tokens with the same keys"), "{said}");
    world.session("ana").post("files/reserve", reserve("a")).ok();
}

#[test]
fn of_two_nodes_with_the_same_name_and_address_the_first_stops() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    world.start_node(0);
    world.leader();
    world.session("ana").post("files/reserve", reserve("a")).ok();
    let first = world.serve(0);
    let advertise = first.get_args().map(|arg| arg.to_str().unwrap()).skip_while(|arg| *arg != "--advertise").nth(1);
    let second = world.changed(&world.serve(1), "--node", Some("n0"));
    let mut second = world.changed(&second, "--advertise", advertise);
    world.start_node_with(1, &mut second);
    let ended = world.wait_for_node(0);
    assert!(!ended.status.success());
    assert!(ended.stderr.contains("another node with the name n0 has started at"), "{}", ended.stderr);
    assert_eq!(world.reservations().len(), 1, "the second one has it");
    world.session("bo").post("files/reserve", reserve("b")).ok();
}

#[test]
fn an_address_that_no_other_node_can_reach_is_said_everywhere() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(3);
    // Nothing listens there.
    let mut command = world.changed(&world.serve(0), "--advertise", Some("http://127.0.0.1:1"));
    world.start_node_with(0, &mut command);
    world.leader();
    world.start_node(1);
    // Another node listens there.
    let taken = world.node(1).url().to_owned();
    let mut command = world.changed(&world.serve(2), "--advertise", Some(&taken));
    world.start_node_with(2, &mut command);

    world.readyz(0, 200, "node n2 cannot be reached");
    world.readyz(1, 503, "node n0 cannot be reached");
    world.logged(1, "node n0 cannot be reached at http://127.0.0.1:1");
    world.logged(0, "node n1 answers there");
    until("the status has all of it", || {
        let text = world.status_text();
        let has = |sentence: &str| text.contains(sentence);
        let all = has("node n1: node n0 cannot be reached at http://127.0.0.1:1")
            && has("node n0: node n2 cannot be reached");
        (all && text.ends_with("exit 1")).then_some(())
    });
    // The leader itself works, and others say why they do not.
    world.session("ana").post_at(0, "files/reserve", reserve("a")).unwrap().ok();
    let refused = world.session("ana").post_at(1, "files/reserve", reserve("b")).unwrap();
    assert!(refused.status == 503 && refused.to_string().contains("node n0 cannot be reached"), "{refused}");
    refused.check_ground_rules();
}

#[test]
fn a_node_of_a_newer_version_is_said_and_the_format_stays() {
    if !has_etcd() {
        return;
    }
    let world = World::with(1);
    let format = || get(&world, "dibs/cluster")["format"].clone();
    assert_eq!(format(), 1);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let newer = json!({
        "name": "newer", "url": world.node(0).url(), "version": "9.9.9", "format": 9, "instance": "x", "keys": null,
        "clock_ms": now, "something": "new",
    });
    put(&world, "dibs/nodes/newer", &newer.to_string());
    world.readyz(0, 200, "node newer has the newer version 9.9.9");
    world.logged(0, "node newer has the newer version 9.9.9");
    let status = world.status_text();
    assert!(status.contains("node newer has the newer version 9.9.9; upgrade this node too"), "{status}");
    world.session("ana").post("files/reserve", reserve("a")).ok();
    assert_eq!(format(), 1, "what an older node can read");
}

#[test]
fn a_node_does_not_lead_while_an_older_one_could_not_read_what_it_writes() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    // A cluster of an older version, whose format this version does not write, and one of its nodes.
    put(&world, "dibs/cluster", r#"{"program":"git-dibs","format":0,"secret":"0123"}"#);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let older = json!({
        "name": "older", "url": "http://127.0.0.1:1", "version": "0.0.9", "format": 0, "instance": "x", "keys": null,
        "clock_ms": now,
    });
    put(&world, "dibs/nodes/older", &older.to_string());
    world.start_node(0);
    let sentence = "node older of version 0.0.9 knows formats up to 0, and this git-dibs writes none older than 1";
    world.readyz(0, 503, sentence);
    world.logged(0, sentence);
    until("the status says it", || world.status_text().contains(sentence).then_some(()));
    let refused = world.session("ana").post_at(0, "files/reserve", reserve("a")).unwrap();
    assert_eq!(refused.status, 503, "{refused}");
    assert_eq!((get(&world, "dibs/cluster")["format"].clone(), world.leader_now()), (json!(0), None));
    // It is upgraded: the cluster has the new format from now on, and its secret.
    etcd_call(&world, "/v3/kv/deleterange", &json!({ "key": BASE64_STANDARD.encode("dibs/nodes/older") }));
    world.readyz(0, 200, "leader");
    assert_eq!(get(&world, "dibs/cluster"), json!({ "program": "git-dibs", "format": 1, "secret": "0123" }));
    world.start_node(1);
    world.session("ana").post_at(1, "files/reserve", reserve("a")).unwrap().ok();
}

#[test]
fn clocks_that_are_hours_apart_end_nothing_early_and_are_said() {
    if !has_etcd() {
        return;
    }
    let Some(library) = crate::preload::library("clocks of nodes that are hours apart") else { return };
    let mut world = World::without_nodes(3);
    let hours = |node: usize| [0, 5, -5][node];
    for node in 0..3 {
        let clock = world.path(&format!("clock{node}"));
        std::fs::write(&clock, (hours(node) * 3600).to_string()).unwrap();
        let mut command = world.serve(node);
        command.env("LD_PRELOAD", library).env("DIBS_CLOCK", clock);
        world.start_node_with(node, &mut command);
    }
    // Tokens follow the wall clock, so these are valid for longer.
    let token = |id: &str| world.token(json!({ "sub": id, "iat": mint::now() - 30_000, "exp": mint::now() + 30_000 }));
    let call = |node: usize, id: &str, path: &str| {
        let target = format!("/api/sessions/{id}/files/reserve");
        until("the node serves", || {
            let body = json!({ "filePath": path, "ttlSeconds": 60 });
            let answer = world.call_at(&world.at(node), "POST", &target, &token(id), Some(&body)).ok()?;
            (answer.status != 503).then_some(answer)
        })
    };
    let mut fences = Vec::new();
    for node in [0, 1, 2, 1, 0, 2] {
        world.move_to(node);
        let path = format!("p{}", fences.len());
        // Through each node, whatever its clock says.
        let granted = call(fences.len() % 3, "ana", &path).ok();
        fences.push(granted["fence"].as_u64().unwrap());
        for n in 0..fences.len() {
            call(node, "bo", &format!("p{n}")).refused("RESOURCE_LOCKED");
        }
    }
    assert!(fences.is_sorted(), "{fences:?}");
    world.readyz(0, 200, "the clock of node n1 differs by");
    world.logged(0, "the clock of node n1 differs by");
    let status = world.status_text();
    assert!(status.contains("the clock of node n2 differs by"), "{status}");
}

#[test]
fn without_a_majority_of_etcd_nothing_is_decided_and_it_is_said() {
    if !has_etcd() {
        return;
    }
    let mut world = World::with(2);
    world.session("ana").post("files/reserve", reserve("a")).ok();
    let leader = world.leader();
    world.members[1..].iter_mut().for_each(crate::etcd::Member::kill);
    for node in 0..2 {
        world.readyz(node, 503, "no quorum");
        world.logged(node, "no quorum");
    }
    let status = world.status_text();
    assert!(status.contains("etcd did not answer") && !status.ends_with("exit 0"), "{status}");
    for node in 0..2 {
        for body in [reserve("a"), reserve("b")] {
            if let Ok(answer) = world.session("bo").post_at(node, "files/reserve", body) {
                assert_eq!(answer.status, 503, "{answer}");
                answer.check_ground_rules();
            }
        }
    }
    let metrics = world.call_at(&world.at(leader), "GET", "/metrics", "", None).unwrap();
    assert!(String::from_utf8_lossy(&metrics.body).contains("dibs_cluster_quorum 0"), "{metrics}");
    world.members[1].spawn();
    (0..2).for_each(|node| world.readyz(node, 200, "ready"));
    world.session("bo").post("files/reserve", reserve("a")).refused("RESOURCE_LOCKED");
    world.session("bo").post("files/reserve", reserve("b")).ok();
}

#[test]
fn etcd_that_does_not_answer_at_the_start_is_said() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(1);
    world.members.iter_mut().for_each(crate::etcd::Member::kill);
    let said = refused(&world);
    assert!(said.contains("etcd did not answer"), "{said}");
}

#[test]
fn etcd_that_is_full_grants_nothing_and_is_said() {
    if !has_etcd() {
        return;
    }
    let world = World::with(1);
    world.session("ana").post("files/reserve", reserve("a")).ok();
    // The alarm that etcd raises by itself when its quota is used up.
    let member = etcd_call(&world, "/v3/maintenance/status", &json!({}))["header"]["member_id"].clone();
    let alarm = |action: &str| {
        etcd_call(&world, "/v3/maintenance/alarm", &json!({ "action": action, "memberID": member, "alarm": "NOSPACE" }))
    };
    alarm("ACTIVATE");
    if let Ok(answer) = world.session("ana").post_at(0, "files/reserve", reserve("b")) {
        assert_eq!(answer.status, 503, "{answer}");
    }
    world.readyz(0, 503, "NOSPACE");
    world.logged(0, "NOSPACE");
    let status = world.status_text();
    assert!(status.contains("NOSPACE") && status.ends_with("exit 1"), "{status}");
    alarm("DEACTIVATE");
    world.session("bo").post("files/reserve", reserve("c")).ok();
    assert!(world.reservations().iter().any(|one| one["filePath"] == "a"));
}
