//! What a hook prints: one JSON document that stops the tool, one that gives the model context, or nothing.
//!
//! A deny must have exactly these keys: Codex ignores a deny with keys that it does not know.

use serde_json::{Value, json};

use super::event::{AnswerForm, Event};

/// The longest reason of a deny, in characters.
pub const REASON_CHARS_MAX: usize = 300;

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Go ahead. Nothing is printed: an explicit permission would skip the user's own prompts.
    Allow,
    /// Do not run the tool. The model reads the reason.
    Deny(String),
    /// Go ahead. The model reads this text.
    Context(String),
}

impl Answer {
    /// The document to print; none if nothing is to be printed.
    pub fn document(&self, event: &Event) -> Option<String> {
        let document = match self {
            Answer::Allow => return None,
            Answer::Deny(reason) => deny(event, reason),
            Answer::Context(text) => context(event, text),
        };
        Some(document.to_string())
    }
}

fn deny(event: &Event, reason: &str) -> Value {
    match event.form {
        AnswerForm::Common | AnswerForm::Copilot => json!({
            "decision": "block",
            "reason": reason,
            "hookSpecificOutput": {
                "hookEventName": event.name,
                "permissionDecision": "deny",
                "permissionDecisionReason": reason,
            },
        }),
        AnswerForm::CopilotCamel => json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }),
        AnswerForm::Cursor => json!({ "permission": "deny", "user_message": reason, "agent_message": reason }),
        AnswerForm::Opencode => json!({ "deny": reason }),
    }
}

fn context(event: &Event, text: &str) -> Value {
    match event.form {
        AnswerForm::Common => {
            json!({ "hookSpecificOutput": { "hookEventName": event.name, "additionalContext": text } })
        }
        AnswerForm::Copilot | AnswerForm::CopilotCamel => json!({ "additionalContext": text }),
        AnswerForm::Cursor => json!({ "additional_context": text }),
        AnswerForm::Opencode => json!({ "context": text }),
    }
}
