//! Who a hook takes the caller for: a session, another one, or a person without one.

use git_dibs::wire::Mode;
use serde_json::json;

use crate::support::mint;
use crate::support::session::Session;
use crate::support::world::{skip, write_private};
use crate::world::{Process, World, said};

/// A world whose `work` has a staged change of `a`, which Ana holds, and a commit of it to push.
struct Case {
    world: World,
}

impl Case {
    fn new() -> Case {
        let world = World::with_hooks(false).served();
        world.shell("work", "echo 1 >>a; git commit -qam m; echo 2 >>a; git add a");
        Case { world }
    }

    fn ana(&self) -> Session<'_> {
        let ana = self.world.session_with("ana", json!({ "name": "Ana" }));
        ana.hold_as("a", Mode::Exclusive);
        ana
    }

    /// Runs the hooks of a commit and of a push. Returns whether they passed, and what they printed.
    fn hooks(&self, variables: &[(&str, &str)]) -> [(bool, String); 2] {
        // New content each time, because anyone may carry what the holder has committed.
        self.world.shell("work", "date +%N >>a; git commit -q --amend -am m; date +%N >>a; git add a");
        let update = "echo refs/heads/main $(git rev-parse HEAD) refs/heads/main $(git rev-parse HEAD^)";
        let push = format!("{update} | git hook run pre-push --to-stdin=/dev/stdin -- origin $TOP/origin.git");
        ["git hook run pre-commit", &push].map(|script| {
            let output = self.world.try_shell("work", script, variables);
            (output.status.success(), said(&output))
        })
    }
}

/// The line about a token that cannot be used.
fn problem(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("git-dibs: the token in ")).collect()
}

