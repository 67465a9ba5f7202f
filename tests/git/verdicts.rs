//! End to end: real git, real hooks, a real server, and a session that holds something.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use git_dibs::text::terminal;
use git_dibs::wire::Mode;
use serde_json::json;

use crate::names::NAMES;
use crate::server::Shared;
use crate::support::session::Session;
use crate::support::world::write_private;
use crate::world::{Snapshot, World, said};

/// The files at the start, and one that never exists.
const FILES: [&str; 7] = ["a", "b", "c", "dir/x", "dir/y", "run.sh", "elsewhere/untouched"];

/// Runs a situation once for each path it is judged by, with that path held by ana: it must be stopped, and say why.
/// With all other paths held, also those it only undoes or carries, it must pass without a message.
pub fn try_with_each_path_held(world: &World, before: &Snapshot<'_>, act: &str, judged: &str) {
    let run = |held: &[&str]| {
        let server = Shared::lend();
        server.ana.hold_all(held);
        before.restore();
        let output = world.try_shell("work", act, &server.variables());
        (!output.status.success(), said(&output))
    };
    let words = judged.split_whitespace().filter(|word| !matches!(*word, "-" | "|") && !is_hook(word));
    let mut counting: Vec<&str> = words.filter(|word| !word.starts_with('~')).collect();
    counting.sort_unstable();
    counting.dedup();
    let others: Vec<&str> = FILES.into_iter().filter(|file| !counting.contains(file)).collect();
    let (stopped, text) = run(&others);
    assert!(!stopped, "only {others:?} are held, and this was stopped:\n{act}\n{text}");
    let unseen = "has commits that were never fetched";
    assert!(text.lines().all(|line| !line.contains("git-dibs:") || line.contains(unseen)), "{text}");
    // The first and the last stand for all.
    if counting.len() > 2 {
        counting.drain(1..counting.len() - 1);
    }
    for path in counting {
        let (stopped, text) = run(&[path]);
        assert!(stopped, "{path} is held, and this went through:\n{act}\n{text}");
        assert!(text.contains(&format!("{path}: held by Ana (ana), ")), "{text}");
        assert!(
            text.contains(" left: a good reason")
                && text.contains(" is blocked: it changes ")
                && text.contains(" (dibs.enforce=block by default)"),
            "{text}"
        );
    }
}

fn is_hook(word: &str) -> bool {
    git_dibs::hook::Moment::parse(word).is_some()
}

/// A server, and a commit of `a` and `dir/x` to be tried as different sessions.
struct Case {
    world: World,
}

impl Case {
    fn new(world: World) -> Case {
        world.shell("work", "echo 1 >>a; echo 1 >>dir/x; git add a dir/x");
        Case { world: world.served() }
    }

