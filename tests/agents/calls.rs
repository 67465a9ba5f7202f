//! What a model wants to do, and how each agent's tools are called for it.

use serde_json::{Value, json};

use crate::make::Make;

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    pub tool: String,
    /// Codex groups tools.
    pub namespace: Option<&'static str>,
    pub input: Input,
}

#[derive(Debug, Clone)]
pub enum Input {
    Json(Value),
    /// Codex has tools that take plain text.
    Text(String),
}

impl Call {
    fn new(tool: &str, input: Value) -> Call {
        Call { tool: tool.to_owned(), namespace: None, input: Input::Json(input) }
    }

    pub fn json(&self) -> Value {
        match &self.input {
            Input::Json(value) => value.clone(),
            Input::Text(text) => Value::String(text.clone()),
        }
    }
}

/// What the model wants to do.
#[derive(Debug, Clone)]
pub enum Act {
    /// Replaces `hello` by `HELLO` in this file, which has it in its first line.
    Edit(&'static str),
    /// The same through a program that the model writes, as the newer models of Codex do.
    EditByProgram(&'static str),
    /// Runs a command.
    Shell(String),
    /// Applies a patch to several files at once.
    Patch(&'static str),
    /// Lets a subagent follow the script of this name.
    Subagent(&'static str),
    /// Ends the task of a subagent.
    Report,
    /// Calls a tool of our MCP server.
    Mcp(&'static str, Value),
}

/// The calls for one act. Some agents only edit a file that they have read.
pub fn calls(make: Make, repo: &str, act: &Act) -> Vec<Call> {
    match act {
        Act::Edit(file) => edit(make, repo, file),
        Act::EditByProgram(file) => {
            let text = format!("const r = await tools.apply_patch({});\ntext(r);\n", json!(patch_text(file)));
            vec![Call { tool: "exec".to_owned(), namespace: Some("functions"), input: Input::Text(text) }]
        }
        Act::Shell(command) => vec![shell(make, command)],
        Act::Patch(text) => vec![patch(make, text)],
        Act::Subagent(script) => subagent(make, &format!("[[script:{script}]] do it")),
        Act::Report => report(make),
        Act::Mcp(tool, input) => vec![mcp(make, tool, input)],
    }
}

fn edit(make: Make, repo: &str, file: &str) -> Vec<Call> {
    let path = format!("{repo}/{file}");
    let (old, new) = ("hello", "HELLO");
    match make {
        Make::Claude => vec![
            Call::new("Read", json!({ "file_path": path })),
            Call::new("Edit", json!({ "file_path": path, "old_string": old, "new_string": new })),
        ],
        Make::Codex => vec![patch(make, &patch_text(file))],
        Make::Gemini => vec![
            Call::new("read_file", json!({ "file_path": path })),
            Call::new(
                "replace",
                json!({ "file_path": path, "instruction": "x", "old_string": old, "new_string": new }),
            ),
        ],
        Make::Copilot => vec![
            Call::new("view", json!({ "path": path })),
            Call::new("edit", json!({ "path": path, "old_str": old, "new_str": new })),
        ],
        Make::Qwen => vec![
            Call::new("read_file", json!({ "file_path": path })),
            Call::new("edit", json!({ "file_path": path, "old_string": old, "new_string": new })),
        ],
        Make::Opencode => vec![
            Call::new("read", json!({ "filePath": path })),
            Call::new("edit", json!({ "filePath": path, "oldString": old, "newString": new })),
        ],
    }
}

fn patch_text(file: &str) -> String {
    format!("*** Begin Patch\n*** Update File: {file}\n@@\n-hello\n+HELLO\n world\n*** End Patch\n")
}

fn shell(make: Make, command: &str) -> Call {
    match make {
        Make::Claude => Call::new("Bash", json!({ "command": command, "description": "x" })),
        Make::Codex => Call::new("exec_command", json!({ "cmd": command, "yield_time_ms": 30000 })),
        Make::Gemini => Call::new("run_shell_command", json!({ "command": command, "description": "x" })),
        Make::Qwen => {
            Call::new("run_shell_command", json!({ "command": command, "description": "x", "is_background": false }))
        }
        Make::Copilot => {
            Call::new("bash", json!({ "command": command, "description": "x", "mode": "sync", "initial_wait": 60 }))
        }
        Make::Opencode => Call::new("bash", json!({ "command": command, "description": "x" })),
    }
}

fn patch(make: Make, text: &str) -> Call {
    match make {
        Make::Codex => Call { tool: "apply_patch".to_owned(), namespace: None, input: Input::Text(text.to_owned()) },
        Make::Opencode => Call::new("apply_patch", json!({ "patchText": text })),
        Make::Copilot => Call::new("apply_patch", json!({ "input": text })),
        other => panic!("{} has no tool for patches", other.name()),
    }
}

fn subagent(make: Make, prompt: &str) -> Vec<Call> {
    match make {
        Make::Claude => vec![Call::new(
            "Agent",
            json!({ "description": "sub", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": false }),
        )],
        Make::Codex => {
            let in_namespace =
                |tool: &str, input: Value| Call { namespace: Some("collaboration"), ..Call::new(tool, input) };
            vec![
                in_namespace("spawn_agent", json!({ "task_name": "helper", "message": prompt, "fork_turns": "none" })),
                in_namespace("wait_agent", json!({ "timeout_ms": 30000 })),
            ]
        }
        Make::Copilot => vec![Call::new(
            "task",
            json!({ "description": "sub", "prompt": prompt, "agent_type": "general-purpose", "name": "sub", "mode": "sync" }),
        )],
        Make::Opencode => {
            vec![Call::new("task", json!({ "description": "sub", "prompt": prompt, "subagent_type": "general" }))]
        }
        Make::Gemini => vec![Call::new("invoke_agent", json!({ "agent_name": "generalist", "prompt": prompt }))],
        Make::Qwen => vec![Call::new(
            "agent",
            json!({ "description": "sub", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": false }),
        )],
    }
}

/// How a subagent says that it has done its task. Most only have to stop calling tools.
fn report(make: Make) -> Vec<Call> {
    match make {
        Make::Gemini => vec![Call::new("complete_task", json!({ "result": { "response": "done" } }))],
        _ => Vec::new(),
    }
}

/// Every agent puts the name of the server before the name of the tool in its own way.
fn mcp(make: Make, tool: &str, input: &Value) -> Call {
    let name = match make {
        Make::Claude | Make::Qwen => format!("mcp__dibs__{tool}"),
        Make::Codex => return Call { namespace: Some("mcp__dibs"), ..Call::new(tool, input.clone()) },
        Make::Gemini => format!("mcp_dibs_{tool}"),
        Make::Copilot => format!("dibs-{tool}"),
        Make::Opencode => format!("dibs_{tool}"),
    };
    Call::new(&name, input.clone())
}
