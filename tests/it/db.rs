//! Maintenance of the journal's file, with and without a running server.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::world::{Run, World};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

fn db(world: &World, args: &[&str]) -> Output {
    world.dibs(&[&["db"], args].concat()).run()
}

#[test]
fn a_backup_of_a_running_server_can_be_restored() {
    let mut world = World::new();
    let (copy, journal) = (world.path("copy.db"), world.path("repo/.git/dibs/journal.db"));
    world.session("ana").hold("a");
    let done = db(&world, &["backup", copy.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(said(&done).contains("a copy of the journal up to record 2"), "{}", said(&done));
    world.session("ana").hold("b");

    let again = db(&world, &["backup", copy.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("copy.db exists already, and a backup never replaces a file"), "{}", said(&again));
    let again = db(&world, &["backup", copy.to_str().unwrap(), "--json"]);
    let document: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((again.status.code(), &document["code"]), (Some(1), &json!("ERROR")), "{document}");
    assert_eq!(said(&db(&world, &["check", "--data", world.path("").to_str().unwrap()])).lines().count(), 1);

    world.stop();
    let done = db(&world, &["restore", copy.to_str().unwrap(), "--json"]);
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let replaced = format!("{}.replaced-1", journal.display());
    assert_eq!(report, json!({ "lastKept": 2, "next": 1_u64 << 40, "replaced": replaced }));
    world.start();
    assert_eq!(world.held(), ["ana a"]);
}

#[test]
fn a_check_reports_content_and_damage() {
    let mut world = World::new();
    world.session("ana").hold("a");
    let done = db(&world, &["check", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(found, json!({ "oldest": 1, "last": 2, "records": 2, "snapshot": null }));
    assert!(said(&db(&world, &["check"])).contains("is undamaged: 2 records, the last is 2"));

    world.stop();
    let journal = world.path("repo/.git/dibs/journal.db");
    let mut bytes = fs::read(&journal).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    fs::write(&journal, bytes).unwrap();
    let done = db(&world, &["check"]);
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert!(said(&done).contains("journal.db"), "{}", said(&done));
}

#[test]
fn compacting_is_refused_while_a_server_runs() {
    let mut world = World::new();
    world.session("ana").hold("a");
    let refused = db(&world, &["compact"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    world.stop();
    let done = db(&world, &["compact"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    world.start();
    assert_eq!(world.held(), ["ana a"]);
}

#[test]
fn one_of_several_journals_is_selected_by_name() {
    let (world, data) = World::of_two(["one", "two"]);
    let data = data.to_str().unwrap();
    assert_eq!(db(&world, &["check", "--data", data, "--repo", "two"]).status.code(), Some(0));
    let lost = db(&world, &["check", "--data", data, "--repo", "three"]);
    assert_eq!(lost.status.code(), Some(1), "{}", said(&lost));
    for command in [&["db", "check"][..], &["db", "backup", "copy.db"], &["ledger", "verify"], &["ledger", "show-path"]]
    {
        let unnamed = world.dibs(&[command, &["--data", data]].concat()).run();
        assert_eq!(unnamed.status.code(), Some(1), "{}", said(&unnamed));
        assert!(said(&unnamed).contains("choose one with --repo NAME: one, two"), "{}", said(&unnamed));
    }
    let path = world.dibs(&["ledger", "show-path", "--data", data, "--repo", "two"]).run();
    assert_eq!(said(&path).trim(), format!("{data}/two/ledger.git"));
    let odd = db(&world, &["check", "--data", data, "--repo", "../repo"]);
    assert!(said(&odd).contains("is not the name of a repository"), "{}", said(&odd));
}
