//! The normaliser: what an agent's hook is told, as one shape for all agents.
//!
//! Pure: bytes go in, an [`Event`] comes out. Formats change with every month's version of an agent, so unknown fields are
//! skipped and unknown tools are read by their arguments. What cannot be read is an [`UnknownShape`].

use std::io::{BufReader, Read};
use std::path::PathBuf;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::command_line;
use super::name::Agent;
use super::patch;
use super::tool_input::ToolInput;

/// How much of the input is read into memory before it is understood, in bytes. More than that is understood as it comes.
pub const INPUT_BYTES_KEPT: usize = 1024 * 1024;

/// The largest input that is understood, in bytes. It has the whole text of a file that an agent writes.
const INPUT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The most files that one edit may change. A patch with more cannot be reserved in one request.
pub const FILES_MAX: usize = crate::wire::limits::RESERVE_KEYS_MAX;

/// The longest id of a session that is accepted, in bytes.
const ID_BYTES_MAX: usize = 512;

/// Tools that change files.
const EDIT_TOOLS: [&str; 20] = [
    "edit",
    "write",
    "multiedit",
    "notebookedit",
    "notebook_edit",
    "multi_edit",
    "apply_patch",
    "replace",
    "write_file",
    "create",
    "patch",
    "str_replace",
    "strreplace",
    "str_replace_editor",
    "insert",
    "delete",
    "delete_file",
    "edit_file",
    "create_file",
    "tabwrite",
];

/// Tools that run a command in a shell.
const SHELL_TOOLS: [&str; 8] =
    ["bash", "run_shell_command", "shell", "local_shell", "exec_command", "shell_command", "powershell", "terminal"];

/// What an agent tells its hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The agent that calls, which is not always the one in whose settings the hook was found.
    pub agent: Agent,
    /// The agent's name of the event, to be repeated in the answer.
    pub name: String,
    pub moment: AgentMoment,
    /// The agent's own id of the session; never shown.
    pub session: Option<String>,
    /// The session that started this one as a subagent, where the agent gives subagents sessions of their own.
    pub parent: Option<String>,
    /// The directory that relative paths start in. Empty if the input names none: then it is the hook's own.
    pub cwd: PathBuf,
    /// How the answer must be written.
    pub form: AnswerForm,
}

impl Event {
    /// The session that all subagents of this one share.
    pub fn root(&self) -> Option<&str> {
        self.parent.as_deref().or(self.session.as_deref())
    }
}

/// What the agent is about to do, or has just done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentMoment {
    /// Changes these files, which are absolute or relative to `cwd`.
    BeforeEdit(Vec<String>),
    /// Runs this command in a shell.
    BeforeShell(String),
    /// Has run a command in a shell.
    AfterShell,
    SessionStart,
    SessionEnd,
    /// Anything else.
    Other,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// The form that stops Claude Code, Codex, Gemini CLI, Qwen Code, and Copilot CLI with events named like theirs.
    Common,
    /// Copilot CLI, which reads context from another place.
    Copilot,
    /// Copilot CLI with events in camel case.
    CopilotCamel,
    Cursor,
    /// Our plugin for opencode.
    Opencode,
}

/// Input that is not understood: a sentence without a full stop. It never quotes the input, which may have secrets in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownShape(pub String);

/// The fields of all agents. No agent has all of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    hook_event_name: Option<String>,
    session_id: Option<String>,
    conversation_id: Option<String>,
    parent_agent_id: Option<String>,
    cwd: Option<String>,
    workspace_roots: AnyOr<Vec<String>>,
    tool_name: Option<String>,
    tool_input: Option<ToolInput>,
    /// Cursor's events about the shell.
    command: AnyOr<String>,
    // The same in the words of other agents. An agent may use several of them at once.
    #[serde(rename = "hookEventName")]
    camel_event_name: Option<String>,
    #[serde(rename = "sessionId")]
    camel_session: Option<String>,
    #[serde(rename = "toolName")]
    camel_tool: Option<String>,
    #[serde(rename = "toolArgs")]
    camel_input: Option<ToolInput>,
    // Our plugin for opencode.
    event: AnyOr<String>,
    #[serde(rename = "sessionID")]
    opencode_session: Option<String>,
    #[serde(rename = "parentID")]
    opencode_parent: Option<String>,
    tool: AnyOr<String>,
    args: Option<ToolInput>,
    // What tells agents apart that read each other's settings.
    transcript_path: Option<IgnoredAny>,
    timestamp: Option<IgnoredAny>,
    cursor_version: Option<IgnoredAny>,
    // What tells events apart that have no name.
    tool_response: Option<IgnoredAny>,
    tool_result: Option<IgnoredAny>,
    #[serde(rename = "toolResult")]
    camel_result: Option<IgnoredAny>,
    source: Option<IgnoredAny>,
    reason: Option<IgnoredAny>,
}

