//! A backup of etcd is restored, as docs/cluster.md says it.

use serde_json::{Value, json};

use crate::world::{World, has_etcdctl};

/// Reserves a path, and returns the fence.
fn reserve(world: &World, path: &str) -> u64 {
    let granted = world.session("ana").post("files/reserve", json!({ "filePaths": [path], "ttlSeconds": 300 })).ok();
    granted["reservations"][0]["fence"].as_u64().unwrap()
}

fn held(world: &World) -> Vec<String> {
    let path = |one: &Value| one["filePath"].as_str().unwrap().to_owned();
    let mut held: Vec<String> = world.reservations().iter().map(path).collect();
    held.sort();
    held
}

/// Two nodes whose etcd was backed up, and then went on.
struct BackedUp {
    world: World,
    backup: std::path::PathBuf,
    /// The fence of what is held in the backup.
    before: u64,
    /// The last fence that was given out after it.
    lost: u64,
}

fn backed_up() -> BackedUp {
    let mut world = World::without_nodes(2);
    // A ledger would know that the journal has gone on, also without another etcd.
    world.add_node_args(&["--no-ledger"]);
    (0..2).for_each(|node| world.start_node(node));
    let before = reserve(&world, "before");
    let backup = world.path("backup.db");
    world.etcdctl(&["snapshot", "save", backup.to_str().unwrap()]);
    let lost = (0..20).map(|n| reserve(&world, &format!("after-{n}"))).max().unwrap();
    BackedUp { world, backup, before, lost }
}

/// Puts etcd back to the state of a backup, as new members of another cluster.
fn restore(world: &mut World, backup: &std::path::Path) {
    world.members.iter_mut().for_each(|member| member.restore(backup, "restored"));
    world.members.iter_mut().for_each(crate::etcd::Member::spawn);
    world.members.iter().for_each(crate::etcd::Member::wait_until_it_listens);
}

#[test]
fn after_a_restored_backup_fences_are_above_all_that_were_given_out() {
    if !has_etcdctl() {
        return;
    }
    let BackedUp { mut world, backup, before, lost } = backed_up();
    (0..2).for_each(|node| assert!(world.stop_node(node).status.success()));

    restore(&mut world, &backup);
    (0..2).for_each(|node| world.start_node(node));
    let leader = world.leader();
    assert_eq!(held(&world), ["before"], "what the backup has");
    assert_eq!(world.reservations()[0]["fence"].as_u64(), Some(before));
    let next = reserve(&world, "next");
    assert!(next > lost && next > 1 << 40, "{next} after {lost}");
    world.logged(leader, "a backup of it was restored");

    // Once for each restored backup, and not for each start.
    let status = world.status().unwrap();
    let head = status["repositories"][0]["head"].as_u64().unwrap();
    (0..2).for_each(|node| assert!(world.stop_node(node).status.success()));
    (0..2).for_each(|node| world.start_node(node));
    let later = reserve(&world, "later");
    assert!(later > head && later < 2 << 40, "{later} after {head}");
    assert_eq!(held(&world), ["before", "later", "next"]);
}

#[test]
fn a_backup_that_is_restored_under_running_nodes_grants_nothing_twice() {
    if !has_etcdctl() {
        return;
    }
    let BackedUp { mut world, backup, lost, .. } = backed_up();

    restore(&mut world, &backup);
    let next = reserve(&world, "next");
    assert!(next > lost, "{next} after {lost}");
    assert_eq!(held(&world), ["before", "next"]);
}
