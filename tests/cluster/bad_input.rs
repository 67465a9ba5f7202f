//! What can be wrong with a cluster: each is a sentence where an operator looks, and nothing is granted.

use crate::world::{Run, World, has_etcd, until};

/// Starts a node that must give up, and returns what it said.
#[track_caller]
fn refused(world: &World) -> String {
    let output = world.serve(0).run();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_node_that_cannot_join_says_why() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    // Foreign keys.
    let address = world.address();
    let port = world.members[0].client_port();
    let put = r#"{"key":"Zm9yZWlnbi94","value":"MQ=="}"#;
    let mut line = crate::http::Connection::open(&crate::http::Address::Tcp(([127, 0, 0, 1], port).into())).unwrap();
    line.call("POST", "/v3/kv/put", &[("content-type", "application/json")], put.as_bytes()).unwrap();
    let output = world.dibs(&["cluster", "status", "--cluster", &address.replace("/dibs", "/foreign")]).run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("has keys that git-dibs did not write, such as foreign/x"), "{said}");
    // A newer format: {"program":"git-dibs","format":9,"secret":"x"} at newer/cluster.
    let put =
        r#"{"key":"bmV3ZXIvY2x1c3Rlcg==","value":"eyJwcm9ncmFtIjoiZ2l0LWRpYnMiLCJmb3JtYXQiOjksInNlY3JldCI6IngifQ=="}"#;
    line.call("POST", "/v3/kv/put", &[("content-type", "application/json")], put.as_bytes()).unwrap();
    let output = world.dibs(&["cluster", "status", "--cluster", &address.replace("/dibs", "/newer")]).run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("has format 9, and this git-dibs knows formats up to 1"), "{said}");
    // Two nodes with one name.
    world.start_node(0);
    let twin_args: Vec<String> = world.serve(1).get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let twin_args: Vec<String> =
        twin_args.into_iter().map(|arg| if arg == "n1" { "n0".to_owned() } else { arg }).collect();
    let twin_args: Vec<&str> = twin_args.iter().map(String::as_str).collect();
    let output = world.dibs(&twin_args).run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("a node named n0 is in the cluster already"), "{said}");
    // Without keys that all nodes share.
    let without: Vec<String> = world.serve(1).get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let secret = without.iter().position(|arg| arg == "--secret-file").unwrap();
    let without: Vec<&str> =
        without.iter().enumerate().filter(|(n, _)| *n != secret && *n != secret + 1).map(|(_, arg)| &**arg).collect();
    let said = String::from_utf8(world.dibs(&without).run().stderr).unwrap();
    assert!(said.contains("all nodes of a cluster verify tokens with the same keys"), "{said}");
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
    let reserve = |path: &str| serde_json::json!({ "filePaths": [path], "ttlSeconds": 300 });
    world.session("ana").post("files/reserve", reserve("a")).ok();
    // The alarm that etcd raises by itself when its quota is used up.
    let port = world.members[0].client_port();
    let mut line = crate::http::Connection::open(&crate::http::Address::Tcp(([127, 0, 0, 1], port).into())).unwrap();
    let member = line.call("POST", "/v3/maintenance/status", &[("content-type", "application/json")], b"{}").unwrap();
    let member = member.json()["header"]["member_id"].as_str().unwrap().to_owned();
    let alarm = |action: &str| format!(r#"{{"action":"{action}","memberID":"{member}","alarm":"NOSPACE"}}"#);
    let json = [("content-type", "application/json")];
    line.call("POST", "/v3/maintenance/alarm", &json, alarm("ACTIVATE").as_bytes()).unwrap();
    let _ = world.session("ana").post_at(0, "files/reserve", reserve("b"));
    until("the node says that etcd is full", || {
        let answer = world.call_at(&world.at(0), "GET", "/readyz", "", None).ok()?;
        (answer.status == 503 && answer.to_string().contains("NOSPACE")).then_some(())
    });
    line.call("POST", "/v3/maintenance/alarm", &json, alarm("DEACTIVATE").as_bytes()).unwrap();
    world.session("bo").post("files/reserve", reserve("c")).ok();
    assert!(world.reservations().iter().any(|one| one["filePath"] == "a"));
}
