//! Asking a holder to release a key.

use serde_json::{Value, json};

use crate::world::World;

/// Bo asks Ana for `src/a.rs`. Returns the request's id.
fn asked(world: &World) -> String {
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    let request = world.as_session("bo", ["request", "src/a.rs", "--reason", "hot\u{1b}[31m fix", "--json"]).json();
    assert_eq!(request["status"], "pending");
    request["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_holder_sees_a_request_and_approves_it() {
    let world = World::served();
    let id = asked(&world);
    let told = world.as_session("ana", ["renew"]).ok();
    assert!(told.err.contains("BO (bo) asks you to release src/a.rs: hot\\x1b[31m fix"), "{told:?}");
    assert!(told.err.contains(&format!("git dibs approve {id}")), "{told:?}");
    let listed = world.as_session("ana", ["requests"]).ok();
    assert!(listed.out.starts_with("Other sessions ask you to release:\n"), "{listed:?}");
    assert!(listed.out.contains(&id) && !listed.out.contains('\u{1b}'), "{listed:?}");
    assert_eq!(listed.err, "", "what is in the table is not said again");
    let done = world.as_session("ana", ["approve", &id]).ok();
    assert_eq!(done.out, "released src/a.rs for BO (bo)\n");
    assert_eq!(world.held(), [""; 0]);
    let heard = world.as_session("bo", ["requests"]).ok();
    assert!(heard.out.contains("approved"), "{heard:?}");
    assert!(heard.err.contains("ana released src/a.rs, as you asked"), "{heard:?}");
}

#[test]
fn hand_over_gives_the_key_to_the_requester() {
    let world = World::served();
    let id = asked(&world);
    world.as_session("ana", ["approve", &id, "--hand-over"]).ok();
    assert_eq!(world.held(), ["bo src/a.rs"]);
}

#[test]
fn requests_can_be_rejected_and_withdrawn() {
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
fn an_answered_request_is_not_announced_again() {
    let world = World::served();
    for (answer, said) in [(["reject", "--json"], "rejected"), (["approve", "--hand-over"], "passed src/a.rs")] {
        asked(&world);
        // Without an id the command looks the request up first, and the reply brings the notice of it.
        let done = world.as_session("ana", answer).ok();
        assert!(done.out.contains(said) && !done.err.contains("asks you to release"), "{done:?}");
    }
}

#[test]
fn several_keys_are_requested_one_by_one() {
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

#[test]
fn of_two_sessions_that_share_a_key_only_the_first_was_asked() {
    let world = World::served();
    for session in ["ana", "cy"] {
        world.as_session(session, ["reserve", "src/a.rs", "--shared"]).ok();
    }
    let said = world.as_session("bo", ["request", "src/a.rs", "--reason", "a fix"]).ok();
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with(" asks ANA (ana) to release src/a.rs"), "{said:?}");
    assert!(lines[1].ends_with(" asks CY (cy) to release src/a.rs"), "{said:?}");
    let again = world.as_session("bo", ["request", "src/a.rs", "--reason", "please", "--json"]).json();
    assert_eq!((&again["reservedBy"], &again["others"][0]["reservedBy"]), (&json!("ana"), &json!("cy")));
    for session in ["ana", "cy"] {
        let told = world.as_session(session, ["approve"]).ok();
        assert!(told.out.contains("src/a.rs"), "{told:?}");
    }
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn asking_for_one_file_of_a_held_directory_says_that_all_of_it_is_released() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/"]).ok();
    let asked = world.as_session("bo", ["request", "src/a.rs", "--reason", "a fix"]).ok();
    assert!(asked.out.ends_with(" asks ANA (ana) to release all of src/**, which src/a.rs is part of\n"), "{asked:?}");
    let told = world.as_session("ana", ["renew"]).ok();
    assert!(told.err.contains("BO (bo) asks you to release all of src/**: a fix"), "{told:?}");
    assert!(told.err.contains("To release all of it: git dibs approve "), "{told:?}");
    let listed = world.as_session("bo", ["requests"]).ok();
    assert!(listed.out.contains("ANA (ana)"), "{listed:?}");
    let json = world.as_session("bo", ["requests", "--json"]).json();
    assert_eq!(json["outgoing"][0]["reservedByName"], "ANA");
    let approved = world.as_session("ana", ["approve"]).ok();
    assert_eq!(approved.out, "released all of src/** for BO (bo)\n");
}

#[test]
fn a_request_is_named_by_its_beginning_or_not_at_all() {
    let world = World::served();
    world.as_session("ana", ["approve"]).fails(1);
    let id = asked(&world);
    let unknown = world.as_session("ana", ["approve", "zzz"]).fails(1);
    assert!(unknown.err.contains("there is no open request whose id begins with \"zzz\""), "{unknown:?}");
    assert_eq!(world.as_session("ana", ["approve", &id[..8]]).ok().out, "released src/a.rs for BO (bo)\n");
    asked(&world);
    assert_eq!(world.as_session("ana", ["reject"]).ok().out, "kept src/a.rs; BO (bo) will be notified\n");
    world.as_session("ana", ["reserve", "README"]).ok();
    for file in ["src/a.rs", "README"] {
        world.as_session("bo", ["request", file, "--reason", "x"]).ok();
    }
    let several = world.as_session("bo", ["withdraw"]).fails(2);
    assert!(several.err.contains("there are 2 such requests; name one of: "), "{several:?}");
    world.as_session("ana", ["release", "README"]).ok();
    assert_eq!(world.as_session("bo", ["withdraw"]).ok().out, "no longer asking for src/a.rs\n");
}

#[test]
fn a_request_without_an_answer_is_told_once_a_minute() {
    let world = World::served();
    asked(&world);
    let told = |said: crate::world::Said| said.err.matches("asks you to release").count();
    assert_eq!(told(world.as_session("ana", ["renew"]).ok()), 1);
    assert_eq!(told(world.as_session("ana", ["renew"]).ok()), 0);
    world.as_session("cy", ["request", "src/a.rs", "--reason", "too"]).ok();
    assert_eq!(told(world.as_session("ana", ["status"]).ok()), 1, "the new one alone");
}
