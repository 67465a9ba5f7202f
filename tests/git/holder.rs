//! What the holder of a path committed: others may carry it, nobody may undo it, and the holder's push needs no token.

use git_dibs::wire::Mode;

use crate::support::session::Session;
use crate::world::{World, said};

/// A repository, and a server elsewhere, so that the repository can be restored while the server runs.
struct Held {
    world: World,
    server: World,
}

impl Held {
    fn new() -> Held {
        Held { world: World::with_hooks(false), server: World::new().served() }
    }

    /// A session that holds `b`.
    fn ana(&self) -> Session<'_> {
        let ana = self.server.session("ana");
        ana.hold_as("b", Mode::Exclusive);
        ana
    }

    /// Runs a script as a session.
    fn run(&self, session: &Session<'_>, dir: &str, script: &str) -> (bool, String) {
        let output = self.world.try_shell(dir, script, &self.server.variables(Some(session)));
        (output.status.success(), said(&output))
    }

    fn passes(&self, session: &Session<'_>, dir: &str, script: &str) {
        let (passed, text) = self.run(session, dir, script);
        assert!(passed && !text.contains("git-dibs:"), "{script}\n{text}");
    }

    fn is_blocked(&self, session: &Session<'_>, dir: &str, script: &str) {
        let (passed, text) = self.run(session, dir, script);
        assert!(!passed && text.contains("b: held by ana"), "{script}\n{text}");
    }
}

#[test]
fn undoing_the_holders_own_commit_is_refused() {
    let held = Held::new();
    let (ana, bo) = (held.ana(), held.server.session("bo"));
    held.passes(&ana, "work", "echo hers >>b; git commit -qam hers");
    let before = held.world.snapshot();
    held.is_blocked(&bo, "work", "git revert --no-edit HEAD");
    before.restore();
    held.is_blocked(&bo, "work", "git checkout -q HEAD^ -- b; git commit -qm back");
    before.restore();
    held.is_blocked(&bo, "work", "git checkout -q origin/main -- b; git commit -qm upstream");
    before.restore();
    held.is_blocked(&bo, "work", "git checkout -q HEAD^ -- b; git commit -q --amend -m amended");
    before.restore();
    held.is_blocked(&bo, "work", "git rm -q b; git commit -qm gone");
    before.restore();
    held.passes(&ana, "work", "git revert --no-edit HEAD");
}

#[test]
fn undoing_a_change_of_ones_own_stays_possible_without_an_upstream() {
    let held = Held::new();
    let bo = held.server.session("bo");
    held.world.shell("work", "git remote remove origin; echo 1 >>b; git commit -qam mine");
    let _ana = held.ana();
    held.passes(&bo, "work", "git revert --no-edit HEAD");
}

#[test]
fn the_holders_branch_may_be_pushed_and_carried_by_others() {
    let held = Held::new();
    let (ana, bo) = (held.ana(), held.server.session("bo"));
    let hers = "git checkout -q -b hers; echo 1 >>b; git commit -qam one; echo 2 >>b; git commit -qam two; git checkout -q main";
    held.passes(&ana, "work", hers);
    let before = held.world.snapshot();
    held.passes(&bo, "work", "git push -q origin hers");
    before.restore();
    held.passes(&bo, "work", "git cherry-pick main..hers >/dev/null; git push -q");
    before.restore();
    held.passes(&bo, "work", "git merge -q --squash hers >/dev/null 2>&1; git commit -qm squashed; git push -q");
    before.restore();
    // Content that was hers once is not hers now.
    held.is_blocked(&bo, "work", "git merge -q hers; git checkout -q HEAD^ -- b; git commit -qm back");
    before.restore();
    held.is_blocked(
        &bo,
        "work",
        "git merge -q hers; git checkout -q HEAD^ -- b; DIBS_ENFORCE=off git commit -qm back; git push -q",
    );
    before.restore();
    held.is_blocked(&bo, "work", "git merge -q hers; echo 3 >>b; git commit -qam more");
    before.restore();
    held.is_blocked(&bo, "work", "git merge -q hers; chmod +x b; git commit -qam mode");
}

#[test]
fn a_merge_that_discards_what_the_holder_has_not_pushed_yet_is_refused() {
    let held = Held::new();
    let (ana, bo) = (held.ana(), held.server.session("bo"));
    held.passes(&ana, "work", "git checkout -q -b hers; echo 1 >>b; git commit -qam one; git checkout -q main");
    held.world.shell("work", "echo 1 >>a; git commit -qam moved");
    let before = held.world.snapshot();
    held.is_blocked(&bo, "work", "git merge -q -s ours -m m hers");
    before.restore();
    held.is_blocked(&bo, "work", "DIBS_ENFORCE=off git merge -q -s ours -m m hers; git push -q");
    before.restore();
    held.passes(&bo, "work", "git merge -q -m m hers; git push -q");
}

