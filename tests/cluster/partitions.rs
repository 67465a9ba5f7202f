//! The network fails between machines that all run. What is sent is lost without a word, which is worse than a process that
//! is killed: the system of a killed process closes its connections. `kill` has the clients and what they check.

use serde_json::json;

use crate::faults::some_answers;
use crate::kill::{is_closed, work_through_failures};
use crate::network::{Network, Traffic, in_network};
use crate::world::{World, has_etcd, until};

fn test(body: impl FnOnce(World, &Network) + Send + 'static) {
    if has_etcd() {
        in_network(body);
    }
}

#[test]
fn a_leader_that_is_cut_off_from_etcd_is_replaced() {
    test(|world, network| {
        work_through_failures(world, 2, |world, field| {
            some_answers(world, field);
            let leader = world.leader();
            let cut = network.cut_node(leader, Traffic::Etcd);
            let next = world.other_leader(leader);
            // What the next one grants, the old one does not deny.
            let held = json!({ "filePath": "deploy://cut", "ttlSeconds": 60 });
            until("the next leader grants", || {
                let answer = world.session("cut").post_at(next, "files/reserve", held.clone()).ok()?;
                (answer.status == 200).then_some(())
            });
            let asked =
                world.session("other").post_at(leader, "files/check-conflicts", json!({ "paths": ["deploy://cut"] }));
            if let Ok(answer) = asked {
                let knows = answer.status == 503 || answer.json()["conflicts"][0]["reservedBy"] == "cut";
                assert!(knows, "the old leader says {answer}");
            }
            world.readyz(leader, 503, "no quorum");
            world.session("cut").post_at(next, "files/release-all", json!({})).unwrap().ok();
            drop(cut);
            world.readyz(leader, 200, "follower");
            some_answers(world, field);
        });
    });
}

#[test]
fn a_leader_that_is_cut_off_from_the_other_nodes_leads_on_and_they_say_so() {
    test(|world, network| {
        let mut round = 0;
        work_through_failures(world, 2, |world, field| {
            some_answers(world, field);
            let world: &World = world;
            let (leader, follower) = (world.leader(), world.follower());
            round += 1;
            let key = |n: u32| json!({ "filePath": format!("deploy://cut-{round}-{n}"), "ttlSeconds": 60 });
            // A connection from node to node is open, and something waits at its other end.
            world.session("cut").post_at(follower, "files/reserve", key(0)).unwrap().ok();
            let (bo, at) = (world.session("bo").token(), world.at(follower));
            let cut = std::thread::scope(|scope| {
                let mut wait = key(0);
                wait["waitSeconds"] = 300.into();
                let waits =
                    scope.spawn(move || world.call_at(&at, "POST", "/api/sessions/bo/files/reserve", &bo, Some(&wait)));
                until("bo waits", || {
                    let answer =
                        world.call_at(&world.at(leader), "GET", "/api/waits", &world.reader(), None).ok()?.ok();
                    answer["waits"].as_array()?.iter().any(|wait| wait["sessionId"] == "bo").then_some(())
                });
                let cut = network.cut_node(leader, Traffic::Nodes);
                // Told to ask again, or cut off; never silence for as long as it would wait.
                match waits.join().unwrap() {
                    Ok(answer) => assert_eq!(answer.status, 503, "{answer}"),
                    Err(error) => assert!(is_closed(&error), "silence: {error}"),
                }
                cut
            });
            // Those who reach the leader are served, and those who do not hear why.
            let epoch = world.status().unwrap()["repositories"][0]["epoch"].clone();
            world.session("cut").post_at(leader, "files/reserve", key(1)).unwrap().ok();
            until("a follower says that the leader cannot be reached", || {
                let answer = world.session("cut").post_at(follower, "files/reserve", key(2)).ok()?;
                assert_eq!(answer.status, 503, "{answer}");
                answer.check_ground_rules();
                answer.to_string().contains(&format!("node n{leader} ")).then_some(())
            });
            world.readyz(leader, 200, "leader");
            world.readyz(follower, 503, "cannot be reached");
            until("the status says so too", || {
                let problems = world.status()?["problems"].to_string();
                problems.contains(&format!("node n{leader} cannot be reached")).then_some(())
            });
            assert_eq!(world.status().unwrap()["repositories"][0]["epoch"], epoch, "nothing moved");
            drop(cut);
            world.readyz(follower, 200, "follower");
            world.session("cut").post("files/release-all", json!({})).ok();
            world.session("bo").post("files/release-all", json!({})).ok();
            some_answers(world, field);
        });
    });
}

#[test]
fn a_member_of_etcd_is_cut_off_from_the_others() {
    test(|world, network| {
        let mut turn = 0;
        work_through_failures(world, 2, |world, field| {
            some_answers(world, field);
            let status = until("etcd has a leader", || world.status());
            let members = status["etcd"].as_array().unwrap();
            let leads = members.iter().position(|member| member["isLeader"] == true).unwrap_or(0);
            turn += 1;
            // Nodes reach it and it knows nothing; or nodes do not reach it.
            let traffic = if turn % 2 == 0 { Traffic::Etcd } else { Traffic::Members };
            let _cut = network.cut_member(leads, traffic);
            some_answers(world, field);
        });
    });
}
