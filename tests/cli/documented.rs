//! What README and help promise about every command.

use serde_json::Value;

use crate::world::{Run, Said, World};

/// Commands that print no result of their own, or are hidden.
const WITHOUT_JSON: [&str; 8] = ["run", "mcp", "completions", "credential", "hook", "agent-hook", "man", "help"];

#[test]
fn every_command_takes_json() {
    fn leaves(command: &clap::Command, words: &str, all: &mut Vec<(String, bool)>) {
        let mut subcommands = command.get_subcommands().peekable();
        if subcommands.peek().is_none() {
            let has_json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
            all.push((words.trim_start().to_owned(), has_json));
        }
        for one in subcommands.filter(|one| !WITHOUT_JSON.contains(&one.get_name())) {
            leaves(one, &format!("{words} {}", one.get_name()), all);
        }
    }
    let mut all = Vec::new();
    leaves(&git_dibs::cli::command(), "", &mut all);
    let without: Vec<_> = all.iter().filter(|(_, has_json)| !has_json).collect();
    assert_eq!(without, Vec::<&(String, bool)>::new());
    let readme = include_str!("../../README.md");
    assert!(readme.contains("Every command takes `--json`, except `run`, `mcp`, `completions`, and `rlock`"));
}

#[test]
fn a_result_in_json_is_one_document_and_so_is_a_failure() {
    let world = World::served();
    let document = |args: &[&str], code: i32| -> Value {
        let said = world.dibs(args).run();
        assert_eq!(said.code, Some(code), "{args:?}: {said:?}");
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{args:?}: {said:?}"))
    };
    assert!(document(&["token", "ana", "--json"], 0)["token"].is_string());
    assert_eq!(document(&["db", "compact", "--json"], 1)["code"], "ERROR");
    assert!(document(&["ledger", "show-path", "--json"], 0)["ledger"].is_string());
    assert!(document(&["ledger", "show-path", "src/", "--json"], 0)["paths"]["src/"].is_string());
    assert_eq!(document(&["ledger", "push", "/nowhere", "--json"], 1)["code"], "ERROR");
    assert_eq!(document(&["install-commands", "/nowhere", "--json"], 1)["code"], "ERROR");
    assert_eq!(document(&["token", "ana", "--data", "/nowhere", "--json"], 1)["code"], "ERROR");
}

#[test]
fn a_refusal_of_the_policy_exits_with_4() {
    let mut world = World::new();
    world.configure("[policy]\nexclusive = [\"db:*\"]\n");
    world.start();
    let said = world.as_session("ana", ["reserve", "db:schema:slot", "--shared"]).run();
    assert_eq!(said.code, Some(4), "{said:?}");
}

#[test]
fn manual_pages_that_man_does_not_search_come_with_a_hint() {
    let world = World::new();
    if world.command("manpath", "").arg("-q").try_run().is_err() {
        crate::support::world::skip("the hint about MANPATH, because there is no manpath");
        return;
    }
    let dir = world.path("share");
    let said: Said = world.dibs(["completions", "--install", "--dir", dir.to_str().unwrap()]).ok();
    assert!(said.err.contains(&format!("export MANPATH=\"{}/man:$MANPATH\"", dir.display())), "{said:?}");
}
