//! What is left to the user: trusting the hooks, which is never done for them, and what they should know.

use super::agents::is_set_up;
use super::places::Places;
use super::{Scope, Wish};
use crate::agent::Agent;

/// What the user still has to do after a setup.
pub fn steps(agent: Agent, wish: &Wish) -> Vec<String> {
    let is_project = wish.scope == Scope::Project;
    let mut steps: Vec<&str> = Vec::new();
    match agent {
        Agent::Claude if is_project => steps.push(
            "At its next start here, Claude Code asks whether you trust the folder and the MCP server dibs: say yes. \
             /hooks and /mcp show both.",
        ),
        Agent::Claude => steps.push(
            "For the MCP server, run: claude mcp add --scope user dibs -- git-dibs mcp. Claude Code keeps it in a file \
             that it writes itself.",
        ),
        Agent::Codex => {
            if is_project {
                steps.push("Trust this folder when Codex asks; it reads .codex/ only then.");
            }
            steps.push(
                "In Codex, type /hooks and trust the hooks of git-dibs. Until then Codex skips them without a word. Do it \
                 again in each clone, and after each change of the hooks.",
            );
        }
        Agent::Gemini if is_project => steps.push(
            "Trust this folder when Gemini CLI asks, or with /permissions. In a folder that is not trusted, and with \
             --skip-trust, it skips the hooks without a word.",
        ),
        Agent::Copilot if is_project => steps.push(
            "Trust this folder when Copilot CLI asks; without a terminal, start it with --trust-folder. It skips the hooks \
             otherwise.",
        ),
        Agent::Cursor => steps.push("Look at Settings > Hooks in Cursor, and enable the MCP server dibs there."),
        Agent::Opencode => steps.push("Restart opencode; it loads plugins when it starts."),
        Agent::Gemini | Agent::Copilot | Agent::Qwen | Agent::Aider => {}
    }
    steps.into_iter().map(str::to_owned).collect()
}

/// What the user should know.
pub fn notes(agent: Agent, wish: &Wish, places: &Places) -> Vec<String> {
    if wish.remove {
        return Vec::new();
    }
    let mut notes = Vec::new();
    match agent {
        Agent::Cursor => notes.push("The setup of Cursor follows its documentation; it is not tested with the program."),
        Agent::Aider => notes.push(
            "Aider has no hooks: its edits reserve nothing. Its commits are checked by the git hooks (git dibs install). Start \
             it with git dibs run -- aider, and use --instructions to tell its model.",
        ),
        _ => {}
    }
    let other = if wish.scope == Scope::User { Scope::Project } else { Scope::User };
    // Claude Code runs the same hook of two files once.
    if !matches!(agent, Agent::Claude | Agent::Aider) && is_set_up(agent, other, places) {
        notes.push("The other scope is set up too, so every hook runs twice. That is harmless, but slower.");
    }
    let mut notes: Vec<String> = notes.into_iter().map(str::to_owned).collect();
    if agent.has_hooks() && !places.has_program("git-dibs") {
        notes.push("git-dibs is not on PATH; the hooks do nothing until it is.".to_owned());
    }
    notes
}
