//! Reserving paths for an agent's session, and remembering them so that they can be released when they are committed.

use super::call::HookCall;
use super::session::{AgentSession, NoSession};
use super::state::SessionState;
use super::{settle, words};
use crate::client::{Client, ClientError, Limits, QuickCall, QuickReply, quick_reserve};
use crate::git::{self, Place, Repo};
use crate::judge::CheckError;
use crate::local::session_file::end_abandoned;
use crate::local::{ServerAccess, clock};
use crate::text::{percent, terminal};
use crate::wire::{self, Code, Encoding, Release, Reserve, ReserveReply, Text};

/// How long a path stays reserved after the last sign of life of its session, in seconds.
const IDLE_SECONDS: i64 = 300;

/// The longest name of a branch in a reason, in characters.
const BRANCH_CHARS_MAX: usize = 100;

/// Paths that are reserved for a session.
pub struct Reserved {
    session: AgentSession,
    place: Place,
    /// Those of the paths that hooks of this session had not reserved before.
    new: Vec<git::Path>,
}

/// Why paths are not reserved.
pub enum Refused {
    /// Another session is in the way: a text for the model.
    Objection(String),
    /// The agent has no session to reserve for. If it should have one, there is the reason why not.
    NoSession(Box<ServerAccess>, Option<CheckError>),
    /// The server does not accept the session.
    Session(Box<AgentSession>, CheckError),
    /// Anything else.
    Trouble(CheckError),
}

impl From<NoSession> for Refused {
    fn from(none: NoSession) -> Refused {
        match none {
            NoSession::Person(access) => Refused::NoSession(access, None),
            NoSession::Unkept(access, error) => Refused::NoSession(access, Some(error)),
            NoSession::Trouble(error) => Refused::Trouble(error),
        }
    }
}

impl Reserved {
    /// Reserves the paths, all or none of them.
    pub fn attempt(call: &HookCall<'_>, session: AgentSession, paths: &[git::Path]) -> Result<Reserved, Refused> {
        let request = request(paths, Some(reason(call)));
        let mut reply = ask(&session, &request);
        // The session of an agent that was killed is in no one's way.
        if is_locked(&reply) && !end_abandoned(&call.repo).is_empty() {
            reply = ask(&session, &request);
        }
        match reply {
            Ok(_) => {
                let new = remember(call, &session, paths);
                Ok(Reserved { session, place: call.place.clone(), new })
            }
            Err(ClientError::Refused { body, .. }) if body.code == Code::ResourceLocked => {
                let conflicts = body.conflicts.unwrap_or_default();
                Err(Refused::Objection(words::conflict(&conflicts, clock::now())))
            }
            Err(ClientError::Refused { body, .. }) if body.code == Code::FeaturePaused => {
                Err(Refused::Objection(words::paused(&body)))
            }
            Err(error) => Err(match CheckError::from(error) {
                error @ (CheckError::SessionEnded(_) | CheckError::Unauthorized(_)) => {
                    Refused::Session(Box::new(session), error)
                }
                error => Refused::Trouble(error),
            }),
        }
    }

    /// Releases what was not reserved before.
    pub fn undo(self) {
        if self.new.is_empty() {
            return;
        }
        if let Ok(mut client) = self.session.access.client(Limits::default()) {
            // What cannot be released expires.
            let _ = release(&mut client, &self.session.id, &self.new);
        }
        if let Some(state) = &self.session.state {
            state.change_held(|held| held.remove(&self.place.git_dir, &self.new));
        }
    }
}

/// The request to reserve these paths.
pub fn request(paths: &[git::Path], reason: Option<Text>) -> Reserve {
    Reserve {
        file_paths: Some(names(paths)),
        encoding: Some(Encoding::Percent),
        while_session: Some(true),
        idle_seconds: Some(IDLE_SECONDS),
        reason,
        ..Reserve::default()
    }
}

/// Releases these paths.
pub fn release(client: &mut Client, session: &str, paths: &[git::Path]) -> Result<wire::Released, ClientError> {
    let request = Release { file_paths: Some(names(paths)), encoding: Some(Encoding::Percent), ..Release::default() };
    client.release(session, &request)
}

/// Always `file:` and percent-encoded, because a path may look like a pattern or not be UTF-8.
fn names(paths: &[git::Path]) -> Vec<String> {
    paths.iter().map(|path| format!("file:{}", percent::encode(path))).collect()
}

/// Sends a request the quick way; if the reply is not a plain success, the full client finds out what is wrong.
fn ask(session: &AgentSession, request: &Reserve) -> Result<ReserveReply, ClientError> {
    let access = &session.access;
    if let Some(call) = access.quick_call() {
        let limits = session.state.as_ref().map(SessionState::limits).unwrap_or_default();
        match quick_reserve(QuickCall { session: Some(&session.id), ..call }, request, limits) {
            QuickReply::Success(reply) => return Ok(reply),
            QuickReply::TimedOut(_) => {
                session.state.iter().for_each(SessionState::note_outage);
                let (at, limit) = (call.endpoint.to_string(), limits.total);
                return Err(ClientError::TimedOut { at, limit });
            }
            QuickReply::Unclear(_) => {}
        }
    }
    let no_network =
        |error: std::io::Error| ClientError::Unreachable { at: access.source.clone(), why: error.to_string() };
    access.client(Limits::default()).map_err(no_network)?.reserve(&session.id, request)
}

fn is_locked(reply: &Result<ReserveReply, ClientError>) -> bool {
    reply.as_ref().is_err_and(|error| error.code() == Some(Code::ResourceLocked))
}

/// Remembers the paths with what HEAD has there. Returns those that were not known before.
fn remember(call: &HookCall<'_>, session: &AgentSession, paths: &[git::Path]) -> Vec<git::Path> {
    let Some(state) = &session.state else { return Vec::new() };
    let before = state.held();
    let new = paths.iter().filter(|path| !before.knows(&call.place.git_dir, path)).cloned().collect();
    if !before.is_current(call.place) {
        // Something was committed since: what is clean now is released, except for what is edited next.
        settle::settle(state, &session.id, paths, || session.access.client(Limits::default()).ok());
    }
    let head = call.repo.head().ok().flatten();
    let base = |path: &git::Path| {
        let entry = head.as_ref().and_then(|head| call.repo.entry(head, path).ok().flatten());
        (path.clone(), entry.map(|entry| entry.oid.to_string()))
    };
    let bases: Vec<_> = paths.iter().map(base).collect();
    state.change_held(|held| held.add(call.place, bases));
    new
}

/// Who, and on which branch. Nothing of a prompt, because a reason is kept in the history.
fn reason(call: &HookCall<'_>) -> Text {
    let agent = call.agent.name();
    match branch(&call.repo) {
        Some(branch) => format!("{agent} on {}", terminal::clean(&branch, BRANCH_CHARS_MAX)).into(),
        None => agent.into(),
    }
}

fn branch(repo: &Repo) -> Option<String> {
    let head = std::fs::read_to_string(repo.git_dir.join("HEAD")).ok()?;
    let branch = head.strip_prefix("ref: refs/heads/")?.trim_end();
    (branch != ".invalid").then(|| branch.to_owned())
}
