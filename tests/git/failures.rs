//! What cannot be judged: servers that do not answer properly, invalid tokens, broken repositories.
//!
//! Each is reported in one sentence, with the verdict of the settings. Durations are not measured here: a program that
//! hangs is killed, and the limits themselves are tested in `client`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use git_dibs::wire::Mode;
use serde_json::json;

use crate::server::Shared;
use crate::support::mint;
use crate::world::{Run, World, said};

/// A server that treats every connection like this.
fn listening(treat: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let treat = std::sync::Arc::new(treat);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let treat = treat.clone();
            std::thread::spawn(move || treat(stream));
        }
    });
    url
}

/// A server that listens and never answers.
fn silent() -> String {
    listening(|mut stream| {
        // Until the client closes the connection.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

/// A server that sends this in response to anything.
fn answering(answer: &'static [u8]) -> String {
    listening(move |mut stream| {
        let _ = stream.read(&mut [0; 65536]);
        let _ = stream.write_all(answer);
    })
}

/// A server that begins a valid response and never completes it.
fn dripping() -> String {
    listening(|mut stream| {
        let _ = stream.read(&mut [0; 65536]);
        let mut drops = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n".to_vec();
        while stream.write_all(&drops).is_ok() {
            drops = b" ".to_vec();
            std::thread::sleep(Duration::from_millis(50));
        }
    })
}

/// Tries a commit and a push of `a` with these variables, under the default settings and the opposite ones.
fn is_a_sentence(world: &World, variables: &[(&str, &str)], what: &str) {
    for (hook, setting, stopped) in [
        ("pre-commit", "", false),
        ("pre-commit", "block", true),
        ("pre-push", "", true),
        ("pre-push", "warn", false),
        ("pre-push", "allow", false),
    ] {
        let (noun, by_default) = if hook == "pre-commit" { ("commit", "warn") } else { ("push", "block") };
        // The hook alone, as git starts it: what git does with its exit code is tested elsewhere.
        let update = "refs/heads/main $(git rev-parse HEAD) refs/heads/main $(git rev-parse HEAD^)";
        let option = if setting.is_empty() { String::new() } else { format!("-c dibs.onUnreachable={setting}") };
        let script =
            format!("echo {update} | git {option} hook run {hook} --to-stdin=/dev/stdin -- origin $TOP/origin.git");
        let output = world.try_shell("work", &script, variables);
        let text = said(&output);
        assert_eq!(!output.status.success(), stopped, "{hook}, {setting:?}, {variables:?}: {text}");
        if setting == "allow" {
            assert_eq!(text, "", "{variables:?}");
            continue;
        }
        let verb = if stopped { "is blocked because it could not be checked" } else { "was not checked" };
        let decided = if setting.is_empty() { format!("{by_default} by default") } else { setting.to_owned() };
        let headline = format!("git-dibs: this {noun} {verb} (dibs.onUnreachable={decided}): ");
        assert!(text.starts_with(&headline) && text.contains(what), "{headline}{what}\n{variables:?}: {text}");
        assert!(text.lines().count() == 2 && !text.contains("panicked"), "{variables:?}: {text}");
    }
}

/// A world with something staged and something to push.
fn changed() -> World {
    let world = World::with_hooks(false);
    world.shell("work", "echo 1 >>a; git commit -qam m; echo 2 >>a; git add a");
    world
}

/// The beginning of a reply that says that ana holds `a`. It breaks off in the second conflict.
const CUT_OFF: &str = concat!(
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n",
    r#"{"conflicts":[{"filePath":"file:a","key":"a","reservedBy":"ana","reservedByName":null,"mode":"exclusive","#,
    r#""reason":"x","expiresAt":"2026-01-31T09:31:00.250Z","heldBy":{"sessionId":"ana","#,
    r#""reservedAt":"2026-01-31T09:30:00.250Z"}},{"filePath":"file:b","ke"#,
);

/// A slow server whose reply was not awaited let a change pass that it had already called a conflict.
#[test]
fn a_conflict_in_an_incomplete_reply_stops_the_change() {
    let world = changed();
    let closing = answering(CUT_OFF.as_bytes());
    let stalling = listening(|mut stream| {
        let _ = stream.read(&mut [0; 65536]);
        let _ = stream.write_all(CUT_OFF.as_bytes());
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    std::thread::scope(|scope| {
        for (url, why) in [(&closing, "an incomplete reply"), (&stalling, "did not reply within")] {
            for hook in ["pre-commit", "pre-push"] {
                let world = &world;
                scope.spawn(move || {
                    let update = "refs/heads/main $(git rev-parse HEAD) refs/heads/main $(git rev-parse HEAD^)";
                    let option = "-c dibs.onUnreachable=allow";
                    let script = format!(
                        "echo {update} | git {option} hook run {hook} --to-stdin=/dev/stdin -- origin $TOP/origin.git"
                    );
                    let output = world.try_shell("work", &script, &[("DIBS_URL", url)]);
                    let text = said(&output);
                    assert!(!output.status.success(), "{hook}, {why}: {text}");
                    assert!(
                        text.contains("ana") && text.contains("incomplete") && text.contains(why),
                        "{hook}: {text}"
                    );
                });
            }
        }
    });
}

#[test]
fn a_server_that_does_not_answer_properly_is_reported() {
    let world = changed();
    let web_page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>";
    let other_json = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"ok\": 1}";
    let elsewhere = b"HTTP/1.1 302 Found\r\nlocation: http://x/\r\ncontent-length: 0\r\n\r\n";
    let full_queue = TcpListener::bind("127.0.0.1:0").unwrap();
    let cases = [
        ("http://127.0.0.1:1".to_owned(), "no server answers at http://127.0.0.1:1 (connection refused)"),
        (listening(drop), "it closed the connection without a reply"),
        (silent(), "did not reply within"),
        (format!("http://{}", full_queue.local_addr().unwrap()), "did not reply within"),
        (dripping(), "did not reply within"),
        (answering(web_page), "sent a web page (status 200)"),
        (answering(other_json), "sent unexpected JSON"),
        (answering(elsewhere), "a redirection (status 302)"),
        (answering(b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops"), "a reply that is not JSON (status 500)"),
        (answering(b"\x00\x01\x02 not http at all\r\n\r\n"), "something that is not HTTP"),
        (answering(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"), "an incomplete reply"),
        ("nonsense".to_owned(), "which is not an address"),
        ("https://127.0.0.1:1".to_owned(), "connection refused"),
        ("unix:/nowhere".to_owned(), "no server answers at unix:/nowhere"),
    ];
    // All at once, because several of them take long.
    std::thread::scope(|scope| {
        for (url, what) in &cases {
            let world = &world;
            scope.spawn(move || is_a_sentence(world, &[("DIBS_URL", url), ("DIBS_TOKEN", "x.y.z")], what));
        }
    });
    is_a_sentence(&world, &[], "no server is configured here");
    std::fs::create_dir_all(world.path("work/.git/dibs")).unwrap();
    std::fs::write(world.path("work/.git/dibs/server.json"), "<html>").unwrap();
    is_a_sentence(&world, &[], "server.json is not a server's record");
    world.shell("work", "rm .git/dibs/server.json; mkdir .git/dibs/server.json");
    is_a_sentence(&world, &[], "server.json cannot be read");
}

#[test]
fn a_server_that_stopped_is_reported() {
    let mut world = changed().served();
    // Its record and its socket stay behind.
    world.kill();
    assert!(world.path("work/.git/dibs/server.json").exists());
    is_a_sentence(&world, &[], "is git dibs serve running?");
}

/// With a token that cannot be used the caller counts as a person without a session; see `identity.rs`. Here there is no
/// token for such a person either.
#[test]
fn without_any_usable_token_the_change_is_not_checked() {
    let world = changed().served();
    let url = ("DIBS_URL", world.url());
    std::fs::remove_file(world.path("work/.git/dibs/read-token")).unwrap();
    let expired = world.token(json!({ "sub": "bo", "exp": mint::now() - 3600 }));
    is_a_sentence(&world, &[url, ("DIBS_TOKEN", &expired)], "expired");
    is_a_sentence(
        &world,
        &[url, ("DIBS_TOKEN", "two words")],
        "the token in DIBS_TOKEN has a character that a token cannot have",
    );
    let gone = world.session("gone");
    gone.hold_as("b", git_dibs::wire::Mode::Exclusive);
    gone.end();
    is_a_sentence(&world, &[url, ("DIBS_TOKEN", &gone.token)], "has ended");
    std::fs::write(world.path("work/.git/dibs/token"), "\n").unwrap();
    is_a_sentence(&world, &[url], "dibs/token is empty");
    world.shell("work", "rm .git/dibs/token; git config dibs.tokenFile /nowhere/token");
    is_a_sentence(&world, &[url], "/nowhere/token does not exist, but git config dibs.tokenFile names it");
    world.shell("work", "git config --unset dibs.tokenFile");
    is_a_sentence(&world, &[url], "token");
}

/// Runs a hook in a directory. Returns its exit code and what it prints.
fn hook(world: &World, dir: &str, script: &str, name: &str) -> (Option<i32>, String) {
    hook_with(world, dir, script, name, &[("DIBS_URL", "http://127.0.0.1:1")])
}

fn hook_with(world: &World, dir: &str, script: &str, name: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let script = format!("{script} $TOP/bin/git-dibs hook {name} -- </dev/null");
    let output = world.try_shell(dir, &script, variables);
    assert!(!said(&output).contains("panicked"), "{}", said(&output));
    (output.status.code(), said(&output))
}

#[test]
fn broken_repositories_are_reported() {
    let world = World::with_hooks(false);
    let (code, text) = hook(&world, "", "", "pre-commit");
    assert!(
        code == Some(0) && text.contains("this commit was not checked") && text.contains("not a git repository"),
        "{text}"
    );
    let (code, text) = hook(&world, "", "GIT_DIR=/nowhere", "pre-commit");
    assert!(code == Some(0) && text.contains("not a git repository"), "{text}");
    let (code, text) = hook(&world, "", "", "no-such-hook");
    assert!(code == Some(2) && text.contains("there is no hook"), "{text}");
    let server = Shared::lend();
    server.ana.hold_as("a", Mode::Exclusive);
    let (code, text) = hook_with(&world, "work", "echo junk >.git/index;", "pre-commit", &server.variables());
    assert!(code == Some(0) && text.contains("this commit was not checked") && text.contains("index"), "{text}");
    let (code, text) = hook(&world, "work", "export DIBS_ON_UNREACHABLE=block;", "pre-commit");
    assert!(code == Some(1) && text.contains("DIBS_ON_UNREACHABLE=block"), "{text}");
    let (code, text) = hook(&world, "work", "rm .git/index; echo '[dibs' >>.git/config;", "pre-commit");
    assert!(code == Some(0) && text.contains("bad config"), "{text}");
    let (code, text) = hook(&world, "work", "git init -q ../new; cd ../new; echo junk >.git/HEAD;", "pre-commit");
    assert!(code == Some(0) && text.contains("this commit was not checked"), "{text}");
}

#[test]
fn a_detached_or_unborn_head_is_judged_too() {
    for setup in ["git checkout -q --detach", "git checkout -q --orphan new", "git init -q ../new; cd ../new"] {
        for (setting, expected) in [("warn", 0), ("block", 1)] {
            let world = World::with_hooks(false);
            let script = format!("export DIBS_ON_UNREACHABLE={setting}; {setup}; echo 1 >>a; git add a;");
            let (code, text) = hook(&world, "work", &script, "pre-commit");
            assert!(code == Some(expected) && text.contains("no server answers at "), "{setup}, {setting}: {text}");
        }
    }
}

#[test]
fn a_receiving_repository_without_a_server_refuses_by_default() {
    let world = World::new();
    world.install("origin.git", &["--server"]);
    world.shell("work", "echo 1 >>a; git commit -qam m");
    for (url, what) in [("http://127.0.0.1:1".to_owned(), "connection refused"), (silent(), "did not reply within")] {
        world.shell("origin.git", &format!("git config dibs.url {url}"));
        let output = world.try_shell("work", "git push -q origin main:new", &[]);
        let text = said(&output);
        let headline = "this push is blocked because it could not be checked (dibs.onUnreachable=block by default)";
        assert!(!output.status.success() && text.contains(headline) && text.contains(what), "{text}");
        // The settings of the pushing side do not count.
        let output = world.try_shell("work", "git -c dibs.onUnreachable=allow push -q origin main:new", &[]);
        assert!(!output.status.success(), "{}", said(&output));
    }
    world.shell("origin.git", "git config dibs.onUnreachable allow");
    let output = world.try_shell("work", "git push -q origin main:new", &[]);
    assert!(output.status.success() && !said(&output).contains("git-dibs"), "{}", said(&output));
}

#[test]
fn for_a_remote_that_does_not_answer_every_commit_is_judged() {
    let world = World::with_hooks(false).served();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold_as("dir/y", git_dibs::wire::Mode::Exclusive);
    let remote = silent().replace("http:", "git:") + "/x";
    let update = "echo refs/heads/main $(git rev-parse HEAD) refs/heads/main $(git rev-parse HEAD | tr 0-9a-f 0)";
    let script = format!(
        "git remote remove origin; {update} | git hook run pre-push --to-stdin=/dev/stdin -- {remote} {remote}"
    );
    let output = world.try_shell("work", &script, &world.variables(Some(&bo)));
    let text = said(&output);
    assert!(!output.status.success() && text.contains("dir/y: held by ana"), "{text}");
}

#[test]
fn for_a_remote_that_does_not_answer_tracking_refs_decide() {
    let world = World::with_hooks(false).served();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold_as("dir/y", git_dibs::wire::Mode::Exclusive);
    let remote = silent().replace("http:", "git:") + "/x";
    let push = |setup: &str| {
        let update = "echo refs/heads/main $(git rev-parse HEAD) refs/heads/main $(git rev-parse HEAD | tr 0-9a-f 0)";
        let script = format!("{setup}; {update} | git hook run pre-push --to-stdin=/dev/stdin -- {remote} {remote}");
        world.try_shell("work", &script, &world.variables(Some(&bo)))
    };
    let output = push("true");
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "{}", said(&output));
    let output = push("echo 1 >>dir/y; DIBS_ENFORCE=off git commit -qam m");
    let text = said(&output);
    assert!(!output.status.success() && text.contains("dir/y: held by ana") && !text.contains("dir/x"), "{text}");
    assert!(text.contains("did not say which commits it has, so its tracking refs decided"), "{text}");
}

#[test]
fn missing_objects_are_reported() {
    let world = World::with_hooks(false);
    world.shell("work", "echo 1 >>a; git commit -qam m; echo 2 >>dir/x; git add .; rm -r .git/objects/*");
    let (code, text) = hook(&world, "work", "", "pre-commit");
    assert!(code == Some(0) && text.contains("this commit was not checked"), "{text}");
}

#[test]
fn commands_outside_a_repository_report_it() {
    let world = World::new();
    for command in ["install", "uninstall", "doctor"] {
        let output = world.program("").arg(command).run();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(said(&output), "git-dibs: there is no repository here; go into one\n");
        let output = world.program("").args([command, "--json"]).run();
        assert_eq!(output.status.code(), Some(1));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["code"], "NO_REPOSITORY");
    }
}