impl Fields {
    /// Puts what agents name differently into one place.
    fn unite(&mut self) {
        let first = |one: &mut Option<String>, other: Option<String>| *one = one.take().or(other);
        first(&mut self.hook_event_name, self.camel_event_name.take());
        first(&mut self.session_id, self.camel_session.take());
        first(&mut self.session_id, self.opencode_session.take());
        first(&mut self.session_id, self.conversation_id.clone());
        first(&mut self.parent_agent_id, self.opencode_parent.take());
        first(&mut self.tool_name, self.camel_tool.take());
        first(&mut self.tool_name, self.tool.0.take());
        self.tool_input = self.tool_input.take().or(self.camel_input.take()).or(self.args.take());
        self.tool_result = self.tool_result.take().or(self.tool_response.take()).or(self.camel_result.take());
    }
}

/// A field that also has other meanings, of which nothing is kept.
#[derive(Default)]
struct AnyOr<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for AnyOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyOr<T>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either<T> {
            Wanted(T),
            Other(IgnoredAny),
        }
        Ok(AnyOr(match Either::deserialize(deserializer)? {
            Either::Wanted(value) => Some(value),
            Either::Other(IgnoredAny) => None,
        }))
    }
}

/// Reads the input of a hook that was set up for `agent`.
pub fn read(agent: Agent, input: &[u8]) -> Result<Event, UnknownShape> {
    read_with(agent, input, &mut std::io::empty())
}

/// The same if `rest` has more of the input. The new text of a file is not kept in memory.
pub fn read_with(agent: Agent, input: &[u8], rest: &mut dyn Read) -> Result<Event, UnknownShape> {
    // Some shells put a byte order mark before what they pipe.
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    if input.trim_ascii_start().first() != Some(&b'{') {
        return Err(UnknownShape("the input is not a JSON object".to_owned()));
    }
    let fields = match input.len() < INPUT_BYTES_KEPT {
        true => serde_json::from_slice(input),
        false => serde_json::from_reader(BufReader::new(input.chain(rest.take(INPUT_BYTES_MAX)))),
    };
    let mut fields: Fields = fields.map_err(|error| {
        let kind = match error.classify() {
            serde_json::error::Category::Data => "has a field of another type",
            _ => "is not JSON",
        };
        UnknownShape(format!("the input {kind} (line {}, column {})", error.line(), error.column()))
    })?;
    fields.unite();
    let agent = caller(agent, &fields);
    let name = name(&fields);
    let moment = moment(agent, &name, &fields)?;
    let shell_dir = fields.tool_input.as_ref().filter(|_| is_shell(&fields)).and_then(|input| input.dir.clone());
    let shell_dir = shell_dir.map(PathBuf::from);
    let session = id(fields.session_id)?;
    let parent = id(fields.parent_agent_id)?.filter(|parent| Some(parent) != session.as_ref());
    let cwd = fields.cwd.or_else(|| fields.workspace_roots.0?.into_iter().next()).map(PathBuf::from);
    let needs_place = !matches!(moment, AgentMoment::Other);
    if needs_place && session.is_none() {
        return Err(UnknownShape("the input names no session".to_owned()));
    }
    let cwd = match cwd {
        Some(cwd) if needs_place && !cwd.as_os_str().is_empty() && !cwd.is_absolute() => {
            return Err(UnknownShape("the input names a working directory that is not absolute".to_owned()));
        }
        cwd => cwd.unwrap_or_default(),
    };
    let cwd = match shell_dir {
        Some(dir) if !cwd.as_os_str().is_empty() || dir.is_absolute() => cwd.join(dir),
        _ => cwd,
    };
    let form = match agent {
        Agent::Opencode => AnswerForm::Opencode,
        Agent::Cursor => AnswerForm::Cursor,
        Agent::Copilot if fields.hook_event_name.is_none() => AnswerForm::CopilotCamel,
        Agent::Copilot => AnswerForm::Copilot,
        _ => AnswerForm::Common,
    };
    Ok(Event { agent, name, moment, session, parent, cwd, form })
}

/// Copilot and Cursor also run the hooks in `.claude/settings.json`. They are then still themselves: their sessions must
/// not have two names.
fn caller(agent: Agent, fields: &Fields) -> Agent {
    match agent {
        Agent::Claude if fields.cursor_version.is_some() || fields.conversation_id.is_some() => Agent::Cursor,
        Agent::Claude if fields.transcript_path.is_none() && fields.timestamp.is_some() => Agent::Copilot,
        agent => agent,
    }
}

