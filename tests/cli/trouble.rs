//! Failures of a command other than conflicts.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::world::{PROGRAM, Run, Said, World};

/// A server that answers one request with this, whatever it is.
fn stranger(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 65536]);
        let _ = stream.write_all(answer.as_bytes());
    });
    url
}

#[test]
fn without_a_server_the_exit_code_is_5() {
    let world = World::new();
    let said = world.dibs(["status"]).fails(5);
    assert!(said.err.contains("git-dibs: no server is configured here; start one with: git dibs serve"), "{said:?}");
    let said = world.dibs(["status"]).at("../home").fails(5);
    assert!(said.err.contains("there is no repository here"), "{said:?}");
    let said = world.dibs(["status", "--url", "http://127.0.0.1:1"]).fails(5);
    assert!(said.err.contains("no server answers at http://127.0.0.1:1 (connection refused)"), "{said:?}");
    let said = world.dibs(["status", "--url", "127.0.0.1:1"]).fails(2);
    assert!(said.err.contains("--url is \"127.0.0.1:1\", which is not an address"), "{said:?}");
    let json = world.dibs(["status", "--json"]).fails(5);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&document["code"], json.err.as_str()), (&"UNREACHABLE".into(), ""));
    let json = world.dibs(["status", "--json", "--url", "x"]).fails(2);
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()["code"], "INVALID_REQUEST");
    let json = world.dibs(["reserve", "a", "--json", "--url", "http://127.0.0.1:1"]).fails(4);
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()["code"], "UNAUTHENTICATED");
}

