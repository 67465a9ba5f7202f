//! Every situation in which git runs a hook, as one list: how it is set up, what is done, and which paths each hook
//! that runs is then judged by.
//!
//! `pre-commit a ~b | prepare-commit-msg -` reads: pre-commit ran and is judged by `a` and `b`, but `b` only undoes a
//! change; prepare-commit-msg ran and had nothing to judge. Each begins in `work`, a clone of `origin.git` with the
//! files `a b c dir/x dir/y run.sh`, on `main`, pushed.

use crate::verdicts::try_with_each_path_held;
use crate::world::World;

macro_rules! situations {
    ($($name:ident: $setup:expr, $act:expr => $judged:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let world = World::with_hooks(false);
                world.shell("work", $setup);
                let before = world.snapshot();
                assert_eq!(world.judged("work", $act), $judged);
                try_with_each_path_held(&world, &before, $act, $judged);
            }
        )*
    };
}

/// A branch `topic` with the other side's work on `b`, pushed; we are back on `main`.
const TOPIC: &str =
    "git checkout -q -b topic; echo theirs >>b; git commit -qam topic; git push -q origin topic; git checkout -q main;";
/// `main` has moved on by a change of `a`.
const MOVED: &str = "echo ours >>a; git commit -qam moved;";

/// Both sides have changed `b`, at different places, and pushed it.
const BOTH: &str = "mkdir -p .git/info; git checkout -q -b topic; sed -i 's/^9/nine/' b; git commit -qam t; git push -q origin topic; git checkout -q main; sed -i 's/^1$/one/' b; git commit -qam m; git push -q;";

/// Another clone has pushed a change of `b`.
const THEIRS: &str =
    "(git clone -q $TOP/origin.git $TOP/other; cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q);";

