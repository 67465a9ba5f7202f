//! The door for coding agents: their hooks. The edit itself is the reservation; the model need not cooperate.
//!
//! `git-dibs agent-hook <agent>` is called by the agent with an event as JSON on stdin. [`event`] makes one shape of the
//! shapes of all agents, one file does what is to be done at each moment, and [`answer`] writes what the agent understands:
//!
//! | moment | what happens | file |
//! |---|---|---|
//! | before an edit | every file of it is reserved, or the edit is denied | `edit.rs` |
//! | before a shell command | commits and pushes are checked if the agent switches git hooks off | `before_shell.rs` |
//! | after a shell command | what it changed is reserved or reported, what it committed is released | `look.rs` |
//! | session start | the session is opened, and the model is told what git-dibs is | `lifetime.rs`, [`preamble`] |
//! | session end | the session ends in every repository it worked in, and everything is released | `lifetime.rs`, `repositories.rs` |
//!
//! [`setup`] writes the hooks into the configurations of agents. [`keeper`] is a process beside the agent that keeps its session alive and notices its end; `settle.rs` releases what is
//! committed. Whatever goes wrong, the exit code is 0 and nothing but an answer is printed: some agents take any other exit
//! code for a denial, and some ignore a denial with anything beside it. What went wrong is kept for the doctor.
//!
//! # The input of our plugin for opencode
//!
//! opencode runs plugins in its own process. Ours calls `git-dibs agent-hook opencode` with
//!
//! ```json
//! {"event": "tool.execute.before", "sessionID": "ses_…", "parentID": "ses_…", "tool": "edit", "args": {"filePath": "a.rs"},
//!  "cwd": "/absolute/path"}
//! ```
//!
//! * `event`: `tool.execute.before`, `tool.execute.after`, `session.start` or `session.end`.
//! * `sessionID`: the session that acts. `parentID`: the topmost session, if this one belongs to a subagent; else absent.
//! * `tool` and `args`: as opencode passes them to the plugin (`input.tool`; `output.args` before, `input.args` after);
//!   absent at the start and the end of a session.
//! * `cwd`: `directory` of the plugin's context.
//!
//! It reads what is printed: nothing (go ahead), `{"deny": "reason"}` (throw an error with the reason), or
//! `{"context": "text"}` (text for the model). Its `shell.env` hook sets `DIBS_OPENCODE_SESSION` to the topmost session's
//! id, through which git hooks and commands in opencode's shell find the session.

pub mod answer;
mod before_shell;
mod call;
pub mod command_line;
mod edit;
pub mod event;
pub mod keeper;
mod lifetime;
mod look;
mod name;
pub mod patch;
pub mod preamble;
mod process_watch;
mod repositories;
mod reserve;
mod session;
mod settle;
pub mod setup;
mod state;
mod target;
mod tool_input;
mod words;

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

pub use name::{Agent, UnknownAgent};

use answer::Answer;
use event::{AgentMoment, AnswerForm, Event, INPUT_BYTES_KEPT, UnknownShape};

use crate::git::Place;
use crate::local::Environment;

/// Answers one event of an agent. Never fails: trouble is decided by `dibs.onUnreachable`.
pub fn main(agent: Agent, stdin: &mut dyn Read, out: &mut dyn Write) {
    let mut input = Vec::new();
    // If reading fails, what was read until then is not understood.
    let _ = stdin.take(INPUT_BYTES_KEPT as u64).read_to_end(&mut input);
    let environment = Environment::of_process();
    // A panic must not look like a denial, or void one.
    std::panic::set_hook(Box::new(|_| {}));
    let work = || {
        let event = event::read_with(agent, &input, stdin);
        // An agent may fail if its hook does not read everything.
        let _ = std::io::copy(stdin, &mut std::io::sink());
        let event = event.map_err(|unknown| unknown_event(agent, &input, &environment, unknown));
        match event {
            Ok(mut event) => {
                if event.cwd.as_os_str().is_empty() {
                    event.cwd = own_directory(&environment);
                }
                // Links are followed once, so that all hooks of a session know its repository by one name.
                event.cwd = target::without_links(event.cwd);
                answer(&event, &environment).document(&event)
            }
            Err((event, unknown)) => {
                call::not_understood(agent, &event, &environment, &unknown.to_string()).document(&event)
            }
        }
    };
    let document = catch_unwind(AssertUnwindSafe(work)).unwrap_or_default();
    if let Some(document) = document {
        // An agent that does not read the answer has gone.
        let _ = writeln!(out, "{document}");
    }
}

fn answer(event: &Event, environment: &Environment) -> Answer {
    match &event.moment {
        AgentMoment::BeforeEdit(files) => edit::before_edit(event, files, environment),
        AgentMoment::SessionStart => lifetime::session_start(event, environment),
        AgentMoment::SessionEnd => lifetime::session_end(event, environment),
        AgentMoment::BeforeShell(command) => before_shell::before_shell(event, command, environment),
        AgentMoment::AfterShell => look::after_shell(event, environment),
        AgentMoment::Other => Answer::Allow,
    }
}

/// What is known of an event that is not understood: where the hook runs, and how to answer.
fn unknown_event(
    agent: Agent,
    input: &[u8],
    environment: &Environment,
    unknown: UnknownShape,
) -> (Event, UnknownShape) {
    let form = match agent {
        Agent::Opencode => AnswerForm::Opencode,
        Agent::Cursor => AnswerForm::Cursor,
        _ => AnswerForm::Common,
    };
    let name = event::name_of(input).unwrap_or_default();
    let cwd = own_directory(environment);
    (Event { agent, name, moment: AgentMoment::Other, session: None, parent: None, cwd, form }, unknown)
}

/// The directory of a hook whose input names none: that of the process, in which agents run hooks, or the one that the
/// environment names as the agent's. One in a repository comes first.
fn own_directory(environment: &Environment) -> PathBuf {
    let named = call::PROJECT_VARIABLES.iter().filter_map(|name| environment.text(name)).map(PathBuf::from);
    let mut dirs = std::env::current_dir().into_iter().chain(named.filter(|dir| dir.is_absolute())).peekable();
    let first = dirs.peek().cloned();
    dirs.find(|dir| Place::around(dir).is_some()).or(first).unwrap_or_default()
}
