//! The normaliser: every recorded input of every agent as one table, and what it makes of input that it does not know.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use git_dibs::agent::Agent;
use git_dibs::agent::answer::Answer;
use git_dibs::agent::event::{AgentMoment, Event, INPUT_BYTES_KEPT, read};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agents")
}

/// The names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// The input of our plugin for opencode, from what its functions are called with.
fn from_plugin(name: &str, recorded: &Value) -> Value {
    let event = match name.split('-').next().unwrap() {
        "event" | "init" | "dispose" => return recorded.clone(),
        event => event,
    };
    let (input, output) = (&recorded["input"], &recorded["output"]);
    let args = if output["args"].is_null() { &input["args"] } else { &output["args"] };
    json!({ "event": event, "sessionID": input["sessionID"], "tool": input["tool"], "args": args, "cwd": "/scratch/repo" })
}

/// One line: what the event is, for whom, and what is done about it.
fn line(event: &Event) -> String {
    let what = match &event.moment {
        AgentMoment::BeforeEdit(files) => format!("reserves {}", files.join(", ")),
        AgentMoment::BeforeShell(_) if event.agent.switches_git_hooks_off() => "judges commits and pushes".to_owned(),
        AgentMoment::BeforeShell(_) => "lets the shell run".to_owned(),
        AgentMoment::AfterShell => "looks at what changed".to_owned(),
        AgentMoment::SessionStart => "opens the session".to_owned(),
        AgentMoment::SessionEnd => "ends the session".to_owned(),
        AgentMoment::Other => return "nothing".to_owned(),
    };
    let short = |id: Option<&str>| id.map(|id| id.chars().take(12).collect::<String>()).unwrap_or_default();
    let (session, root) = (short(event.session.as_deref()), short(event.root()));
    let whose = if session == root { session } else { format!("{session} of {root}") };
    format!("{what} [{} {whose}]", event.agent)
}

