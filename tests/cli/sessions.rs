//! Sessions: started, found again, listed, ended.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::world::write_private;
use crate::world::{Said, World, until};

#[test]
fn a_session_lives_in_its_worktree() {
    let world = World::served();
    let started = world.dibs(["session", "start", "--name", "Ana", "--feature", "F-1"]).ok();
    let id = started.out.trim();
    let suffix = id.strip_prefix("ana-").expect("the id is the name and four characters");
    assert_eq!(suffix.len(), 4, "{started:?}");
    assert!(
        started.err.contains(&format!("this worktree is bound to session {id}: commands and hooks")),
        "{started:?}"
    );
    let file = world.path("app/.git/dibs/token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    world.dibs(["reserve", "a.rs"]).at("src").ok();
    assert_eq!(world.held(), [format!("{id} src/a.rs")]);
    let listed = world.dibs(["session", "list"]).ok().out;
    let row = listed.lines().find(|line| line.contains(id)).unwrap();
    assert!(row.starts_with('*') && row.contains("Ana") && row.contains("active") && row.contains("F-1"), "{listed}");

    let other = world.git(&["worktree", "add", "--quiet", "../other"]);
    assert_eq!(other, "");
    let elsewhere = world.dibs(["reserve", "x"]).at("../other").fails(4);
    assert!(elsewhere.err.contains("this command needs a session"), "the token is this worktree's own: {elsewhere:?}");

    let ended = world.dibs(["session", "end"]).ok();
    assert_eq!(ended.out, format!("session {id} ended as completed; released 1 reservation\n  src/a.rs\n"));
    assert!(!file.exists());
    assert_eq!(world.held(), [""; 0]);
    world.dibs(["session", "end"]).fails(4);
    assert_eq!(world.session_info(id)["state"], "completed");
    assert!(!world.dibs(["session", "list"]).ok().out.contains(id), "only those that are alive");
}

#[test]
fn a_second_session_needs_the_replace_flag() {
    let world = World::served();
    let first = world.dibs(["session", "start"]).ok().out;
    let refused = world.dibs(["session", "start"]).fails(1);
    assert!(refused.err.contains(first.trim()) && refused.err.contains("--replace"), "{refused:?}");
    let second = world.dibs(["session", "start", "--replace", "--id", "second"]).ok().out;
    assert_eq!(second, "second\n");
    assert_eq!(world.session_info(first.trim())["state"], "active", "the other one goes on, but not here");
    assert!(world.dibs(["status", "--mine"]).ok().err.contains("nothing is reserved"));
    world.dibs(["session", "end", "--state", "failed"]).ok();
    assert_eq!(world.session_info("second")["state"], "failed");
    // The token of an ended session does not prevent a new one, and neither do other tokens that are not accepted.
    let ended = world.dibs(["session", "start", "--id", "ended"]).ok();
    let token = std::fs::read_to_string(world.path("app/.git/dibs/token")).unwrap();
    world.dibs(["session", "end"]).ok();
    write_private(&world.path("app/.git/dibs/token"), &token);
    world.dibs(["reserve", "a"]).fails(6);
    world.dibs(["session", "end"]).ok();
    assert!(!world.path("app/.git/dibs/token").exists(), "a dead binding is removed: {ended:?}");
    let expired = world.token(json!({ "sub": "x", "exp": 1 }));
    for bad in [token.as_str(), "", "garbled token", "abc.def.ghi", &expired] {
        write_private(&world.path("app/.git/dibs/token"), bad);
        world.dibs(["session", "start", "--name", "new"]).ok();
        world.dibs(["session", "end"]).ok();
    }
}

#[test]
fn two_sessions_that_start_at_once_do_not_share_a_worktree() {
    let world = World::served();
    let started: Vec<_> = (0..4).map(|_| world.dibs(["session", "start", "--name", "Ana"]).start()).collect();
    let said: Vec<Said> = started.into_iter().map(|process| process.finish().into()).collect();
    assert_eq!(said.iter().filter(|said| said.code == Some(0)).count(), 1, "{said:?}");
    let refused = said.iter().filter(|said| said.code == Some(1) && said.err.contains("git dibs session end"));
    assert_eq!(refused.count(), 3, "{said:?}");
    let list = world.dibs(["session", "list", "--json"]).json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "none was created in vain: {list}");
}

