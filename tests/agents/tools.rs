//! The tools of our MCP server, called by the models of agents.

use serde_json::json;

use crate::calls::Act;
use crate::each_agent;
use crate::make::Make;
use crate::world::Checkout;

each_agent!(reserve_and_check_by_tool: claude, codex, gemini, copilot, qwen, opencode);

/// A model reserves a file by a tool call, and reads who holds another.
fn reserve_and_check_by_tool(checkout: &mut Checkout, make: Make) {
    checkout.ana_holds("b.txt");
    let talk = checkout.run(
        make,
        &[Act::Mcp("reserve", json!({ "paths": ["a.txt"] })), Act::Mcp("check", json!({ "paths": ["b.txt"] }))],
    );
    let held = &talk.last().held;
    assert!(held.len() == 2 && held.iter().any(|one| one.ends_with(" a.txt")), "{held:?}: {:?}", talk.last().results);
    assert!(talk.last_result().contains("conflict") || talk.last_result().contains("held"), "{}", talk.last_result());
    assert!(talk.last_result().contains("Ana") || talk.last_result().contains("ana"), "{}", talk.last_result());
    checkout.until_nothing_is_held_by_agents();
}