/// The name of the event. Copilot's events in camel case do not tell theirs; their fields do.
fn name(fields: &Fields) -> String {
    let named = fields.hook_event_name.clone().or_else(|| fields.event.0.clone());
    named.unwrap_or_else(|| {
        let guess = match fields {
            Fields { tool_name: Some(_), tool_result: Some(_), .. } => "postToolUse",
            Fields { tool_name: Some(_), .. } => "preToolUse",
            Fields { source: Some(_), .. } => "sessionStart",
            Fields { reason: Some(_), .. } => "sessionEnd",
            _ => "",
        };
        guess.to_owned()
    })
}

fn moment(agent: Agent, name: &str, fields: &Fields) -> Result<AgentMoment, UnknownShape> {
    Ok(match name {
        "PreToolUse" | "preToolUse" | "BeforeTool" | "tool.execute.before" => return before_tool(agent, fields),
        "beforeShellExecution" => AgentMoment::BeforeShell(fields.command.0.clone().unwrap_or_default()),
        "PostToolUse" | "postToolUse" | "AfterTool" | "PostToolUseFailure" | "tool.execute.after"
            if is_shell(fields) =>
        {
            AgentMoment::AfterShell
        }
        "afterShellExecution" => AgentMoment::AfterShell,
        "SessionStart" | "sessionStart" | "session.start" => AgentMoment::SessionStart,
        "SessionEnd" | "sessionEnd" | "session.end" => AgentMoment::SessionEnd,
        _ => AgentMoment::Other,
    })
}

fn tool(fields: &Fields) -> String {
    fields.tool_name.as_deref().unwrap_or_default().to_ascii_lowercase()
}

fn is_shell(fields: &Fields) -> bool {
    SHELL_TOOLS.contains(&&*tool(fields))
}

/// Which files a tool is about to change.
fn before_tool(agent: Agent, fields: &Fields) -> Result<AgentMoment, UnknownShape> {
    let none = ToolInput::default();
    let input = fields.tool_input.as_ref().unwrap_or(&none);
    let command = input.command.as_deref();
    if is_shell(fields) {
        let command = command.unwrap_or_default();
        // Text with a patch in it may also go into a document.
        return match patch::is_patch(command) && !command_line::patches(command).is_empty() {
            true => edit(patch_files(command)),
            false => Ok(AgentMoment::BeforeShell(command.to_owned())),
        };
    }
    // An editor with several commands may only look.
    if command == Some("view") {
        return Ok(AgentMoment::Other);
    }
    let patch = input.patch.as_deref().or(command).filter(|text| patch::is_patch(text));
    let mut files = input.paths.clone();
    files.extend(patch.map(patch_files).unwrap_or_default());
    let is_edit = EDIT_TOOLS.contains(&&*tool(fields));
    match files.is_empty() {
        true if is_edit => {
            let what = format!("the input of {}'s edit tool names no file", agent.name());
            Err(UnknownShape(what))
        }
        false if is_edit || input.has_text || patch.is_some() => edit(files),
        _ => Ok(AgentMoment::Other),
    }
}

fn edit(files: Vec<String>) -> Result<AgentMoment, UnknownShape> {
    match files.len() {
        0 => Err(UnknownShape("the patch names no file".to_owned())),
        n if n > FILES_MAX => Err(UnknownShape(format!("the edit names {n} files, and {FILES_MAX} is the most"))),
        _ => Ok(AgentMoment::BeforeEdit(files)),
    }
}

/// The files of a patch, or of the patches that a shell command applies.
fn patch_files(text: &str) -> Vec<String> {
    let uses = if patch::is_bare(text) { Vec::new() } else { command_line::patches(text) };
    if uses.is_empty() {
        return patch::files(text).into_iter().map(str::to_owned).collect();
    }
    let mut files = Vec::new();
    for used in &uses {
        let named = patch::files(used.text.as_deref().unwrap_or(text));
        files.extend(named.iter().map(|file| used.dir.join(file).to_string_lossy().into_owned()));
    }
    files
}

fn id(id: Option<String>) -> Result<Option<String>, UnknownShape> {
    match id.filter(|id| !id.trim().is_empty()) {
        Some(id) if id.len() > ID_BYTES_MAX => {
            Err(UnknownShape(format!("the id of the session is longer than {ID_BYTES_MAX} bytes")))
        }
        id => Ok(id),
    }
}

/// The name of an event that is not understood otherwise.
pub fn name_of(input: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(alias = "hookEventName", alias = "event")]
        hook_event_name: String,
    }
    serde_json::from_slice::<Named>(input).ok().map(|named| named.hook_event_name)
}
