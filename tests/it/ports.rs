//! Ports: a block for a session that no other session has.

use std::collections::BTreeSet;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::mint;
use crate::world::{Session, World, secret_in, time, until};

fn ports(reply: &Value) -> Vec<u16> {
    reply["ports"].as_array().unwrap().iter().map(|port| port.as_u64().unwrap() as u16).collect()
}

fn allocate(session: &Session<'_>, body: Value) -> Vec<u16> {
    ports(&session.post("ports", body).ok())
}

#[test]
fn a_session_gets_four_ports_in_a_row_with_lines_for_its_environment() {
    let world = World::new();
    let ana = world.session_with("Ana.1", json!({ "name": "Ana" }));
    let none = json!({ "ports": [], "expiresAt": null, "ttlSeconds": null, "version": 0, "env": {} });
    assert_eq!(ana.get("ports").ok(), none);
    let reply = ana.post("ports", json!({ "purpose": "the stack", "ttlSeconds": 120 })).ok();
    assert_eq!((&reply["ttlSeconds"], &reply["version"]), (&json!(120), &json!(0)));
    let got = ports(&reply);
    assert_eq!(got, (got[0]..got[0] + 4).collect::<Vec<_>>());
    assert!(got.iter().all(|port| (20_000..30_000).contains(port)), "{got:?}");
    let expected = json!({
        "DB_PORT": got[0].to_string(), "REST_PORT": got[1].to_string(), "REALTIME_PORT": got[2].to_string(),
        "API_PORT": got[3].to_string(), "COMPOSE_PROJECT_NAME": reply["env"]["COMPOSE_PROJECT_NAME"],
    });
    assert_eq!(reply["env"], expected);
    assert!(reply["env"]["COMPOSE_PROJECT_NAME"].as_str().unwrap().starts_with("dibs-ana-1-"), "{reply}");
    assert_eq!(ana.get("ports").ok(), reply);
    // They are reservations like any other: in lists, in the history, in conflicts.
    let listed = world.reservations();
    assert_eq!(listed.len(), 4);
    assert_eq!(
        (&listed[0]["filePath"], &listed[0]["reason"]),
        (&json!(format!("port:{}", got[0])), &json!("the stack"))
    );
    let history = world.get(&format!("/api/history?path=port:{}", got[1]), &world.reader()).ok();
    assert_eq!(history["events"][0]["event"], "reserved", "{history}");
}

#[test]
fn a_session_that_asks_again_gets_the_same_ports_for_longer() {
    let world = World::new();
    let ana = world.session("ana");
    let first = ana.post("ports", json!({ "ttlSeconds": 60 })).ok();
    let again = ana.post("ports", json!({ "ttlSeconds": 600 })).ok();
    assert_eq!(first["ports"], again["ports"]);
    assert!(time(&again["expiresAt"]) > time(&first["expiresAt"]));
    assert_eq!(allocate(&ana, json!({ "count": 2 })), ports(&first), "fewer are the same");
    let more = allocate(&ana, json!({ "count": 6 }));
    assert_eq!((more.len(), &more[..4]), (6, &*ports(&first)));
    let reply = ana.get("ports").ok();
    assert_eq!(
        (&reply["env"]["PORT_5"], &reply["env"]["PORT_6"]),
        (&json!(more[4].to_string()), &json!(more[5].to_string()))
    );
}

#[test]
fn no_port_is_allocated_twice_and_all_are_freed() {
    let world = World::new();
    let sessions: Vec<_> = (0..8).map(|n| world.session(&format!("s{n}"))).collect();
    let all: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions.iter().map(|one| scope.spawn(|| allocate(one, json!({})))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 32, "{all:?}");
    let taken = ports(&sessions[0].get("ports").ok());
    let freed = world.delete("/api/sessions/s0/ports", &sessions[0].token, json!({})).ok();
    assert_eq!(freed["releasedCount"], 4);
    let again = world.delete("/api/sessions/s0/ports", &sessions[0].token, json!({})).ok();
    assert_eq!(again, json!({ "ok": true, "released": false, "releasedCount": 0 }));
    assert_eq!(allocate(&world.session("late"), json!({})), taken, "what is free is used again");
    sessions[1].end();
    assert_eq!(world.reservations().len(), 28, "the end of a session frees its ports");
    let short = world.session("short");
    short.post("ports", json!({ "ttlSeconds": 1 })).ok();
    until("the ports expire", || short.get("ports").ok()["ports"].as_array().unwrap().is_empty().then_some(()));
}

#[test]
fn no_port_is_allocated_twice_by_two_repositories_of_one_server() {
    let (mut world, data) = World::of_two(["one", "two"]);
    let secret = secret_in(&data);
    world.configure("[policy]\nports = { first = 25000, last = 25031, block = 4, check = false }\n");
    world.stop();
    world.start();
    let token = |repo: &str, id: &str| mint::hs256(&mint::claims(json!({ "sub": id, "repo": repo })), &secret);
    let allocate =
        |repo: &str, id: &str, body: Value| world.post(&format!("/api/sessions/{id}/ports"), &token(repo, id), body);
    let all: Vec<u16> = std::thread::scope(|scope| {
        let ask = |n: usize| ports(&allocate(["one", "two"][n % 2], &format!("s{n}"), json!({})).ok());
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || ask(n))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 32, "{all:?}");
    allocate("one", "late", json!({ "count": 1 })).refused("QUOTA_EXCEEDED");
    // What the other repository frees can be had, also after a restart.
    let freed = ports(&world.get("/api/sessions/s1/ports", &token("two", "s1")).ok());
    world.delete("/api/sessions/s1/ports", &token("two", "s1"), json!({})).ok();
    world.stop();
    world.start();
    let late = world.post("/api/sessions/late/ports", &token("one", "late"), json!({})).ok();
    assert_eq!(ports(&late), freed);
}

