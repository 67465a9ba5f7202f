//! The session that an agent's hooks act for.
//!
//! It is the session of `DIBS_TOKEN` or `DIBS_RUN`, or that of an agent around this one, or the one that an earlier hook of
//! this agent opened, or the one that the worktree is bound to: the same order in which git hooks find it, so that an edit
//! and the commit of it are judged alike. If there is none, the hook opens one, `claude-7f3k`, and leaves its token in a
//! private file for the agent's later hooks and for git hooks in its shell.

use std::path::{Path, PathBuf};

use super::call::HookCall;
use super::event::Event;
use super::keeper;
use super::repositories;
use super::state::SessionState;
use crate::client::Limits;
use crate::git::{Place, Settings};
use crate::judge::CheckError;
use crate::local::agent_process::agent_process;
use crate::local::process::ProcessIdentity;
use crate::local::session::{CreateError, NewSession, create};
use crate::local::session_file::{Handle, end_abandoned};
use crate::local::{DiscoverError, Environment, Lookup, ServerAccess, agent_file, agent_trouble, discover, notices};
use crate::wire::{EndSession, EndState};

/// A session and how to reach its server.
pub struct AgentSession {
    /// Its credential is the session's.
    pub access: ServerAccess,
    pub id: String,
    /// Whether hooks of this agent opened it, so that it ends with the agent.
    pub is_own: bool,
    /// None if the session's id cannot name a directory.
    pub state: Option<SessionState>,
    common_dir: PathBuf,
}

impl Drop for AgentSession {
    /// Keeps what the server told the session, for its next command.
    fn drop(&mut self) {
        notices::save(&self.common_dir, &self.id, &self.access.inbox.take());
    }
}

/// Why a hook has no session.
pub enum NoSession {
    /// None may be opened: the agent is checked like a person without a session, and can reserve nothing.
    Person(Box<ServerAccess>),
    /// One cannot be kept: the server can say who holds a file, but nothing can be reserved.
    Unkept(Box<ServerAccess>, CheckError),
    Trouble(CheckError),
}

impl<E: Into<CheckError>> From<E> for NoSession {
    fn from(error: E) -> NoSession {
        NoSession::Trouble(error.into())
    }
}

/// What leads to the session of an event: the session itself, then the one that started it as a subagent.
pub fn handles(event: &Event) -> Vec<Handle> {
    let ids = event.session.iter().chain(&event.parent);
    ids.map(|id| Handle::of_agent(event.agent.name(), id)).collect()
}

/// How much a hook needs a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// To reserve: if none runs, one is started.
    Start,
    /// To check: if none runs and the last one said that nothing is held, none is needed.
    Check,
    /// If none runs, there is nothing to do.
    IfRunning,
}

/// The server, and the session as far as there is one.
pub fn find_server(
    place: &Place,
    environment: &Environment,
    settings: &Settings,
    handles: &[Handle],
    need: Need,
) -> Result<ServerAccess, DiscoverError> {
    let (git_dir, common_dir) = (Some(&*place.git_dir), Some(&*place.common_dir));
    let (may_start, is_check) = (need != Need::IfRunning, need == Need::Check);
    let lookup = Lookup::new(None, environment, settings);
    discover(&Lookup { handles, git_dir, common_dir, may_start, is_check, ..lookup })
}

impl AgentSession {
    /// The session that exists, or a new one.
    pub fn find_or_open(call: &HookCall<'_>, event: &Event) -> Result<AgentSession, NoSession> {
        let handles = handles(event);
        let session = match AgentSession::find(call, &handles, Need::Start)? {
            (_, Some(session)) => session,
            _ => {
                let _lock = agent_file::lock_opening(&call.place.common_dir);
                // Another hook of this agent may have opened it meanwhile.
                match AgentSession::find(call, &handles, Need::Start)? {
                    (_, Some(session)) => session,
                    (access, None) => {
                        let session = AgentSession::open(call, access, &handles)?;
                        if let Some(root) = handles.last() {
                            repositories::note(call.environment, root, call.place);
                        }
                        session
                    }
                }
            }
        };
        session.note_call(call.place, &handles);
        Ok(session)
    }

    /// The session that exists; none if there is none.
    pub fn find(
        call: &HookCall<'_>,
        handles: &[Handle],
        need: Need,
    ) -> Result<(ServerAccess, Option<AgentSession>), DiscoverError> {
        let access = find_server(call.place, call.environment, &call.settings, handles, need)?;
        let found = access.session.clone().filter(|_| access.credential.is_some());
        let session = found.map(|id| AgentSession::new(&call.place.common_dir, access.clone(), id, handles));
        Ok((access, session))
    }

