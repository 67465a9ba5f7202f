//! What each agent needs: which hooks and servers in which of its files.
//!
//! The events and the form of each file are those of the real programs; `tests/agents` runs these programs with what is
//! written here. Cursor is the exception: its form is taken from its documentation.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::block::{Block, Comments};
use super::hooks::{self, Hooks};
use super::mcp_server::McpServer;
use super::own_file::{self, OwnFile};
use super::part::Part;
use super::places::Places;
use super::steps;
use super::toml::TomlServer;
use super::{Scope, SetupError, Wish};
use crate::agent::Agent;
use crate::agent::preamble::{self, Edits};

/// How long an agent waits for a hook, in seconds. The hook itself gives up earlier.
const TIMEOUT_SECONDS: u64 = 10;

/// The same at the end of a session, which Codex limits to three seconds.
const END_TIMEOUT_SECONDS: u64 = 3;

/// The word by which a file with our hooks is recognised.
const HOOK_COMMAND: &str = "agent-hook";

/// The most bytes of a file in which it is looked for.
const FILE_BYTES_MAX: u64 = 1 << 20;

const OPENCODE_PLUGIN: &str = include_str!("opencode_plugin.js");

/// The edits for one agent.
pub struct Recipe {
    pub parts: Vec<(PathBuf, Part)>,
    /// The directory below which all files are.
    pub root: PathBuf,
    pub steps: Vec<String>,
    pub notes: Vec<String>,
}

/// What setting up an agent consists of.
pub fn recipe(agent: Agent, wish: &Wish, places: &Places) -> Result<Recipe, SetupError> {
    if wish.scope == Scope::Local && agent != Agent::Claude {
        return Err(SetupError::NoScope { agent, scope: wish.scope });
    }
    let dir = directory(agent, wish.scope, places)?;
    let top = places.root(wish.scope)?;
    // A variable may put the user's configuration outside of the home directory.
    let root = if dir.starts_with(top) { top.to_owned() } else { dir.clone() };
    let mut parts = own_parts(agent, wish.scope, &dir);
    let instructions = instructions_file(agent, wish.scope, top, &dir);
    let skill = skill_file(agent, wish.scope, top, &dir);
    if agent == Agent::Aider {
        parts.extend(aider_block(wish, &dir, instructions.is_some()));
    }
    let mut notes = steps::notes(agent, wish, places);
    for (file, wanted, what) in
        [(&instructions, wish.instructions, "file of instructions"), (&skill, wish.skill, "directory of skills")]
    {
        if file.is_none() && wanted {
            notes.push(format!("{} has no {what} in the {} scope.", agent.product(), wish.scope.name()));
        }
    }
    let is_shared = |file: &Path| wish.remove && others_use(agent, wish.scope, places, file);
    if let Some(file) = instructions.filter(|file| !is_shared(file)) {
        parts.push((file, Part::Block(instructions_block(wish))));
    }
    if let Some(file) = skill.filter(|file| !is_shared(file)) {
        parts.push((file, Part::OwnFile(OwnFile { text: skill_text(), wanted: wish.skill })));
    }
    Ok(Recipe { parts, root, steps: steps::steps(agent, wish), notes })
}

/// The directory of the agent's files.
fn directory(agent: Agent, scope: Scope, places: &Places) -> Result<PathBuf, SetupError> {
    let (in_project, variable, in_home) = match agent {
        Agent::Claude => (".claude", "CLAUDE_CONFIG_DIR", ".claude"),
        Agent::Codex => (".codex", "CODEX_HOME", ".codex"),
        Agent::Gemini => (".gemini", "", ".gemini"),
        Agent::Copilot => (".github", "COPILOT_HOME", ".copilot"),
        Agent::Qwen => (".qwen", "", ".qwen"),
        Agent::Opencode => (".opencode", "", ".config/opencode"),
        Agent::Cursor => (".cursor", "", ".cursor"),
        Agent::Aider => ("", "", ""),
    };
    match scope {
        Scope::Project | Scope::Local => Ok(places.root(scope)?.join(in_project)),
        Scope::User if agent == Agent::Opencode => Ok(places.user_dir("XDG_CONFIG_HOME", ".config")?.join("opencode")),
        Scope::User => places.user_dir(variable, in_home),
    }
}