#[test]
fn responses_of_other_servers_are_reported() {
    let world = World::new();
    let page = world.dibs(["status", "--url", &stranger("200 OK", "<html>")]).fails(5);
    assert!(page.err.contains("sent a web page (status 200); is that a git-dibs server?"), "{page:?}");
    let error = world.dibs(["status", "--url", &stranger("502 Bad Gateway", "")]).fails(5);
    assert!(error.err.contains("sent an empty reply (status 502)"), "{error:?}");
    let shape = world.dibs(["session", "list", "--url", &stranger("200 OK", r#"{"sessions":[{}]}"#)]).fails(5);
    assert!(shape.err.contains("unexpected JSON"), "{shape:?}");
}

#[test]
fn json_of_a_newer_server_is_passed_on_unchanged() {
    let world = World::new();
    let body = r#"{"reservations": [], "sky": {"blue":   true}}"#;
    let said = world.dibs(["status", "--json", "--url", &stranger("200 OK", body)]).ok();
    assert_eq!(said.out, format!("{body}\n"));
    let body = r#"{"error":"no\u001b[2J way","code":"COFFEE_BREAK","until":"noon"}"#;
    let said = world.dibs(["status", "--json", "--url", &stranger("418 I'm a teapot", body)]).fails(1);
    assert_eq!(said.out, format!("{body}\n"));
    let said = world.dibs(["status", "--url", &stranger("418 I'm a teapot", body)]).fails(1);
    assert_eq!(said.err, "git-dibs: no\\x1b[2J way\n");
}

#[test]
fn invalid_tokens_are_reported_and_never_shown() {
    let world = World::served();
    let said = world.dibs(["reserve", "a"]).env("DIBS_TOKEN", "abc.def.ghi").fails(4);
    assert!(
        said.err.contains("this command needs a session")
            || said.err.contains("DIBS_TOKEN does not belong to a session"),
        "{said:?}"
    );
    let forged = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEiLCJleHAiOjk5OTk5OTk5OTl9.c2VjcmV0";
    let said = world.dibs(["reserve", "a"]).env("DIBS_TOKEN", forged).fails(4);
    assert!(said.err.contains("the token is not valid") && said.err.contains("came from DIBS_TOKEN"), "{said:?}");
    assert!(!said.err.contains("c2VjcmV0"), "{said:?}");
    world.write(".git/dibs/token", "");
    let said = world.dibs(["reserve", "a"]).fails(4);
    assert!(said.err.contains(".git/dibs/token is empty") && said.err.contains("git dibs session start"), "{said:?}");
    let json = world.dibs(["reserve", "a", "--json"]).fails(4);
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()["code"], "UNAUTHENTICATED");
    let said = world.dibs(["status", "--token-file", "/nowhere"]).fails(4);
    assert!(said.err.contains("/nowhere does not exist, but --token-file names it"), "{said:?}");
    let other = world.dibs(["release", "a", "--session", "bo"]).token("ana", "session").fails(4);
    assert!(other.err.contains("this token acts for another session"), "{other:?}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let world = World::served();
    let script = format!(
        "{PROGRAM} completions bash | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}
         {PROGRAM} completions bash > /dev/full; echo $?
         {PROGRAM} status 2> /dev/full; echo $?
         {PROGRAM} reserve a 2>&1 >&- | head -c 0; echo ${{PIPESTATUS[0]}}"
    );
    let mut command = world.command("bash", "app");
    let said = Said::from(command.args(["-c", &script]).run());
    assert_eq!(said.out, "0\n1\n0\n4\n", "{said:?}");
    assert_eq!(
        said.err.trim_end(),
        "git-dibs: cannot write the answer: No space left on device (os error 28)",
        "{said:?}"
    );
}

#[test]
fn invalid_arguments_are_usage_errors() {
    let world = World::served();
    for args in [
        &["nonsense"][..],
        &[],
        &["reserve"],
        &["reserve", "a", "--wait", "soon"],
        &["reserve", "a", "--retries", "-1"],
        &["session"],
        &["session", "end", "--state", "lost"],
        &["check", "-z"],
        &["renew", "--ttl", "5"],
    ] {
        let said = world.dibs(args).fails(2);
        assert!(!said.err.is_empty() && !said.err.contains("panicked"), "{said:?}");
    }
}

/// A token that is not accepted is never weaker than none: what needs no session works, and the problem is reported.
#[test]
fn commands_that_only_look_work_with_a_bad_token() {
    let world = World::served();
    world.as_session("ana", ["reserve", "src/a.rs", "--ttl", "300"]).ok();
    world.as_session("gone", ["reserve", "b"]).ok();
    world.as_session("gone", ["session", "end"]).ok();
    let foreign = World::served();
    let cases = [
        (world.token_of("gone", "session"), "session gone has ended", 6),
        (world.token(json!({ "sub": "old", "exp": 1 })), "expired", 4),
        (foreign.token_of("ana", "session"), "not valid", 4),
        ("abc.def.ghi".to_owned(), "not valid", 4),
        ("two words".to_owned(), "has a character that a token cannot have", 4),
    ];
    for (token, why, exit) in &cases {
        let looks: [&[&str]; 5] =
            [&["status"], &["check", "src/a.rs"], &["who", "src/a.rs"], &["log", "src/a.rs"], &["session", "list"]];
        for args in looks {
            let said = world.dibs(args).env("DIBS_TOKEN", token).fails(if args[0] == "check" { 3 } else { 0 });
            assert!(said.out.contains("ana"), "{args:?}: {said:?}");
            let lines = said.err.lines().filter(|line| line.contains("the token in DIBS_TOKEN")).count();
            assert!(lines == 1 && said.err.contains(why), "{args:?}: {said:?}");
            assert!(said.err.contains("counts as none; to repair this: unset DIBS_TOKEN"), "{args:?}: {said:?}");
            assert!(!said.err.contains(token.as_str()), "{said:?}");
        }
        world.dibs(["reserve", "c"]).env("DIBS_TOKEN", token).fails(*exit);
        let json = world.dibs(["status", "--json"]).env("DIBS_TOKEN", token).ok();
        serde_json::from_str::<Value>(&json.out).unwrap();
    }
    let mistake = world.as_session("bo", ["check", "x", "--session", "ana"]).fails(4);
    assert!(mistake.err.contains("this token acts for another session"), "{mistake:?}");
}

#[test]
fn a_named_server_wins_over_a_record_that_cannot_be_used() {
    let world = World::served();
    let (url, token) = (world.url().to_owned(), world.token_of("ana", "session"));
    let record = world.path("app/.git/dibs/server.json");
    for text in ["", "<html>", r#"{"pid": "x"}"#] {
        std::fs::write(&record, text).unwrap();
        world.dibs(["reserve", "a"]).env("DIBS_URL", &url).env("DIBS_TOKEN", &token).ok();
        world.dibs(["status"]).fails(5);
    }
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    world.dibs(["reserve", "a"]).env("DIBS_URL", &url).env("DIBS_TOKEN", &token).ok();
}

#[test]
fn the_hint_for_a_forced_release_did_not_work() {
    let world = World::served();
    world.as_session("ana", ["reserve", "f1"]).ok();
    let refused = world.as_session("bo", ["release", "f1", "--force", "--reason", "x"]).fails(4);
    let (_, hint) = refused.err.split_once("DIBS_TOKEN=$(git dibs ").unwrap_or_else(|| panic!("{refused:?}"));
    let (token_command, _) = hint.split_once(')').unwrap();
    let token = world.dibs(token_command.split(' ')).ok().out;
    let forced = ["release", "f1", "nothere", "--force", "--reason", "x"];
    let said = world.dibs(forced).env("DIBS_TOKEN", token.trim()).fails(1);
    assert!(said.out.contains("released f1, which"), "{said:?}");
    assert!(said.err.contains("no session holds nothere") && !said.err.contains("holds f1"), "{said:?}");
}

#[test]
fn waiting_for_a_feature_that_cannot_be_paused_succeeded() {
    let world = World::served();
    let paused = world.as_session("ana", ["pause", "a b"]).fails(2);
    let waited = world.as_session("ana", ["wait", "--unpaused", "a b"]).fails(2);
    assert!(!waited.err.contains("is not paused") && !paused.err.is_empty(), "{waited:?} {paused:?}");
    world.as_session("ana", ["wait", "--unpaused", "F-1"]).ok();
}