#[test]
fn a_bad_token_does_not_hide_the_live_session_of_a_worktree() {
    let world = World::served();
    let bound = world.dibs(["session", "start", "--id", "bound"]).ok();
    assert_eq!(bound.out, "bound\n");
    for token in ["abc.def.ghi", ""] {
        let refused = world.dibs(["session", "start"]).env("DIBS_TOKEN", token).fails(1);
        assert!(refused.err.contains("bound to session bound, which is active"), "{refused:?}");
    }
    let anew = world.dibs(["session", "start", "--replace"]).env("DIBS_TOKEN", "").ok();
    assert!(anew.err.contains("DIBS_TOKEN is set and takes precedence"), "{anew:?}");
}

#[test]
fn the_id_of_a_session_alone_makes_no_one_that_session() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs"]).ok();
    world.dibs(["release", "src/a.rs"]).env("DIBS_SESSION", "ana").fails(4);
    world.dibs(["session", "end"]).env("DIBS_SESSION", "ana").fails(4);
    let checked = world.dibs(["check", "src/a.rs"]).env("DIBS_SESSION", "ana").fails(3);
    assert!(checked.out.contains("held by ANA (ana)"), "{checked:?}");
    let admin = world.token_of("boss", "admin");
    world.dibs(["release", "src/a.rs"]).env("DIBS_SESSION", "ana").env("DIBS_TOKEN", &admin).ok();
    assert_eq!(world.held(), [""; 0]);
}

#[test]
fn a_taken_id_is_not_used_again() {
    let world = World::served();
    let ids: Vec<_> = (0..5).map(|_| world.dibs(["run", "--name", "Ana", "--", "true"]).start()).collect();
    ids.into_iter().for_each(|process| assert!(process.finish().status.success()));
    let admin = world.token_of("boss", "admin");
    let made = world.dibs(["session", "start", "--json", "--name", "Ana"]).env("DIBS_TOKEN", &admin).ok();
    let made: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    let id = made["sessionId"].as_str().unwrap();
    assert!(id.starts_with("ana-") && id.len() == 8, "{id}");
    let list = world.dibs(["session", "list", "--all", "--json"]).json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 6, "{list}");
    // Another token for the same id has another owner, and is refused.
    let started = world.dibs(["session", "start", "--replace", "--name", "Bo"]).ok();
    world.as_session(started.out.trim(), ["reserve", "a"]).fails(4);
}

#[test]
fn an_admin_creates_and_ends_sessions_anywhere() {
    let world = World::served();
    let admin = world.token_of("boss", "admin");
    let made = world.dibs(["session", "start", "--json", "--id", "ana", "--name", "Ana"]).env("DIBS_TOKEN", &admin);
    let outside = made.at("../home").env("DIBS_URL", world.url()).ok();
    assert!(outside.err.contains("no worktree here"), "{outside:?}");
    let made: serde_json::Value = serde_json::from_str(&outside.out).unwrap();
    assert_eq!(made["sessionId"], "ana");
    let token = made["token"].as_str().unwrap();
    world.dibs(["reserve", "src/a.rs"]).env("DIBS_TOKEN", token).ok();
    world.as_session("bo", ["session", "end", "ana"]).fails(4);
    world.dibs(["reserve", "src/b.rs", "--session", "ana"]).env("DIBS_TOKEN", &admin).ok();
    assert_eq!(world.held().len(), 2);
    world.dibs(["session", "end", "ana"]).env("DIBS_TOKEN", &admin).ok();
    world.dibs(["reserve", "src/a.rs"]).env("DIBS_TOKEN", token).fails(6);
    let unnamed = world.dibs(["reserve", "x"]).env("DIBS_TOKEN", &admin).fails(4);
    assert!(unnamed.err.contains("--session ID"), "{unnamed:?}");
}

