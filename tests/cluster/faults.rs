//! Failures of nodes and of etcd while clients work through all nodes. `kill` has the clients and what they check: nothing
//! acknowledged is lost, nothing is held twice, fences only grow.

use serde_json::json;

use crate::dice::number_from_env;
use crate::kill::{Field, check_exclusive_is_not_shared, is_closed, work_through_failures};
use crate::support::world::time;
use crate::world::{PAST_THE_LEASE, World, has_etcd, until};

/// Lets the clients get some more answers.
pub fn some_answers(world: &World, field: &Field) {
    let enough = field.acknowledged() + 60;
    until("the clients get answers", || {
        check_exclusive_is_not_shared(&world.reservations());
        (field.acknowledged() >= enough || field.is_over()).then_some(())
    });
}

#[test]
fn a_leader_that_was_frozen_past_its_lease_finds_that_another_leads() {
    if !has_etcd() {
        return;
    }
    work_through_failures(World::new(), 2, |world, field| {
        some_answers(world, field);
        let leader = world.leader();
        world.node(leader).signal(libc::SIGSTOP);
        world.other_leader(leader);
        world.node(leader).signal(libc::SIGCONT);
        some_answers(world, field);
    });
}

#[test]
fn the_leader_is_killed_and_another_node_takes_over() {
    if !has_etcd() {
        return;
    }
    // Here the lease ends before the killed node is back, which would free what it led.
    work_through_failures(World::new(), number_from_env("DIBS_KILL_CYCLES", 2), |world, field| {
        some_answers(world, field);
        let leader = world.leader();
        world.kill_node(leader);
        world.other_leader(leader);
        world.start_node(leader);
        field.go_to(world);
        some_answers(world, field);
    });
}

#[test]
fn a_member_of_etcd_is_killed_frozen_and_restarted() {
    if !has_etcd() {
        return;
    }
    let mut turn = 0;
    work_through_failures(World::new(), 4, |world, field| {
        some_answers(world, field);
        let status = until("etcd has a leader", || world.status());
        let members = status["etcd"].as_array().unwrap();
        let leads = members.iter().position(|member| member["isLeader"] == true).unwrap_or(0);
        turn += 1;
        if turn % 2 == 0 {
            world.members[leads].signal(libc::SIGSTOP);
            some_answers(world, field);
            world.members[leads].signal(libc::SIGCONT);
        } else {
            world.members[leads].kill();
            some_answers(world, field);
            world.members[leads].spawn();
        }
    });
}

#[test]
fn all_of_etcd_is_restarted() {
    if !has_etcd() {
        return;
    }
    work_through_failures(World::new(), 2, |world, field| {
        some_answers(world, field);
        world.members.iter_mut().for_each(crate::etcd::Member::kill);
        let not_ready = |node: usize| {
            let answer = world.call_at(&world.at(node), "GET", "/readyz", "", None).ok()?;
            (answer.status == 503 && answer.to_string().contains("no quorum")).then_some(())
        };
        until("a node says that there is no quorum", || not_ready(0));
        world.members.iter_mut().for_each(crate::etcd::Member::spawn);
        some_answers(world, field);
    });
}

#[test]
fn nodes_are_restarted_one_after_the_other_under_load() {
    if !has_etcd() {
        return;
    }
    let mut node = 0;
    work_through_failures(World::new(), 3, |world, field| {
        some_answers(world, field);
        let ended = world.stop_node(node);
        assert!(ended.status.success(), "{}", ended.stderr);
        some_answers(world, field);
        world.start_node(node);
        node += 1;
    });
}

#[test]
fn who_waits_across_a_takeover_hears_of_it() {
    if !has_etcd() {
        return;
    }
    let mut world = World::new();
    let body = |wait: u64| json!({ "filePaths": ["a"], "ttlSeconds": 60, "waitSeconds": wait });
    world.session("ana").post("files/reserve", body(0)).ok();
    let (leader, follower) = (world.leader(), world.follower());
    for kills in [true, false] {
        let node = world.node(leader);
        let (bo, at) = (world.session("bo").token(), world.at(follower));
        let target = "/api/sessions/bo/files/reserve";
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| world.call_at(&at, "POST", target, &bo, Some(&body(50))));
            until("bo waits", || {
                let list = world.get("/api/waits", &world.reader()).ok();
                (!list["waits"].as_array()?.is_empty()).then_some(())
            });
            node.signal(if kills { libc::SIGKILL } else { libc::SIGSTOP });
            // An answer to ask again, or a closed connection; the wait itself would take far longer.
            match waits.join().unwrap() {
                Ok(answer) => assert_eq!(answer.status, 503, "{answer}"),
                Err(error) => assert!(is_closed(&error), "silence: {error}"),
            }
            if !kills {
                node.signal(libc::SIGCONT);
            }
        });
        if kills {
            world.kill_node(leader);
            world.start_node(leader);
            // Lead again, for the second round.
            world.move_to(leader);
        }
    }
    assert_eq!(world.reservations().len(), 1, "ana holds on");
    std::thread::sleep(PAST_THE_LEASE);
    assert_eq!(world.reservations().len(), 1);
}

#[test]
fn a_new_leader_gives_everything_its_whole_time_again() {
    if !has_etcd() {
        return;
    }
    let mut world = World::with(2);
    let ana = world.session("ana");
    ana.post("files/reserve", json!({ "filePath": "short", "ttlSeconds": 60 })).ok();
    ana.post("files/reserve", json!({ "filePath": "long", "ttlSeconds": 300 })).ok();
    world.session("bo").post("files/reserve", json!({ "filePath": "shared", "ttlSeconds": 90, "mode": "shared" })).ok();
    let leader = world.leader();
    let killed_at = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    world.kill_node(leader);
    world.other_leader(leader);
    let held = world.reservations();
    assert_eq!(held.len(), 3, "{held:?}");
    for one in &held {
        let whole = one["ttlSeconds"].as_i64().unwrap() * 1000;
        assert!(time(&one["expiresAt"]) >= killed_at + whole, "{one} was held when its leader was killed");
    }
}
