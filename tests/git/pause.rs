//! A session whose feature is paused makes no commit and pushes none, also where no path counts.

use git_dibs::wire::Mode;
use serde_json::json;

use crate::world::{World, said};

/// A branch beside `main`, which has a commit of its own.
const TOPIC: &str = "git checkout -q -b topic; echo 1 >>b; git commit -qam topic; git checkout -q main; echo 1 >>a; git commit -qam moved";

#[test]
fn a_paused_session_committed_where_no_path_changes() {
    // The server is another repository's, so that this one can be put back.
    let server = World::new().served();
    let lead = server.session("lead");
    let paused = server.session_with("bo", json!({ "feature": "F1" }));
    let other = server.session_with("cy", json!({ "feature": "F2" }));
    let world = World::with_hooks(false);
    world.shell("work", TOPIC);
    let (before, head) = (world.snapshot(), world.shell("work", "git rev-parse HEAD"));
    let acts = [
        "git merge -q --no-ff --no-edit topic",
        "git merge -q --no-verify --no-edit topic",
        "git commit -q --amend -m other",
        "git commit -q --allow-empty -m empty",
        "git rebase -q topic",
        "git rebase -q --apply topic",
        "git pull -q --rebase . topic",
    ];
    for act in acts {
        let run = |session| {
            let output = world.try_shell("work", act, &server.variables(Some(session)));
            let is_done = output.status.success() && world.shell("work", "git rev-parse HEAD") != head;
            before.restore();
            (is_done, said(&output))
        };
        lead.hold_as("feature:F1:pause", Mode::Exclusive);
        let (is_done, text) = run(&paused);
        assert!(!is_done && text.contains(" is blocked: your feature F1 is paused by lead"), "{act}: {text}");
        let (is_done, text) = run(&other);
        assert!(is_done && !text.contains("git-dibs:"), "{act}, of a session that is not paused: {text}");
        lead.release_all();
        let (is_done, text) = run(&paused);
        assert!(is_done && !text.contains("git-dibs:"), "{act}, after the pause: {text}");
    }
}

#[test]
fn a_paused_rebase_stops_before_it_begins() {
    let world = World::with_hooks(false).served();
    world.shell("work", TOPIC);
    world.session("lead").hold_as("feature:F1:pause", Mode::Exclusive);
    let bo = world.session_with("bo", json!({ "feature": "F1" }));
    let output = world.try_shell("work", "git rebase topic", &world.variables(Some(&bo)));
    assert!(!output.status.success() && said(&output).contains("this rebase is blocked"), "{}", said(&output));
    world.shell("work", "test -z \"$(git status --porcelain)\"; ! ls -d .git/rebase-*");
}

#[test]
fn without_a_server_nothing_is_said_about_a_pause() {
    let mut world = World::with_hooks(false).served();
    let token = world.session_with("bo", json!({ "feature": "F1" })).token.clone();
    let url = world.url().to_owned();
    world.kill();
    let output =
        world.try_shell("work", "git commit -q --amend -m other", &[("DIBS_URL", &url), ("DIBS_TOKEN", &token)]);
    assert!(output.status.success() && !said(&output).contains("git-dibs:"), "{}", said(&output));
}

#[test]
fn a_paused_session_pushed_into_an_empty_repository() {
    let world = World::new().served();
    world.shell("", "git init -q --bare empty.git; git -C empty.git config receive.advertisePushOptions true");
    world.install("empty.git", &["--server"]);
    let lead = world.session("lead");
    let paused = world.session_with("bo", json!({ "feature": "F1" }));
    let other = world.session_with("cy", json!({ "feature": "F2" }));
    lead.hold_as("feature:F1:pause", Mode::Exclusive);
    let push = |token: &str| {
        let script = format!("git push -q -o dibs-token={token} ../empty.git main");
        let output = world.try_shell("work", &script, &world.variables(None));
        (output.status.success(), said(&output))
    };
    let (passed, text) = push(&paused.token);
    assert!(!passed && text.contains("this push is blocked: your feature F1 is paused by lead"), "{text}");
    let (passed, text) = push(&other.token);
    assert!(passed, "{text}");
}
