//! What nodes do for each other while all of them run: forwarding, moving, stopping, and what operators see.

use serde_json::json;

use crate::http::Connection;
use crate::world::{Run, World, has_etcd, text, until};

fn reserve(path: &str) -> serde_json::Value {
    json!({ "filePaths": [path], "ttlSeconds": 60 })
}

#[test]
fn every_node_answers_for_the_repository_and_all_tell_the_same() {
    if !has_etcd() {
        return;
    }
    let world = World::new();
    let leader = world.leader();
    for node in 0..3 {
        let session = world.session(&format!("s{node}"));
        let granted = session.post_at(node, "files/reserve", reserve(&format!("src/{node}.rs"))).unwrap().ok();
        assert_eq!(granted["reserved"][0], format!("src/{node}.rs"));
        // Told to one node, known to all.
        let other = (node + 1) % 3;
        let refused =
            world.session("other").post_at(other, "files/reserve", reserve(&format!("src/{node}.rs"))).unwrap();
        refused.refused("RESOURCE_LOCKED");
    }
    for node in 0..3 {
        let health = world.call_at(&world.at(node), "GET", "/readyz", "", None).unwrap().ok();
        let role = if node == leader { "leader" } else { "follower" };
        assert_eq!((text(&health["status"]), text(&health["cluster"]["role"])), ("ready", role));
        let metrics = world.call_at(&world.at(node), "GET", "/metrics", "", None).unwrap();
        assert!(
            String::from_utf8_lossy(&metrics.body)
                .contains(&format!("dibs_cluster_leads{{repo=\"repo\"}} {}", u8::from(node == leader)))
        );
    }
    let status = world.status().unwrap();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(status["repositories"][0]["leader"], format!("n{leader}"));
    assert!(status["repositories"][0]["head"].as_u64().unwrap() >= 3, "{status}");
    assert_eq!(status["etcd"].as_array().unwrap().iter().filter(|member| member["isLeader"] == true).count(), 1);
    assert_eq!(status["problems"], json!([]));
}

#[test]
fn a_request_hops_once_and_a_hop_header_of_a_client_means_nothing() {
    if !has_etcd() {
        return;
    }
    let world = World::new();
    let follower = world.follower();
    let session = world.session("ana");
    let bearer = format!("Bearer {}", session.token());
    let headers =
        [("authorization", &*bearer), ("content-type", "application/json"), ("dibs-hop", "n0 0000000000000000")];
    let mut line = Connection::open(&world.at(follower)).unwrap();
    let body = reserve("a").to_string();
    let answer = line.call("POST", "/api/sessions/ana/files/reserve", &headers, body.as_bytes()).unwrap();
    answer.ok();
    let bad = world.call_at(&world.at(follower), "POST", "/api/sessions/ana/files/reserve", "x", Some(&reserve("a")));
    assert_eq!(bad.unwrap().status, 401, "a bad token goes no further");
}

#[test]
fn a_wait_through_a_follower_is_granted_when_the_holder_releases() {
    if !has_etcd() {
        return;
    }
    let world = World::new();
    let follower = world.follower();
    world.session("ana").post("files/reserve", reserve("a")).ok();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let body = json!({ "filePaths": ["a"], "ttlSeconds": 60, "waitSeconds": 30 });
            world.session("bo").post_at(follower, "files/reserve", body).unwrap()
        });
        until("bo waits", || {
            let list = world.get("/api/waits", &world.reader()).ok();
            (!list["waits"].as_array()?.is_empty()).then_some(())
        });
        world.session("ana").post("files/release", json!({ "filePaths": ["a"] })).ok();
        waits.join().unwrap().ok();
    });
}

#[test]
fn a_repository_moves_to_the_node_that_an_operator_names() {
    if !has_etcd() {
        return;
    }
    let world = World::new();
    world.session("ana").post("files/reserve", reserve("a")).ok();
    let (leader, follower) = (world.leader(), world.follower());
    let name = format!("n{follower}");
    let moved = world.dibs(&["cluster", "move", "repo", &name, "--cluster", &world.address()]).run();
    assert!(moved.status.success(), "{moved:?}");
    assert_eq!(world.leader_now(), Some(follower), "the command waits until the node leads, and {leader} does not");
    assert_eq!(world.reservations().len(), 1, "what was held is held");
    for (repository, node, sentence) in
        [("repo", "n9", "there is no node n9 in the cluster now"), ("other", "n0", "there is no repository other")]
    {
        let refused = world.dibs(&["cluster", "move", repository, node, "--cluster", &world.address()]).run();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(sentence), "{said}");
    }
}