/// Hooks and MCP server.
fn own_parts(agent: Agent, scope: Scope, dir: &Path) -> Vec<(PathBuf, Part)> {
    let is_user = scope == Scope::User;
    let hooks = |file: &str| (dir.join(file), Part::Hooks(hooks_of(agent)));
    let server = |file: PathBuf, servers, entry, ignored, heading| {
        (file, Part::McpServer(McpServer { servers, entry, ignored, heading }))
    };
    let stdio = json!({ "command": "git-dibs", "args": ["mcp"] });
    let servers = "mcpServers";
    match agent {
        // Its MCP servers for one user are in a file that it writes itself; `steps` names the command for them.
        Agent::Claude if is_user => vec![hooks("settings.json")],
        Agent::Claude if scope == Scope::Local => vec![hooks("settings.local.json")],
        Agent::Claude => {
            vec![hooks("settings.json"), server(dir.with_file_name(".mcp.json"), servers, stdio, &[], None)]
        }
        Agent::Codex => vec![hooks("hooks.json"), (dir.join("config.toml"), Part::TomlServer(TomlServer))],
        Agent::Gemini | Agent::Qwen => {
            let file = dir.join("settings.json");
            // Qwen notes there what it has migrated.
            vec![hooks("settings.json"), server(file, servers, stdio, &["$version"], None)]
        }
        Agent::Copilot => {
            let entry = json!({ "type": "local", "command": "git-dibs", "args": ["mcp"], "tools": ["*"] });
            let file = dir.join(if is_user { "mcp-config.json" } else { "mcp.json" });
            vec![hooks("hooks/git-dibs.json"), server(file, servers, entry, &[], None)]
        }
        Agent::Opencode => {
            let plugin = OwnFile { text: OPENCODE_PLUGIN.to_owned(), wanted: true };
            let entry = json!({ "type": "local", "command": ["git-dibs", "mcp"], "enabled": true });
            let settings = opencode_settings(dir, is_user);
            let schema = Some(("$schema", "https://opencode.ai/config.json"));
            let server = server(settings, "mcp", entry, &["$schema"], schema);
            vec![(dir.join("plugins/git-dibs.js"), Part::OwnFile(plugin)), server]
        }
        Agent::Cursor => vec![hooks("hooks.json"), server(dir.join("mcp.json"), servers, stdio, &[], None)],
        Agent::Aider => Vec::new(),
    }
}

/// The agents whose hooks the files of a work tree have.
pub fn in_work_tree(top: &Path) -> Vec<Agent> {
    let places = Places::of_work_tree(top);
    let calls_us = |file: &Path| {
        let mut text = Vec::new();
        let read = File::open(file).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text));
        read.is_ok() && String::from_utf8_lossy(&text).contains(HOOK_COMMAND)
    };
    let has_hooks = |agent: &Agent| {
        [Scope::Project, Scope::Local].into_iter().any(|scope| {
            let parts = directory(*agent, scope, &places).map(|dir| own_parts(*agent, scope, &dir));
            parts.is_ok_and(|parts| parts.first().is_some_and(|(file, _)| calls_us(file)))
        })
    };
    Agent::ALL.into_iter().filter(has_hooks).collect()
}

/// The file of settings that is there, else a new one beside the plugin.
fn opencode_settings(dir: &Path, is_user: bool) -> PathBuf {
    let top = dir.parent().filter(|_| !is_user);
    let dirs = top.into_iter().chain([dir]);
    let there = dirs.flat_map(|dir| ["opencode.jsonc", "opencode.json"].map(|name| dir.join(name)));
    there.into_iter().find(|file| file.exists()).unwrap_or_else(|| dir.join("opencode.json"))
}

/// The hooks of an agent that keeps them as JSON.
fn hooks_of(agent: Agent) -> Hooks {
    let [before, after, start, end] = match agent {
        Agent::Gemini => ["BeforeTool", "AfterTool", "SessionStart", "SessionEnd"],
        Agent::Cursor => ["preToolUse", "postToolUse", "sessionStart", "sessionEnd"],
        _ => ["PreToolUse", "PostToolUse", "SessionStart", "SessionEnd"],
    };
    // Which tools change files, and which run a shell.
    let (edits, shell) = match agent {
        Agent::Claude => ("Edit|Write|MultiEdit|NotebookEdit", "Bash"),
        Agent::Codex => ("apply_patch", "Bash"),
        Agent::Gemini => ("write_file|replace", "run_shell_command"),
        Agent::Qwen => ("edit|write_file|notebook_edit", "run_shell_command"),
        _ => ("Write|Delete", "Shell"),
    };
    let entry = |matcher: Option<&str>, seconds| entry(agent, matcher, seconds);
    let events = vec![
        (start, entry(None, TIMEOUT_SECONDS)),
        (before, entry(Some(&format!("{edits}|{shell}")), TIMEOUT_SECONDS)),
        (after, entry(Some(shell), TIMEOUT_SECONDS)),
        (end, entry(None, END_TIMEOUT_SECONDS)),
    ];
    Hooks { events, has_version: matches!(agent, Agent::Copilot | Agent::Cursor) }
}

