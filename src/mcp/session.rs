//! Which session the calls of a connection are made as.
//!
//! It is found as for every command: see `local::identity`. Codex starts its MCP servers without its session variable and
//! names its session in the metadata of each call instead; that counts like the variable. Other agents do not name theirs:
//! the session that their hooks opened is found through the agent's process. If there is no session, the connection opens
//! one of its own with its first call that needs one, and ends it when the connection ends. The agent's hooks, and git
//! hooks and commands in its shell, find that session too. If this process is killed, the next git-dibs command in the
//! repository ends it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use crate::client::{Cancel, Client, ClientError, Credential, Limits};
use crate::git::Repo;
use crate::local::session::{self, CreatedSession, NewSession};
use crate::local::session_file::{Handle, RunFile};
use crate::local::{Flags, ServerAccess, Workspace, agent_file, repair};
use crate::wire::{EndSession, EndState, Release, ReserveReply, Reserved};

/// The client waits for the reply, not a commit, so a slow network is allowed more time than in a hook.
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(2), total: Duration::from_secs(30), answer_bytes: 64 << 20 };

/// For ending the session: the program that ended the connection may kill this process soon.
const END_LIMITS: Limits =
    Limits { connect: Duration::from_millis(200), total: Duration::from_secs(1), answer_bytes: 16 << 20 };

/// The variable that names the session of Codex.
const CODEX_VARIABLE: &str = "CODEX_SESSION_ID";

/// The sessions of one connection.
pub struct Sessions {
    flags: Flags,
    /// What the client calls itself.
    client_name: Mutex<Option<String>>,
    own: Mutex<Option<OwnSession>>,
}

/// A session that the connection opened for itself.
struct OwnSession {
    created: CreatedSession,
    access: ServerAccess,
    /// None outside of a repository.
    files: Option<OwnFiles>,
}

/// The files that lead to the connection's own session.
struct OwnFiles {
    run: RunFile,
    common_dir: PathBuf,
}

impl OwnSession {
    /// Removes the files of a session that has ended.
    fn forget(self) {
        if let Some(OwnFiles { run, common_dir }) = self.files {
            run.remove();
            agent_file::remove(&common_dir, self.created.credential.token());
        }
    }
}

impl OwnFiles {
    /// If they cannot be written, the session ends with the connection all the same.
    fn create(repo: &Repo, context: &CallContext, credential: &Credential) -> Option<OwnFiles> {
        let run = RunFile::create(repo, &context.access, credential).ok()?;
        let handles = Handle::of_parent_agent(&context.workspace.environment);
        agent_file::lead_to_own(&repo.common_dir, &handles, &context.access, credential);
        Some(OwnFiles { run, common_dir: repo.common_dir.clone() })
    }
}

/// What a call is made with.
pub struct CallContext {
    pub workspace: Workspace,
    pub client: Client,
    /// The session to act for; none if the call only looks.
    pub session: Option<String>,
    /// What the caller should know about the session.
    pub notes: Vec<String>,
    pub access: ServerAccess,
    /// The token of the session, if the connection opened it.
    own_credential: Option<Credential>,
}

impl CallContext {
    /// The token that the call is made with.
    pub fn credential(&self) -> Option<Credential> {
        self.own_credential.clone().or_else(|| self.access.credential.clone())
    }

    /// The session of the call, unless the connection opened it.
    pub fn given_session(&self) -> Option<&str> {
        self.session.as_deref().filter(|_| self.own_credential.is_none())
    }

    /// Releases what was granted to a call that was cancelled at the same moment: the agent does not know of it. What the
    /// session held before the call, it keeps.
    pub fn give_back(&self, reserved: &ReserveReply) {
        let new: Vec<Reserved> = reserved.clone().into_reservations().into_iter().filter(Reserved::is_new).collect();
        let encoding = new.iter().find_map(|one| one.encoding);
        let keys: Vec<String> = new.into_iter().map(|one| one.file_path).collect();
        let client = self.access.client_as(self.credential(), END_LIMITS);
        if let (Ok(mut client), Some(session), false) = (client, &self.session, keys.is_empty()) {
            // If it fails, the reservations run out by themselves.
            let _ = client.release(session, &Release { file_paths: Some(keys), encoding, ..Release::default() });
        }
    }
}

impl Sessions {
    pub fn new(flags: Flags) -> Sessions {
        Sessions { flags, client_name: Mutex::default(), own: Mutex::default() }
    }

    /// Remembers what the client calls itself.
    pub fn set_client_name(&self, name: String) {
        *self.client_name.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(name);
    }