#[test]
fn a_bad_token_is_never_weaker_than_none() {
    let case = Case::new();
    let ana = case.ana();
    let world = &case.world;
    let gone = world.session("gone");
    gone.hold_as("b", Mode::Exclusive);
    gone.end();
    let expired = world.token(json!({ "sub": "bo", "exp": mint::now() - 3600 }));
    let foreign = mint::hs256(&mint::claims(json!({ "sub": "ana" })), b"another secret, as long as it must be");
    let elsewhere = world.token(json!({ "sub": "ana", "repo": "another" }));
    for (token, why) in [
        (&*gone.token, "session gone has ended"),
        (&*expired, "expired"),
        (&*foreign, "not valid"),
        (&*elsewhere, "is not a repository that this token may use here"),
        ("abc.def.ghi", "not valid"),
        ("two words", "has a character that a token cannot have"),
    ] {
        for url in [None, Some(("DIBS_URL", world.url()))] {
            let variables: Vec<_> = url.into_iter().chain([("DIBS_TOKEN", token)]).collect();
            for (passed, text) in case.hooks(&variables) {
                assert!(!passed && text.contains("  a: held by Ana (ana), "), "{token}: {text}");
                assert!(text.contains("is blocked: it changes a path that another session holds"), "{text}");
                let lines = problem(&text);
                assert!(lines.len() == 1 && lines[0].contains(why), "{why}: {text}");
                let repair = "counts as none; to repair this: unset DIBS_TOKEN && git dibs session start, or set DIBS_TOKEN to a valid token.";
                assert!(lines[0].ends_with(repair) && !text.contains(token), "{text}");
            }
        }
    }
    // With nothing in the way it passes, and the line is still there.
    ana.release_all();
    for (passed, text) in case.hooks(&[("DIBS_TOKEN", &gone.token)]) {
        assert!(passed && problem(&text).len() == 1 && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_bad_token_file_is_never_weaker_than_none() {
    let case = Case::new();
    let ana = case.ana();
    let world = &case.world;
    let gone = world.session("gone");
    gone.hold_as("b", Mode::Exclusive);
    gone.end();
    let blocked = |why: &str, repair: &str| {
        for (passed, text) in case.hooks(&[]) {
            assert!(!passed && text.contains("  a: held by Ana (ana), "), "{why}: {text}");
            let lines = problem(&text);
            assert!(lines.len() == 1 && lines[0].contains(why) && lines[0].contains(repair), "{why}: {text}");
        }
    };
    let file = world.path("work/.git/dibs/token");
    let session_start = "to repair this: git dibs session start";
    for (text, why) in [("\n", "is empty"), (&*gone.token, "session gone has ended"), ("x.y.z", "is not accepted")] {
        write_private(&file, text);
        blocked(why, session_start);
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    blocked("cannot be read", session_start);
    std::fs::remove_dir(&file).unwrap();
    world.shell("work", "git config dibs.tokenFile /nowhere/token");
    blocked("does not exist, but git config dibs.tokenFile names it", "git config --unset dibs.tokenFile");
    std::fs::write(world.path("mine"), &gone.token).unwrap();
    world.shell("work", "git config dibs.tokenFile $TOP/mine");
    blocked("session gone has ended", "git config --unset dibs.tokenFile");
    // A valid one is the session that it belongs to.
    std::fs::write(world.path("mine"), &ana.token).unwrap();
    for (passed, text) in case.hooks(&[]) {
        assert!(passed && text.is_empty(), "{text}");
    }
    for (passed, text) in case.hooks(&[("DIBS_TOKEN", "")]) {
        assert!(!passed && problem(&text).is_empty(), "an empty DIBS_TOKEN means no session: {text}");
    }
}

#[test]
fn the_id_of_the_holder_does_not_pass_a_commit() {
    let case = Case::new();
    let ana = case.ana();
    for variables in [&[("DIBS_SESSION", "ana")][..], &[("DIBS_SESSION", "ana"), ("DIBS_URL", case.world.url())]] {
        for (passed, text) in case.hooks(variables) {
            assert!(!passed && text.contains("  a: held by Ana (ana), "), "{variables:?}: {text}");
        }
    }
    for (passed, text) in case.hooks(&[("DIBS_SESSION", "bo"), ("DIBS_TOKEN", &ana.token)]) {
        assert!(passed && text.is_empty(), "the token decides: {text}");
    }
}

#[test]
fn a_commit_beside_a_running_agent_is_not_the_agents() {
    let case = Case::new();
    let world = &case.world;
    let script = "git dibs reserve a >&2; echo ready; read go
        env -u DIBS_TOKEN git commit -qm 'without the token' && git reset -q --soft HEAD^ && echo run
        echo 3 >>a; git add a
        DIBS_RUN=guess env -u DIBS_TOKEN git commit -qm 'with a guess' || echo guess
        DIBS_TOKEN= git commit -qm 'without a session' || echo nobody
        env -u DIBS_RUN git commit -qm 'with the token' && echo token";
    let mut command = world.program("work");
    command.args(["run", "--name", "Agent", "--", "sh", "-c", script]).stdin(std::process::Stdio::piped());
    let mut agent = Process::start(&mut command).unwrap();
    assert_eq!(agent.line(), "ready");
    for variables in [&[][..], &[("DIBS_RUN", "guess")], &[("DIBS_SESSION", "agent")]] {
        for (passed, text) in case.hooks(variables) {
            assert!(!passed && text.contains("  a: held by Agent (agent-"), "{variables:?}: {text}");
        }
    }
    agent.send("go\n");
    let output = agent.finish();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "run\nguess\nnobody\ntoken\n", "{}", said(&output));
}

#[test]
fn what_a_killed_agent_held_blocks_no_commit() {
    let case = Case::new();
    let script = "git dibs reserve a --ttl 300 >&2; echo ready; read go";
    let mut command = case.world.program("work");
    command.args(["run", "--id", "agent", "--", "sh", "-c", script]).stdin(std::process::Stdio::piped());
    let mut agent = Process::start(&mut command).unwrap();
    assert_eq!(agent.line(), "ready");
    assert!(!case.hooks(&[])[0].0, "it is alive");
    agent.kill();
    for (passed, text) in case.hooks(&[]) {
        assert!(passed && text.is_empty(), "{text}");
    }
    assert_eq!(case.world.held(), [""; 0]);
}

#[test]
fn an_agents_own_variable_leads_to_its_session() {
    let case = Case::new();
    let ana = case.ana();
    let dir = case.world.path("work/.git/dibs/runs");
    let script = format!(
        "mkdir -m 700 {dir}; umask 077; echo '{{\"token\": \"{}\"}}' >{dir}/$(printf claude:s3cr3t | sha256sum | cut -c 1-64)",
        ana.token,
        dir = dir.display(),
    );
    case.world.shell("work", &script);
    for (passed, text) in case.hooks(&[("CLAUDE_CODE_SESSION_ID", "s3cr3t")]) {
        assert!(passed && text.is_empty(), "{text}");
    }
    for (passed, text) in case.hooks(&[("CODEX_SESSION_ID", "s3cr3t")]) {
        assert!(!passed, "{text}");
    }
    ana.end();
    let bo = case.world.session("bo");
    bo.hold_as("a", Mode::Exclusive);
    for (passed, text) in case.hooks(&[("CLAUDE_CODE_SESSION_ID", "s3cr3t")]) {
        let line = "the token in the session file of CLAUDE_CODE_SESSION_ID is not accepted (session ana has ended";
        assert!(!passed && text.contains(line) && !text.contains("s3cr3t"), "{text}");
    }
}

#[test]
fn a_named_server_is_asked_whatever_the_record_says() {
    let case = Case::new();
    let ana = case.ana();
    let bo = case.world.session("bo");
    let url = case.world.url().to_owned();
    for damage in ["echo '<html>' >", "rm ", "rm -f .git/dibs/server.json; mkdir "] {
        case.world.shell("work", &format!("{damage} .git/dibs/server.json"));
        for (session, passes) in [(&ana, true), (&bo, false)] {
            for (passed, text) in case.hooks(&[("DIBS_URL", &url), ("DIBS_TOKEN", &session.token)]) {
                assert_eq!(passed, passes, "{damage}: {text}");
                assert!(!text.contains("was not checked") && !text.contains("could not be checked"), "{text}");
            }
        }
    }
}

/// The record of a server names a socket; another user could write one that leads to a server of its own.
#[test]
fn a_server_record_of_another_user_does_not_replace_the_address_that_was_named() {
    let world = World::with_hooks(false).served();
    let elsewhere = World::new().served();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    ana.hold_as("a", Mode::Exclusive);
    // As user `nobody`, in a repository of root, with the record of root's other server in it.
    let as_nobody = "test $(id -u) = 0 && setpriv --reuid=65534 --regid=65534 --clear-groups true";
    if !world.try_shell("", as_nobody, &[]).status.success() {
        skip("a server record of another user, because only root can run a command as another user");
        return;
    }
    let (record, other) = (world.path("work/.git/dibs/server.json"), elsewhere.path("work/.git/dibs/server.json"));
    let of_other_server = std::fs::read(other).unwrap();
    let variables = [
        &world.variables(Some(&bo))[..],
        &[("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")],
    ]
    .concat();
    // Without the files of the server, which come and go.
    world.shell(
        "",
        "chmod a+rX .; chmod -R a+rX bin; find work -path 'work/.git/dibs/*' -prune -o -exec chmod a+rX {} +",
    );
    let check = || {
        let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        let output = world.try_shell("work", &format!("{nobody} $TOP/bin/git-dibs check a"), &variables);
        (output.status.code(), said(&output))
    };
    for mode in [0o644, 0o600] {
        std::fs::write(&record, &of_other_server).unwrap();
        std::fs::set_permissions(&record, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let (code, text) = check();
        assert_eq!(code, Some(3), "{mode:o}: {text}");
        assert!(text.contains("a: held by ana"), "{mode:o}: {text}");
    }
    std::fs::write(&record, "not a record").unwrap();
    let (code, text) = check();
    assert!(code == Some(3) && text.contains("a: held by ana"), "{text}");
}
