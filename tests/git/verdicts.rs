//! The whole way: real git, real hooks, a real server, somebody who holds something.

use git_dibs::wire::Mode;

use crate::server::Server;
use crate::world::{World, said};

/// Runs a situation once for each path it is judged by, with that path held by ana: it must be stopped, and say why.
/// With a path held that it only undoes, or one it does not touch, it must pass without a word.
pub fn try_with_each_path_held(setup: &str, act: &str, judged: &str) {
    let words = || judged.split_whitespace().filter(|word| !matches!(*word, "-" | "|") && !is_hook(word));
    let mut counting: Vec<&str> = words().filter(|word| !word.starts_with('~')).collect();
    let mut undone: Vec<&str> = words().filter_map(|word| word.strip_prefix('~')).collect();
    for list in [&mut counting, &mut undone] {
        list.sort_unstable();
        list.dedup();
        // The first and the last stand for all.
        if list.len() > 2 {
            list.drain(1..list.len() - 1);
        }
    }
    for path in &counting {
        let (stopped, text) = run(setup, act, path);
        assert!(stopped, "{path} is held, and this went through:\n{act}\n{text}");
        assert!(text.contains(&format!("{path}: held by Ana (ana), ")), "{text}");
        assert!(
            text.contains(" left: a good reason") && text.contains("it is blocked (dibs.enforce=block by default)"),
            "{text}"
        );
    }
    for path in undone.iter().chain(&["elsewhere/untouched"]) {
        let (stopped, text) = run(setup, act, path);
        assert!(!stopped, "{path} is held, and this was stopped:\n{act}\n{text}");
        assert!(!text.contains("git-dibs:"), "{text}");
    }
}

fn is_hook(word: &str) -> bool {
    git_dibs::hook::Moment::parse(word).is_some()
}

fn run(setup: &str, act: &str, held: &str) -> (bool, String) {
    let world = World::with_hooks(false);
    let server = Server::start(&world);
    let (mut ana, bo) = (server.session("ana", &["--name", "Ana"]), server.session("bo", &[]));
    ana.hold(held, Mode::Exclusive);
    world.shell("work", setup);
    let output = world.try_shell("work", act, &server.variables(Some(&bo)));
    (!output.status.success(), said(&output))
}

/// A world in which ana holds `key`, and what becomes of a commit of `a` and `dir/x` by whom it may concern.
struct Case<'a> {
    world: &'a World,
    server: Server<'a>,
}

