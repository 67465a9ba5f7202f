//! The program under its other names.

use serde_json::Value;

use crate::world::{Run, Said, World};

/// Runs one of the links as a session; returns its exit code and its document.
fn linked(world: &World, session: &str, args: &[&str]) -> (i32, Value) {
    let mut command = world.command(world.path("bin").join(args[0]), "app");
    command.args(&args[1..]).env("DIBS_TOKEN", world.token_of(session, "session"));
    let said = Said::from(command.run());
    (said.code.unwrap(), serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}")))
}

fn installed() -> World {
    let world = World::served();
    std::fs::create_dir(world.path("bin")).unwrap();
    let said = world.dibs(["install-commands".as_ref(), world.path("bin").as_os_str()]).ok();
    assert_eq!(said.out.lines().count(), 3);
    world
}

#[test]
fn lock_renew_and_unlock() {
    let world = installed();
    let uri = "deploy://api-prod";
    let (code, document) = linked(&world, "ana", &["rlock", uri, "--reason", "release"]);
    assert_eq!((code, &document["ok"], &document["resourceKey"]), (0, &true.into(), &uri.into()));
    assert!(document["expiresAt"].as_str().unwrap().ends_with('Z'));

    let (code, document) = linked(&world, "bo", &["rlock", uri]);
    assert_eq!((code, &document["ok"], &document["holder"]), (1, &false.into(), &"ana".into()));
    assert!(document["heldSince"].as_str().unwrap().ends_with('Z'));
    let (code, document) = linked(&world, "bo", &["runlock", uri]);
    assert_eq!((code, &document["holder"]), (1, &"ana".into()));
    let (code, _) = linked(&world, "bo", &["rlock", uri, "--wait", "1"]);
    assert_eq!(code, 8);

    let (code, document) = linked(&world, "ana", &["rlock-heartbeat", uri, "--ttl", "60"]);
    assert_eq!((code, &document["resourceKey"]), (0, &uri.into()));
    let (code, document) = linked(&world, "ana", &["rlock-heartbeat"]);
    assert_eq!((code, &document["renewedCount"]), (0, &1.into()));
    let (code, document) = linked(&world, "ana", &["runlock", uri]);
    assert_eq!((code, &document["released"]), (0, &true.into()));
    let (code, document) = linked(&world, "ana", &["runlock", uri]);
    assert_eq!((code, &document["reason"], &document["code"]), (2, &"lock not found".into(), &"NOT_FOUND".into()));
    assert_eq!(linked(&world, "ana", &["rlock", "wat:x"]).0, 4);
    assert_eq!(linked(&world, "ana", &["rlock", uri, "--ttl", "0"]).0, 4);
    assert_eq!(linked(&world, "ana", &["rlock"]).0, 9);
    assert_eq!(linked(&world, "ana", &["rlock", uri, "--nonsense"]).0, 9);
}

#[test]
fn runlock_said_that_it_released_a_lock_that_had_expired() {
    let world = installed();
    let uri = "deploy://api-prod";
    assert_eq!(linked(&world, "ana", &["rlock", uri, "--ttl", "1"]).0, 0);
    // A waiting request is granted the moment the lock expires.
    assert_eq!(linked(&world, "bo", &["rlock", uri, "--wait", "50"]).0, 0);
    let (code, document) = linked(&world, "ana", &["runlock", uri]);
    assert_eq!((code, &document["reason"]), (1, &"held by BO".into()), "another session has it by now");
    assert_eq!(linked(&world, "bo", &["runlock", uri]).0, 0);
    let (code, document) = linked(&world, "ana", &["runlock", uri]);
    assert_eq!(
        (code, &document["ok"], &document["reason"]),
        (2, &false.into(), &"lock not found".into()),
        "{document}"
    );
    assert_eq!((&document["released"], &document["code"]), (&false.into(), &"LOCK_TIMEOUT".into()), "{document}");
    let (code, document) = linked(&world, "cy", &["runlock", uri]);
    assert_eq!((code, &document["code"]), (2, &"NOT_FOUND".into()), "never held: {document}");
}

#[test]
fn without_a_server_nothing_succeeds() {
    let mut world = installed();
    let token = world.token_of("ana", "session");
    world.as_session("ana", ["session", "end"]).ok();
    assert_eq!(linked(&world, "ana", &["rlock", "deploy://x"]).0, 3, "a dead session may not");
    world.kill();
    let mut command = world.command(world.path("bin/rlock"), "app");
    command.args(["deploy://x", "--retries", "1"]).env("DIBS_TOKEN", token);
    let output = command.run();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["ok"]), (Some(6), &false.into()));
    assert!(document["error"].as_str().unwrap().contains("no server answers"), "{document}");
}

#[test]
fn links_are_made_once_and_never_over_something_else() {
    let world = installed();
    let again = || world.dibs(["install-commands".as_ref(), world.path("bin").as_os_str()]);
    again().ok();
    let link = world.path("bin/runlock");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/somewhere/else/git-dibs", &link).unwrap();
    again().ok();
    assert_ne!(std::fs::read_link(&link).unwrap(), std::path::Path::new("/somewhere/else/git-dibs"));
    std::fs::remove_file(&link).unwrap();
    std::fs::write(&link, "mine").unwrap();
    let refused = again().fails(1);
    assert!(refused.err.contains("runlock already exists"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "mine");
    world.dibs(["install-commands", "/nowhere/at/all"]).fails(1);
}