#[test]
fn without_secret_or_admin_there_is_no_session() {
    let world = World::served();
    let far = world.dibs(["session", "start"]).at("../home").env("DIBS_URL", world.url()).fails(4);
    assert!(far.err.contains("no token here can start sessions"), "{far:?}");
    let ran = world.dibs(["run", "--", "touch", "ran"]).at("../home").env("DIBS_URL", world.url()).fails(4);
    assert!(ran.err.contains("no token here can start sessions") && !world.path("home/ran").exists(), "{ran:?}");
    let odd = world.dibs(["session", "start", "--id", "a b"]).fails(2);
    assert!(odd.err.contains("is not a session id; use 1 to 128"), "{odd:?}");
    let odd = world.dibs(["session", "start", "--id", "a b"]).token("boss", "admin").fails(2);
    assert!(odd.err.contains("use 1 to 128"), "{odd:?}");
}

#[test]
fn a_server_with_its_data_elsewhere_and_several_repositories_is_found() {
    let mut world = World::new();
    let (data, second) = (world.path("data"), world.path("second"));
    world.git_init("second");
    let named = format!("two={}", second.display());
    let app = format!("one={}", world.path("app").display());
    world = world.serve(&["--data", data.to_str().unwrap(), "--repo", &app, "--repo", &named]);
    world.dibs(["session", "start", "--id", "ana"]).ok();
    world.dibs(["reserve", "x"]).ok();
    world.dibs(["session", "start", "--id", "bo"]).at("../second").ok();
    world.dibs(["reserve", "x"]).at("../second").ok();
    let list = world.dibs(["status", "--json"]).json();
    let list = list["reservations"].as_array().unwrap();
    assert_eq!(list.len(), 1, "each repository has its own reservations");
    assert_eq!((&list[0]["sessionId"], &list[0]["filePath"]), (&"ana".into(), &"x".into()));
}

#[test]
fn a_flag_overrides_a_variable_and_a_variable_the_git_config() {
    let world = World::served();
    world.git(&["config", "dibs.url", "http://127.0.0.1:1"]);
    world.git(&["config", "dibs.name", "from config"]);
    let config = world.dibs(["status"]).fails(5);
    assert!(config.err.contains("http://127.0.0.1:1"), "{config:?}");
    let env = world.dibs(["status"]).env("DIBS_URL", "http://127.0.0.1:2").fails(5);
    assert!(env.err.contains("http://127.0.0.1:2"), "{env:?}");
    let flag = world.dibs(["status", "--url", world.url()]).env("DIBS_URL", "http://127.0.0.1:2").ok();
    assert!(flag.err.contains("nothing is reserved"), "{flag:?}");
    let name = |args: &[&str], env: &str, id: &str| {
        let all =
            ["session", "start", "--replace", "--id", id, "--url", world.url()].into_iter().chain(args.iter().copied());
        world.dibs(all).env("DIBS_NAME", env).ok();
        let list = world.dibs(["session", "list", "--url", world.url()]).ok().out;
        list.lines().find(|line| line.contains(id)).unwrap().to_owned()
    };
    assert!(name(&[], "", "one").contains("from config"));
    assert!(name(&[], "from env", "two").contains("from env"));
    assert!(name(&["--name", "from flag"], "from env", "three").contains("from flag"));
}

/// A person reserves by hand, and is away for longer than the session lasts.
#[test]
fn nothing_expires_silently_under_a_persons_hands() {
    let world = World::new().serve(&["--session-timeout", "2"]);
    world.dibs(["session", "start", "--id", "me"]).ok();
    let said = world.dibs(["reserve", "src/a.rs"]).ok();
    assert_eq!(said.out, "reserved src/a.rs for 2 s\n");
    until("the session is lost", || world.held().is_empty().then_some(()));
    let said = world.dibs(["status"]).ok();
    assert!(said.err.contains("src/a.rs"), "the next command tells: {said:?}");
}

/// A container has the address and the token of a session, and nothing else.
#[test]
fn run_works_inside_a_given_session() {
    let world = World::served();
    let given = || world.token_of("given", "session");
    world.as_session("given", ["reserve", "kept.rs"]).ok();
    let script = "git dibs reserve src/a.rs && test \"$DIBS_SESSION\" = given";
    let mut command = world.command(crate::world::PROGRAM, "");
    command.args(["run", "--", "sh", "-c", script]).env("DIBS_TOKEN", given()).env("DIBS_URL", world.url());
    let said = Said::from(crate::world::Run::run(&mut command));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("session given goes on; released src/a.rs"), "{said:?}");
    assert_eq!(world.held(), ["given kept.rs"]);
    assert_eq!(world.session_info("given")["state"], "active");
}