/// One hook in the form of this agent, with its time limit in the agent's unit.
fn entry(agent: Agent, matcher: Option<&str>, seconds: u64) -> Value {
    let command = command(agent);
    let hook = match agent {
        Agent::Gemini => {
            json!({ "type": "command", "name": "git-dibs", "command": command, "timeout": seconds * 1000 })
        }
        // Copilot has no matchers: the hook is called for every tool, and leaves the others alone.
        Agent::Copilot => return json!({ "type": "command", "bash": command, "timeoutSec": seconds }),
        Agent::Cursor => {
            let mut hook = json!({ "command": command, "timeout": seconds });
            if let Some(matcher) = matcher {
                hook["matcher"] = matcher.into();
            }
            return hook;
        }
        _ => json!({ "type": "command", "command": command, "timeout": seconds }),
    };
    match matcher {
        // Gemini and Qwen look for the expression anywhere in the tool's name.
        Some(matcher) if matches!(agent, Agent::Gemini | Agent::Qwen) => {
            json!({ "matcher": format!("^({matcher})$"), "hooks": [hook] })
        }
        Some(matcher) => json!({ "matcher": matcher, "hooks": [hook] }),
        None => json!({ "hooks": [hook] }),
    }
}

/// The command of a hook. Nothing happens where git-dibs is not installed, or where it is too old to know the command: it then
/// ends with 2, which agents take for a denial.
fn command(agent: Agent) -> String {
    let script = format!("command -v git-dibs >/dev/null || exit 0; {} {agent} 2>/dev/null || exit 0", hooks::MARK);
    match agent {
        // They use the user's own shell, which may be no POSIX shell.
        Agent::Codex | Agent::Cursor => format!("sh -c '{script}'"),
        _ => script,
    }
}

/// The file whose text the agent gives to its model in every session.
fn instructions_file(agent: Agent, scope: Scope, top: &Path, dir: &Path) -> Option<PathBuf> {
    match (agent, scope) {
        (Agent::Claude, Scope::Local) => Some(top.join("CLAUDE.local.md")),
        (_, Scope::Local) => None,
        (Agent::Claude, Scope::Project) => Some(top.join("CLAUDE.md")),
        (Agent::Gemini, Scope::Project) => Some(top.join("GEMINI.md")),
        (Agent::Qwen, Scope::Project) => Some(top.join("QWEN.md")),
        (_, Scope::Project) => Some(top.join("AGENTS.md")),
        (Agent::Claude, Scope::User) => Some(dir.join("CLAUDE.md")),
        (Agent::Gemini, Scope::User) => Some(dir.join("GEMINI.md")),
        (Agent::Qwen, Scope::User) => Some(dir.join("QWEN.md")),
        (Agent::Codex | Agent::Opencode, Scope::User) => Some(dir.join("AGENTS.md")),
        (Agent::Copilot, Scope::User) => Some(dir.join("copilot-instructions.md")),
        (Agent::Cursor | Agent::Aider, Scope::User) => None,
    }
}

fn instructions_block(wish: &Wish) -> Block {
    // A hook tells the model already; a model without hooks reads the same file.
    let text = format!("## git-dibs\n\n{}", preamble::instructions(Edits::ByCommand));
    Block { comments: Comments::Markdown, text, wanted: wish.instructions, key: None }
}

/// The file of an Agent Skill. Codex, Gemini, Copilot, opencode and Cursor read the same directory.
fn skill_file(agent: Agent, scope: Scope, top: &Path, dir: &Path) -> Option<PathBuf> {
    let file = "skills/git-dibs/SKILL.md";
    match (agent, scope) {
        (Agent::Aider, _) | (_, Scope::Local) => None,
        (Agent::Claude | Agent::Qwen, _) => Some(dir.join(file)),
        _ => Some(top.join(".agents").join(file)),
    }
}

