//! Other programs that own git hooks, as they come from their registries. `./test` puts them into `target/managers`; what is
//! not there is skipped with a sentence.

use std::path::PathBuf;

use crate::support::world::{fetched, skip};
use crate::world::{World, said};

/// The directories in which `./test` installs them.
const PLACES: [&str; 3] = ["node/node_modules/.bin", "python/bin", "bin"];

/// A directory of what `./test` fetches.
pub fn dir(name: &str) -> PathBuf {
    fetched("managers").join(name)
}

/// A world with this program on PATH, as `$MANAGERS`; none if it could not be installed.
pub fn with(program: &str) -> Option<World> {
    with_in(&PLACES, program)
}

/// The same with the program of these directories.
pub fn with_in(places: &[&str], program: &str) -> Option<World> {
    let dirs: Vec<PathBuf> = places.iter().map(|place| dir(place)).collect();
    if !dirs.iter().any(|dir| dir.join(program).exists()) {
        skip(&format!("hooks beside {program}, because it is not in {} of target/managers", places.join(", ")));
        return None;
    }
    let mut world = World::new();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = dirs.iter().map(|dir| dir.display().to_string()).chain([path]).collect::<Vec<_>>().join(":");
    world.set_variable("PATH", format!("{}:{path}", world.path("bin").display()));
    world.set_variable("PRE_COMMIT_HOME", world.path("home/pre-commit").into_os_string());
    world.start();
    Some(world)
}

/// A push by someone else than the holder: whether it passed, and what was said.
fn pushed(world: &World, script: &str) -> (bool, String) {
    let output = world.try_shell("work", script, &[]);
    (output.status.success(), said(&output))
}

#[track_caller]
fn is_blocked(world: &World, noun: &str, script: &str) {
    let (passed, text) = pushed(world, script);
    assert!(!passed && text.contains(&format!("this {noun} is blocked")), "{script}\n{text}");
}

/// What each manager must not prevent: a commit, a push that only deletes, and a push whose second ref is in the way.
#[track_caller]
fn protects(world: &World) {
    world.shell("work", "git push -q origin HEAD:refs/heads/old");
    let ana = world.session("ana");
    ana.hold("a");
    is_blocked(world, "commit", "echo 1 >>a; git add a; git commit -m m");
    world.shell("work", "git reset -q --hard");
    is_blocked(world, "push", "git rm -q a; DIBS_ENFORCE=off git commit -qm gone; git push origin HEAD:refs/heads/old");
    world.shell("work", "git reset -q --hard HEAD^; git branch fine; git switch -q fine; echo 1 >new; git add new; git commit -qm new; git switch -q main; echo 1 >>a; git commit -qam mine");
    is_blocked(world, "push", "git push origin fine main");
    ana.end();
    let (passed, text) = pushed(world, "git push origin fine main");
    assert!(passed && !text.contains("blocked"), "{text}");
}

/// The findings of the doctor that say "works", and whether all of them do.
fn works(world: &World) -> Vec<String> {
    let output = world.try_shell("work", "git-dibs doctor", &[]);
    let text = said(&output);
    text.lines().filter(|line| line.starts_with("good") && line.contains(" works")).map(str::to_owned).collect()
}

#[test]
fn lefthook_runs_our_hook_also_if_it_finds_no_files() {
    let Some(world) = with("lefthook") else { return };
    let config = "pre-push:\n  jobs:\n    - run: echo theirs\n";
    std::fs::write(world.path("work/lefthook.yml"), config).unwrap();
    let report = world.try_install("work", &[]);
    let snippet = report.by_hand.concat();
    let (scripts, config) = snippet.split_once("Add to lefthook.yml, then run: lefthook install\n").unwrap();
    for line in scripts.lines().filter(|line| line.contains("mkdir")) {
        world.shell("work", line);
    }
    let config: String = config.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect();
    std::fs::write(world.path("work/lefthook.yml"), config).unwrap();
    assert_eq!(works(&world), Vec::<String>::new(), "lefthook install was not run yet");
    world.shell("work", "lefthook install; git add .; git commit -qm lefthook; git push -q");
    let works = works(&world);
    assert!(works.len() == 6 && works.iter().all(|line| line.contains(" works through lefthook in ")), "{works:#?}");
    protects(&world);
}

