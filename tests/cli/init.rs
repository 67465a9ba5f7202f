//! `git dibs init`: one command from nothing to protection, and back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::{PROGRAM, World};

impl World {
    /// A repository in which Claude Code is used, on a machine without other agents.
    fn fresh() -> World {
        let mut world = World::new();
        world.autostart();
        let program = Path::new(PROGRAM).parent().unwrap().display();
        world.set_variable("PATH", format!("{program}:/usr/local/bin:/usr/bin:/bin"));
        world.write("CLAUDE.md", "Be kind.\n");
        world.write(".claude/settings.json", "{\n  // ours\n  \"model\": \"opus\"\n}\n");
        world
    }

    /// Every file of the work tree, and what git knows of hooks.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn collect(dir: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true if path.ends_with(".git") => {}
                    true => collect(&path, all),
                    false => drop(all.insert(path.clone(), fs::read(path).unwrap())),
                }
            }
        }
        let mut all = BTreeMap::new();
        collect(&self.path("app"), &mut all);
        collect(&self.path("home"), &mut all);
        let hooks = self.path("app/.git/hooks");
        if hooks.is_dir() {
            collect(&hooks, &mut all);
        }
        all.insert(self.path("config"), self.git(&["config", "--local", "--list"]).into_bytes());
        all
    }
}

#[test]
fn one_command_protects_a_fresh_repository() {
    let world = World::fresh();
    let said = world.dibs(["init"]).ok();
    assert!(said.out.contains(".git/hooks/pre-commit installed"), "{said:?}");
    assert!(said.out.contains(".claude/settings.json changed for Claude Code"), "{said:?}");
    assert!(said.err.contains("the server was started in the background at"), "{said:?}");
    assert!(said.err.ends_with("everything works; git dibs doctor says more\n"), "{said:?}");
    assert_eq!(world.background_servers().len(), 1);
    let (files, servers) = (world.files(), world.background_servers());
    let again = world.dibs(["init"]).ok();
    assert_eq!(again.out, "");
    assert!(again.err.contains("hooks and agents were set up already"), "{again:?}");
    assert_eq!((world.files(), world.background_servers()), (files, servers));

    let token = world.dibs(["token", "ana"]).ok().out;
    world.dibs(["reserve", "src/"]).env("DIBS_TOKEN", token.trim()).ok();
    world.write("src/a.rs", "two\n");
    let mut commit = world.command("git", "app");
    let commit = crate::world::Run::run(commit.args(["commit", "-am", "mine"]));
    let text = String::from_utf8_lossy(&commit.stderr).into_owned();
    assert!(!commit.status.success() && text.contains("src/a.rs: held by ana"), "{text}");
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_change() {
    let world = World::fresh();
    let before = world.files();
    let said = world.dibs(["init", "--dry-run"]).ok();
    assert!(said.out.contains("pre-commit installed") && said.out.contains("+++ "), "{said:?}");
    assert!(said.err.contains("the server would be started") && said.err.contains("nothing was changed"), "{said:?}");
    assert_eq!(world.files(), before);
    assert!(world.background_servers().is_empty() && !world.path("app/.git/dibs").exists());
    let document = world.dibs(["init", "--dry-run", "--json"]).json();
    assert_eq!(document["agents"][0]["agent"], "claude");
    assert_eq!((&document["dryRun"], world.files()), (&Value::Bool(true), before));
}

#[test]
fn undo_takes_back_exactly_what_init_changed() {
    let world = World::fresh();
    let before = world.files();
    world.dibs(["init"]).ok();
    world.dibs(["init"]).ok();
    assert_ne!(world.files(), before);
    let initialised = world.files();
    let dry = world.dibs(["init", "--undo", "--dry-run"]).ok();
    assert!(dry.out.contains("the git hooks would be removed"), "{dry:?}");
    assert_eq!(world.files(), initialised);
    let said = world.dibs(["init", "--undo"]).ok();
    assert!(said.err.contains("this was taken back"), "{said:?}");
    assert_eq!(world.files(), before);
    assert!(world.background_servers().is_empty());
    let said = world.dibs(["init", "--undo"]).ok();
    assert_eq!(said.err, "git-dibs: there is nothing to take back\n");
}

#[test]
fn undo_removed_an_empty_file_and_laid_out_a_compact_one() {
    let world = World::fresh();
    world.write(".claude/settings.json", "");
    world.write(".mcp.json", r#"{"mcpServers":{"db":{"command":"db"}}}"#);
    let before = world.files();
    world.dibs(["init"]).ok();
    world.dibs(["init", "--undo"]).ok();
    assert_eq!(world.files(), before);
}

#[test]
fn undo_leaves_what_was_there_before_init() {
    let world = World::fresh();
    world.dibs(["install"]).ok();
    world.dibs(["setup", "claude"]).ok();
    let before = world.files();
    world.dibs(["init"]).ok();
    world.dibs(["init", "--undo"]).ok();
    assert_eq!(world.files(), before);
}

#[test]
fn init_without_a_server_says_why_and_fails() {
    let world = World::fresh();
    let said = world.dibs(["init"]).env("CI", "true").fails(1);
    assert!(said.err.contains("none was started: CI is set"), "{said:?}");
    assert!(said.out.contains("pre-commit installed"), "the rest is done: {said:?}");
    let outside = world.dibs(["init"]).at("../home").fails(1);
    assert!(outside.err.contains("there is no repository here"), "{outside:?}");
}

#[test]
fn an_agents_file_that_cannot_be_read_is_reported_and_the_rest_is_done() {
    let world = World::fresh();
    world.write(".claude/settings.json", "{ broken");
    let document = world.dibs(["init", "--json"]).fails(1);
    let document: Value = serde_json::from_str(&document.out).unwrap();
    assert!(document["agents"][0]["error"].as_str().unwrap().contains("settings.json"), "{document}");
    assert!(!document["hooks"]["done"].as_array().unwrap().is_empty());
    assert_eq!(world.background_servers().len(), 1);
}

/// Their hooks then do nothing, and everything was said to work.
#[test]
fn agents_that_will_not_find_the_program_are_reported() {
    let world = World::fresh();
    let said = world.dibs(["init"]).env("PATH", "/usr/local/bin:/usr/bin:/bin").fails(1);
    assert!(said.out.contains("git-dibs is not in PATH, so the hooks of Claude Code do nothing"), "{said:?}");
    assert!(said.err.ends_with("one thing does not work; git dibs doctor says more\n"), "{said:?}");
    world.dibs(["doctor"]).ok();
}

#[test]
fn the_summary_names_an_agent_that_could_not_be_set_up() {
    let world = World::fresh();
    world.write(".claude/settings.json", "{ broken");
    let said = world.dibs(["init"]).fails(1);
    assert!(said.err.contains("Claude Code could not be set up; everything else works"), "{said:?}");
}

#[test]
fn without_agents_init_says_so() {
    let world = World::fresh();
    world.dibs(["install"]).ok();
    fs::remove_file(world.path("app/CLAUDE.md")).unwrap();
    fs::remove_dir_all(world.path("app/.claude")).unwrap();
    let said = world.dibs(["init"]).ok();
    assert!(said.err.contains("no coding agent was found"), "{said:?}");
}
