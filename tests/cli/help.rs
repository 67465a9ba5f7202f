//! What every command prints about itself. The commands come from clap, so that none is forgotten.

use std::collections::BTreeSet;
use std::path::Path;

use crate::world::{PROGRAM, Run, World};

/// A command below `git-dibs`, as one types it.
struct Command {
    words: Vec<String>,
    hidden: bool,
}

impl Command {
    /// `session-start`: what its snapshot and its manual page are called after.
    fn name(&self) -> String {
        self.words.join("-")
    }
}

/// Every command, hidden ones too, with `git-dibs` itself last.
fn commands() -> Vec<Command> {
    fn collect(command: &clap::Command, words: &[String], hidden: bool, all: &mut Vec<Command>) {
        for one in command.get_subcommands() {
            let words: Vec<String> = words.iter().cloned().chain([one.get_name().to_owned()]).collect();
            collect(one, &words, hidden || one.is_hide_set(), all);
        }
        all.push(Command { words: words.to_vec(), hidden });
    }
    let mut all = Vec::new();
    collect(&git_dibs::cli::command(), &[], false, &mut all);
    assert!(all.len() > 30, "clap knows only {} commands", all.len());
    all
}

#[test]
fn every_command_prints_its_help() {
    let world = World::new();
    let mut names = BTreeSet::new();
    for command in commands() {
        let said = world.dibs(command.words.iter().map(String::as_str).chain(["--help"])).ok();
        let name = if command.words.is_empty() { "git-dibs".to_owned() } else { command.name() };
        insta::assert_snapshot!(&*name, said.out);
        assert!(!said.out.contains('\u{1b}'), "no colour where there is no terminal");
        assert_eq!(said.err, "");
        names.insert(name);
    }
    // The other names of the program.
    std::fs::create_dir(world.path("bin")).unwrap();
    world.dibs(["install-commands".as_ref(), world.path("bin").as_os_str()]).ok();
    for entry in std::fs::read_dir(world.path("bin")).unwrap() {
        let link = entry.unwrap().path();
        let name = link.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(std::fs::canonicalize(&link).unwrap(), std::fs::canonicalize(PROGRAM).unwrap());
        let output = world.command(&link, "app").arg("--help").run();
        insta::assert_snapshot!(&*name, String::from_utf8(output.stdout).unwrap());
        names.insert(name);
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    for entry in std::fs::read_dir(dir).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_prefix("cli__help__").and_then(|name| name.split('.').next()).unwrap();
        assert!(names.contains(name), "{file} is the help of a command that is gone");
    }
}

#[test]
fn completions_know_every_command() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = world.dibs(["completions", shell]).ok();
        for command in commands().iter().filter(|command| !command.hidden) {
            assert!(command.words.iter().all(|word| said.out.contains(word)), "{:?} for {shell}", command.words);
        }
    }
    world.dibs(["completions", "cash"]).fails(2);
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::new();
    let said = world.dibs(["man"]).ok();
    assert!(said.out.contains(".TH git-dibs 1"), "{}", said.out);
    let dir = world.path("man1");
    world.dibs(["man".as_ref(), dir.as_os_str()]).ok();
    for command in commands() {
        let page = ["git-dibs".to_owned()].into_iter().chain(command.words).collect::<Vec<_>>().join("-");
        match std::fs::read_to_string(dir.join(format!("{page}.1"))) {
            Ok(text) => assert!(!command.hidden && text.contains(&format!(".TH {page} 1")), "{page}"),
            Err(_) => assert!(command.hidden, "there is no manual page {page}"),
        }
    }
}