    /// Finds the server and the session for a call. `codex_session` is the session that Codex names in the call.
    pub fn find(
        &self,
        codex_session: Option<&str>,
        needs_session: bool,
        cancel: &Cancel,
    ) -> Result<CallContext, String> {
        let mut workspace = Workspace::open().map_err(|error| error.to_string())?;
        if let Some(session) = codex_session {
            workspace.environment.set_missing(CODEX_VARIABLE, session);
        }
        let of_hooks = workspace.repo.as_ref().and_then(|repo| agent_file::of_hooks(&repo.common_dir));
        let handles: Vec<Handle> = of_hooks.into_iter().collect();
        let access = workspace.discover_with(self.flags.clone(), &handles).map_err(|error| error.to_string())?;
        let mut context = CallContext {
            client: client(&access, access.credential.clone(), cancel)?,
            session: access.session.clone(),
            notes: unusable_token(&access).into_iter().collect(),
            workspace,
            access,
            own_credential: None,
        };
        match &context.session {
            Some(id) if !self.is_own(id) => context.notes.extend(self.leave_own()),
            _ => self.use_own(&mut context, needs_session, cancel)?,
        }
        Ok(context)
    }

    /// After the server rejected the session of a call: finds another one. Returns whether there is one.
    pub fn replace(
        &self,
        context: &mut CallContext,
        error: &ClientError,
        needs_session: bool,
        cancel: &Cancel,
    ) -> bool {
        let before = context.session.take();
        if context.own_credential.take().is_some() {
            self.lock_own().take().into_iter().for_each(OwnSession::forget);
            context.notes.extend(before.map(|id| format!("your session {id} has ended, and holds nothing any more")));
        } else {
            // Whether there is another token to look with does not matter here.
            context.access.reject_token(error);
            context.notes.extend(context.access.token_problem.clone());
        }
        self.use_own(context, needs_session, cancel).is_ok() && (context.session.is_some() || !needs_session)
    }

    /// Ends the session that the connection opened for itself.
    pub fn end(&self, state: EndState) {
        let Some(own) = self.lock_own().take() else { return };
        let client = own.access.client_as(Some(own.created.credential.clone()), END_LIMITS);
        let ended = client.ok().map(|mut client| client.end(&own.created.id, &EndSession { state: Some(state) }));
        // The file of a session that could not be ended leads the next command to it.
        if matches!(ended, Some(Ok(_) | Err(ClientError::Refused { .. }))) {
            own.forget();
        }
    }

    /// Whether the connection opened this session.
    fn is_own(&self, id: &str) -> bool {
        self.lock_own().as_ref().is_some_and(|own| own.created.id == id)
    }

    /// Ends the connection's own session, because another one was found. Returns what to say about it.
    fn leave_own(&self) -> Option<String> {
        let id = self.lock_own().as_ref().map(|own| own.created.id.clone())?;
        self.end(EndState::Completed);
        Some(format!("what you reserved before as session {id} is released; reserve it again if you need it"))
    }

    /// Makes the call as the connection's own session, and opens one if the call needs it.
    fn use_own(&self, context: &mut CallContext, needs_session: bool, cancel: &Cancel) -> Result<(), String> {
        // Held until the session is open, so that two calls at once open one session.
        let mut own = self.lock_own();
        if own.as_ref().is_some_and(|own| own.access.endpoints != context.access.endpoints) {
            // The server was started again at another address, or is another one.
            *own = own.take().map(|own| OwnSession { access: context.access.clone(), ..own });
        }
        if own.is_none() && needs_session {
            *own = Some(self.open(context, cancel)?);
        }
        if let Some(own) = &*own {
            context.session = Some(own.created.id.clone());
            context.own_credential = Some(own.created.credential.clone());
            context.client = client(&context.access, context.own_credential.clone(), cancel)?;
        }
        Ok(())
    }

    fn open(&self, context: &CallContext, cancel: &Cancel) -> Result<OwnSession, String> {
        let mut new = NewSession::default().with_defaults(&context.workspace);
        let client_name = self.client_name.lock().unwrap_or_else(|poison| poison.into_inner()).clone();
        new.name = new.name.or(client_name).or_else(|| Some("mcp".to_owned()));
        let mut client = client(&context.access, context.access.credential.clone(), cancel)?;
        let created = session::create(&context.access, &mut client, new).map_err(|error| error.to_string())?;
        let files =
            context.workspace.repo.as_ref().and_then(|repo| OwnFiles::create(repo, context, &created.credential));
        Ok(OwnSession { created, access: context.access.clone(), files })
    }

    fn lock_own(&self) -> std::sync::MutexGuard<'_, Option<OwnSession>> {
        self.own.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// A sentence about a token that was found and cannot be used.
fn unusable_token(access: &ServerAccess) -> Option<String> {
    let unreadable = access.credential.as_ref().filter(|credential| !credential.is_readable);
    let sentence = |credential: &Credential| {
        let (from, repair) = (&credential.from, repair(&credential.from));
        format!("the token in {from} is not valid and counts as none; to repair this: {repair}")
    };
    access.token_problem.clone().or_else(|| unreadable.map(sentence))
}

fn client(access: &ServerAccess, credential: Option<Credential>, cancel: &Cancel) -> Result<Client, String> {
    let client = access.client_as(credential, LIMITS).map_err(|error| format!("cannot use the network: {error}"))?;
    Ok(client.cancelled_by(cancel.clone()))
}
