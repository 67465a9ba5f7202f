//! Installing, what runs then, and uninstalling.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git_dibs::git::Version;

use crate::world::{PROGRAM, Report, Run, World, said, script};

/// Every file below a directory: name, mode, content or where a link leads.
fn tree(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        let about = path.symlink_metadata().unwrap();
        if about.is_dir() {
            all.extend(tree(&path));
        } else if about.is_symlink() {
            let to = std::fs::read_link(&path).unwrap();
            all.push((path, 0, to.into_os_string().into_encoded_bytes()));
        } else {
            all.push((path.clone(), about.permissions().mode(), std::fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

/// These tests are about hook files; a git with hooks in its configuration installs those instead.
pub fn git_uses_files() -> bool {
    let files = Version::of_git().unwrap() < Version::CONFIG_HOOKS;
    if !files {
        eprintln!("skipped: this git keeps hooks in its configuration");
    }
    files
}

#[test]
fn installing_twice_changes_nothing_and_uninstalling_leaves_nothing() {
    let world = World::new();
    let before = tree(&world.path("work/.git"));
    let report = world.try_install("work", &[]);
    assert!(report.done.len() >= 5, "{report:?}");
    let installed = tree(&world.path("work/.git"));
    assert_eq!(world.try_install("work", &[]), Report::default());
    assert_eq!(tree(&world.path("work/.git")), installed);
    world.uninstall("work");
    assert_eq!(tree(&world.path("work/.git")), before);
    assert_eq!(world.uninstall("work"), Report::default());
}

#[test]
fn installing_again_updates_the_path_of_the_program() {
    if !git_uses_files() {
        return;
    }
    let world = World::new();
    let old = world.path("old/git-dibs");
    std::fs::create_dir(world.path("old")).unwrap();
    std::os::unix::fs::symlink(PROGRAM, &old).unwrap();
    world.shell("work", "PATH=$TOP/old:$PATH git dibs install 2>/dev/null >&2");
    let shim = || std::fs::read_to_string(world.path("work/.git/hooks/pre-push")).unwrap();
    assert!(shim().contains(old.to_str().unwrap()), "{}", shim());
    let report = world.try_install("work", &[]);
    assert!(!shim().contains(old.to_str().unwrap()), "{}", shim());
    assert_eq!(report.done.len(), 7, "{report:?}");
    assert_eq!(world.judged("work", "echo 1 >>a; git commit -qam m"), "pre-commit a | prepare-commit-msg a");
}

#[test]
fn existing_hooks_run_and_are_restored_unchanged() {
    if !git_uses_files() {
        return;
    }
    let world = World::new();
    let hooks = world.path("work/.git/hooks");
    script(&hooks.join("pre-commit"), "#!/bin/sh\necho \"pre-commit $#\" >>\"$TOP/ran\"\n");
    script(&hooks.join("pre-push"), "#!/bin/sh\necho \"pre-push $1 $(cat)\" >>\"$TOP/ran\"\n");
    script(&world.path("shared"), "#!/bin/sh\necho \"prepare-commit-msg $2\" >>\"$TOP/ran\"\n");
    std::os::unix::fs::symlink("../../../shared", hooks.join("prepare-commit-msg")).unwrap();
    std::fs::write(hooks.join("pre-applypatch"), "not executable\n").unwrap();
    let before = tree(&hooks);
    world.try_install("work", &[]);
    world.try_install("work", &[]);

    let act = "echo 1 >>a; git commit -qam m; git push -q";
    let output = world.try_shell("work", act, &[("DIBS_ON_UNREACHABLE", "allow")]);
    assert!(output.status.success(), "{}", said(&output));
    let ran = std::fs::read_to_string(world.path("ran")).unwrap();
    let (commit, push) = ran.split_once("pre-push ").unwrap();
    assert_eq!(commit, "pre-commit 0\nprepare-commit-msg message\n");
    assert!(
        push.starts_with("origin refs/heads/main ") && push.contains(" refs/heads/main "),
        "stdin is replayed: {push}"
    );

    world.uninstall("work");
    assert_eq!(tree(&hooks), before);
}

#[test]
fn an_existing_hook_can_still_refuse() {
    let world = World::new();
    script(&world.path("work/.git/hooks/pre-commit"), "#!/bin/sh\necho no from before >&2; exit 3\n");
    world.try_install("work", &[]);
    let output = world.try_shell("work", "echo 1 >>a; git commit -qam m", &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("no from before"));
    if git_uses_files() {
        assert!(
            !said(&output).contains("not checked"),
            "nobody asks about a commit that will not be: {}",
            said(&output)
        );
    }
}

#[test]
fn a_blocked_push_does_not_run_the_existing_hook() {
    if !git_uses_files() {
        return;
    }
    let world = World::new();
    script(&world.path("work/.git/hooks/pre-push"), "#!/bin/sh\ntouch \"$TOP/uploaded\"\n");
    world.try_install("work", &[]);
    let output = world.try_shell("work", "echo 1 >>a; git commit -qam m; git push -q", &[]);
    assert!(!output.status.success());
    let text = said(&output);
    assert!(text.contains("this commit was not checked (dibs.onUnreachable=warn by default)"), "{text}");
    assert!(
        text.contains("this push is blocked because it could not be checked (dibs.onUnreachable=block by default)"),
        "{text}"
    );
    assert!(!world.path("uploaded").exists());
}

#[test]
fn the_hook_reads_settings_from_every_place_git_does() {
    let world = World::with_hooks(false);
    world.shell(
        "work",
        "git config extensions.worktreeConfig true; git worktree add -q -b side ../side; echo 1 >>a; git add a",
    );
    let told = |setup: &str, act: &str, more: &[(&str, &str)]| {
        let before = world.snapshot();
        world.shell("work", setup);
        let output = world.try_shell("work", act, more);
        before.restore();
        (output.status.success(), said(&output))
    };
    let variables =
        [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "dibs.onUnreachable"), ("GIT_CONFIG_VALUE_0", "block")];
    let file = "printf '[dibs]\\n\\tOnUnreachable = \"bl\"ock ; a comment\\n' >";
    for (setup, act, more) in [
        ("", "git -c dibs.onUnreachable=block commit -qm m", &[][..]),
        ("", "git commit -qm m", &variables),
        ("git config dibs.onUnreachable block", "git commit -qm m", &[]),
        ("git config --global dibs.onUnreachable block", "git commit -qm m", &[]),
        ("git config --global dibs.onUnreachable allow; git config DIBS.ONUNREACHABLE block", "git commit -qm m", &[]),
        ("git config dibs.onUnreachable allow; git config --add dibs.onUnreachable block", "git commit -qm m", &[]),
        (
            "git config dibs.onUnreachable allow; git config --worktree dibs.onUnreachable block",
            "git commit -qm m",
            &[],
        ),
        (
            "git -C ../side config --worktree dibs.onUnreachable block; echo 1 >>../side/a",
            "cd ../side; git commit -qam m",
            &[],
        ),
        (&format!("mkdir -p ~/.config/git; {file}$HOME/.config/git/config"), "git commit -qm m", &[]),
        (&format!("{file}.git/more; git config include.path more"), "git commit -qm m", &[]),
        (&format!("{file}.git/more; git config includeIf.onbranch:main.path more"), "git commit -qm m", &[]),
        (
            &format!("{file}.git/more; git config 'includeIf.hasconfig:remote.*.url:**.path' more"),
            "git commit -qm m",
            &[],
        ),
        (&format!("{file}.git/more"), "git -c include.path=$PWD/.git/more commit -qm m", &[]),
        (
            &format!("{file}.git/more"),
            "GIT_CONFIG_GLOBAL=$PWD/.git/more git -c user.name=x -c user.email=x commit -qm m",
            &[],
        ),
        (
            &format!("{file}.git/more"),
            "unset GIT_CONFIG_NOSYSTEM; GIT_CONFIG_SYSTEM=$PWD/.git/more git commit -qm m",
            &[],
        ),
    ] {
        let (passed, text) = told(setup, act, more);
        assert!(!passed && text.contains("(dibs.onUnreachable=block)"), "{setup}\n{act}\n{text}");
    }
    let (passed, text) = told("", "git commit -qm m", &[("DIBS_ENFORCE", "off")]);
    assert!(passed && !text.contains("git-dibs"), "{text}");
    let (passed, text) = told("", "git commit -qm m; git -c dibs.enforce=warn push -q", &[]);
    assert!(passed && text.contains("this push was not checked"), "{text}");
}

#[test]
fn the_same_commit_is_judged_once() {
    let world = World::with_hooks(false);
    let count = |act: &str| {
        let output = world.try_shell("work", act, &[]);
        assert!(output.status.success(), "{}", said(&output));
        said(&output).matches("was not checked").count()
    };
    assert_eq!(count("echo 1 >>a; git commit -qam m"), 1);
    assert_eq!(count("echo 1 >>a; git commit -qm m -- a"), 1);
    assert_eq!(count("echo 1 >>a; git commit -q --amend -am m"), 1);
    assert_eq!(count("echo 1 >>a; git commit -qam m --no-verify"), 1);
    assert_eq!(count("git checkout -q -b t HEAD^; echo 1 >>b; git commit -qam m"), 1);
    // A merge that changes nothing itself is not judged; one that does is judged once.
    let both = "git checkout -q -b u; sed -i 's/^9/nine/' c; git commit -qam m; git checkout -q t; sed -i 's/^2$/two/' c; git commit -qam m";
    world.shell("work", both);
    assert_eq!(count("git merge -q u"), 1);
    // A later hook changes what will be committed: then it is judged again.
    script(&world.path("formatter"), "#!/bin/sh\necho formatted >>b; git add b; rm .git/dibs/outage\n");
    let shim = std::fs::read_to_string(world.path("work/.git/hooks/pre-commit"));
    if let Ok(shim) = shim {
        let edited = shim.replace("|| exec ", "|| ").replace("\n\n", "\n\"$TOP/formatter\"; exit\n\n");
        std::fs::write(world.path("work/.git/hooks/pre-commit"), edited).unwrap();
        assert_eq!(count("echo 1 >>a; git add a; git commit -qm m"), 2);
    }
    // Notes of earlier commits are removed, and are valid for no other commit.
    let notes = || world.shell("work", "ls .git/dibs | grep -c ^passed-");
    assert_eq!(notes(), "1\n");
    assert_eq!(count("echo 1 >>a; git commit -qam m --no-verify"), 1);
    assert_eq!(notes(), "1\n");
}

#[test]
fn an_ordinary_commit_starts_no_other_git_process() {
    let world = World::with_hooks(false);
    let place = world.shell("", "git --exec-path");
    if !place.starts_with("/usr/l") {
        eprintln!("skipped: nobody knows what configuration the git in {place} reads");
        return;
    }
    let started = |act: &str| {
        let _ = std::fs::remove_file(world.path("trace"));
        let trace = world.path("trace");
        let output = world.try_shell("work", act, &[("GIT_TRACE2_EVENT", trace.to_str().unwrap())]);
        assert!(output.status.success(), "{}", said(&output));
        let events = std::fs::read_to_string(&trace).unwrap();
        let names = events.lines().filter(|line| line.contains("\"event\":\"cmd_name\""));
        let name = |line: &str| line.split("\"name\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        names.map(name).filter(|name| name != "maintenance").collect::<Vec<_>>().join(" ")
    };
    assert_eq!(started("echo 1 >>a; git commit -qam m"), "commit");
    assert_eq!(started("git config dibs.enforce warn; echo 1 >>a; git commit -qam m"), "config commit");
    assert_eq!(started("echo 1 >>a; git -c user.name=x commit -qm m --no-verify a"), "commit");
    // Where libgit2 could differ, git is asked.
    assert_eq!(started("echo 1 >>a; git -c dibs.enforce=warn commit -qam m"), "commit config");
    // Only git reads an index in two files, and it is not started while no server says that anything is held.
    assert_eq!(started("git update-index --split-index; echo 1 >>a; git commit -qam m"), "update-index commit");
}

#[test]
fn a_missing_program_is_reported_and_the_settings_decide() {
    let world = World::new();
    script(&world.path("work/.git/hooks/pre-commit"), "#!/bin/sh\ntouch \"$TOP/ran\"\n");
    world.try_install("work", &[]);
    std::fs::remove_file(world.path("bin/git-dibs")).unwrap();
    let told = |act: &str| {
        let output = world.try_shell("work", act, &[]);
        (output.status.success(), said(&output))
    };
    let (passed, text) = told("echo 1 >>a; git commit -qam m");
    assert!(passed && text.contains("the program is missing, so this commit was not checked"), "{text}");
    assert!(world.path("ran").exists());
    let (passed, text) = told("git push -q");
    assert!(!passed && text.contains("(dibs.onUnreachable=block)") && text.contains("git dibs install"), "{text}");
    let (passed, text) = told("git -c dibs.onUnreachable=warn push -q --dry-run");
    assert!(passed && text.contains("this push was not checked"), "{text}");
    assert_eq!(told("git -c dibs.onUnreachable=allow push -q --dry-run"), (true, String::new()));
    assert_eq!(told("git -c dibs.enforce=off push -q --dry-run"), (true, String::new()));
    // Second choice: the program on PATH.
    script(&world.path("bin/git-dibs"), "#!/bin/sh\necho \"found $2\" >&2\n");
    let (passed, text) = told("PATH=$TOP/bin:$PATH git push -q");
    assert!(passed && text.contains("found pre-push"), "{text}");
}

#[test]
fn a_hook_edited_by_hand_is_left_alone() {
    if !git_uses_files() {
        return;
    }
    let world = World::new();
    world.try_install("work", &[]);
    let file = world.path("work/.git/hooks/pre-commit");
    let edited = [std::fs::read(&file).unwrap(), b"echo mine\n".to_vec()].concat();
    std::fs::write(&file, &edited).unwrap();
    let report = world.try_install("work", &[]);
    assert!(report.by_hand[0].contains("edited by hand"), "{report:?}");
    let report = world.uninstall("work");
    assert_eq!(
        report.done.iter().filter(|line| line.contains("/hooks/pre-") && !line.contains("dibs/hooks")).count(),
        4
    );
    assert!(report.by_hand[0].contains("edited by hand"), "{report:?}");
    assert_eq!(std::fs::read(&file).unwrap(), edited);
}

#[test]
fn a_second_hook_to_keep_is_refused() {
    if !git_uses_files() {
        return;
    }
    let world = World::new();
    let hooks = world.path("work/.git/hooks");
    script(&hooks.join("pre-commit"), "#!/bin/sh\n# one\n");
    script(&hooks.join("pre-commit.dibs-next"), "#!/bin/sh\n# two\n");
    let before = tree(&hooks);
    let report = world.try_install("work", &[]);
    assert!(report.by_hand[0].contains("cannot be kept because"), "{report:?}");
    let left: Vec<_> = tree(&hooks).into_iter().filter(|file| before.contains(file)).collect();
    assert_eq!(left, before);
}

#[test]
fn a_hooks_path_inside_the_repository_is_used_in_every_worktree() {
    if !git_uses_files() {
        return;
    }
    let world = World::new();
    world.shell("work", "git worktree add -q -b side ../side; git config core.hooksPath .hooks");
    world.try_install("work", &[]);
    assert!(world.path("work/.hooks/pre-commit").exists());
    assert_eq!(world.judged("work", "echo 1 >>a; git commit -qam m"), "pre-commit a | prepare-commit-msg a");
    assert_eq!(world.judged("side", "echo 1 >>a; git commit -qam m"), "pre-commit a | prepare-commit-msg a");
    world.uninstall("side");
    assert_eq!(tree(&world.path("work/.hooks")), []);
    assert_eq!(tree(&world.path("side/.hooks")), []);

    let absolute = "git config core.hooksPath $PWD/.git/my-hooks";
    world.shell("work", absolute);
    world.try_install("side", &[]);
    assert_eq!(world.judged("side", "echo 2 >>a; git commit -qam m"), "pre-commit a | prepare-commit-msg a");
    world.uninstall("work");

    let own = "git config --unset core.hooksPath; git config extensions.worktreeConfig true; git -C ../side config --worktree core.hooksPath own";
    world.shell("work", own);
    world.try_install("work", &[]);
    assert!(world.path("side/own/pre-push").exists() && world.path("work/.git/hooks/pre-push").exists());
    assert_eq!(world.judged("side", "echo 3 >>a; git commit -qam m"), "pre-commit a | prepare-commit-msg a");
}

#[test]
fn a_hooks_path_outside_is_never_written_to() {
    if !git_uses_files() {
        return;
    }
    for scope in ["--global", "--local"] {
        let world = World::new();
        std::fs::create_dir(world.path("mine")).unwrap();
        world.shell("work", &format!("git config {scope} core.hooksPath $TOP/mine"));
        let report = world.try_install("work", &[]);
        assert!(report.done.iter().all(|line| line.contains("dibs")), "{report:?}");
        assert!(report.by_hand[0].contains("outside this repository"), "{report:?}");
        assert!(report.by_hand[0].contains("git-dibs hook pre-push"), "{report:?}");
        assert_eq!(tree(&world.path("mine")), []);
    }
    let world = World::new();
    std::fs::create_dir(world.path("mine")).unwrap();
    std::os::unix::fs::symlink(world.path("mine"), world.path("work/.git/hooks")).unwrap();
    world.try_install("work", &[]);
    assert_eq!(tree(&world.path("mine")), []);
}

#[test]
fn a_manager_keeps_its_hooks_and_gets_a_snippet() {
    if !git_uses_files() {
        return;
    }
    for (name, setup) in
        [("husky", "mkdir -p .husky/_; git config core.hooksPath .husky/_"), ("lefthook", "touch lefthook.yml")]
    {
        let world = World::new();
        world.shell("work", setup);
        let report = world.try_install("work", &[]);
        assert!(report.by_hand[0].starts_with(&format!("{name} manages the hooks here")), "{report:?}");
        assert_eq!(tree(&world.path("work/.husky")), []);
        assert_eq!(tree(&world.path("work/.git/hooks")), []);
    }
}

#[test]
fn husky_style_hooks_run_the_snippet() {
    let world = World::new();
    world.shell("work", "mkdir -p .husky/_; git config core.hooksPath .husky/_");
    for moment in ["pre-commit", "pre-push"] {
        let runner = "#!/bin/sh\nsh -e \"$(dirname \"$(dirname \"$0\")\")/$(basename \"$0\")\" \"$@\"\n";
        script(&world.path(&format!("work/.husky/_/{moment}")), runner);
        std::fs::write(world.path(&format!("work/.husky/{moment}")), format!("git-dibs hook {moment} -- \"$@\"\n"))
            .unwrap();
    }
    let act = "export PATH=$TOP/bin:$PATH; echo 1 >>a; git commit -qam m; git push -q";
    assert_eq!(world.judged("work", act), "pre-commit a | pre-push a");
}

#[test]
fn a_server_announces_push_options_until_uninstalled() {
    let world = World::new();
    let config = || std::fs::read_to_string(world.path("origin.git/config")).unwrap();
    let before = config();
    world.try_install("origin.git", &["--server"]);
    assert_eq!(world.try_install("origin.git", &["--server"]), Report::default());
    world.shell("work", "echo 1 >>a; git commit -qam m; git push -q -o dibs-token=x");
    world.uninstall("origin.git");
    assert_eq!(config(), before);
    // What the administrator had set is kept.
    world.shell("origin.git", "git config receive.advertisePushOptions true");
    let before = config();
    world.try_install("origin.git", &["--server"]);
    world.uninstall("origin.git");
    assert_eq!(config(), before);
}

#[test]
fn git_lfs_still_gets_its_stdin() {
    let world = World::new();
    if !world.try_shell("", "git lfs version", &[]).status.success() {
        eprintln!("skipped: git-lfs is not installed");
        return;
    }
    world.shell(
        "work",
        "git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null; git config lfs.locksverify false",
    );
    world.try_install("work", &[]);
    world.shell("work", "echo large >x.bin; git add .gitattributes x.bin; git commit -qm lfs");
    let quiet = [("DIBS_ON_UNREACHABLE", "allow")];
    let output = world.try_shell("work", "git push -q", &quiet);
    assert!(output.status.success(), "{}", said(&output));
    let uploaded = tree(&world.path("origin.git/lfs/objects"));
    assert_eq!(uploaded.iter().map(|file| file.2.as_slice()).collect::<Vec<_>>(), [b"large\n"]);
}

#[test]
fn every_git_on_the_machine_is_covered() {
    let world = World::new();
    world.install("work", &[]);
    let keys = world.shell("work", "git config --get-regexp '^hook[.]dibs-.*[.]event$' | wc -l");
    assert_eq!(keys.trim(), "6", "git 2.54 and newer");
    assert!(world.path("work/.git/hooks/pre-push").exists(), "older ones");
    // A git that runs both checks once: the first hook leaves a note for the second of the same process.
    let world = world.served();
    world.session("ana").hold("a");
    let blocks = |script: &str| said(&world.try_shell("work", script, &[])).matches("is blocked").count();
    assert_eq!(blocks("echo 1 >>a; git add a; .git/dibs/hooks/pre-commit || :; .git/hooks/pre-commit"), 1);
    assert_eq!(blocks("sh -c '.git/dibs/hooks/pre-commit || :'; sh -c '.git/hooks/pre-commit || :'"), 2);
}

#[test]
fn uninstall_all_leaves_nothing_of_git_dibs() {
    let mut world = World::new();
    world.shell("work", "git worktree add -q -b side ../side");
    let before = tree(&world.path("work/.git"));
    world.install("work", &[]);
    world.start();
    world.session("ana").hold("a");
    world.shell("side", "git config dibs.enforce warn; mkdir -p $(git rev-parse --git-dir)/dibs; echo x >$(git rev-parse --git-dir)/dibs/token");
    let refused = world.program("work").args(["uninstall", "--all"]).run();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("stop the server first"), "{}", said(&refused));
    assert!(world.path("work/.git/hooks/pre-commit").exists(), "nothing was changed");
    world.stop();
    world.dibs("work", &["uninstall", "--all", "--json"]);
    assert_eq!(tree(&world.path("work/.git")), before);
    assert!(!world.path("work/.git/dibs").exists());
}
