//! What a model is told.

use crate::world::World;

#[test]
fn the_preamble_names_five_commands_and_the_exit_codes() {
    let world = World::new();
    let said = world.dibs(["preamble"]).ok();
    for command in ["status", "reserve", "wait", "request", "release"] {
        assert!(said.out.contains(&format!("- git dibs {command}")), "{}", said.out);
    }
    assert!(said.out.contains("3 held by another session"), "{}", said.out);
    assert_eq!(world.dibs(["preamble", "--json"]).json()["preamble"], said.out);
}

#[test]
fn the_preamble_taught_a_request_without_its_reason() {
    let world = World::served();
    world.as_session("ana", ["reserve", "README"]).ok();
    let said = world.dibs(["preamble"]).ok().out;
    let line = said.lines().find(|line| line.starts_with("- git dibs request")).unwrap();
    let (command, _) = line.strip_prefix("- git dibs ").unwrap().split_once(": ").unwrap();
    let words = command.split(' ').map(|word| word.replace("PATH", "README").replace('"', ""));
    world.as_session("bo", words).ok();
}

#[test]
fn the_preamble_of_an_agent_says_who_holds_what() {
    let world = World::served();
    let start = || world.as_session("bo", ["preamble", "--agent", "claude"]).ok().out;
    assert!(!start().contains("Held by other sessions"), "{}", start());
    world.as_session("bo", ["reserve", "README"]).ok();
    assert!(!start().contains("README"), "its own: {}", start());
    world.as_session("ana", ["reserve", "src/", "--reason", "splitting \"it\""]).ok();
    let line = "- \"src/**\" by \"ANA\" (ana), ";
    assert!(start().contains(line) && start().contains(": \"splitting 'it'\"\n"), "{}", start());
    let said = world.dibs(["preamble", "--agent", "aider"]).ok();
    assert!(said.out.starts_with("git-dibs: other sessions") && said.out.contains("Reserve files before you edit"));
}

#[test]
fn the_preamble_needs_no_server_and_no_repository() {
    let world = World::new();
    let said = world.dibs(["preamble", "--agent", "codex"]).ok();
    assert!(said.out.contains("git dibs status") && said.err.is_empty(), "{said:?}");
    let outside = world.dibs(["preamble", "--agent", "codex"]).at("../home").ok();
    assert_eq!(outside.out, said.out);
    let said = world.dibs(["preamble", "--agent", "emacs"]).fails(2);
    assert!(said.err.contains("\"emacs\" is not an agent that git-dibs knows"), "{said:?}");
}
