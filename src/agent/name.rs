//! The agents that git-dibs knows.

use std::fmt;
use std::str::FromStr;

/// A coding agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Agent {
    Claude,
    Codex,
    Gemini,
    Copilot,
    Qwen,
    Opencode,
    Cursor,
    Aider,
}

/// No agent has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an agent that git-dibs knows; it knows {known}", known = Agent::ALL.map(Agent::name).join(", "))]
pub struct UnknownAgent(String);

impl Agent {
    pub const ALL: [Agent; 8] = [
        Agent::Claude,
        Agent::Codex,
        Agent::Gemini,
        Agent::Copilot,
        Agent::Qwen,
        Agent::Opencode,
        Agent::Cursor,
        Agent::Aider,
    ];

    /// The name in commands and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
            Agent::Copilot => "copilot",
            Agent::Qwen => "qwen",
            Agent::Opencode => "opencode",
            Agent::Cursor => "cursor",
            Agent::Aider => "aider",
        }
    }

    /// The name that its makers give it.
    pub fn product(self) -> &'static str {
        match self {
            Agent::Claude => "Claude Code",
            Agent::Codex => "Codex",
            Agent::Gemini => "Gemini CLI",
            Agent::Copilot => "Copilot CLI",
            Agent::Qwen => "Qwen Code",
            Agent::Opencode => "opencode",
            Agent::Cursor => "Cursor",
            Agent::Aider => "Aider",
        }
    }

    /// Whether the agent calls a hook before an edit, so that its edits reserve by themselves.
    pub fn has_hooks(self) -> bool {
        self != Agent::Aider
    }

    /// Whether everything that the agent starts is told the id of its session: its shell by a variable, its MCP servers by
    /// a variable or with each call. Where that is not so, the agent's process leads to the session.
    pub fn names_session_everywhere(self) -> bool {
        matches!(self, Agent::Claude | Agent::Codex | Agent::Copilot)
    }

    /// Whether git hooks do not run in the agent's shell, so that its commits and pushes are checked before the shell runs
    /// them.
    pub fn switches_git_hooks_off(self) -> bool {
        self == Agent::Gemini
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Agent {
    type Err = UnknownAgent;

    fn from_str(name: &str) -> Result<Agent, UnknownAgent> {
        Agent::ALL.into_iter().find(|agent| agent.name() == name).ok_or_else(|| UnknownAgent(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_found_by_its_name() {
        for agent in Agent::ALL {
            assert_eq!(agent.name().parse(), Ok(agent));
        }
        let error = "emacs".parse::<Agent>().unwrap_err().to_string();
        assert!(error.contains("\"emacs\"") && error.contains("claude, codex"), "{error}");
    }
}