impl<'a> Case<'a> {
    fn new(world: &'a World) -> Case<'a> {
        world.shell("work", "echo 1 >>a; echo 1 >>dir/x; git add a dir/x");
        Case { world, server: Server::start(world) }
    }

    /// Tries the commit and takes it back; whether it passed, and what was said.
    fn commit(&self, variables: &[(&str, &str)], options: &str) -> (bool, String) {
        let output = self.world.try_shell(
            "work",
            &format!("git {options} commit -qm m && git reset -q --soft HEAD^"),
            variables,
        );
        (output.status.success(), said(&output))
    }
}

#[test]
fn the_holder_passes_and_so_does_everybody_once_it_is_released() {
    let world = World::with_hooks(true);
    let case = Case::new(&world);
    let (mut ana, bo) = (case.server.session("ana", &[]), case.server.session("bo", &[]));
    ana.hold("dir/", Mode::Exclusive);
    let (passed, text) = case.commit(&case.server.variables(Some(&ana)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    let (passed, text) = case.commit(&case.server.variables(Some(&bo)), "");
    assert!(!passed && text.contains("dir/x: held by ana through dir/**, "), "{text}");
    assert!(text.contains("git dibs request dir/x") && !text.contains("  a: "), "{text}");
    ana.release();
    let (passed, text) = case.commit(&case.server.variables(Some(&bo)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
}

#[test]
fn what_has_expired_is_in_nobodys_way() {
    let world = World::with_hooks(false);
    let case = Case::new(&world);
    let (mut ana, mut bo) = (case.server.session("ana", &[]), case.server.session("bo", &[]));
    let cy = case.server.session("cy", &[]);
    ana.hold_for("a", 1);
    // Whoever waits in the queue is told the moment it is over.
    bo.wait_for("a");
    bo.release();
    let (passed, text) = case.commit(&case.server.variables(Some(&cy)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
}

#[test]
fn an_ended_session_holds_nothing_and_its_token_is_no_use() {
    let world = World::with_hooks(false);
    let case = Case::new(&world);
    let (mut ana, bo) = (case.server.session("ana", &[]), case.server.session("bo", &[]));
    ana.hold("a", Mode::Exclusive);
    ana.end();
    assert!(case.commit(&case.server.variables(Some(&bo)), "").0);
    let (passed, text) = case.commit(&case.server.variables(Some(&ana)), "");
    assert!(passed && text.contains("this commit was not checked") && text.contains("Start a new session"), "{text}");
    let (passed, text) = case.commit(&case.server.variables(Some(&ana)), "-c dibs.onUnreachable=block");
    assert!(!passed && text.contains("(dibs.onUnreachable=block)"), "{text}");
}

#[test]
fn a_person_is_kept_from_what_is_held_and_from_nothing_else() {
    let world = World::with_hooks(false);
    let case = Case::new(&world);
    let mut ana = case.server.session("ana", &["--name", "Ana"]);
    let person = [("DIBS_TEST_JUDGE", "1")];
    let (passed, text) = case.commit(&person, "-c dibs.require=held");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    ana.hold("a", Mode::Shared);
    let (passed, text) = case.commit(&person, "");
    assert!(!passed && text.contains("a: held by Ana (ana), ") && text.contains("Talk to the holder"), "{text}");
}

#[test]
fn a_worktree_has_a_session_of_its_own() {
    let world = World::with_hooks(false);
    let server = Server::start(&world);
    let mut ana = server.session("ana", &[]);
    ana.hold("a", Mode::Exclusive);
    world.shell("work", "git worktree add -q -b side ../side; echo 1 >>../side/a; mkdir -p .git/worktrees/side/dibs");
    std::fs::write(world.path("work/.git/worktrees/side/dibs/token"), &ana.token).unwrap();
    let judge = [("DIBS_TEST_JUDGE", "1")];
    let output = world.try_shell("side", "git commit -qam m", &judge);
    assert!(output.status.success(), "{}", said(&output));
    let output = world.try_shell("work", "echo 1 >>a; git commit -qam m", &judge);
    assert!(!output.status.success() && said(&output).contains("a: held by ana"), "{}", said(&output));
}

#[test]
fn who_holds_it_shared_may_change_it_beside_the_others() {
    let world = World::with_hooks(false);
    let case = Case::new(&world);
    let (mut ana, mut bo) = (case.server.session("ana", &[]), case.server.session("bo", &[]));
    ana.hold("a", Mode::Shared);
    assert!(!case.commit(&case.server.variables(Some(&bo)), "").0, "bo holds nothing");
    bo.hold("a", Mode::Shared);
    let (passed, text) = case.commit(&case.server.variables(Some(&bo)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    let strict = case.commit(&case.server.variables(Some(&bo)), "-c dibs.require=held");
    assert!(
        !strict.0 && strict.1.contains("not reserved") && strict.1.contains("  dir/x\n") && !strict.1.contains("  a\n"),
        "{}",
        strict.1
    );
}

#[test]
fn a_paused_feature_stops_its_own_sessions() {
    let world = World::with_hooks(false);
    let case = Case::new(&world);
    let mut lead = case.server.session("lead", &[]);
    let (inside, outside) =
        (case.server.session("bo", &["--feature", "F1"]), case.server.session("cy", &["--feature", "F2"]));
    lead.hold("feature:F1:pause", Mode::Exclusive);
    let (passed, text) = case.commit(&case.server.variables(Some(&inside)), "");
    assert!(!passed && text.contains("your feature is paused by lead") && text.contains(": a good reason"), "{text}");
    assert!(case.commit(&case.server.variables(Some(&outside)), "").0);
}

#[test]
fn settings_decide_and_are_named() {
    let world = World::with_hooks(false);
    let case = Case::new(&world);
    let (mut ana, bo) = (case.server.session("ana", &[]), case.server.session("bo", &[]));
    ana.hold("a", Mode::Exclusive);
    let variables = case.server.variables(Some(&bo));
    let (passed, text) = case.commit(&variables, "-c dibs.enforce=warn");
    assert!(passed && text.contains("only a warning (dibs.enforce=warn)"), "{text}");
    assert_eq!(text.matches("git-dibs:").count(), 1, "said once: {text}");
    let (passed, text) = case.commit(&variables, "-c dibs.enforce=off");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    let (passed, text) = case.commit(&variables, "-c dibs.enforce=nonsense");
    assert!(!passed && text.contains("dibs.enforce is \"nonsense\""), "{text}");
}

#[test]
fn a_server_judges_by_push_option_by_environment_and_as_a_stranger() {
    let world = World::new();
    world.install("origin.git", false, true);
    let server = Server::start(&world);
    let (mut ana, bo) = (server.session("ana", &["--name", "Ana"]), server.session("bo", &[]));
    let reader = server.session("reader", &["--scope", "read"]);
    std::fs::write(world.path("origin.git/reader"), &reader.token).unwrap();
    world.shell("origin.git", &format!("git config dibs.url {}; git config dibs.tokenFile $PWD/reader", server.url));
    ana.hold("a", Mode::Exclusive);
    world.shell("work", "echo 1 >>a; git commit -qam m");
    let judge = ("DIBS_TEST_JUDGE", "1");
    let push = |options: &str, variables: &[(&str, &str)]| {
        let output = world.try_shell(
            "work",
            &format!("git push -q --no-verify {options} origin main:new && git push -q origin :new"),
            variables,
        );
        (output.status.success(), said(&output))
    };
    let (passed, text) = push("", &[judge]);
    assert!(!passed && text.contains("remote:   a: held by Ana (ana), "), "a stranger: {text}");
    let (passed, text) = push("", &[judge, ("DIBS_TOKEN", &bo.token)]);
    assert!(!passed && text.contains("git dibs request a"), "bo by environment: {text}");
    let (passed, text) = push("", &[judge, ("DIBS_TOKEN", &ana.token)]);
    assert!(passed, "ana by environment: {text}");
    let (passed, text) =
        push(&format!("-o dibs-token={}", ana.token), &[judge, ("DIBS_TOKEN", &bo.token), ("DIBS_SESSION", "bo")]);
    assert!(passed && !text.contains(&ana.token), "ana by push option: {text}");
}

#[test]
fn odd_names_are_judged_byte_for_byte() {
    let world = World::with_hooks(false);
    let server = Server::start(&world);
    let (mut ana, bo) = (server.session("ana", &[]), server.session("bo", &[]));
    ana.hold("[id].ts", Mode::Exclusive);
    ana.hold("file:[id].ts", Mode::Exclusive);
    ana.hold("caf\u{e9}", Mode::Exclusive);
    ana.hold("odd/", Mode::Exclusive);
    let commit = |name: &str| {
        let script = format!(
            "mkdir -p odd; printf x >$(printf '{name}') 2>/dev/null || printf x >\"$(printf '{name}')\"; git add -A; git commit -qm m"
        );
        let output = world.try_shell("work", &script, &server.variables(Some(&bo)));
        world.shell("work", "git reset -q --hard; git clean -fdq");
        (output.status.success(), said(&output))
    };
    for (name, shown) in [
        ("[id].ts", "[id].ts"),
        ("i", ""),
        ("cafe\\314\\201", "cafe\u{301}"),
        ("odd/new\\nline", "odd/new\\nline"),
        ("odd/\\377\\376", "odd/\\xff\\xfe"),
        ("odd/ -rf", "odd/ -rf"),
        ("100%%", ""),
    ] {
        let (passed, text) = commit(name);
        assert_eq!(passed, shown.is_empty(), "{name}: {text}");
        assert!(shown.is_empty() || text.contains(&format!("  {shown}: held by ana")), "{name}: {text}");
    }
}

#[test]
fn a_server_that_is_no_use_is_a_sentence_within_the_time_limits() {
    let world = World::with_hooks(false);
    world.shell("work", "echo 1 >>a; git add a");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let answering = |answer: &'static [u8]| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            use std::io::{Read, Write};
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.read(&mut [0; 65536]);
                let _ = stream.write_all(answer);
            }
        });
        url
    };
    let html = answering(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>");
    let broken = answering(b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops");
    let garbage = answering(b"\x00\x01\x02 not http at all\r\n\r\n");
    for url in ["http://127.0.0.1:1", &silent, &html, &broken, &garbage, "nonsense", "https://x", "unix:/nowhere"] {
        for (policy, expected) in
            [("warn", "this commit was not checked"), ("block", "is blocked because it could not be checked")]
        {
            let act = format!("git -c dibs.onUnreachable={policy} commit -qm m && git reset -q --soft HEAD^");
            let output =
                world.try_shell("work", &act, &[("DIBS_TEST_JUDGE", "1"), ("DIBS_URL", url), ("DIBS_TOKEN", "x.y.z")]);
            let text = said(&output);
            assert_eq!(output.status.success(), policy == "warn", "{url}: {text}");
            assert!(text.contains(expected) && !text.contains("panicked"), "{url}: {text}");
        }
    }
    let output = world.try_shell("work", "git commit -qm m", &[("DIBS_TEST_JUDGE", "1")]);
    assert!(output.status.success() && said(&output).contains("No server is known here"), "{}", said(&output));
}

#[test]
fn places_where_nothing_can_be_judged_are_sentences() {
    let world = World::with_hooks(false);
    let hook = |dir: &str, script: &str, name: &str| {
        let script = format!("{script} $TOP/program hook {name} -- </dev/null");
        let output = world.try_shell(dir, &script, &[("DIBS_TEST_JUDGE", "1"), ("DIBS_URL", "http://127.0.0.1:1")]);
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
        (output.status.code(), said(&output))
    };
    let (code, text) = hook("", "", "pre-commit");
    assert!(
        code == Some(0) && text.contains("this commit was not checked") && text.contains("not a git repository"),
        "{text}"
    );
    let (code, text) = hook("", "", "no-such-hook");
    assert!(code == Some(2) && text.contains("there is no hook"), "{text}");
    let (code, text) = hook("work", "echo 1 >>a; git add a; mkdir -p .git/dibs/token;", "pre-commit");
    assert!(code == Some(0) && text.contains("cannot be read") && text.contains("git dibs session start"), "{text}");
    let (code, text) = hook("work", "echo junk >.git/index;", "pre-commit");
    assert!(code == Some(0) && text.contains("git diff-index failed"), "{text}");
    let (code, text) = hook("work", "echo junk >.git/index; export DIBS_ON_UNREACHABLE=block;", "pre-commit");
    assert!(code == Some(1) && text.contains("DIBS_ON_UNREACHABLE=block"), "{text}");
    let (code, text) = hook("work", "echo junk >.git/HEAD;", "pre-commit");
    assert!(code == Some(0) && text.contains("this commit was not checked"), "{text}");
}
