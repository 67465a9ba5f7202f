//! A process that calls hooks as a coding agent does.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::process::until;
use crate::world::{Process, World};

/// An agent with one session. Its process is a shell under another name, so that hooks see an agent above them.
pub struct FakeAgent<'w> {
    pub world: &'w World,
    /// The agent's name on the command line.
    pub name: &'static str,
    /// The agent's own id for its session.
    pub id: String,
    /// The directory that its events name.
    pub cwd: PathBuf,
    process: RefCell<Process>,
    calls: Cell<usize>,
}

/// For each line on stdin: runs the script in that file, and tells when it has ended.
const LOOP: &str = r#"while read -r file; do sh "$file" <"$file.in" >"$file.out" 2>"$file.err"; echo "$?"; done"#;

impl<'w> FakeAgent<'w> {
    /// Starts an agent in `work`.
    pub fn start(world: &'w World, name: &'static str, id: &str) -> FakeAgent<'w> {
        FakeAgent::start_in(world, name, id, "work")
    }

    /// Starts an agent in a directory.
    pub fn start_in(world: &'w World, name: &'static str, id: &str, dir: &str) -> FakeAgent<'w> {
        let program = world.path(&format!("bin/{name}-agent"));
        if !program.exists() {
            // Copied beside it first: another agent of this name may be starting.
            std::fs::copy("/bin/sh", program.with_extension(id)).unwrap();
            std::fs::rename(program.with_extension(id), &program).unwrap();
        }
        let mut command = world.command(program, dir);
        let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
        command.args(["-c", LOOP]).env("PATH", path).stdin(Stdio::piped());
        // Another test may have forked while the copy was open for writing.
        let process = until("the program can be run", || match Process::start(&mut command) {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
            started => Some(RefCell::new(started.unwrap())),
        });
        let cwd = world.path(dir).canonicalize().unwrap();
        FakeAgent { world, name, id: id.to_owned(), cwd, process, calls: Cell::new(0) }
    }

    /// Runs a script in the agent's process tree. Returns its exit code and what it printed.
    pub fn run(&self, script: &str, stdin: &str) -> (String, String) {
        self.calls.set(self.calls.get() + 1);
        let file = self.world.path(&format!("{}-{}-{}", self.name, self.id, self.calls.get()));
        std::fs::write(&file, script).unwrap();
        std::fs::write(format!("{}.in", file.display()), stdin).unwrap();
        let mut process = self.process.borrow_mut();
        process.send(format!("{}\n", file.display()));
        let code = process.line();
        let printed = |end: &str| std::fs::read_to_string(format!("{}.{end}", file.display())).unwrap();
        (code, printed("out") + &printed("err"))
    }

    /// Runs a script in the agent's shell, which has the agent's variable.
    pub fn shell(&self, script: &str) -> (String, String) {
        let variable = match self.name {
            "claude" => "CLAUDE_CODE_SESSION_ID",
            "codex" => "CODEX_SESSION_ID",
            "copilot" => "COPILOT_AGENT_SESSION_ID",
            "qwen" => "QWEN_CODE_SESSION_ID",
            "opencode" => "DIBS_OPENCODE_SESSION",
            _ => "NO_SUCH_VARIABLE",
        };
        self.run(&format!("export {variable}={}\n{script}", self.id), "")
    }

    /// Calls the hook with an event. Returns what it printed; the exit code must be 0.
    pub fn hook(&self, event: &Value) -> String {
        let (code, text) = self.run(&format!("exec git-dibs agent-hook {}", self.name), &event.to_string());
        assert_eq!(code, "0", "{event}\n{text}");
        text
    }

    /// An event of this session. `name` is Claude's name for it.
    pub fn event(&self, name: &str, more: Value) -> Value {
        let name = match (self.name, name) {
            ("gemini", "PreToolUse") => "BeforeTool",
            ("gemini", "PostToolUse") => "AfterTool",
            ("opencode", "PreToolUse") => "tool.execute.before",
            ("opencode", "PostToolUse") => "tool.execute.after",
            ("opencode", "SessionStart") => "session.start",
            ("opencode", "SessionEnd") => "session.end",
            _ => name,
        };
        let mut event = match self.name {
            "opencode" => json!({ "event": name, "sessionID": self.id, "cwd": self.cwd }),
            _ => json!({ "hook_event_name": name, "session_id": self.id, "cwd": self.cwd, "transcript_path": "/x" }),
        };
        for (field, value) in more.as_object().unwrap() {
            let field = match (self.name, &**field) {
                ("opencode", "tool_name") => "tool",
                ("opencode", "tool_input") => "args",
                (_, field) => field,
            };
            event[field] = value.clone();
        }
        event
    }

    /// Is about to edit a file. Returns the reason of a denial, or nothing.
    pub fn edit(&self, file: &str) -> Option<String> {
        let tool = match self.name {
            "gemini" | "qwen" => "write_file",
            "opencode" => "write",
            _ => "Write",
        };
        let input = match self.name {
            "opencode" => json!({ "filePath": file, "content": "x" }),
            _ => json!({ "file_path": file, "content": "x" }),
        };
        denied(&self.hook(&self.event("PreToolUse", json!({ "tool_name": tool, "tool_input": input }))))
    }

    /// Is about to apply a patch.
    pub fn patch(&self, lines: &str) -> Option<String> {
        let command = format!("*** Begin Patch\n{lines}\n*** End Patch\n");
        let input = json!({ "tool_name": "apply_patch", "tool_input": { "command": command } });
        denied(&self.hook(&self.event("PreToolUse", input)))
    }

    /// Starts its session. Returns what the model is told.
    pub fn start_session(&self) -> String {
        self.hook(&self.event("SessionStart", json!({ "source": "startup" })))
    }

    pub fn end_session(&self) {
        assert_eq!(self.hook(&self.event("SessionEnd", json!({ "reason": "other" }))), "");
    }

    /// The process that keeps its session alive.
    pub fn keeper(&self) -> u32 {
        let wanted = self.world.path("work/.git").canonicalize().unwrap();
        until("a keeper runs", || keepers(wanted.to_str().unwrap()).into_iter().next())
    }

    pub fn kill(&self) {
        self.process.borrow_mut().kill();
    }
}

/// The reason of a denial; none if the hook printed nothing.
pub fn denied(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let answer: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("not an answer: {text}"));
    if let Some(reason) = answer["deny"].as_str() {
        return Some(reason.to_owned());
    }
    assert_eq!(answer["decision"], "block", "{answer}");
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "deny", "{answer}");
    assert_eq!(output["permissionDecisionReason"], answer["reason"], "{answer}");
    assert_eq!((answer.as_object().unwrap().len(), output.as_object().unwrap().len()), (3, 3), "{answer}");
    Some(answer["reason"].as_str().unwrap().to_owned())
}

/// The keepers of a repository.
pub fn keepers(common_dir: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_keeper = |id: &u32| {
        let command = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.contains("\0agent-hook\0keeper\0") && command.contains(common_dir)
    };
    ids.filter(is_keeper).collect()
}
