//! Hooks that need another installation: on a server, on every ref, in repositories of newer formats.

use crate::server::Shared;
use crate::world::{World, said};

/// A situation in a strict installation; only what `reference-transaction` is judged by is shown.
fn transactions(setup: &str, act: &str) -> String {
    let world = World::with_hooks(true);
    world.shell("work", setup);
    let judged = world.judged("work", act);
    let lines = judged.split(" | ").filter_map(|line| line.strip_prefix("reference-transaction"));
    lines.map(str::trim).filter(|line| *line != "-" && !line.is_empty()).collect::<Vec<_>>().join(" | ")
}

const OTHER: &str =
    "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q);";

#[test]
fn moving_a_branch_to_new_commits_is_judged() {
    let new = "new=$(git commit-tree -p HEAD -m m $(GIT_INDEX_FILE=.git/i sh -c 'git read-tree HEAD; git rm -q --cached a; git write-tree'));";
    let update_ref = format!("{new} git update-ref refs/heads/x $new");
    assert_eq!(transactions("", &update_ref), "a");
    assert_eq!(transactions("", &format!("{new} git branch x $new")), "a");
    assert_eq!(transactions("", &format!("{new} git reset -q --hard $new")), "a");
    assert_eq!(transactions("", &format!("{new} git checkout -q --detach $new")), "a");
    let import = "printf 'commit refs/heads/y\ncommitter B <b@x> 1 +0000\ndata 1\nm\nfrom refs/heads/main^0\nM 100644 inline n\ndata 1\nx\n' | git fast-import --quiet";
    assert_eq!(transactions("", import), "n");
    assert_eq!(transactions("echo 1 >>a", "git commit -qam m --no-verify"), "a");
}

#[test]
fn moving_a_branch_to_known_commits_is_not_judged() {
    assert_eq!(transactions(OTHER, "git fetch -q"), "");
    assert_eq!(transactions(OTHER, "git pull -q"), "");
    assert_eq!(transactions(OTHER, "git pull -q $TOP/origin.git main"), "", "only FETCH_HEAD names those commits");
    assert_eq!(transactions("", "git branch x; git checkout -q x; git tag t; git stash -q; git branch -D main -q"), "");
    assert_eq!(transactions("echo 1 >>a", "git stash -q; git stash pop -q"), "");
    let two = "git checkout -q -b topic; echo t >>b; git commit -qam t; git push -q origin topic; git checkout -q main; echo 1 >>a; git commit -qam a";
    assert_eq!(transactions(two, "git rebase -q topic"), "", "a rebase is left to the push");
    assert_eq!(transactions(two, "git merge -q topic"), "", "a merge that only carries");
}

#[test]
fn no_ref_is_a_stepping_stone_for_a_branch() {
    let new = "new=$(git commit-tree -p HEAD -m m $(GIT_INDEX_FILE=.git/i sh -c 'git read-tree HEAD; git rm -q --cached a; git write-tree'));";
    assert_eq!(transactions("", &format!("{new} git tag t $new")), "a", "a tag");
    assert_eq!(
        transactions("", &format!("{new} git update-ref refs/other/x $new; git branch x $new")),
        "a",
        "other refs"
    );
    assert_eq!(
        transactions(
            "",
            &format!("{new} git update-ref refs/other/x $new; git fetch -q . refs/other/x; git branch x FETCH_HEAD")
        ),
        "a",
        "fetch ."
    );
    let bundle = format!(
        "{new} git update-ref refs/other/x $new; git bundle create -q ../x.bundle refs/other/x; git update-ref -d refs/other/x"
    );
    assert_eq!(transactions(&bundle, "git fetch -q ../x.bundle refs/other/x:refs/heads/x"), "a", "a bundle");
}

#[test]
fn a_patch_applied_without_its_hook_is_judged_by_the_ref() {
    let patch = "git checkout -q -b topic; echo t >>b; git commit -qam t; git format-patch -q -1 -o $TOP/patches; git checkout -q main; git branch -q -D topic; git reflog expire --expire=now --all";
    assert_eq!(transactions(patch, "git am -q --no-verify $TOP/patches/*"), "b");
}

