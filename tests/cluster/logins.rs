//! Browsers that sign in and out at any node.

use serde_json::{Value, json};

use crate::http::{Connection, Response, request};
use crate::world::{World, has_etcd, text, until};

/// Signs in at a node, and returns the answer and the cookie.
#[track_caller]
fn sign_in(world: &World, node: usize, body: &Value) -> (Value, String) {
    let answer = until("the node signs in", || {
        let answer = world.send_at(node, "POST", "/api/login", &[], body).unwrap();
        (answer.status != 503).then_some(answer)
    });
    let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {answer}")).to_owned();
    (answer.ok(), cookie.split(';').next().unwrap().to_owned())
}

fn with_cookie(world: &World, node: usize, method: &str, target: &str, cookie: &str) -> Response {
    world.send_at(node, method, target, &[("cookie", cookie)], &json!({})).unwrap()
}

#[test]
fn sessions_of_repositories_with_different_leaders_sign_in_at_every_node() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(2);
    world.add_repository("second");
    (0..2).for_each(|node| world.start_node(node));
    world.move_repository("repo", 0);
    world.move_repository("second", 1);
    for name in ["repo", "second"] {
        let id = format!("s-{name}");
        let token = world.token(json!({ "sub": id, "repo": name }));
        for node in 0..2 {
            let made = until("the node makes a code", || {
                let answer = world.call_at(&world.at(node), "POST", "/api/login/codes", &token, Some(&json!({})));
                answer.ok().filter(|answer| answer.status != 503)
            });
            let code = made.expect(201)["code"].clone();
            for body in [json!({ "code": code }), json!({ "token": token })] {
                let (login, cookie) = sign_in(&world, 1 - node, &body);
                assert_eq!((&login["sessionId"], &login["repositories"]), (&json!(id), &json!([name])));
                with_cookie(&world, node, "GET", "/api/reservations", &cookie).ok();
            }
            // It works once, at whatever node it is tried.
            let again = world.send_at(node, "POST", "/api/login", &[], &json!({ "code": code })).unwrap();
            again.refused("UNAUTHENTICATED");
        }
        let end = format!("/api/sessions/{id}/end");
        world.call_at(&world.at(0), "POST", &end, &token, Some(&json!({}))).unwrap().ok();
        for node in 0..2 {
            let ended = world.send_at(node, "POST", "/api/login", &[], &json!({ "token": token })).unwrap();
            ended.refused("SESSION_ENDED");
        }
    }
    // A token for all repositories.
    for node in 0..2 {
        let (login, _) = sign_in(&world, node, &json!({ "token": world.admin() }));
        assert_eq!(login["repositories"], json!(["repo", "second"]));
    }
}

#[test]
fn a_browser_that_signs_out_at_one_node_is_signed_out_at_all() {
    if !has_etcd() {
        return;
    }
    let mut world = World::new();
    let (_, cookie) = sign_in(&world, 0, &json!({ "token": world.admin() }));
    let works = |world: &World, node: usize| with_cookie(world, node, "GET", "/api/reservations", &cookie);
    for node in 0..3 {
        until("the node accepts the cookie", || (works(&world, node).status == 200).then_some(()));
    }
    // A stream that is open at another node ends with the login.
    let mut stream = Connection::open(&world.at(2)).unwrap();
    stream.send(&request("GET", "/api/events", &[("cookie", &cookie)], b"")).unwrap();
    assert_eq!(stream.head().unwrap().status, 200);
    with_cookie(&world, 1, "DELETE", "/api/login", &cookie).ok();
    works(&world, 1).refused("UNAUTHENTICATED");
    for node in [0, 2] {
        until("the node refuses the cookie", || (works(&world, node).status == 401).then_some(()));
        let who = with_cookie(&world, node, "GET", "/api/login", &cookie).ok();
        assert_eq!(who["login"], Value::Null);
    }
    while stream.chunk().is_ok_and(|chunk| chunk.is_some()) {}
    // A node that was not there hears of it when it starts, also one that has lost its own notes.
    world.kill_node(1);
    std::fs::remove_dir_all(world.repository(1).join(".git/dibs")).unwrap();
    world.start_node(1);
    until("the node has heard which browsers have signed out", || {
        let answer = works(&world, 1);
        assert_ne!(answer.status, 200, "{answer}");
        (answer.status == 401).then_some(())
    });
}

#[test]
fn without_etcd_a_node_accepts_no_cookie_and_says_why() {
    if !has_etcd() {
        return;
    }
    let mut world = World::with(2);
    let follower = world.follower();
    let (_, cookie) = sign_in(&world, follower, &json!({ "token": world.admin() }));
    let (_, other) = sign_in(&world, follower, &json!({ "token": world.admin() }));
    until("the node accepts the cookie", || {
        (with_cookie(&world, follower, "GET", "/api/login", &cookie).ok()["login"] != Value::Null).then_some(())
    });
    world.members.iter_mut().for_each(crate::etcd::Member::kill);
    until("the node cannot know which browsers have signed out", || {
        let answer = with_cookie(&world, follower, "GET", "/api/login", &cookie);
        (answer.status == 503 && answer.to_string().contains("which browsers have signed out")).then_some(())
    });
    let out = with_cookie(&world, follower, "DELETE", "/api/login", &other);
    assert!(out.status == 503 && out.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")), "{out}");
    assert!(text(&out.json()["error"]).contains("other nodes may accept a copy of its cookie"), "{out}");
    world.members.iter_mut().for_each(crate::etcd::Member::spawn);
    until("cookies are accepted again", || {
        let answer = with_cookie(&world, follower, "GET", "/api/login", &cookie);
        (answer.status == 200 && answer.json()["login"] != Value::Null).then_some(())
    });
    // The other node hears of it once etcd answers.
    until("the other node refuses it", || {
        (with_cookie(&world, 1 - follower, "GET", "/api/reservations", &other).status == 401).then_some(())
    });
}