    fn new(common_dir: &Path, access: ServerAccess, id: String, handles: &[Handle]) -> AgentSession {
        let token = access.credential.as_ref().map(|credential| credential.token()).unwrap_or_default();
        let is_own = handles.iter().any(|handle| agent_file::leads_to(common_dir, handle, token));
        let state = SessionState::of(common_dir, &id);
        AgentSession { access, id, is_own, state, common_dir: common_dir.to_owned() }
    }

    fn open(call: &HookCall<'_>, mut access: ServerAccess, handles: &[Handle]) -> Result<AgentSession, NoSession> {
        // Git hooks would not find the new session: `DIBS_TOKEN` comes first, and says that there is none.
        if call.environment.get("DIBS_TOKEN").is_some() {
            return Err(NoSession::Person(Box::new(access)));
        }
        // An agent that was killed may have left its session behind; a new one is a good time to notice.
        end_abandoned(&call.repo);
        let common_dir = &call.place.common_dir;
        let process = agent_process();
        let root = handles.last().ok_or_else(|| CheckError::BadReply("the agent names no session".to_owned()))?;
        if let Some(session) = process.and_then(|process| AgentSession::of_mcp_server(call, process, root, handles)) {
            return Ok(session);
        }
        let feature = call.environment.text("DIBS_FEATURE").or_else(|| call.settings.get("feature").map(str::to_owned));
        let feature = feature.filter(|feature| !feature.trim().is_empty());
        let new = NewSession { id: None, name: Some(call.agent.name().to_owned()), feature };
        let mut client = access.client(Limits::default())?;
        let created = create(&access, &mut client, new).map_err(|error| match error {
            CreateError::Call(error) => NoSession::from(CheckError::from(error)),
            CreateError::Network(error) => CheckError::from(error).into(),
            other => {
                agent_trouble::note(common_dir, call.agent.name(), &other.to_string());
                NoSession::Person(Box::new(access.clone()))
            }
        })?;
        // A file that is there leads to a session of another server, or cannot be read.
        handles.iter().for_each(|handle| agent_file::remove_handle(common_dir, handle));
        let is_written = agent_file::create(common_dir, root, &access, &created.credential, process);
        if !matches!(is_written, Ok(true)) {
            // Another hook was faster, or nothing can be written. A session that no later hook finds must not stay.
            let mut client = access.client_as(Some(created.credential), Limits::default())?;
            let _ = client.end(&created.id, &EndSession { state: Some(EndState::Stopped) });
            let (_, session) = AgentSession::find(call, handles, Need::Start)?;
            let sentence = "the session file of this agent cannot be written";
            let unkept = || NoSession::Unkept(Box::new(access), CheckError::Unreachable(sentence.to_owned()));
            return session.ok_or_else(unkept);
        }
        if let Some(process) = process.filter(|_| !call.agent.names_session_everywhere()) {
            // If it cannot be written, commands in the agent's shell and its MCP servers do not find the session.
            let _ = agent_file::add_handle(common_dir, root, &Handle::of_process(process));
        }
        SessionState::sweep(common_dir);
        access.credential = Some(created.credential);
        access.session = Some(created.id.clone());
        Ok(AgentSession::new(common_dir, access, created.id, handles))
    }

    /// The session that the agent's MCP server opened for itself, if no hooks act for it yet: what the model reserved with a
    /// tool must not be in the way of its own edit.
    fn of_mcp_server(
        call: &HookCall<'_>,
        process: ProcessIdentity,
        root: &Handle,
        handles: &[Handle],
    ) -> Option<AgentSession> {
        let common_dir = &call.place.common_dir;
        let id = agent_file::session_of_child(common_dir, process)?;
        // Several sessions of an agent may share its process and its MCP server. Only one of them can be meant.
        SessionState::of(common_dir, &id).filter(|state| !state.exists())?;
        agent_file::remove_handle(common_dir, root);
        agent_file::add_handle(common_dir, &Handle::of_process(process), root).ok()?;
        let (_, session) = AgentSession::find(call, handles, Need::Start).ok()?;
        session.filter(|session| session.id == id)
    }

    /// Notes that the agent is active, and makes sure that it has a keeper and that its subagent is found too.
    fn note_call(&self, place: &Place, handles: &[Handle]) {
        if let [own, parent] = handles {
            // If it cannot be written, git hooks in the subagent's shell do not know the session.
            let _ = agent_file::add_handle(&place.common_dir, parent, own);
        }
        let Some(state) = &self.state else { return };
        state.note_activity();
        if self.is_own
            && !state.has_keeper()
            && let Some(root) = handles.last()
        {
            keeper::start(&place.common_dir, &root.file_name());
        }
    }

    /// Forgets a session that the server no longer accepts, so that the next search opens another one. Returns whether
    /// that is possible.
    pub fn forget(&self, place: &Place) -> bool {
        if let Some(credential) = self.access.credential.as_ref().filter(|_| self.is_own) {
            agent_file::remove(&place.common_dir, credential.token());
            self.state.iter().for_each(SessionState::remove);
        }
        self.is_own
    }
}