#[test]
fn a_rebase_directory_left_behind_does_not_turn_checks_off() {
    for directory in ["mkdir .git/rebase-merge", "mkdir .git/rebase-apply; touch .git/rebase-apply/rebasing"] {
        let world = World::with_hooks(false);
        world.shell("work", &format!("{directory}; echo 1 >>a"));
        assert_eq!(world.judged("work", "git commit -qam m --no-verify"), "prepare-commit-msg a", "{directory}");
    }
}

#[test]
fn undoing_is_recognized_in_reference_transactions() {
    assert_eq!(transactions("echo 1 >>b; git commit -qam one", "git revert --no-edit HEAD >/dev/null"), "~b");
    let both = "echo 1 >>a; echo 1 >>b; git commit -qam both; git restore --source HEAD^ --staged --worktree b";
    assert_eq!(transactions(both, "git commit -q --amend -m m"), "a");
}

/// Pushes into `origin.git` with the server's hook; what it is judged by.
fn received(setup: &str, act: &str) -> String {
    let world = World::new();
    world.install("origin.git", &["--server"]);
    world.shell("work", setup);
    world.judged("work", act)
}

#[test]
fn a_server_judges_commits_in_quarantine() {
    assert_eq!(received("echo 1 >>a; git commit -qam m", "git push -q"), "pre-receive a");
    assert_eq!(received("echo 1 >>a; git commit -qam m", "git push -q --no-verify"), "pre-receive a");
    assert_eq!(received("echo 1 >>a; git commit -qam m", "git push -q origin main:new"), "pre-receive a");
    assert_eq!(received("", "git push -q origin main:new"), "pre-receive");
    assert_eq!(received("git push -q origin main:old", "git push -q origin :old"), "pre-receive -");
    let two = "git checkout -q -b one; echo 1 >>a; git commit -qam m; git checkout -q -b two main; echo 1 >>b; git commit -qam m";
    assert_eq!(received(two, "git push -q --atomic origin one two"), "pre-receive a b");
    assert_eq!(
        received(&format!("{OTHER} echo 1 >>a; git commit -qam m; git pull -q --no-rebase --no-edit"), "git push -q"),
        "pre-receive a"
    );
    let force = "echo 1 >>a; git commit -qam m; git push -q; git reset -q --hard HEAD^; echo 1 >>b; git commit -qam m";
    assert_eq!(received(force, "git push -q --force"), "pre-receive a b", "the branch loses its change of a");
    assert_eq!(received("git notes add -m n", "git push -q origin refs/notes/commits"), "pre-receive -");
    assert_eq!(received("echo 1 >>a; git commit -qam m; git tag -a -m t t", "git push -q origin t"), "pre-receive a");
}

#[test]
fn commits_of_refs_that_are_not_judged_stay_unknown() {
    let world = World::new();
    world.install("origin.git", &["--server"]);
    world.shell("work", "echo 1 >>a; git commit -qam m; git push -q origin HEAD:refs/dibs/smuggle");
    assert_eq!(world.judged("work", "git push -q"), "pre-receive a");
}

#[test]
fn refs_that_nobody_checked_are_no_stepping_stone_on_a_server() {
    let world = World::new();
    world.install("origin.git", &["--server"]);
    world.shell("work", "echo 1 >>a; git commit -qam m; git -C ../origin.git fetch -q ../work HEAD:refs/pull/1/head");
    assert_eq!(world.judged("work", "git push -q"), "pre-receive a");
}

/// A client may claim any old commit for a ref; git notices that only after the hook.
#[test]
fn a_false_old_commit_of_one_ref_hides_nothing_of_another() {
    let world = World::new();
    world.install("origin.git", &["--server"]);
    world.shell(
        "work",
        "echo 1 >>a; git commit -qam one; echo 1 >>c; git commit -qam two; git push -q origin HEAD:refs/hidden/x",
    );
    let server = Shared::lend();
    server.ana.hold_as("a", git_dibs::wire::Mode::Exclusive);
    let act = "one=$(git -C ../work rev-parse HEAD^) two=$(git -C ../work rev-parse HEAD) main=$(git rev-parse main); \
        printf '%s %s refs/heads/x\n%s %s refs/heads/main\n' $one $two $main $one | $TOP/bin/git-dibs hook pre-receive --";
    let output = world.try_shell("origin.git", act, &server.variables());
    assert!(!output.status.success() && said(&output).contains("  a: held by Ana (ana)"), "{}", said(&output));
}