#[test]
fn what_the_holder_committed_is_known_after_a_restart() {
    let mut held = Held::new();
    held.passes(&held.ana(), "work", "git checkout -q -b hers; echo 1 >>b; git commit -qam one");
    held.server.kill();
    held.server.start();
    let bo = held.server.session("bo");
    held.passes(&bo, "work", "git push -q origin hers");
    held.is_blocked(&bo, "work", "echo 2 >>b; git commit -qam two");
}

/// Makes a branch `evil` in which a merge discards what `main` has at `b`, and publishes it behind the hooks' back.
const EVIL: &str = "git checkout -q -b evil HEAD^; echo 1 >>a; git commit -qam a; git merge -q -s ours -m m main; git push -q origin evil";

#[test]
fn a_branch_is_not_taken_back_by_commits_that_another_branch_has() {
    let held = Held::new();
    let (ana, bo) = (held.ana(), held.server.session("bo"));
    held.passes(&ana, "work", "echo hers >>b; git commit -qam hers; git push -q");
    held.world.shell("work", EVIL);
    let before = held.world.snapshot();
    held.is_blocked(&bo, "work", "git push -q origin evil:main");
    with_server_hook(&held);
    held.is_blocked(&bo, "work", "git push -q --no-verify origin evil:main");
    before.restore();
    held.passes(&ana, "work", "git push -q origin evil:main");
}

#[test]
fn what_others_published_and_what_the_holder_took_back_may_be_carried_to_another_branch() {
    let held = Held::new();
    let (ana, bo) = (held.ana(), held.server.session("bo"));
    held.world.shell("work", "git checkout -q -b topic; echo topic >>b; git commit -qam topic; git push -q origin topic main:old; git checkout -q main");
    let before = held.world.snapshot();
    held.passes(&bo, "work", "git merge -q --ff-only topic; git push -q");
    before.restore();
    held.passes(
        &ana,
        "work",
        "echo hers >>b; git commit -qam hers; git push -q origin main main:old; git revert --no-edit HEAD; git push -q",
    );
    held.passes(&bo, "work", "git push -q origin main:old");
}

#[test]
fn a_tracking_ref_of_a_branch_that_the_remote_deleted_is_not_believed_in_a_long_push() {
    let held = Held::new();
    let (_ana, bo) = (held.ana(), held.server.session("bo"));
    let many = "for n in $(seq 150); do echo \"commit refs/heads/main\ncommitter B <b@x> 1900000000 +0000\ndata 1\nm\"; test $n != 1 || echo 'from refs/heads/main^0'; done | git fast-import --quiet";
    held.world.shell("work", &format!("echo 1 >>b; git commit -qam b; git push -q origin main:gone; {many}; git -C ../origin.git branch -q -D gone"));
    let before = held.world.snapshot();
    for act in ["git push -q", "git push -q origin main:new"] {
        held.is_blocked(&bo, "work", act);
        before.restore();
    }
    held.world.shell("work", "git push -q origin main~150:refs/heads/gone");
    held.passes(&bo, "work", "git push -q");
}

#[test]
fn variables_for_paths_on_the_command_line_do_not_change_a_verdict() {
    let held = Held::new();
    let (ana, bo) = (held.ana(), held.server.session("bo"));
    held.passes(&ana, "work", "git checkout -q -b hers; echo 1 >>b; git commit -qam one");
    let before = held.world.snapshot();
    for variable in ["LITERAL", "GLOB", "NOGLOB", "ICASE"] {
        held.passes(&bo, "work", &format!("GIT_{variable}_PATHSPECS=1 git push -q origin hers"));
        before.restore();
    }
}

/// A server's hook in `origin.git`, which knows the server but no session.
fn with_server_hook(held: &Held) {
    let (world, server) = (&held.world, &held.server);
    world.install("origin.git", &["--server"]);
    let reader = server.session_with("reader", serde_json::json!({ "scope": "read" }));
    std::fs::write(world.path("origin.git/reader"), &reader.token).unwrap();
    world.shell("origin.git", &format!("git config dibs.url {}; git config dibs.tokenFile $PWD/reader", server.url()));
}