#[test]
fn a_node_that_stops_hands_over_at_once_and_the_ledger_goes_on_elsewhere() {
    if !has_etcd() {
        return;
    }
    let mut world = World::new();
    world.session("ana").post("files/reserve", reserve("a")).ok();
    let leader = world.leader();
    let ended = world.stop_node(leader);
    assert!(ended.status.success(), "{}", ended.stderr);
    let next = world.leader_now().expect("the next one leads before the last has ended, or right after");
    assert_ne!(next, leader);
    world.session("bo").post("files/reserve", reserve("b")).ok();
    let ledger = world.repository(next).join(".git/dibs/ledger.git");
    until("the ledger of the new leader has both", || {
        let shown = std::process::Command::new("git")
            .args(["--git-dir", ledger.to_str().unwrap(), "ls-tree", "--name-only", "-r", "ledger"])
            .output()
            .ok()?;
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        (shown.lines().any(|name| name == "a") && shown.lines().any(|name| name == "b")).then_some(())
    });
}

#[test]
fn a_journal_goes_into_a_cluster_and_out_of_it() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(1);
    let address = world.address();
    // A server of its own first.
    let alone = world.path("alone");
    let repository = world.repository(0).display().to_string();
    let mut serve =
        world.dibs(&["serve", "--json", "--listen", "127.0.0.1:0", "--repo", &format!("repo={repository}")]);
    serve.arg("--data").arg(&alone).arg("--secret-file").arg(world.path("secret"));
    let server = crate::support::server::Server::start(&mut serve).unwrap_or_else(|ended| panic!("{}", ended.stderr));
    let session = world.session("ana");
    let target = "/api/sessions/ana/files/reserve";
    let at = crate::http::Address::Tcp(server.tcp());
    let granted = world.call_at(&at, "POST", target, &session.token(), Some(&reserve("a"))).unwrap().ok();
    let fence = granted["reservations"][0]["fence"].as_u64().unwrap();
    server.signal(libc::SIGTERM);
    server.wait();

    let data = alone.display().to_string();
    let import =
        |world: &World| world.dibs(&["cluster", "import", &data, "--repo", "repo", "--cluster", &address]).run();
    let imported = import(&world);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let status = world.status_text();
    assert!(status.contains("repository repo: led by no node"), "it is known before a node serves it: {status}");
    let again = import(&world);
    assert!(String::from_utf8_lossy(&again.stderr).contains("has a journal of repo already"));
    world.start_node(0);
    world.leader();
    let held = world.reservations();
    assert_eq!((held.len(), held[0]["fence"].as_u64()), (1, Some(fence)), "what was held is held, with its fence");
    let next = world.session("bo").post("files/reserve", reserve("b")).ok();
    let next = next["reservations"][0]["fence"].as_u64().unwrap();
    assert!(next > fence && next > 1 << 40, "numbers continue in a new generation: {next}");

    let out = world.path("out").display().to_string();
    let exported = world.dibs(&["cluster", "export", &out, "--repo", "repo", "--cluster", &address, "--json"]).run();
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let exported: serde_json::Value = serde_json::from_slice(&exported.stdout).unwrap();
    assert!(exported["last"].as_u64().unwrap() >= next, "{exported}");
    assert!(exported["next"].as_u64().unwrap() > next + (1 << 39), "fences of the copy are above those of the cluster");
    let checked = world.dibs(&["db", "check", "--data", &out]).run();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_ledgers_of_all_nodes_have_no_gap_after_takeovers() {
    if !has_etcd() {
        return;
    }
    let mut world = World::with(2);
    let mut count = 0;
    let mut some = |world: &World| {
        for _ in 0..40 {
            count += 1;
            world.session(&format!("s{}", count % 3)).post("files/reserve", reserve(&format!("dir/{count}"))).ok();
            world
                .session(&format!("s{}", count % 3))
                .post("files/release", json!({ "filePath": format!("dir/{count}") }))
                .ok();
        }
    };
    let first = world.leader();
    some(&world);
    // A takeover after a kill, and back: the first one has missed what the other led.
    world.kill_node(first);
    let second = world.other_leader(first);
    some(&world);
    world.start_node(first);
    world.move_to(first);
    some(&world);
    world.move_to(second);
    some(&world);
    let head = world.get("/api/history?limit=1", &world.reader()).ok()["events"][0]["seq"].as_u64().unwrap();
    for node in [second, first] {
        // The ledger of a node is written while it leads.
        if node == first {
            world.move_to(first);
        }
        let ledger = world.repository(node).join(".git/dibs/ledger.git");
        until("the ledger has everything", || {
            let mut log = world.command("git");
            log.arg("--git-dir").arg(&ledger).args([
                "log",
                "-1",
                "--format=%(trailers:key=Dibs-Seq,valueonly)",
                "ledger",
            ]);
            let tip: u64 = String::from_utf8(log.run().stdout).unwrap().trim().parse().ok()?;
            (tip >= head).then_some(())
        });
        let mut verify = world.dibs(&["ledger", "verify", "--json"]);
        let verified = verify.current_dir(world.repository(node)).run();
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.success(), "{said}{}", String::from_utf8_lossy(&verified.stderr));
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(report["missing"], json!([]), "{said}");
        assert!(report["last"].as_u64().unwrap() >= head && report["events"] == report["last"], "{said} up to {head}");
    }
}
