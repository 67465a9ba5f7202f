//! Several repositories on one cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::{Run, World, has_etcd, until};

/// One call of a session of this repository, at a node, repeated while no node leads.
fn reserve(world: &World, node: usize, repository: &str, session: &str, path: &str) -> Value {
    let token = world.token(json!({ "sub": session, "repo": repository }));
    let target = format!("/api/sessions/{session}/files/reserve");
    let body = json!({ "filePath": path, "ttlSeconds": 300 });
    let answer = until("the node answers", || {
        let answer = world.call_at(&world.at(node), "POST", &target, &token, Some(&body)).ok()?;
        (answer.status != 503).then_some(answer)
    });
    answer.json()
}

fn held(world: &World, node: usize, repository: &str) -> Vec<String> {
    let target = format!("/api/reservations?repo={repository}");
    let list = until("the node answers", || {
        let answer = world.call_at(&world.at(node), "GET", &target, &world.admin(), None).ok()?;
        (answer.status == 200).then(|| answer.ok())
    });
    let list = list["reservations"].as_array().unwrap().iter();
    list.map(|one| format!("{} {}", one["filePath"], one["sessionId"])).collect()
}

/// Which node leads each repository, once each has a leader among these nodes.
fn leaders(world: &World, among: &[usize]) -> BTreeMap<String, usize> {
    until("every repository has a leader", || {
        let status = world.status()?;
        let leader = |repository: &Value| {
            let node = repository["leader"].as_str()?.strip_prefix('n')?.parse().ok()?;
            let name = repository["name"].as_str()?.to_owned();
            among.contains(&node).then_some((name, node))
        };
        status["repositories"].as_array()?.iter().map(leader).collect()
    })
}

#[test]
fn repositories_with_different_leaders_know_nothing_of_each_other() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(3);
    world.add_repository("second");
    (0..3).for_each(|node| world.start_node(node));
    leaders(&world, &[0, 1, 2]);
    world.move_repository("repo", 0);
    world.move_repository("second", 1);
    for node in 0..3 {
        let health = world.call_at(&world.at(node), "GET", "/readyz", "", None).unwrap().ok();
        let expected = json!([2, usize::from(node < 2), 0]);
        let cluster = &health["cluster"];
        assert_eq!(json!([cluster["repositories"], cluster["leads"], cluster["withoutLeader"]]), expected, "{health}");
        // The same path in both, through every node.
        let path = format!("p{node}");
        for (repository, holder) in [("repo", "ana"), ("second", "bo")] {
            assert_eq!(reserve(&world, node, repository, holder, &path)["filePath"], path);
            let refused = reserve(&world, (node + 1) % 3, repository, "carl", &path);
            assert_eq!(refused["code"], "RESOURCE_LOCKED", "{refused}");
        }
    }
    // A token of one repository is worth nothing in the other, at whatever node.
    let token = world.token(json!({ "sub": "ana", "repo": "repo" }));
    for node in 0..3 {
        let answer = world.call_at(&world.at(node), "GET", "/api/reservations?repo=second", &token, None);
        answer.unwrap().refused("FORBIDDEN");
    }

    // The leader of one is killed; the other goes on without a new epoch.
    let epoch = |name: &str| {
        let status = world.status().unwrap();
        let all = status["repositories"].as_array().unwrap();
        all.iter().find(|repository| repository["name"] == name).unwrap()["epoch"].clone()
    };
    let before = epoch("second");
    world.node(0).signal(libc::SIGKILL);
    let now = leaders(&world, &[1, 2]);
    assert_eq!(now["second"], 1);
    assert_eq!(epoch("second"), before);
    for node in [1, 2] {
        assert_eq!(held(&world, node, "repo"), [r#""p0" "ana""#, r#""p1" "ana""#, r#""p2" "ana""#]);
        assert_eq!(held(&world, node, "second"), [r#""p0" "bo""#, r#""p1" "bo""#, r#""p2" "bo""#]);
    }
}

#[test]
fn the_repositories_of_a_node_that_is_gone_are_spread_over_the_others() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(3);
    (0..7).for_each(|n| world.add_repository(&format!("r{n}")));
    world.start_node(0);
    // The first node leads all, and nothing moves by itself.
    leaders(&world, &[0]);
    until("all repositories are known", || (leaders(&world, &[0]).len() == 8).then_some(()));
    world.start_node(1);
    world.start_node(2);
    assert!(leaders(&world, &[0, 1, 2]).values().all(|node| *node == 0));
    world.node(0).signal(libc::SIGKILL);
    let now = leaders(&world, &[1, 2]);
    let of_first = now.values().filter(|node| **node == 1).count();
    assert!((3..=5).contains(&of_first) && now.len() == 8, "{now:?}");
}

#[test]
fn a_repository_does_not_move_to_a_node_that_does_not_serve_it() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    world.start_node(1);
    world.add_repository("second");
    world.start_node(0);
    let before = until("both repositories have a leader", || {
        Some(leaders(&world, &[0, 1])).filter(|leaders| leaders.len() == 2)
    });
    assert_eq!(before["second"], 0);
    let refused = world.cluster(&["move", "second", "n1"]).run();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("node n1 does not serve second"), "{said}");
    assert_eq!(leaders(&world, &[0, 1]), before);
}