#[test]
fn the_holders_push_passes_the_servers_hook_by_its_announcement() {
    let held = Held::new();
    with_server_hook(&held);
    let (ana, bo) = (held.ana(), held.server.session("bo"));
    let url = "file://$TOP/origin.git";
    // The receiving side must not see the session in its environment, as over a network.
    let receive = "--receive-pack='env -u DIBS_TOKEN git-receive-pack'";
    held.passes(&ana, "work", "echo 1 >>b; git commit -qam one");
    let before = held.world.snapshot();
    for remote in ["origin", "$TOP/origin.git", url] {
        held.passes(&ana, "work", &format!("git push -q {receive} {remote} main"));
        before.restore();
    }
    // Announced by one, pushed by another: the announcement is used up by the first.
    held.passes(&ana, "work", &format!("git push -q {receive} origin main:one"));
    held.passes(&ana, "work", &format!("git push -q {receive} origin main:two main:three"));
    before.restore();
    // Somebody else's push is not hers, with or without the hook.
    held.world.shell("work", "echo 2 >>b; git commit -qam two");
    let text = said(&held.world.try_shell(
        "work",
        &format!("git push -q --no-verify {receive} origin main"),
        &held.server.variables(Some(&bo)),
    ));
    assert!(text.contains("remote:   b: held by ana"), "{text}");
    let text = said(&held.world.try_shell(
        "work",
        &format!("git push -q --no-verify {receive} origin main"),
        &held.server.variables(Some(&ana)),
    ));
    assert!(text.contains("remote:   b: held by ana"), "not announced, so nobody's: {text}");
}

#[test]
fn a_change_of_more_paths_than_one_check_takes_is_checked_in_pieces() {
    let held = Held::new();
    let (ana, bo) = (held.server.session("ana"), held.server.session("bo"));
    ana.hold_as("many/099999", Mode::Exclusive);
    ana.hold_as("many/149999", Mode::Exclusive);
    let many = r#"awk -v blob=$(git rev-parse HEAD:a) 'BEGIN { for (n = 0; n < 150000; n++) printf "100644 %s\tmany/%06d\n", blob, n }' | git update-index --index-info"#;
    held.world.shell("work", many);
    let (passed, text) = held.run(&bo, "work", "git commit -qm many");
    assert!(
        !passed && text.contains("many/099999: held by ana") && text.contains("many/149999: held by ana"),
        "{text}"
    );
    ana.release_all();
    let (passed, text) = held.run(&bo, "work", "git commit -qm many");
    assert!(passed && !text.contains("git-dibs:"), "{text}");
}

#[test]
fn many_shared_holders_of_many_files_are_listed_and_counted() {
    let held = Held::new();
    let names: Vec<String> = (0..200).map(|n| format!("many/{n:03}")).collect();
    for n in 0..53 {
        let session = held.server.session(&format!("s{n}"));
        session.reserve(serde_json::json!({ "filePaths": names, "ttlSeconds": 300, "mode": "shared" })).ok();
    }
    let bo = held.server.session("bo");
    held.world.shell("work", "mkdir many; for n in $(seq -w 0 199); do echo 1 >many/$n; done; git add many");
    let (passed, text) = held.run(&bo, "work", "git commit -qm many");
    assert!(!passed && text.contains("changes 200 paths that other sessions hold"), "{text}");
    assert!(text.lines().count() < 20, "{text}");
}

#[test]
fn a_path_too_long_to_reserve_is_checked_through_its_directory() {
    let held = Held::new();
    let (ana, bo) = (held.server.session("ana"), held.server.session("bo"));
    let deep = format!("deep/{}", ["0123456789abcdef"; 300].join("/"));
    let wide = format!("wide/{}", "x".repeat(300));
    let add = format!(
        "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:a),{deep} --add --cacheinfo 100644,$(git rev-parse HEAD:a),{wide}"
    );
    held.world.shell("work", &add);
    for (key, passes) in [("deep/", false), ("wide/", false), ("wide/x*", false), ("**", false), ("elsewhere/", true)] {
        ana.hold_as(key, Mode::Exclusive);
        let (passed, text) = held.run(&bo, "work", "git commit -qm m && git reset -q --soft HEAD^");
        assert_eq!(passed, passes, "{key}: {text}");
        ana.release_all();
    }
}

#[test]
fn the_note_that_a_commit_passed_is_not_for_another_process_with_the_same_number() {
    let held = Held::new();
    let bo = held.server.session("bo");
    held.world.shell("work", "echo 1 >>b; git add b");
    let _ana = held.ana();
    // A note as an earlier process with this number would have left it: any number, and the index as it is.
    let notes = "mkdir -p .git/dibs; for pid in $(seq $$ $(($$ + 400))); do ln .git/index .git/dibs/passed-$pid; ln .git/index .git/dibs/passed-$pid-1; done;";
    held.is_blocked(&bo, "work", &format!("{notes} git commit -qm m --no-verify"));
}