#[test]
fn variables_of_ports_keep_their_meaning_when_others_come_and_go() {
    let mut world = World::configured("[policy]\nports = { first = 26000, last = 26015, block = 4, check = false }\n");
    let variables = |world: &World| world.session("bo").get("ports").ok()["env"].clone();
    let first = allocate(&world.session("ana"), json!({}));
    allocate(&world.session("bo"), json!({}));
    let before = variables(&world);
    // Ports before those of the session become free, and it asks for more.
    world.session("ana").end();
    let more = world.session("bo").post("ports", json!({ "count": 6 })).ok();
    assert!(first.contains(&ports(&more)[4]) || ports(&more)[4] < ports(&more)[0], "{more}");
    for (name, port) in before.as_object().unwrap() {
        assert_eq!(&more["env"][name], port, "{name}");
    }
    // Two of them are taken away.
    let lost = ["DB_PORT", "REALTIME_PORT"].map(|name| format!("port:{}", before[name].as_str().unwrap()));
    world.session("bo").post("files/release", json!({ "filePaths": lost })).ok();
    let kept = |world: &World| {
        let env = variables(world);
        assert_eq!(["DB_PORT", "REALTIME_PORT"].map(|name| env[name].is_null()), [true, true], "{env}");
        ["REST_PORT", "API_PORT", "PORT_5", "PORT_6", "COMPOSE_PROJECT_NAME"].map(|name| env[name].clone())
    };
    let then = kept(&world);
    let expected =
        ["REST_PORT", "API_PORT", "PORT_5", "PORT_6", "COMPOSE_PROJECT_NAME"].map(|name| more["env"][name].clone());
    assert_eq!(then, expected);
    world.stop();
    world.start();
    assert_eq!(kept(&world), expected);
    let again = world.session("bo").post("ports", json!({ "count": 6 })).ok();
    assert_eq!(again["env"].as_object().unwrap().len(), 7, "{again}");
    assert_eq!(ports(&again)[0].to_string(), again["env"]["DB_PORT"].as_str().unwrap());
    assert_eq!(
        ["REST_PORT", "API_PORT"].map(|name| &again["env"][name]),
        ["REST_PORT", "API_PORT"].map(|name| &before[name])
    );
}

#[test]
fn a_port_that_is_in_use_on_this_machine_is_skipped() {
    let config = "[policy]\nports = { first = 23000, last = 23999, block = 4 }\n";
    let world = World::configured(config);
    let ana = world.session("ana");
    let first = allocate(&ana, json!({}))[0];
    ana.end();
    let Ok(listener) = TcpListener::bind(("127.0.0.1", first + 1)) else { return };
    let bo = world.session("bo");
    assert_eq!(allocate(&bo, json!({})), (first + 2..first + 6).collect::<Vec<_>>());
    bo.end();
    drop(listener);
    let unchecked = World::configured(&config.replace("}", ", check = false }"));
    let cy = unchecked.session("cy");
    let first = allocate(&cy, json!({}))[0];
    cy.end();
    let _listener = TcpListener::bind(("127.0.0.1", first));
    assert_eq!(allocate(&unchecked.session("di"), json!({}))[0], first);
}

#[test]
fn servers_of_different_repositories_begin_at_different_ports() {
    let first = |world: &World| allocate(&world.session("ana"), json!({}))[0];
    let starts: BTreeSet<u16> = (0..3).map(|_| first(&World::new())).collect();
    assert!(starts.len() > 1, "{starts:?}");
}

#[test]
fn a_full_range_is_said_to_be_full() {
    let world = World::configured("[policy]\nports = { first = 24000, last = 24005, block = 4, check = false }\n");
    assert_eq!(allocate(&world.session("ana"), json!({})).len(), 4);
    let answer = world.session("bo").post("ports", json!({}));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(answer.refused("QUOTA_EXCEEDED")["limit"], 6);
    assert_eq!(allocate(&world.session("bo"), json!({ "count": 2 })).len(), 2);
}

#[test]
fn ports_are_allocated_and_not_reserved() {
    let world = World::new();
    let ana = world.session("ana");
    let refusal = ana.reserve(json!({ "filePath": "port:20004" })).refused("OPERATION_NOT_PERMITTED");
    assert!(refusal["error"].as_str().unwrap().contains("/ports"), "{refusal}");
    for key in ["env:8080", "env:port-8080"] {
        assert!(
            ana.reserve(json!({ "filePath": key })).refused("INVALID_KEY")["error"]
                .to_string()
                .contains("git dibs ports")
        );
    }
    for count in [0, -1, 65] {
        assert_eq!(ana.post("ports", json!({ "count": count })).refused("INVALID_REQUEST")["field"], "count");
    }
    ana.post("ports", json!({ "ttlSeconds": 28_801 })).refused("TTL_OUT_OF_RANGE");
    let long = ana.post("ports", json!({ "purpose": "x".repeat(1001) })).refused("INVALID_REQUEST");
    assert_eq!(long["field"], "purpose");
    world.post("/api/sessions/bo/ports", &ana.token, json!({})).refused("FORBIDDEN");
    world.post("/api/sessions/ana/ports", &world.reader(), json!({})).refused("FORBIDDEN");
    world.get("/api/sessions/ana/ports", &world.reader()).ok();
}