#[test]
fn a_server_repository_with_tags_alone_is_protected() {
    let world = World::new();
    world.shell("", "git init -q --bare tags.git; git -C work push -q ../tags.git main:refs/tags/v1");
    world.install("tags.git", &["--server"]);
    world.shell("work", "echo 1 >>a; git commit -qam m");
    assert_eq!(world.judged("work", "git push -q ../tags.git main"), "pre-receive a");
}

#[test]
fn a_server_knows_what_the_repository_it_borrows_from_has() {
    let world = World::new();
    world.shell("", "git clone -q --bare --shared origin.git fork.git");
    world.install("fork.git", &["--server"]);
    world.shell("work", &format!("{OTHER} git pull -q; echo 1 >>a; git commit -qam m"));
    assert_eq!(world.judged("work", "git push -q ../fork.git main"), "pre-receive a ~b");
}

#[test]
fn a_server_judges_what_a_branch_loses_and_what_a_merge_discards() {
    let back = "echo 1 >>a; git commit -qam m; git push -q; git reset -q --hard HEAD^";
    assert_eq!(received(back, "git push -q --force"), "pre-receive a");
    let merge = format!("{OTHER} echo 1 >>a; git commit -qam m; git fetch -q; git merge -q -s ours -m m origin/main");
    assert_eq!(received(&merge, "git push -q"), "pre-receive a b");
}

#[test]
fn the_first_push_into_an_empty_repository_has_nothing_to_protect() {
    let world = World::new();
    world.shell("", "git init -q --bare fresh.git");
    world.install("fresh.git", &["--server"]);
    assert_eq!(world.judged("work", "git push -q ../fresh.git main"), "pre-receive");
    assert_eq!(world.judged("work", "echo 1 >>a; git commit -qam m; git push -q ../fresh.git main:x"), "pre-receive a");
}

#[test]
fn reftable_repositories_work_where_git_has_them() {
    let world = World::with_hooks(true);
    let made = world.try_shell("", "git init -q --ref-format=reftable table", &[]);
    if !made.status.success() {
        eprintln!("skipped: this git has no reftable: {}", said(&made).lines().next().unwrap_or_default());
        return;
    }
    world.install("table", &["--strict"]);
    world.shell("table", "echo 1 >a; git add a; git commit -qm 1; git init -q --bare ../to.git; git remote add origin ../to.git; git push -q -u origin main");
    let before = world.snapshot();
    let judged = world.judged("table", "echo 2 >>a; git commit -qam 2; git push -q");
    let shown: Vec<&str> = judged.split(" | ").filter(|line| !line.ends_with(" -")).collect();
    assert_eq!(shown, ["pre-commit a", "prepare-commit-msg a", "reference-transaction a", "pre-push a"]);
    let merge = "git checkout -q -b t HEAD^; echo 1 >b; git add b; git commit -qm b; git checkout -q main";
    world.shell("table", merge);
    let judged = world.judged("table", "git merge -q t");
    assert!(judged.contains("pre-merge-commit | prepare-commit-msg"), "{judged}");

    let server = Shared::lend();
    server.ana.hold_as("a", git_dibs::wire::Mode::Exclusive);
    for act in ["echo 2 >>a; git commit -qam 2", "echo 2 >>a; git -c dibs.enforce=off commit -qam 2; git push -q"] {
        before.restore();
        let output = world.try_shell("table", act, &server.variables());
        assert!(!output.status.success() && said(&output).contains("a: held by Ana (ana)"), "{}", said(&output));
    }
}

#[test]
fn a_repository_of_another_owner_works_in_hooks() {
    let world = World::with_hooks(false);
    if world.try_shell("", "test $(id -u) = 0 && chown -R 65534 work", &[]).status.success() {
        // Git trusts it by this setting alone, which libgit2 does not read.
        let act = "echo 1 >>a; git -c safe.directory=$PWD commit -qam m";
        let variables = "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*';";
        let global = "git config --global --add safe.directory '*';";
        assert_eq!(world.judged("work", &format!("{global}{variables}{act}")), "pre-commit a | prepare-commit-msg a");
    } else {
        eprintln!("skipped: only root can give files away");
    }
}
