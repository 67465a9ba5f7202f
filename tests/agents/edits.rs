//! Edits: allowed, denied, of two agents at once, of several files, of a subagent.

use crate::calls::Act;
use crate::each_agent;
use crate::make::Make;
use crate::support::process::until;
use crate::world::{Checkout, EDITED, HELLO, holds, session_of};

each_agent!(allowed_edit: claude, codex, gemini, copilot, qwen, opencode);
each_agent!(denied_edit: claude, codex, gemini, copilot, qwen, opencode);
// The others have no tool that changes several files at once.
each_agent!(patch_with_a_held_file: codex, copilot, opencode);
each_agent!(subagent_edit: claude, codex, gemini, copilot, qwen, opencode);

/// The edit is made; while the agent works, its session holds the file, and afterwards none does. The model was told
/// about git-dibs before it said a word.
fn allowed_edit(checkout: &mut Checkout, make: Make) {
    let talk = checkout.run(make, &[Act::Edit("a.txt")]);
    assert_eq!(checkout.read("a.txt"), EDITED, "{}", talk.last_result());
    assert!(talk.first().text.contains("git dibs status"), "the preamble is not in {}", talk.first().text);
    assert!(holds(&talk.last().held, make, "a.txt"), "{:?}", talk.last().held);
    checkout.until_nothing_is_held();
}

/// The file stays as it is, and the model reads who holds it and what to do.
fn denied_edit(checkout: &mut Checkout, make: Make) {
    checkout.ana_holds("a.txt");
    let talk = checkout.run(make, &[Act::Edit("a.txt")]);
    assert_eq!(checkout.read("a.txt"), HELLO);
    let told = talk.last_result();
    for words in ["a.txt", "Ana", "git dibs wait", "git dibs request"] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
    assert_eq!(talk.last().held, ["ana a.txt"]);
}

/// One file of the patch is held, so none is written or reserved.
fn patch_with_a_held_file(checkout: &mut Checkout, make: Make) {
    checkout.ana_holds("old.txt");
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+fresh\n*** Update File: a.txt\n@@\n-hello\n+HELLO\n world\n\
                 *** Delete File: old.txt\n*** End Patch";
    // The name decides which tools the model is offered.
    let model = matches!(make, Make::Copilot | Make::Opencode).then_some("gpt-5.1");
    let talk = checkout.start_with(make, model, &[("main", &[Act::Patch(patch)])], |_| ()).finish();
    assert_eq!(checkout.git(&["status", "--porcelain"]), "", "{}", talk.last_result());
    assert!(talk.last_result().contains("old.txt") && talk.last_result().contains("Ana"), "{}", talk.last_result());
    assert_eq!(talk.last().held, ["ana old.txt"]);
}

/// A subagent works for the session of the agent that started it.
fn subagent_edit(checkout: &mut Checkout, make: Make) {
    // Only the newer models of Codex have subagents, and they edit by programs.
    let (model, edit): (_, fn(&'static str) -> Act) = match make {
        Make::Codex => (Some("gpt-6-sol"), Act::EditByProgram),
        _ => (None, Act::Edit),
    };
    let (main, sub) = ([edit("a.txt"), Act::Subagent("sub")], [edit("b.txt"), Act::Report]);
    let talk = checkout.start_with(make, model, &[("main", &main), ("sub", &sub)], |_| ()).finish();
    assert_eq!(checkout.read("b.txt"), EDITED, "{:?}", talk.last().results);
    let sub = talk.model.requests("sub");
    let held = &sub.last().expect("the subagent asked its model").held;
    assert!(holds(held, make, "a.txt") && holds(held, make, "b.txt"), "{held:?}");
    assert_eq!(session_of(&held[0]), session_of(&held[1]), "{held:?}");
    checkout.until_nothing_is_held();
}

/// The first agent edits and goes on working; the second one, of another make, is refused the same file meanwhile.
#[track_caller]
fn two_at_once(first: Make, second: Make) {
    let Some(checkout) = Checkout::with(&[first, second]) else { return };
    let running = checkout.start(first, &[Act::Edit("a.txt"), checkout.gate()]);
    until("the first agent holds the file", || holds(&checkout.held(), first, "a.txt").then_some(()));
    let held = checkout.held();
    let talk = checkout.run(second, &[Act::Edit("a.txt")]);
    let told = talk.last_result();
    assert!(told.contains(session_of(&held[0])) && told.contains("a.txt"), "{told}");
    assert_eq!(talk.last().held, held);
    checkout.open_gate();
    running.finish();
    assert_eq!(checkout.read("a.txt"), EDITED);
    checkout.until_nothing_is_held();
}

#[test]
fn claude_and_codex_at_once() {
    two_at_once(Make::Claude, Make::Codex);
}

#[test]
fn opencode_and_gemini_at_once() {
    two_at_once(Make::Opencode, Make::Gemini);
}

#[test]
fn qwen_and_copilot_at_once() {
    two_at_once(Make::Qwen, Make::Copilot);
}
