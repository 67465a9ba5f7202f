//! What agents do in their shells: writing files, committing.

use crate::calls::Act;
use crate::each_agent;
use crate::make::Make;
use crate::world::{Checkout, EDITED, holds};

each_agent!(edit_through_the_shell: claude, codex, gemini, copilot, qwen, opencode);
each_agent!(commit_through_the_shell: claude, codex, gemini, copilot, qwen, opencode);

/// A file that a command changed is reserved afterwards. If another session holds it, the model is told.
fn edit_through_the_shell(checkout: &mut Checkout, make: Make) {
    checkout.ana_holds("b.txt");
    let command = "echo more >> a.txt; echo more >> b.txt".to_owned();
    let talk = checkout.run(make, &[Act::Shell(command)]);
    assert!(holds(&talk.last().held, make, "a.txt"), "{:?}: {}", talk.last().held, talk.last_result());
    assert!(!holds(&talk.last().held, make, "b.txt"), "{:?}", talk.last().held);
    let told = &talk.last().text;
    assert!(told.contains("your command changed what other sessions hold: b.txt"), "{told}");
    checkout.until_nothing_is_held_by_agents();
}

/// A commit of the agent's own files passes and releases them. One that changes a file of another session does not.
fn commit_through_the_shell(checkout: &mut Checkout, make: Make) {
    checkout.ana_holds("b.txt");
    let shell = |command: &str| Act::Shell(command.to_owned());
    let [own, theirs] = ["own", "theirs"].map(|what| shell(&format!("git commit --quiet -am {what}")));
    let talk = checkout.run(make, &[Act::Edit("a.txt"), own, shell("echo more >> b.txt"), theirs]);
    assert_eq!(checkout.git(&["log", "-1", "--format=%s"]), "own\n", "{:?}", talk.last().results);
    assert_eq!(checkout.git(&["show", "HEAD:a.txt"]), EDITED);
    assert!(talk.last_result().contains("Ana") && talk.last_result().contains("b.txt"), "{}", talk.last_result());
    assert!(!holds(&talk.last().held, make, "a.txt"), "it is committed: {:?}", talk.last().held);
}