#[test]
fn every_recorded_event_is_understood() {
    let mut table = String::new();
    for version in names(&fixtures()).into_iter().filter(|name| !name.ends_with(".md")) {
        let agent: Agent = version.split('-').next().unwrap().parse().unwrap();
        for name in names(&fixtures().join(&version)) {
            let mut input = std::fs::read(fixtures().join(&version).join(&name)).unwrap();
            if agent == Agent::Opencode {
                input = from_plugin(&name, &serde_json::from_slice(&input).unwrap()).to_string().into_bytes();
            }
            // Copilot also runs the hooks that were set up for Claude Code.
            let set_up_for = if name.starts_with("claudefile") { Agent::Claude } else { agent };
            let event = read(set_up_for, &input).unwrap_or_else(|error| panic!("{version}/{name}: {error}"));
            assert!(event.agent == agent || event.moment == AgentMoment::Other, "{version}/{name}: {}", event.agent);
            writeln!(table, "{version} {}: {}", name.trim_end_matches(".json"), line(&event)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn each_agent_gets_the_denial_that_stops_it() {
    let deny = |agent: Agent, version: &str, name: &str| {
        let mut input = std::fs::read(fixtures().join(version).join(name)).unwrap();
        if agent == Agent::Opencode {
            input = from_plugin(name, &serde_json::from_slice(&input).unwrap()).to_string().into_bytes();
        }
        let event = read(agent, &input).unwrap();
        assert_eq!(Answer::Allow.document(&event), None);
        serde_json::from_str::<Value>(&Answer::Deny("R".to_owned()).document(&event).unwrap()).unwrap()
    };
    let both = |event: &str| {
        let output = json!({ "hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": "R" });
        json!({ "decision": "block", "reason": "R", "hookSpecificOutput": output })
    };
    assert_eq!(deny(Agent::Claude, "claude-2.1.325", "PreToolUse-Edit.json"), both("PreToolUse"));
    assert_eq!(deny(Agent::Codex, "codex-0.166.0", "PreToolUse-apply_patch.json"), both("PreToolUse"));
    assert_eq!(deny(Agent::Gemini, "gemini-0.61.0", "BeforeTool-replace.json"), both("BeforeTool"));
    assert_eq!(deny(Agent::Qwen, "qwen-0.24.4", "PreToolUse-edit.json"), both("PreToolUse"));
    assert_eq!(deny(Agent::Copilot, "copilot-1.0.102", "PreToolUse-Edit.json"), both("PreToolUse"));
    assert_eq!(deny(Agent::Claude, "copilot-1.0.102", "claudefile-PreToolUse-Edit.json"), both("PreToolUse"));
    let top = json!({ "permissionDecision": "deny", "permissionDecisionReason": "R" });
    assert_eq!(deny(Agent::Copilot, "copilot-1.0.102", "camel-preToolUse-edit.json"), top);
    assert_eq!(deny(Agent::Opencode, "opencode-1.18.33", "tool.execute.before-edit.json"), json!({ "deny": "R" }));
    let cursor = json!({ "permission": "deny", "user_message": "R", "agent_message": "R" });
    assert_eq!(deny(Agent::Cursor, "cursor-documented", "preToolUse-Write.json"), cursor);
}

#[test]
fn an_unknown_shape_is_a_sentence() {
    let unknown = |input: &str| read(Agent::Claude, input.as_bytes()).unwrap_err().to_string();
    for (input, sentence) in [
        ("", "the input is not a JSON object"),
        ("[1]", "the input is not a JSON object"),
        ("{", "the input is not JSON (line 1, column 1)"),
        (r#"{"session_id": 7}"#, "the input has a field of another type (line 1, column 16)"),
        (r#"{"hook_event_name": "SessionStart", "cwd": "/"}"#, "the input names no session"),
        (
            r#"{"hook_event_name": "SessionStart", "session_id": "x", "cwd": "."}"#,
            "the input names a working directory that is not absolute",
        ),
        (
            r#"{"hook_event_name": "PreToolUse", "session_id": "x", "cwd": "/", "tool_name": "Edit", "tool_input": {}}"#,
            "the input of claude's edit tool names no file",
        ),
    ] {
        assert_eq!(unknown(input), sentence, "{input}");
    }
    let long = format!("{{\"session_id\": \"{}", "x".repeat(2 * INPUT_BYTES_KEPT));
    assert!(unknown(&long).starts_with("the input is not JSON"), "it ends too early");
    let secret = unknown(r#"{"session_id": "s3cr3t", "cwd": 5}"#);
    assert!(!secret.contains("s3cr3t"), "{secret}");
}

/// A new tool, or one of an MCP server, that has a path and new text changes that file.
#[test]
fn an_unknown_tool_is_read_by_its_arguments() {
    let moment = |tool: &str, input: Value| {
        let event = json!({ "hook_event_name": "PreToolUse", "session_id": "x", "cwd": "/", "tool_name": tool, "tool_input": input });
        read(Agent::Claude, event.to_string().as_bytes()).unwrap().moment
    };
    let edits = |file: &str| AgentMoment::BeforeEdit(vec![file.to_owned()]);
    assert_eq!(moment("mcp__files__write", json!({ "path": "a", "content": "" })), edits("a"));
    assert_eq!(moment("FancyPatch", json!({ "input": "*** Begin Patch\n*** Add File: b\n*** End Patch" })), edits("b"));
    assert_eq!(moment("mcp__files__read", json!({ "path": "a" })), AgentMoment::Other);
    assert_eq!(moment("str_replace_editor", json!({ "command": "view", "path": "a" })), AgentMoment::Other);
    assert_eq!(moment("TodoWrite", json!({ "todos": [{ "content": "x" }] })), AgentMoment::Other);
}

#[test]
fn a_large_file_is_written_under_its_name() {
    let text = "\\u0000é\\n".repeat(INPUT_BYTES_KEPT / 2);
    for input in [
        format!("{{\"content\": \"{text}\", \"file_path\": \"a\"}}"),
        format!("{{\"file_path\": \"a\", \"content\": \"{text}\"}}"),
    ] {
        let event = format!(
            "\u{feff}{{\"hook_event_name\": \"PreToolUse\", \"session_id\": \"x\", \"cwd\": \"/\", \"tool_name\": \"Write\", \"tool_input\": {input}}}"
        );
        let event = read(Agent::Claude, event.as_bytes()).unwrap();
        assert_eq!(event.moment, AgentMoment::BeforeEdit(vec!["a".to_owned()]));
    }
}

/// An agent that changes its names sends the old ones too for a while; others use the same names for something else.
#[test]
fn a_name_in_two_spellings_was_an_unknown_shape() {
    let event = json!({
        "hook_event_name": "PreToolUse", "hookEventName": "PreToolUse", "session_id": "x", "sessionId": "x", "cwd": "/r",
        "tool_name": "Write", "toolName": "Write", "tool": { "id": 7 }, "tool_input": { "file_path": "a", "content": "" },
        "toolArgs": { "file_path": "a" }, "event": ["x"], "command": {}, "workspace_roots": "/r",
    });
    let event = read(Agent::Copilot, event.to_string().as_bytes()).unwrap();
    assert_eq!(event.moment, AgentMoment::BeforeEdit(vec!["a".to_owned()]));
}

#[test]
fn a_command_in_another_directory_was_looked_at_in_the_agents_own() {
    let cwd = |field: &str, dir: &str| {
        let event = json!({
            "hook_event_name": "PostToolUse", "session_id": "x", "cwd": "/r", "tool_name": "Bash",
            "tool_input": { "command": "ls", field: dir },
        });
        read(Agent::Gemini, event.to_string().as_bytes()).unwrap().cwd
    };
    assert_eq!(cwd("dir_path", "sub"), Path::new("/r/sub"));
    assert_eq!(cwd("workdir", "/other"), Path::new("/other"));
    assert_eq!(cwd("workdir", ""), Path::new("/r"));
    assert_eq!(cwd("description", "sub"), Path::new("/r"));
}

#[test]
fn deleting_a_cell_of_a_notebook_changes_it() {
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "x", "cwd": "/r", "tool_name": "notebook_edit",
        "tool_input": { "notebook_path": "a.ipynb", "edit_mode": "delete" },
    });
    let event = read(Agent::Qwen, event.to_string().as_bytes()).unwrap();
    assert_eq!(event.moment, AgentMoment::BeforeEdit(vec!["a.ipynb".to_owned()]));
}