fn skill_text() -> String {
    format!(
        "---\nname: git-dibs\ndescription: Reserves files in a repository that several sessions share. Use it when an edit, \
         commit or push is denied because another session holds a file, or before a change of many files.\n---\n\n\
         <!-- {} -->\n\n{}",
        own_file::MARK,
        preamble::instructions(Edits::ByCommand)
    )
}

/// Aider has no hooks. It can run the git hooks when it commits, and read the instructions.
fn aider_block(wish: &Wish, dir: &Path, has_instructions: bool) -> Vec<(PathBuf, Part)> {
    let file = dir.join(".aider.conf.yml");
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    let reads = "read: AGENTS.md\n";
    let is_read = has_instructions && (wish.instructions || there.contains(reads));
    // A list of the user's own is left alone; `steps` says what to add to it.
    let is_taken = there.lines().any(|line| line.starts_with("read:") && line != reads.trim_end());
    let text = format!("git-commit-verify: true\n{}", if is_read && !is_taken { reads } else { "" });
    let key = Some(("git-commit-verify", "true"));
    vec![(file, Part::Block(Block { comments: Comments::Yaml, text, wanted: true, key }))]
}

/// Whether another agent is set up in this scope that uses the same file.
fn others_use(agent: Agent, scope: Scope, places: &Places, file: &Path) -> bool {
    let uses = |other: Agent| -> Option<bool> {
        let (top, dir) = (places.root(scope).ok()?, directory(other, scope, places).ok()?);
        let files = [instructions_file(other, scope, top, &dir), skill_file(other, scope, top, &dir)];
        Some(files.into_iter().flatten().any(|one| one == file) && is_set_up(other, scope, places))
    };
    Agent::ALL.into_iter().filter(|other| *other != agent).any(|other| uses(other).unwrap_or(false))
}

/// Whether an agent calls us in this scope.
pub fn is_set_up(agent: Agent, scope: Scope, places: &Places) -> bool {
    let Ok(dir) = directory(agent, scope, places) else { return false };
    let file = match agent {
        Agent::Aider => dir.join(".aider.conf.yml"),
        _ => match own_parts(agent, scope, &dir).into_iter().next() {
            Some((file, _)) => file,
            None => return false,
        },
    };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    [hooks::MARK, own_file::MARK, "git-dibs: begin"].iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_hook_does_nothing_where_git_dibs_is_not_installed() {
        let dir = tempfile::tempdir().unwrap();
        for agent in Agent::ALL.into_iter().filter(|agent| agent.has_hooks() && *agent != Agent::Opencode) {
            let mut shell = std::process::Command::new("/bin/sh");
            std::os::unix::fs::symlink("/bin/sh", dir.path().join("sh")).ok();
            let output = shell.args(["-c", &command(agent)]).env("PATH", dir.path()).output().unwrap();
            assert!(output.status.success(), "{agent}: {output:?}");
            assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{agent}: {output:?}");
        }
    }

    #[test]
    fn the_command_of_a_hook_does_not_block_where_git_dibs_is_too_old() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("git-dibs");
        std::fs::write(&program, "#!/bin/sh\necho 'error: unrecognized subcommand' >&2\nexit 2\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        for agent in Agent::ALL.into_iter().filter(|agent| agent.has_hooks() && *agent != Agent::Opencode) {
            let mut shell = std::process::Command::new("/bin/sh");
            let path = format!("{}:/usr/bin:/bin", dir.path().display());
            let output = shell.args(["-c", &command(agent)]).env("PATH", path).output().unwrap();
            assert!(output.status.success(), "{agent}: {output:?}");
            assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{agent}: {output:?}");
        }
    }

    #[test]
    fn every_time_limit_is_in_the_unit_of_its_agent() {
        let limit = |agent| entry(agent, None, 10).to_string();
        assert!(limit(Agent::Gemini).contains("\"timeout\":10000"));
        assert!(limit(Agent::Copilot).contains("\"timeoutSec\":10"));
        for agent in [Agent::Claude, Agent::Codex, Agent::Qwen, Agent::Cursor] {
            assert!(limit(agent).contains("\"timeout\":10}"), "{agent}: {}", limit(agent));
        }
    }
}