situations! {
    // ---- plain commits ----
    modify: "echo 1 >>a; git add a", "git commit -qm m" => "pre-commit a | prepare-commit-msg a";
    another_file_is_only_dirty: "echo 1 >>a; echo 1 >>b; git add a", "git commit -qm m" => "pre-commit a | prepare-commit-msg a";
    commit_all: "echo 1 >>a; echo 1 >>b", "git commit -qam m" => "pre-commit a b | prepare-commit-msg a b";
    commit_only_paths: "echo 1 >>a; echo 1 >>b; git add b", "git commit -qm m -- a" => "pre-commit a | prepare-commit-msg a";
    commit_include: "echo 1 >>a; echo 1 >>b; git add b", "git commit -qm m -i a" => "pre-commit a b | prepare-commit-msg a b";
    alternate_index: "echo 1 >>a; echo 1 >>b; git add b; cp .git/index alt; GIT_INDEX_FILE=alt git read-tree HEAD; GIT_INDEX_FILE=$PWD/alt git add a",
        "GIT_INDEX_FILE=$PWD/alt git commit -qm m" => "pre-commit a | prepare-commit-msg a";
    no_verify: "echo 1 >>a", "git commit -qam m --no-verify" => "prepare-commit-msg a";
    nothing_changes: "", "git commit -qm m --allow-empty" => "pre-commit | prepare-commit-msg";
    from_a_subdirectory: "echo 1 >>a; echo 1 >>dir/x", "cd dir; git commit -qam m" => "pre-commit a dir/x | prepare-commit-msg a dir/x";
    diff_relative_is_only_taste: "git config diff.relative true; echo 1 >>a",
        "cd dir; git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    detached_head: "git checkout -q --detach; echo 1 >>a", "git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    initial_commit: "git checkout -q --orphan new; git rm -rfq .; mkdir deep; echo 1 >deep/new; git add deep",
        "git commit -qm m" => "pre-commit deep/new | prepare-commit-msg deep/new";
    orphan_with_everything: "git checkout -q --orphan new; git rm -q --cached a b dir/x dir/y run.sh", "git commit -qm m" => "pre-commit c | prepare-commit-msg c";
    delete: "git rm -q a", "git commit -qm m" => "pre-commit a | prepare-commit-msg a";
    rename_counts_at_both_ends: "git mv a dir/moved", "git commit -qm m" => "pre-commit a dir/moved | prepare-commit-msg a dir/moved";
    rename_with_detection_on: "git config diff.renames copies; git mv a z", "git commit -qm m" => "pre-commit a z | prepare-commit-msg a z";
    case_only_rename: "git mv a A", "git commit -qm m" => "pre-commit A a | prepare-commit-msg A a";
    chmod: "chmod +x run.sh", "git commit -qam m" => "pre-commit run.sh | prepare-commit-msg run.sh";
    file_to_symlink: "rm a; ln -s b a", "git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    symlink_elsewhere: "ln -s b l; git add l; git commit -qm l; rm l; ln -s dir/x l", "git commit -qam m" => "pre-commit l | prepare-commit-msg l";
    file_to_directory: "rm a; mkdir a; echo 1 >a/in; git add -A", "git commit -qm m" => "pre-commit a a/in | prepare-commit-msg a a/in";
    directory_to_file: "rm -r dir; echo 1 >dir; git add -A", "git commit -qm m" => "pre-commit dir dir/x dir/y | prepare-commit-msg dir dir/x dir/y";
    intent_to_add: "echo 1 >new; git add -N new; echo 1 >>a; git add a", "git commit -qm m" => "pre-commit a | prepare-commit-msg a";
    gitattributes_and_filters: "echo 'a diff=x -text' >.gitattributes; git config diff.x.textconv false; echo 1 >>a; git add a .gitattributes",
        "git commit -qm m" => "pre-commit .gitattributes a | prepare-commit-msg .gitattributes a";
    external_diff_program: "git config diff.external false; echo 1 >>a", "git commit -qam m" => "pre-commit a | prepare-commit-msg a";

    // ---- undoing ----
    amend_is_judged_by_what_it_adds: "echo 1 >>a; git commit -qam one; echo 1 >>b", "git commit -q --amend -am m" => "pre-commit b | prepare-commit-msg b";
    amend_that_drops_a_path: "echo 1 >>a; echo 1 >>b; git commit -qam both; git restore --source HEAD^ --staged --worktree b",
        "git commit -q --amend -m m" => "pre-commit ~b | prepare-commit-msg ~b";
    revert_of_an_own_commit: "echo 1 >>b; git commit -qam one", "git revert --no-edit HEAD >/dev/null" => "prepare-commit-msg ~b";
    back_to_the_upstream: "echo 1 >>b; git commit -qam one; echo 1 >>a; git commit -qam two; git checkout -q origin/main -- b",
        "git commit -qm m" => "pre-commit ~b | prepare-commit-msg ~b";
    back_to_the_fork_point: "echo 1 >>b; git commit -qam one; echo 2 >>a; git commit -qam two; git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q); git fetch -q; git checkout -q HEAD~2 -- b",
        "git commit -qm m" => "pre-commit ~b | prepare-commit-msg ~b";
    branch_without_upstream: "git remote set-head origin -a >/dev/null; git checkout -q --no-track -b mine; echo 1 >>b; git commit -qam one; echo 2 >>a; git commit -qam two; git checkout -q main -- b",
        "git commit -qm m" => "pre-commit ~b | prepare-commit-msg ~b";
    revert_of_a_pushed_commit: "echo 1 >>b; git commit -qam one; git push -q", "git revert --no-edit HEAD >/dev/null" => "prepare-commit-msg b";
    half_undone_is_a_change: "echo 1 >>b; git commit -qam one; echo 2 >>b", "git commit -qam m" => "pre-commit b | prepare-commit-msg b";

    // ---- merges ----
    merge_that_only_carries: &[TOPIC, MOVED].concat(), "git merge -q topic" => "pre-merge-commit | prepare-commit-msg";
    merge_of_both_sides_in_one_file: "git checkout -q -b topic; sed -i 's/^9/nine/' b; git commit -qam t; git checkout -q main; sed -i 's/^1$/one/' b; git commit -qam m",
        "git merge -q topic" => "pre-merge-commit ~b | prepare-commit-msg ~b";
    merge_with_a_conflict: "git checkout -q -b topic; echo t >b; echo t >>c; git commit -qam t; git checkout -q main; echo m >b; git commit -qam m; git merge topic >/dev/null || true; echo both >b; git add b",
        "git commit -qm m" => "pre-commit b | prepare-commit-msg b";
    conflict_resolved_as_theirs: "git checkout -q -b topic; echo t >b; git commit -qam t; git checkout -q main; echo m >b; git commit -qam m; git merge topic >/dev/null || true; git checkout --theirs b; git add b",
        "git commit -qm m" => "pre-commit b | prepare-commit-msg b";
    evil_merge: &[TOPIC, MOVED, "git merge -q --no-commit topic >/dev/null 2>&1; echo evil >>c; git add c"].concat(),
        "git commit -qm m" => "pre-commit c | prepare-commit-msg c";
    merge_ours_discards_their_work: &[TOPIC, MOVED].concat(), "git merge -q -s ours topic" => "pre-merge-commit b | prepare-commit-msg b";
    checkout_head_in_a_merge_discards_their_work: &[TOPIC, MOVED, "git merge -q --no-commit topic >/dev/null 2>&1; git checkout -q HEAD -- ."].concat(),
        "git commit -qm m" => "pre-commit b | prepare-commit-msg b";
    checkout_head_in_a_conflict_discards_their_work: "git checkout -q -b topic; echo t >b; echo t >>c; git commit -qam t; git push -q origin topic; git checkout -q main; echo m >b; git commit -qam m; git merge topic >/dev/null || true; git checkout -q HEAD -- .",
        "git commit -qm m" => "pre-commit b c | prepare-commit-msg b c";
    ancient_extra_parent_takes_a_path_back: "echo 1 >>b; git commit -qam one; git push -q; git checkout -q HEAD~1 -- b; git rev-parse HEAD~1 >.git/MERGE_HEAD; : >.git/MERGE_MODE",
        "git commit -qm m" => "pre-commit b | prepare-commit-msg b";
    merge_that_takes_the_published_side_over_own_work: &[THEIRS, "echo mine >>b; git commit -qam mine; git fetch -q; git merge origin/main >/dev/null 2>&1 || true; git checkout -q --theirs b; git add b"].concat(),
        "git commit -qm m" => "pre-commit ~b | prepare-commit-msg ~b";
    merge_that_takes_own_work_over_the_published_side: &[THEIRS, "echo mine >>b; git commit -qam mine; git fetch -q; git merge origin/main >/dev/null 2>&1 || true; git checkout -q --ours b; git add b"].concat(),
        "git commit -qm m" => "pre-commit b | prepare-commit-msg b";
    merge_no_verify: &[TOPIC, MOVED].concat(), "git merge -q --no-verify topic" => "prepare-commit-msg";
    merge_continue: "git checkout -q -b topic; echo t >b; git commit -qam t; git checkout -q main; echo m >b; git commit -qam m; git merge topic >/dev/null || true; echo both >b; git add b",
        "git merge --continue >/dev/null" => "pre-commit b | prepare-commit-msg b";
    octopus: &[TOPIC, "git checkout -q -b two main; echo 2 >>c; git commit -qam two; git checkout -q main;", MOVED].concat(),
        "git merge -q topic two >/dev/null" => "pre-merge-commit | prepare-commit-msg";
    octopus_with_a_change_of_its_own: &[TOPIC, "git checkout -q -b two main; echo 2 >>c; git commit -qam two; git checkout -q main;", MOVED, "git merge -q --no-commit topic two >/dev/null 2>&1; echo evil >>run.sh; git add run.sh"].concat(),
        "git commit -qm m" => "pre-commit run.sh | prepare-commit-msg run.sh";
    merge_in_a_linked_worktree: &[TOPIC, "git worktree add -q -b side ../side; cd ../side;", MOVED].concat(), "cd ../side; git merge -q topic" => "pre-merge-commit | prepare-commit-msg";
    squash: &[TOPIC, MOVED, "git merge --squash topic >/dev/null 2>&1"].concat(), "git commit -qm m" => "pre-commit b | prepare-commit-msg b";
    squash_of_the_upstream: "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q); echo 1 >>a; git commit -qam mine; git fetch -q; git merge --squash origin/main >/dev/null 2>&1",
        "git commit -qm m" => "pre-commit ~b | prepare-commit-msg ~b";
    fast_forward: TOPIC, "git merge -q topic" => "";
    pull_that_fast_forwards: "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q)", "git pull -q" => "";
    pull_that_merges: "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q); echo 1 >>a; git commit -qam mine",
        "git pull -q --no-rebase --no-edit" => "pre-merge-commit | prepare-commit-msg";
    subtree_merge_of_an_unrelated_history: "git checkout -q --orphan lib; git rm -rfq .; echo 1 >lib; git add lib; git commit -qm lib; git checkout -q main",
        "git merge -q --allow-unrelated-histories -m m lib" => "pre-merge-commit | prepare-commit-msg";

    merge_driver_that_keeps_one_side: &[BOTH, "git config merge.keep.driver true; echo 'b merge=keep' >.git/info/attributes"].concat(),
        "git merge -q --no-edit topic" => "pre-merge-commit b | prepare-commit-msg b";
    merge_driver_of_one_call_that_keeps_one_side: &[BOTH, "echo 'b merge=keep' >.git/info/attributes"].concat(),
        "git -c merge.keep.driver=true merge -q --no-edit topic" => "pre-merge-commit b | prepare-commit-msg b";
    push_of_a_merge_whose_driver_kept_one_side: &[BOTH, "git config merge.keep.driver true; echo 'b merge=keep' >.git/info/attributes; git merge -q --no-edit topic"].concat(),
        "git push -q" => "pre-push b";

    // ---- replayed commits ----
    cherry_pick: &[TOPIC, MOVED].concat(), "git cherry-pick topic >/dev/null" => "prepare-commit-msg b";
    cherry_pick_with_a_conflict: "git checkout -q -b topic; echo t >b; git commit -qam t; git checkout -q main; echo m >b; git commit -qam m; git cherry-pick topic >/dev/null 2>&1 || true; echo both >b; git add b",
        "git cherry-pick --continue >/dev/null" => "pre-commit b | prepare-commit-msg b";
    revert_of_something_old: "echo 1 >>b; git commit -qam one; git push -q; echo 2 >>a; git commit -qam two; git push -q", "git revert --no-edit HEAD~1 >/dev/null" => "prepare-commit-msg b";
    rebase_is_left_to_the_push: &[TOPIC, MOVED].concat(), "git rebase -q topic" => "pre-rebase | prepare-commit-msg -";
    rebase_apply_is_left_to_the_push: &[TOPIC, MOVED].concat(), "git rebase -q --apply topic >/dev/null" => "pre-rebase | pre-applypatch -";
    rebase_continue: "git checkout -q -b topic; echo t >b; git commit -qam t; git checkout -q main; echo m >b; git commit -qam m; git rebase topic >/dev/null 2>&1 || true; echo both >b; git add b",
        "git rebase --continue >/dev/null 2>&1" => "prepare-commit-msg -";
    rebase_that_only_rewords: MOVED, "GIT_SEQUENCE_EDITOR='sed -i s/^pick/reword/' GIT_EDITOR=true git rebase -q -i HEAD^ >/dev/null" => "pre-rebase | pre-commit | prepare-commit-msg -";
    amend_in_the_middle_of_a_rebase: &[MOVED, "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD^ >/dev/null 2>&1; echo more >>c; git add c"].concat(),
        "git commit -q --amend --no-edit" => "pre-commit c | prepare-commit-msg -";
    am: &[TOPIC, "git format-patch -q -1 topic -o $TOP/patches"].concat(), "git am -q $TOP/patches/*" => "pre-applypatch b";
    am_after_a_conflict: "git checkout -q -b topic; echo t >b; git commit -qam t; git checkout -q main; git format-patch -q -1 topic -o $TOP/patches; echo m >b; git commit -qam m; git am -q $TOP/patches/* >/dev/null 2>&1 || true; echo both >b; git add b",
        "git am -q --continue >/dev/null" => "pre-applypatch b";
    a_commit_in_the_middle_of_am: "git checkout -q -b topic; echo t >b; git commit -qam t; git checkout -q main; git format-patch -q -1 topic -o $TOP/patches; echo m >b; git commit -qam m; git am -q $TOP/patches/* >/dev/null 2>&1 || true; echo 1 >>c",
        "git commit -qm m --no-verify c" => "prepare-commit-msg c";

    // ---- no commit is made ----
    stash_branch_tag: "echo 1 >>a", "git stash -q; git branch x; git tag t; git checkout -q x; git reset -q --hard HEAD; git stash pop -q" => "";

    // ---- submodules ----
    submodule_added: "git clone -q $TOP/origin.git $TOP/lib; git submodule --quiet add $TOP/lib sub", "git commit -qm m" => "pre-commit .gitmodules sub | prepare-commit-msg .gitmodules sub";
    submodule_moved_though_ignored: "git clone -q $TOP/origin.git $TOP/lib; git submodule --quiet add $TOP/lib sub; git commit -qm sub; git config submodule.sub.ignore all; git config diff.ignoreSubmodules all; (cd sub; echo 1 >>a; git commit -qam in); git add -f sub",
        "git commit -q --allow-empty -m m" => "pre-commit sub | prepare-commit-msg sub";
    inside_a_submodule: "git clone -q $TOP/origin.git $TOP/lib; git submodule --quiet add $TOP/lib sub; git commit -qm sub; (cd sub; $TOP/install); echo 1 >>sub/a",
        "cd sub; git commit -qam m" => "pre-commit a | prepare-commit-msg a";

    // ---- worktrees and other places ----
    linked_worktree: "git worktree add -q -b side ../side; echo 1 >>../side/a; echo 1 >>b", "cd ../side; git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    linked_worktree_subdirectory: "git worktree add -q -b side ../side; echo 1 >>../side/dir/x", "cd ../side/dir; git commit -qam m" => "pre-commit dir/x | prepare-commit-msg dir/x";
    bare_with_worktrees: "git clone -q --bare . ../bare.git; git -C ../bare.git worktree add -q ../tree main; (cd ../tree; $TOP/install); echo 1 >>../tree/a",
        "cd ../tree; git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    separate_git_dir: "git clone -q --separate-git-dir ../sep.git . ../sep; (cd ../sep; $TOP/install); echo 1 >>../sep/a", "cd ../sep; git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    git_dir_and_work_tree_given: "mkdir ../else; cp -r a b c dir run.sh ../else; echo 1 >>../else/a", "cd ..; git --git-dir=work/.git --work-tree=else commit -qam m" => "pre-commit a | prepare-commit-msg a";
    git_c_from_elsewhere: "echo 1 >>a", "cd /; git -C $TOP/work commit -qam m" => "pre-commit a | prepare-commit-msg a";

    // ---- formats ----
    index_v4: "git update-index --index-version 4; echo 1 >>a", "git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    split_index: "git update-index --split-index; echo 1 >>a", "git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    index_without_checksum: "git config index.skipHash true; git update-index --force-write-index 2>/dev/null || true; echo 1 >>a", "git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    sparse_checkout: "git sparse-checkout set --cone dir; echo 1 >>dir/x; git rm -q --sparse --cached a", "git commit -qm m dir/x; git commit -qm m -a" => "pre-commit dir/x | prepare-commit-msg dir/x | pre-commit a | prepare-commit-msg a";
    sparse_index: "mkdir -p far/away; echo 1 >far/away/z; git add far; git commit -qm far; git sparse-checkout set --cone --sparse-index dir; git ls-files --sparse | grep -q '^far/$'; echo 1 >>dir/x; git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:a),far/new",
        "git add dir/x; git commit -qm m" => "pre-commit dir/x far/new | prepare-commit-msg dir/x far/new";
    sha256: "git init -q --object-format=sha256 ../big; cd ../big; $TOP/install; echo 1 >a; echo 1 >b; git add a b; git commit -qm 1; echo 2 >>a",
        "cd ../big; git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    sha256_initial: "git init -q --object-format=sha256 ../big; cd ../big; $TOP/install; echo 1 >a; git add a",
        "cd ../big; git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    shallow_clone: "git commit -q --allow-empty -m more; git push -q; git clone -q --depth 1 file://$TOP/origin.git ../flat; (cd ../flat; $TOP/install); echo 1 >>../flat/a",
        "cd ../flat; git commit -qam m; git push -q origin HEAD:refs/heads/new" => "pre-commit a | prepare-commit-msg a | pre-push a";
    partial_clone: "git -C ../origin.git config uploadpack.allowFilter true; git clone -q --filter=blob:none file://$TOP/origin.git ../part; (cd ../part; $TOP/install); echo 1 >>../part/a",
        "cd ../part; git commit -qam m; git push -q" => "pre-commit a | prepare-commit-msg a | pre-push a";
    treeless_clone: "git -C ../origin.git config uploadpack.allowFilter true; git clone -q --filter=tree:0 file://$TOP/origin.git ../part; (cd ../part; $TOP/install); echo 1 >>../part/dir/x",
        "cd ../part; git commit -qam m; git push -q" => "pre-commit dir/x | prepare-commit-msg dir/x | pre-push dir/x";
    old_partial_clone_setting: "git config core.repositoryFormatVersion 1; git config extensions.partialClone origin; echo 1 >>a", "git commit -qam m" => "pre-commit a | prepare-commit-msg a";
    replaced_objects_deceive_nobody: "echo 1 >>a; git commit -qam one; git replace HEAD HEAD~1; git reset -q --hard", "git push -q origin main:new" => "pre-push a";

    // ---- pushes ----
    push: "echo 1 >>a; git commit -qam m", "git push -q" => "pre-push a";
    push_dry_run: "echo 1 >>a; git commit -qam m", "git push -q --dry-run" => "pre-push a";
    push_of_a_new_branch: "git checkout -q -b new; echo 1 >>a; git commit -qam m", "git push -q origin new" => "pre-push a";
    push_of_old_work_under_a_new_name: "", "git push -q origin main:again" => "pre-push";
    push_of_several_commits: "echo 1 >>a; git commit -qam a; git rm -q c; git commit -qm c; git mv b z; git commit -qm b", "git push -q" => "pre-push a b c z";
    push_after_somebody_elses_push: "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q); echo 1 >>a; git commit -qam mine; git pull -q --no-rebase --no-edit",
        "git push -q" => "pre-push a";
    push_after_a_rebase: "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q); echo 1 >>a; git commit -qam mine; git pull -q --rebase",
        "git push -q" => "pre-push a";
    force_push: "echo 1 >>a; git commit -qam one; git push -q; git reset -q --hard HEAD^; echo 1 >>b; git commit -qam two", "git push -q --force" => "pre-push a b";
    force_push_that_takes_a_branch_back: "echo 1 >>a; git commit -qam one; git push -q; git reset -q --hard HEAD^", "git push -q --force" => "pre-push a";
    force_push_of_a_rebased_branch: &["git checkout -q -b mine; echo 1 >>a; git commit -qam mine; git push -q -u origin mine;", THEIRS, "git fetch -q; git rebase -q origin/main"].concat(),
        "git push -q --force" => "pre-push ~a";
    force_push_over_commits_we_never_saw: "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>c; git commit -qam theirs; git push -q); echo 1 >>a; git commit -qam mine",
        "git push -q --force" => "pre-push a";
    push_of_several_refs: "git checkout -q -b one; echo 1 >>a; git commit -qam m; git checkout -q -b two main; echo 1 >>b; git commit -qam m", "git push -q origin one two" => "pre-push a b";
    push_all_and_mirror: "git checkout -q -b one; echo 1 >>a; git commit -qam m; git update-ref refs/dibs/ledger $(git commit-tree -m l HEAD^{tree})", "git push -q --mirror" => "pre-push a";
    push_of_a_light_tag: "echo 1 >>a; git commit -qam m; git tag v1; git reset -q --hard HEAD^", "git push -q origin v1" => "pre-push a";
    push_of_an_annotated_tag: "echo 1 >>a; git commit -qam m; git tag -a -m t v1; git tag -a -m t2 v2 v1 2>/dev/null; git reset -q --hard HEAD^", "git push -q origin v2" => "pre-push a";
    push_of_a_tag_of_a_blob_and_a_tree: "git tag blob HEAD:a; git tag -a -m t tree HEAD:dir; echo 1 >>a; git commit -qam later", "git push -q origin blob tree" => "pre-push";
    push_of_notes: "git notes add -m note", "git push -q origin refs/notes/commits" => "pre-push -";
    push_that_deletes: "git push -q origin main:old", "git push -q origin :old" => "pre-push -";
    push_with_nothing_new: "", "git push -q" => "pre-push -";
    push_to_an_empty_remote: "git init -q --bare ../fresh.git; git remote add fresh ../fresh.git", "git push -q fresh main" => "pre-push";
    push_to_an_empty_url: "git init -q --bare ../fresh.git; git remote remove origin", "git push -q ../fresh.git main" => "pre-push";
    push_to_a_remote_never_fetched: "git remote add again $TOP/origin.git; git checkout -q -b new; echo 1 >>a; git commit -qam m", "git push -q again new" => "pre-push a";
    push_to_a_url: "echo 1 >>a; git commit -qam m", "git push -q $TOP/origin.git main:new" => "pre-push a";
    push_by_expression: "echo 1 >>a; git commit -qam 'two words'; echo 1 >>b; git commit -qam later", "git push -q origin 'HEAD^{/two words}:refs/heads/new'" => "pre-push a";
    push_of_a_detached_head: "git checkout -q --detach; echo 1 >>a; git commit -qam m", "git push -q origin HEAD:refs/heads/new" => "pre-push a";
    push_of_touch_and_revert: "echo 1 >>a; git commit -qam one; git revert --no-edit HEAD >/dev/null; echo 1 >>b; git commit -qam two", "git push -q" => "pre-push a b";
    push_of_touch_and_revert_net: "echo 1 >>a; git commit -qam one; git revert --no-edit HEAD >/dev/null; echo 1 >>b; git commit -qam two", "git -c dibs.pushNet=true push -q" => "pre-push ~a b";
    push_net_is_measured_from_what_was_merged: "git clone -q $TOP/origin.git $TOP/other; (cd $TOP/other; echo theirs >>b; git commit -qam theirs; git push -q); echo 1 >>a; git commit -qam mine; git pull -q --no-rebase --no-edit; git checkout -q HEAD~1 -- b; git commit -qm 'b as it was'",
        "git -c dibs.pushNet=true push -q" => "pre-push a b";
    push_of_a_merge_that_only_carries: &[TOPIC, MOVED, "git merge -q topic"].concat(), "git push -q" => "pre-push a";
    push_of_a_change_inside_a_merge: &[TOPIC, MOVED, "git merge -q --no-commit topic >/dev/null 2>&1; echo evil >>c; git add c; git commit -qm evil"].concat(), "git push -q" => "pre-push a c";
    push_of_a_merge_that_discards: &[TOPIC, MOVED, "git merge -q -s ours -m m topic"].concat(), "git push -q" => "pre-push a b";
    push_of_an_ancient_extra_parent: "echo 1 >>b; git commit -qam one; git push -q; git reset -q --hard $(git commit-tree -p HEAD -p HEAD~1 -m evil HEAD~1^{tree})", "git push -q" => "pre-push b";
    push_of_an_octopus_that_discards: &[TOPIC, "git checkout -q -b two main; echo 2 >>c; git commit -qam two; git push -q origin two; git checkout -q main;", MOVED, "git reset -q --hard $(git commit-tree -p HEAD -p topic -p two -m octopus HEAD^{tree})"].concat(),
        "git push -q" => "pre-push a b c";
    push_of_an_octopus_that_only_carries: &[TOPIC, "git checkout -q -b two main; echo 2 >>c; git commit -qam two; git push -q origin two; git checkout -q main;", MOVED, "git merge -q topic two >/dev/null"].concat(),
        "git push -q" => "pre-push a";
    push_of_content_taken_from_origin_and_then_merged: &[THEIRS, "git fetch -q; git checkout -q origin/main -- b; git commit -qm taken; git merge -q -m m origin/main; echo 1 >>a; git commit -qam mine"].concat(),
        "git push -q" => "pre-push a ~b";
    push_of_a_library_with_the_same_file_names: "git init -q ../lib; (cd ../lib; echo lib >a; git add a; git commit -qm lib; echo lib >>a; git commit -qam more); git fetch -q ../lib main; git merge -q -s ours --no-commit --allow-unrelated-histories FETCH_HEAD >/dev/null 2>&1; git read-tree --prefix=vendor/ -u FETCH_HEAD; git commit -qm subtree",
        "git push -q" => "pre-push ~a vendor/a";

    // ---- refs and objects that git shows in another way ----
    push_of_a_replaced_commit: "echo 1 >>a; git commit -qam m; git replace HEAD $(git commit-tree -p HEAD^ -m clean HEAD^^{tree})", "git push -q" => "pre-push a";
    push_of_a_replaced_tree: "echo 1 >>a; git commit -qam m; git replace HEAD^{tree} HEAD^^{tree}", "git push -q" => "pre-push a";
    push_of_replacements_is_no_work: "echo 1 >>a; git commit -qam m; git replace --graft HEAD", "git push -q origin 'refs/replace/*'" => "pre-push -";
    push_past_a_graft: "echo 1 >>b; git commit -qam b; echo 1 >>a; git commit -qam m; mkdir -p .git/info; echo $(git rev-parse HEAD origin/main) >.git/info/grafts", "git push -q --dry-run" => "pre-push a b";
    push_of_a_stash: "echo 1 >>a; git stash -q", "git push -q origin stash@{0}:refs/heads/stashed" => "pre-push a";
    push_of_a_merge_with_the_same_parent_twice: "echo 1 >>a; git add a; tree=$(git write-tree); git reset -q --hard; main=$(git rev-parse HEAD); git reset -q --hard $(printf 'tree %s\\nparent %s\\nparent %s\\nauthor B <b@x> 1 +0000\\ncommitter B <b@x> 1 +0000\\n\\nm\\n' $tree $main $main | git hash-object -t commit -w --stdin)",
        "git push -q" => "pre-push a";
    push_to_the_repository_of_another_project: "git init -q --bare ../site.git; git remote add site $TOP/site.git; git checkout -q --orphan site; git rm -rfq .; echo 1 >a; git add a; git commit -qm site; git push -q site site; echo 2 >>a; git commit -qam more",
        "git push -q site site" => "pre-push ~a";
    push_of_a_subtree_to_its_own_repository: "git init -q --bare ../lib.git; git init -q ../lib; (cd ../lib; echo lib >a; git add a; git commit -qm lib; git push -q ../lib.git main); git remote add lib $TOP/lib.git; git fetch -q lib; git merge -q -s ours --no-commit --allow-unrelated-histories lib/main >/dev/null 2>&1; git read-tree --prefix=vendor/ -u lib/main; git commit -qm vendor; git push -q; echo mine >>vendor/a; git commit -qam mine; git push -q; git branch split $(git commit-tree -p lib/main -m split HEAD:vendor)",
        "git push -q lib split:main" => "pre-push ~a";
    push_of_an_orphan_to_the_same_repository: "git checkout -q --orphan site; git rm -rfq .; echo 1 >a; git add a; git commit -qm site", "git push -q origin site" => "pre-push a";
    push_of_a_branch_of_this_project_to_an_unknown_place: "git init -q --bare ../mirror.git; git push -q ../mirror.git main; echo 1 >>a; git commit -qam m", "git push -q ../mirror.git main" => "pre-push a";

    push_of_an_updated_library: "git init -q ../lib; (cd ../lib; echo lib >a; git add a; git commit -qm lib); git fetch -q ../lib main; git merge -q -s ours --no-commit --allow-unrelated-histories FETCH_HEAD >/dev/null 2>&1; git read-tree --prefix=vendor/ -u FETCH_HEAD; git commit -qm vendor; git push -q; (cd ../lib; echo more >>a; git commit -qam more); git fetch -q ../lib main; git merge -q -X subtree=vendor -m update FETCH_HEAD",
        "git push -q" => "pre-push ~a vendor/a";

    // ---- what the remote already has ----
    push_from_a_bare_clone_whose_remote_moved_on: &["git clone -q --bare $TOP/origin.git ../bare.git; git -C ../bare.git worktree add -q -b mine ../tree main; (cd ../tree; $TOP/install);", THEIRS, "cd ../tree; echo 1 >>a; git commit -qam mine"].concat(),
        "cd ../tree; git push -q origin mine" => "pre-push a";
    push_to_a_remote_never_fetched_that_moved_on: &["git remote remove origin; git remote add again $TOP/origin.git;", THEIRS, "echo 1 >>a; git commit -qam m"].concat(), "git push -q again main:new" => "pre-push a";
    push_from_a_single_branch_clone_that_pulled_another_branch: &[TOPIC, "git clone -q --single-branch file://$TOP/origin.git ../one; cd ../one; $TOP/install; git pull -q origin topic; echo 1 >>a; git commit -qam m"].concat(),
        "cd ../one; git push -q origin main:new" => "pre-push a ~b";
    push_to_a_fork_of_what_upstream_has: &["git clone -q --bare $TOP/origin.git ../fork.git; git remote rename origin upstream; git remote add origin $TOP/fork.git; git fetch -q origin;", THEIRS, "git pull -q --rebase upstream main; echo 1 >>a; git commit -qam mine"].concat(),
        "git push -q origin main" => "pre-push a";
    push_when_a_remote_is_named_like_a_branch: "git init -q --bare ../peer.git; git config remote.origin/fork.url ../peer.git; git config remote.origin/fork.fetch +refs/heads/*:refs/remotes/origin/fork/*; echo 1 >>a; git commit -qam m; git push -q origin/fork main", "git push -q origin main" => "pre-push a";
    push_by_url_of_what_a_colleague_has: "git init -q --bare ../peer.git; git remote add peer ../peer.git; echo 1 >>a; git commit -qam m; git push -q peer main", "git push -q file://$TOP/origin.git main:new" => "pre-push a";
    push_of_a_branch_that_the_remote_deleted: "git checkout -q -b gone; echo 1 >>a; git commit -qam m; git push -q origin gone; git -C ../origin.git branch -q -D gone", "git push -q origin gone" => "pre-push a";
    push_after_filter_branch: "echo 1 >>a; git commit -qam one; git push -q; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --tree-filter 'echo x >>b' -- --all >/dev/null 2>&1", "git push -q --force" => "pre-push ~a b ~c ~dir/x ~dir/y ~run.sh";
    push_of_the_edge_of_a_shallow_clone: "git clone -q $TOP/origin.git ../peer; (cd ../peer; echo 1 >>a; git commit -qam unpublished); git clone -q --depth 1 file://$TOP/peer ../thin; cd ../thin; $TOP/install; git remote rename origin peer; git remote add origin $TOP/origin.git; git -C $TOP/origin.git config receive.shallowUpdate true",
        "cd ../thin; git push -q origin main:new" => "pre-push a b c dir/x dir/y run.sh";
    push_of_work_no_remote_has: "git worktree add -q -b peer ../peer; (cd ../peer; echo peer >>b; git commit -qam peer); echo 1 >>a; git commit -qam mine; git merge -q peer", "git push -q" => "pre-push a b";
    push_of_a_root_with_showroot_off: "git config log.showRoot false; git checkout -q --orphan lib; git rm -rfq .; echo 1 >lib; git add lib; git commit -qm lib", "git push -q origin lib" => "pre-push lib";
    push_with_odd_log_settings: "git config log.follow true; git config log.showSignature true; git config log.diffMerges off; git config diff.relative true; git config format.pretty raw; git config color.ui always; echo 1 >>a; git commit -qam m; git config diff.orderFile /nowhere",
        "cd dir; git push -q" => "pre-push a";
    push_from_a_linked_worktree: "git worktree add -q -b side ../side; cd ../side; echo 1 >>a; git commit -qam m", "cd ../side; git push -q origin side" => "pre-push a";
    push_no_verify: "echo 1 >>a; git commit -qam m", "git push -q --no-verify" => "";
    push_of_a_submodule_change: "git clone -q $TOP/origin.git $TOP/lib; git submodule --quiet add $TOP/lib sub; git commit -qm sub; git push -q; (cd sub; echo 1 >>a; git commit -qam in); git add sub; git commit -qm moved; git config diff.ignoreSubmodules all; git config submodule.sub.ignore all",
        "git push -q" => "pre-push sub";
    push_of_5000_commits: r#"{
            for n in $(seq 5000); do printf 'commit refs/heads/main\nmark :%s\ncommitter B <b@x> %s +0000\ndata 1\nm' $n $n
                if [ $n = 1 ]; then printf '\nfrom refs/heads/main^0\n'; else printf '\nfrom :%s\n' $((n - 1)); fi
                printf 'M 100644 inline n/%s\ndata 1\nx\n' $((n % 7)); done; } | git fast-import --quiet"#,
        "git push -q" => "pre-push n/0 n/1 n/2 n/3 n/4 n/5 n/6";
}
