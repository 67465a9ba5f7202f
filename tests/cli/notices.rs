//! The server tells a session most things once, with any reply. Every command shows them, also one that fails.

use serde_json::Value;

use crate::world::World;

/// Lets ana's reservation of `ka` expire, without a call of ana.
fn expire(world: &World) {
    world.as_session("ana", ["reserve", "ka", "--ttl", "1"]).ok();
    // The wait ends the moment the reservation expires.
    world.as_session("bo", ["wait", "ka"]).ok();
    world.as_session("bo", ["release", "ka"]).ok();
}

#[test]
fn failing_commands_swallowed_the_notice_that_a_reservation_expired() {
    let world = World::served();
    world.as_session("bo", ["reserve", "taken"]).ok();
    let told = "git-dibs: your time ran out; you no longer hold ka\n";
    let cases: [(&[&str], i32); 5] = [
        (&["reserve", "taken"], 3),
        (&["renew", "ka"], 1),
        (&["release", "taken"], 3),
        (&["status", "--mine"], 0),
        (&["wait", "--unpaused", "F"], 0),
    ];
    for (args, exit) in cases {
        expire(&world);
        let said = world.as_session("ana", args).fails(exit);
        assert_eq!(said.err.matches(told).count(), 1, "{args:?}: {said:?}");
        let said = world.as_session("ana", args).fails(exit);
        assert!(!said.err.contains(told), "once: {args:?}: {said:?}");
    }
}

#[test]
fn a_program_finds_the_notices_in_the_document_and_no_sentence_beside_it() {
    let world = World::served();
    world.as_session("bo", ["reserve", "taken"]).ok();
    expire(&world);
    let said = world.as_session("ana", ["reserve", "taken", "--json"]).fails(3);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document["notices"][0]["expiredPaths"][0], "ka", "{said:?}");
    assert!(!said.err.contains("ran out"), "{said:?}");
    // What came with an earlier reply than the one that is printed is told on stderr.
    expire(&world);
    let said = world.as_session("ana", ["wait", "free", "--json"]).ok();
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert!(document.get("notices").is_none() && said.err.contains("you no longer hold ka"), "{said:?}");
}