#[test]
fn sessions_are_listed_and_an_admin_takes_away_what_one_holds() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/", "src/[id].ts"]).ok();
    let said = world.dibs(["sessions"]).ok();
    assert!(said.out.contains("ana") && said.out.contains("active"), "{said:?}");
    world.as_session("bo", ["release", "--force", "src/"]).fails(2);
    let refused = world.as_session("bo", ["release", "--force", "--reason", "x", "src/"]).fails(4);
    assert!(refused.err.contains("only an admin"), "{refused:?}");
    let forced = ["release", "--force", "--reason", "its agent is gone", "src/"];
    let said = world.dibs(forced).token("boss", "admin").ok();
    assert_eq!(said.out, "released src/**, which ANA (ana) held\n");
    assert_eq!(world.held(), ["ana src/[id].ts"]);
    let told = world.as_session("ana", ["status"]).ok();
    assert!(told.err.contains("its agent is gone"), "{told:?}");
    let nothing = world.dibs(forced).token("boss", "admin").fails(1);
    assert!(nothing.err.contains("no session holds src/"), "{nothing:?}");
}

#[test]
fn a_feature_is_paused_and_goes_on() {
    let world = World::served();
    let said = world.as_session("lead", ["pause", "F-1", "--reason", "broken main"]).ok();
    assert_eq!(said.out, "feature F-1 is paused for 30 min; to end it: git dibs resume F-1\n");
    let other = world.as_session("bo", ["pause", "F-1"]).fails(3);
    assert!(other.err.contains("held by LEAD (lead)"), "{other:?}");
    let still = world.dibs(["wait", "--unpaused", "F-1", "--timeout", "1"]).fails(7);
    assert!(still.err.contains("feature F-1 is paused by LEAD (lead) (broken main)"), "{still:?}");
    world.as_session("bo", ["resume", "F-1"]).fails(3);
    assert_eq!(world.as_session("lead", ["resume", "F-1"]).ok().out, "feature F-1 goes on\n");
    assert_eq!(world.as_session("lead", ["resume", "F-1"]).ok().out, "feature F-1 was not paused\n");
    assert_eq!(world.dibs(["wait", "--unpaused", "F-1"]).ok().out, "feature F-1 is not paused\n");
    world.as_session("lead", ["pause", "a b"]).fails(2);
    let refused = world.as_session("lead", ["pause", "F-1", "--ttl", "999999"]).fails(2);
    assert!(refused.err.contains("--ttl is 999999; it must be "), "{refused:?}");
}

#[test]
fn an_admin_could_not_pause_or_resume() {
    let world = World::served();
    // The owner of a local server, without a session.
    let said = world.dibs(["pause", "F-1", "--reason", "broken main"]).ok();
    assert_eq!(said.out, "feature F-1 is paused for 30 min; to end it: git dibs resume F-1\n");
    let other = world.as_session("bo", ["resume", "F-1"]).fails(3);
    assert!(other.err.contains("an admin can end it: "), "{other:?}");
    world.dibs(["pause", "F-1"]).fails(3);
    assert_eq!(world.dibs(["resume", "F-1"]).ok().out, "feature F-1 goes on\n");
    assert_eq!(world.dibs(["resume", "F-1"]).ok().out, "feature F-1 was not paused\n");
    // With an admin's token, also for a session.
    let token = world.dibs(["token", "root", "--scope", "admin"]).ok().out;
    let admin = |args: &[&str]| world.dibs(args.iter().copied()).env("DIBS_TOKEN", token.trim()).ok().out;
    assert!(admin(&["pause", "F-2", "--ttl", "60"]).starts_with("feature F-2 is paused for "));
    let still = world.dibs(["wait", "--unpaused", "F-2", "--timeout", "1"]).fails(7);
    assert!(still.err.contains("feature F-2 is paused by "), "{still:?}");
    assert_eq!(admin(&["resume", "F-2"]), "feature F-2 goes on\n");
    world.as_session("lead", ["pause", "F-3"]).ok();
    assert_eq!(admin(&["resume", "F-3", "--session", "bo"]), "feature F-3 goes on\n");
}
