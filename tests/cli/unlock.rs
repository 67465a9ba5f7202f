//! Asking a holder to let go.

use serde_json::Value;

use crate::world::World;

/// Bo asks Ana for `src/a.rs`; gives the request's id.
fn asked(world: &World) -> String {
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    let request = world.as_session("bo", ["request", "src/a.rs", "--reason", "hot\u{1b}[31m fix", "--json"]).json();
    assert_eq!(request["status"], "pending");
    request["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_holder_hears_of_it_and_lets_go() {
    let world = World::served();
    let id = asked(&world);
    let told = world.as_session("ana", ["renew"]).ok();
    assert!(told.err.contains("BO (bo) asks you to let go of src/a.rs: hot\\x1b[31m fix"), "{told:?}");
    assert!(told.err.contains(&format!("git dibs approve {id}")), "{told:?}");
    let listed = world.as_session("ana", ["requests"]).ok();
    assert!(listed.out.starts_with("Others ask you to let go of:\n"), "{listed:?}");
    assert!(listed.out.contains(&id) && !listed.out.contains('\u{1b}'), "{listed:?}");
    assert_eq!(listed.err, "", "what is in the table is not said again");
    let done = world.as_session("ana", ["approve", &id]).ok();
    assert_eq!(done.out, "released src/a.rs for BO (bo)\n");
    assert_eq!(world.held(), []);
    let heard = world.as_session("bo", ["requests"]).ok();
    assert!(heard.out.contains("approved"), "{heard:?}");
    assert!(heard.err.contains("ana let go of src/a.rs because you asked"), "{heard:?}");
}

#[test]
fn handed_over_it_is_the_askers() {
    let world = World::served();
    let id = asked(&world);
    world.as_session("ana", ["approve", &id, "--hand-over"]).ok();
    assert_eq!(world.held(), [("src/a.rs".to_owned(), "bo".to_owned())]);
}

#[test]
fn rejected_and_withdrawn() {
    let world = World::served();
    let id = asked(&world);
    let foreign = world.as_session("bo", ["approve", &id]).fails(4);
    assert!(foreign.err.contains("only ANA (ana) can answer"), "{foreign:?}");
    world.as_session("ana", ["reject", &id, "--note", "an hour more"]).ok();
    let heard = world.as_session("bo", ["check", "src/a.rs"]).fails(3);
    assert!(heard.err.contains("ana keeps src/a.rs: an hour more"), "{heard:?}");
    let again = world.as_session("ana", ["approve", &id]).fails(1);
    assert!(again.err.contains("already rejected"), "{again:?}");
    let id = world.as_session("bo", ["request", "src/a.rs", "--reason", "now?", "--json"]).json()["id"].clone();
    let back = world.as_session("bo", ["withdraw", id.as_str().unwrap()]).ok();
    assert_eq!(back.out, "no longer asking for src/a.rs\n");
    world.as_session("bo", ["withdraw", "nonsense"]).fails(1);
}

#[test]
fn several_are_asked_for_one_by_one() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs", "src/deep/"]).ok();
    let said = world.as_session("bo", ["request", "a.rs", "free.rs", "deep/c.rs", "--reason", "x"]).at("src").fails(1);
    assert_eq!(said.out.lines().count(), 2, "{said:?}");
    assert!(said.err.contains("no other session holds \"src/free.rs\""), "{said:?}");
    let said = world.as_session("bo", ["request", ":/src/a.rs", "b.rs", "--reason", "x", "--json"]).at("src").fails(1);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document["requests"][0]["status"], "pending");
    assert_eq!(document["requests"][1]["code"], "NOT_FOUND");
    world.as_session("bo", ["request", "src/a.rs"]).fails(2);
    let empty = world.as_session("bo", ["request", "src/a.rs", "--reason", " "]).fails(2);
    assert!(empty.err.contains("reason"), "{empty:?}");
    let long = world.as_session("bo", ["request", "src/a.rs", "--reason", &"x".repeat(1001)]).fails(2);
    assert!(long.err.contains("longer than 1000"), "{long:?}");
}