#[test]
fn pre_commit_installed_before_and_after_us_checks_every_ref() {
    let config = "repos:\n- repo: local\n  hooks:\n  - id: theirs\n    name: theirs\n    entry: touch theirs\n    language: system\n    \
                  pass_filenames: false\n    always_run: true\n    stages: [pre-commit, pre-push]\n";
    let install = "pre-commit install -t pre-commit -t pre-push >/dev/null";
    for ours_first in [true, false] {
        let Some(world) = with("pre-commit") else { return };
        std::fs::write(world.path("work/.pre-commit-config.yaml"), config).unwrap();
        std::fs::write(world.path("work/.gitignore"), "theirs\n").unwrap();
        world.shell("work", "git add .; git commit -qm config; git push -q");
        if ours_first {
            world.install("work", &[]);
            world.shell("work", install);
        } else {
            world.shell("work", install);
            world.install("work", &[]);
        }
        // Both installed again: neither is lost, nothing runs twice.
        world.shell("work", install);
        world.install("work", &[]);
        assert_eq!(works(&world).len(), 6, "ours first: {ours_first}");
        protects(&world);
        assert!(world.path("work/theirs").exists(), "their hook still runs");
        let warned = "echo 2 >>b; git add b; DIBS_URL=http://127.0.0.1:1 git commit -qm m";
        let (passed, text) = pushed(&world, warned);
        assert!(passed && text.matches("was not checked").count() == 1, "{text}");
        world.uninstall("work");
        std::fs::remove_file(world.path("work/theirs")).unwrap();
        world.shell("work", "echo 3 >>b; git commit -qam m");
        assert!(world.path("work/theirs").exists(), "their hook runs without ours");
        assert!(works(&world).is_empty());
    }
}

#[test]
fn husky_runs_the_line_that_install_prints() {
    let Some(world) = with("husky") else { return };
    world.shell("work", "husky");
    let snippet = world.try_install("work", &[]).by_hand.concat();
    for line in snippet.lines().filter_map(|line| line.strip_prefix("  .husky/")) {
        let (file, line) = line.split_once(": ").unwrap();
        std::fs::write(world.path(&format!("work/.husky/{file}")), format!("{line}\n")).unwrap();
    }
    world.shell("work", "git add .; git commit -qm husky; git push -q");
    let works = works(&world);
    assert!(works.len() == 6 && works.iter().all(|line| line.contains(" works through husky in ")), "{works:#?}");
    protects(&world);
}

#[test]
fn git_lfs_installed_after_us_still_uploads() {
    let Some(world) = with("git-lfs") else { return };
    world.install("work", &[]);
    // It refuses to install its pre-push hook beside ours, and its users do not always see that.
    let _ = world.try_shell("work", "git lfs install --local", &[]);
    world.shell("work", "git lfs track '*.bin' >/dev/null; git config lfs.locksverify false");
    world.shell("work", "echo large >x.bin; git add .gitattributes x.bin; git commit -qm lfs");
    let (passed, text) = pushed(&world, "git push -q");
    assert!(passed, "{text}");
    let stored = world.shell("origin.git", "find lfs/objects -type f | wc -l");
    assert_eq!(stored.trim(), "1");
    protects(&world);
}

#[test]
fn git_lfs_installed_before_us_keeps_all_its_hooks() {
    let Some(world) = with("git-lfs") else { return };
    // As docs/teams.md says for a repository where it came later.
    world.install("work", &[]);
    world.shell("work", "git-dibs uninstall && git lfs install --local && git-dibs install");
    for hook in ["post-checkout", "post-commit", "post-merge", "pre-push.dibs-next"] {
        assert!(world.path(&format!("work/.git/hooks/{hook}")).exists(), "{hook}");
    }
    protects(&world);
}