    /// Tries the commit and undoes it. Returns whether it passed, and what was printed.
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
fn the_holder_passes_and_after_release_every_session() {
    let case = Case::new(World::with_hooks(true));
    let (ana, bo) = (case.world.session("ana"), case.world.session("bo"));
    ana.hold_as("dir/", Mode::Exclusive);
    let (passed, text) = case.commit(&case.world.variables(Some(&bo)), "");
    assert!(!passed && text.contains("dir/x: held by ana through dir/**, "), "{text}");
    assert!(text.contains("git dibs request :/dir/x") && !text.contains("  a: "), "{text}");
    let (passed, text) = case.commit(&case.world.variables(Some(&ana)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    ana.release_all();
    let (passed, text) = case.commit(&case.world.variables(Some(&bo)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
}

#[test]
fn an_expired_reservation_blocks_no_commit() {
    let case = Case::new(World::with_hooks(false));
    let (ana, bo) = (case.world.session("ana"), case.world.session("bo"));
    let cy = case.world.session("cy");
    ana.hold_for("a", 1);
    // A waiting request is granted the moment the reservation expires.
    bo.wait_for("a");
    bo.release_all();
    let (passed, text) = case.commit(&case.world.variables(Some(&cy)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
}

#[test]
fn an_ended_session_holds_nothing_and_its_token_is_refused() {
    let case = Case::new(World::with_hooks(false));
    let (ana, bo) = (case.world.session("ana"), case.world.session("bo"));
    ana.hold_as("a", Mode::Exclusive);
    ana.end();
    assert!(case.commit(&case.world.variables(Some(&bo)), "").0);
    let (passed, text) = case.commit(&case.world.variables(Some(&ana)), "-c dibs.onUnreachable=block");
    assert!(passed && text.contains("session ana has ended") && text.contains("unset DIBS_TOKEN"), "{text}");
}

#[test]
fn without_a_session_only_held_paths_are_blocked() {
    let case = Case::new(World::with_hooks(false));
    let ana = case.world.session_with("ana", json!({ "name": "Ana" }));
    let person = [];
    let (passed, text) = case.commit(&person, "-c dibs.require=held");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    ana.hold_as("a", Mode::Shared);
    let (passed, text) = case.commit(&person, "");
    assert!(!passed && text.contains("a: held by Ana (ana), ") && text.contains("Talk to the holder"), "{text}");
}

#[test]
fn a_worktree_has_a_session_of_its_own() {
    let world = World::with_hooks(false).served();
    let ana = world.session("ana");
    ana.hold_as("a", Mode::Exclusive);
    world.shell("work", "git worktree add -q -b side ../side; echo 1 >>../side/a; mkdir -p .git/worktrees/side/dibs");
    write_private(&world.path("work/.git/worktrees/side/dibs/token"), &ana.token);
    let output = world.try_shell("side", "git commit -qam m", &[]);
    assert!(output.status.success(), "{}", said(&output));
    let output = world.try_shell("work", "echo 2 >>a; git commit -qam m", &[]);
    assert!(!output.status.success() && said(&output).contains("a: held by ana"), "{}", said(&output));
}

#[test]
fn check_staged_agrees_with_the_commit() {
    let world = World::with_hooks(false);
    world.shell("work", "echo 1 >>b; git commit -qm one b");
    let case = Case::new(world);
    let world = &case.world;
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let dibs = |session: &Session, command: &str| {
        let script = format!("export PATH=$TOP/bin:$PATH; git {command}");
        world.try_shell("work", &script, &world.variables(Some(session)))
    };
    let agrees = |session: &Session, option: &str, passes: bool| {
        let (passed, text) = case.commit(&world.variables(Some(session)), option);
        let check = dibs(session, &format!("{option} dibs check --staged"));
        let exit = Some(if passes { 0 } else { 3 });
        assert_eq!((passed, check.status.code()), (passes, exit), "{option}: {text}{}", said(&check));
    };
    ana.hold_as("a", Mode::Shared);
    agrees(&bo, "", false);
    bo.hold_as("a", Mode::Shared);
    agrees(&bo, "", true);
    agrees(&bo, "-c dibs.require=held", false);
    bo.hold_as("dir/x", Mode::Exclusive);
    agrees(&bo, "-c dibs.require=held", true);
    // The change of b is undone, although ana holds it now.
    ana.hold_as("b", Mode::Exclusive);
    world.shell("work", "git checkout HEAD^ -- b");
    agrees(&bo, "", true);
    let reply: serde_json::Value = serde_json::from_slice(&dibs(&bo, "dibs check --staged --json").stdout).unwrap();
    assert_eq!(reply["conflicts"], json!([]));
    assert!(reply["clear"].as_array().unwrap().contains(&"file:b".into()), "{reply}");
    world.shell("work", "echo 2 >>b; git add b");
    agrees(&bo, "", false);
}

#[test]
fn a_shared_holder_may_change_the_file() {
    let case = Case::new(World::with_hooks(false));
    let (ana, bo) = (case.world.session("ana"), case.world.session("bo"));
    ana.hold_as("a", Mode::Shared);
    assert!(!case.commit(&case.world.variables(Some(&bo)), "").0, "bo holds nothing");
    bo.hold_as("a", Mode::Shared);
    let (passed, text) = case.commit(&case.world.variables(Some(&bo)), "");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    let strict = case.commit(&case.world.variables(Some(&bo)), "-c dibs.require=held");
    assert!(
        !strict.0 && strict.1.contains("not reserved") && strict.1.contains("  dir/x\n") && !strict.1.contains("  a\n"),
        "{}",
        strict.1
    );
}

#[test]
fn a_paused_feature_blocks_its_own_sessions() {
    let case = Case::new(World::with_hooks(false));
    let lead = case.world.session("lead");
    let (inside, outside) = (
        case.world.session_with("bo", json!({ "feature": "F1" })),
        case.world.session_with("cy", json!({ "feature": "F2" })),
    );
    lead.hold_as("feature:F1:pause", Mode::Exclusive);
    let (passed, text) = case.commit(&case.world.variables(Some(&inside)), "");
    assert!(
        !passed && text.contains("your feature F1 is paused by lead") && text.contains(": a good reason"),
        "{text}"
    );
    assert!(case.commit(&case.world.variables(Some(&outside)), "").0);
}

#[test]
fn messages_name_the_setting_that_decided() {
    let case = Case::new(World::with_hooks(false));
    let (ana, bo) = (case.world.session("ana"), case.world.session("bo"));
    ana.hold_as("a", Mode::Exclusive);
    let variables = case.world.variables(Some(&bo));
    let (passed, text) = case.commit(&variables, "-c dibs.enforce=warn");
    assert!(passed && text.contains("warning for this ") && text.contains(" (dibs.enforce=warn)"), "{text}");
    assert_eq!(text.matches("git-dibs:").count(), 1, "said once: {text}");
    let (passed, text) = case.commit(&variables, "-c dibs.enforce=off");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
    let (passed, text) = case.commit(&variables, "-c dibs.enforce=nonsense");
    assert!(!passed && text.contains("dibs.enforce is \"nonsense\""), "{text}");
}

#[test]
fn a_server_finds_the_session_in_push_option_or_environment() {
    let world = World::new().served();
    world.install("origin.git", &["--server"]);
    let (ana, bo) = (world.session_with("ana", json!({ "name": "Ana" })), world.session("bo"));
    let reader = world.session_with("reader", json!({ "scope": "read" }));
    std::fs::write(world.path("origin.git/reader"), &reader.token).unwrap();
    world.shell("origin.git", &format!("git config dibs.url {}; git config dibs.tokenFile $PWD/reader", world.url()));
    ana.hold_as("a", Mode::Exclusive);
    world.shell("work", "echo 1 >>a; git commit -qam m");
    let push = |options: &str, variables: &[(&str, &str)]| {
        let output = world.try_shell(
            "work",
            &format!("git push -q --no-verify {options} origin main:new && git push -q origin :new"),
            variables,
        );
        (output.status.success(), said(&output))
    };
    let (passed, text) = push("", &[]);
    assert!(!passed && text.contains("remote:   a: held by Ana (ana), "), "a stranger: {text}");
    let (passed, text) = push("", &[("DIBS_TOKEN", &bo.token)]);
    assert!(!passed && text.contains("git dibs request :/a"), "bo by environment: {text}");
    let (passed, text) = push("", &[("DIBS_TOKEN", &ana.token)]);
    assert!(passed, "ana by environment: {text}");
    let (passed, text) =
        push(&format!("-o dibs-token={}", ana.token), &[("DIBS_TOKEN", &bo.token), ("DIBS_SESSION", "bo")]);
    assert!(passed && !text.contains(&ana.token), "ana by push option: {text}");
}

#[test]
fn unusual_names_are_judged_byte_for_byte() {
    let world = World::with_hooks(false).served();
    let (ana, bo) = (world.session("ana"), world.session("bo"));
    let write = |name: &[u8]| std::fs::write(world.path("work").join(OsStr::from_bytes(name)), "x").unwrap();
    NAMES.into_iter().for_each(write);
    world.shell("work", "git add -A");
    let commit = || {
        let output = world.try_shell("work", "git commit -qm m", &world.variables(Some(&bo)));
        (output.status.success(), said(&output))
    };
    for name in NAMES {
        // Some names cannot be reserved by themselves, only with what is around them.
        let shown = terminal::path(name);
        let line = match ana.try_hold_literally(name) {
            true => format!("\n  {shown}: held by ana"),
            false => {
                ana.hold_as("**", Mode::Exclusive);
                "held by ana through **".to_owned()
            }
        };
        let (passed, text) = commit();
        assert!(!passed && text.contains(&line), "{shown}: {text}");
        ana.release_all();
    }
    // A pattern covers its own text, because most callers mean the file of that name.
    ana.hold_as("[id].ts", Mode::Exclusive);
    let (passed, text) = commit();
    assert!(!passed && text.contains("\n  [id].ts: held by ana"), "{text}");
    ana.release_all();
    // Keys that only look similar do not overlap.
    ana.hold_as("[xy].ts", Mode::Exclusive);
    ana.hold_as("file:star", Mode::Exclusive);
    let (passed, text) = commit();
    assert!(passed, "{text}");
}

#[test]
fn a_file_moved_into_a_held_directory_is_blocked() {
    let world = World::with_hooks(false);
    let server = Shared::lend();
    world.shell("work", "git mv a dir/moved");
    for key in ["dir/", "dir/*ed", "**/moved", "dir", "{x,dir}/m?ved"] {
        server.ana.hold_as(key, Mode::Exclusive);
        let output = world.try_shell("work", "git commit -qm m", &server.variables());
        let text = said(&output);
        assert!(!output.status.success() && text.contains("  dir/moved: held by Ana (ana) through "), "{key}: {text}");
        assert!(!text.contains("  a: "), "{key}: {text}");
        server.ana.release_all();
    }
}

#[test]
fn a_merge_that_is_no_fast_forward_only_carries_and_its_push_is_checked() {
    let world = World::with_hooks(false);
    world.shell("work", "git checkout -q -b topic; echo 1 >>a; git commit -qam topic; git checkout -q main");
    let server = Shared::lend();
    server.ana.hold_as("a", Mode::Exclusive);
    let output = world.try_shell("work", "git merge -q --no-ff --no-edit topic", &server.variables());
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "{}", said(&output));
    let output = world.try_shell("work", "git push -q", &server.variables());
    let text = said(&output);
    assert!(!output.status.success() && text.contains("a: held by Ana (ana)") && text.contains(": topic"), "{text}");
}

#[test]
fn without_a_session_nothing_must_be_held() {
    let world = World::with_hooks(true).served();
    world.shell("work", "git config dibs.require held; echo 1 >>a");
    let output = world.try_shell("work", "git commit -qam m; git push -q", &[]);
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "a person: {}", said(&output));
    let bo = world.session("bo");
    let output = world.try_shell("work", "echo 2 >>a; git commit -qam m", &world.variables(Some(&bo)));
    let text = said(&output);
    assert!(!output.status.success() && text.contains("that you have not reserved (dibs.require=held)"), "{text}");
}

#[test]
fn a_tracking_ref_of_another_branch_that_the_remote_deleted_is_not_believed() {
    let world = World::with_hooks(false);
    world.shell("work", "git checkout -q -b x; echo 1 >>b; git commit -qam x; git push -q origin x; git checkout -q main; echo 1 >>a; git commit -qam mine; git merge -q --no-edit x");
    let server = Shared::lend();
    server.ana.hold_as("b", Mode::Exclusive);
    let before = world.snapshot();
    let push = |act: &str| {
        let output = world.try_shell("work", act, &server.variables());
        before.restore();
        (output.status.success(), said(&output))
    };
    let acts = ["git push -q", "git push -q origin main:new", "git push -q origin x:again"];
    for act in acts {
        let (passed, text) = push(act);
        assert!(passed && !text.contains("git-dibs:"), "the remote has the branch: {act}\n{text}");
        let (passed, text) = push(&format!("git -C ../origin.git branch -q -D x; {act}"));
        assert!(!passed && text.contains("  b: held by Ana (ana)"), "the remote deleted it: {act}\n{text}");
    }
}

#[test]
fn a_forced_push_over_commits_that_were_never_fetched_says_so() {
    let world = World::with_hooks(false);
    world.shell("work", "git clone -q $TOP/origin.git ../other; cd ../other; echo 1 >>b; git commit -qam other; git push -q; cd ../work; echo 1 >>a; git commit -qam mine");
    let server = Shared::lend();
    let before = world.snapshot();
    let output = world.try_shell("work", "git push -q --force", &server.variables());
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "nothing is held: {}", said(&output));
    before.restore();
    server.ana.hold_as("elsewhere", Mode::Exclusive);
    let output = world.try_shell("work", "git push -q --force", &server.variables());
    let text = said(&output);
    assert!(output.status.success() && text.contains("refs/heads/main has commits that were never fetched"), "{text}");
    before.restore();
    server.ana.hold_as("a", Mode::Exclusive);
    let output = world.try_shell("work", "git push -q --force", &server.variables());
    let text = said(&output);
    assert!(!output.status.success() && text.contains("were never fetched") && text.contains("a: held by"), "{text}");
}
