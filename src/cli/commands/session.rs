//! `git-dibs session`: start a session in this worktree, end it, list the sessions of the repository.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::cli::context::{CommonArgs, Context, ServerArgs};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::client::{Limits, Origin};
use crate::local::describe::NAME_MAX;
use crate::local::session::{self, CreateError, CreatedSession, NewSession};
use crate::local::{clock, describe, worktree};
use crate::text::terminal::{clean, time_left};
use crate::wire::{Code, EndSession, EndState, SessionInfo, SessionState, Time};

/// An active session that has not called for so long, and does not wait, is shown as silent, as in the dashboard.
/// `git-dibs run` calls every ten seconds.
const SILENT_AFTER: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Start a session and bind this worktree to it
    ///
    /// The session's token is written to a file of the worktree that only you can read. From then on every git-dibs
    /// command and git hook in this worktree acts for this session, unless it runs in a session of its own, as under
    /// git dibs run. The server ends a session that makes no call for 30 minutes.
    Start(Start),
    /// End your session, or this worktree's, and release everything it holds
    End(End),
    /// List the sessions of this repository
    List(List),
}

#[derive(clap::Args)]
struct Start {
    /// Also if the worktree is bound to a session that is active; that session goes on, but not here
    #[arg(long)]
    replace: bool,
    /// Print the new session as JSON, with its token
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    new: NewSessionArgs,
}

#[derive(clap::Args)]
struct End {
    /// The session to end; to end another session than your own you need an admin token
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// How the work ended: completed, failed or stopped
    #[arg(long, value_name = "STATE", default_value = "completed", value_parser = end_state)]
    state: EndState,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(clap::Args)]
pub struct List {
    /// Also list sessions that have ended
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    match args.command {
        Command::Start(args) => start(args),
        Command::End(args) => end(args),
        Command::List(args) => list(args),
    }
}

fn start(args: Start) -> Result<Exit> {
    let mut context = Context::open_without_session(&args.new.server, args.json)?;
    let repo = context.workspace.repo.clone();
    // Held until the end, so that a second command at the same moment finds the first one's session.
    let _lock = repo.as_ref().map(worktree::lock_binding).transpose()?;
    if let Some(repo) = repo.as_ref().filter(|_| !args.replace)
        && let Some(active) =
            worktree::active_session(repo, &context.access).map_err(|error| failure(&context, error))?
    {
        let sentence = format!(
            "this worktree is bound to session {}, which is active; end it with: git dibs session end, \
             or bind the worktree to a new one with: git dibs session start --replace",
            clean(&active, NAME_MAX)
        );
        return Err(Failure::new(Exit::Error, sentence).for_program_as(args.json, "SESSION_EXISTS").into());
    }
    let user =
        ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()));
    let created = create(&mut context, &args.new, user)?;
    if let Some(repo) = &repo
        && let Err(error) = worktree::bind(repo, &created.credential)
    {
        // No one could use it. If it cannot be ended either, the server ends it after its timeout.
        let client = context.client_as(Some(created.credential.clone()), Limits::default());
        let _ = client.map(|mut client| client.end(&created.id, &EndSession { state: Some(EndState::Failed) }));
        return Err(error);
    }
    if args.json {
        let (id, token) = (&created.id, created.credential.token());
        let document = json!({ "sessionId": id, "token": token, "expiresAt": created.expires_at });
        talk::document(document.to_string().as_bytes())?;
    } else {
        talk::data(&format!("{}\n", created.id))?;
    }
    talk::say(&match (&repo, own_variable(&context)) {
        (Some(_), Some(variable)) => format!(
            "this worktree is bound to session {}, but {variable} is set and takes precedence; to act for the new session: \
             unset {variable}",
            created.id
        ),
        (Some(_), None) => format!(
            "this worktree is bound to session {}: commands and hooks here act for it until: git dibs session end",
            created.id
        ),
        (None, _) => {
            "there is no worktree here to store the token in; take it from --json and set DIBS_TOKEN to it".to_owned()
        }
    });
    Ok(Exit::Ok)
}

/// The variable that gives the caller a session, or none on purpose, whatever the worktree is bound to.
fn own_variable(context: &Context) -> Option<&'static str> {
    if context.workspace.environment.get("DIBS_TOKEN").is_some() {
        return Some("DIBS_TOKEN");
    }
    match context.access.credential.as_ref()?.from {
        Origin::SessionFile(variable) => Some(variable),
        _ => None,
    }
}

fn end(args: End) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = match &args.id {
        Some(id) => id.clone(),
        None => context.session()?,
    };
    let result = context.client.end(&session, &EndSession { state: Some(args.state) });
    // The binding to a session that has ended in another way is of no use either.
    let is_over = match &result {
        Ok(_) => true,
        Err(error) => {
            let own = context.access.credential.as_ref().and_then(|credential| credential.session.as_deref());
            matches!(error.code(), Some(Code::Unauthenticated | Code::SessionEnded)) && own == Some(&*session)
        }
    };
    if let Some(repo) = context.workspace.repo.as_ref().filter(|_| is_over) {
        worktree::unbind(repo, &session);
    }
    let ended = context.checked(result)?;
    let released = match usize::try_from(ended.released_count).unwrap_or(usize::MAX) {
        0 => "it held nothing".to_owned(),
        n => format!("released {}", describe::count(n, "reservation")),
    };
    let mut lines: String =
        ended.released_paths.iter().map(|path| format!("  {}\n", describe::key(path, None))).collect();
    if ended.released_count > ended.released_paths.len() as u64 {
        lines += "  …\n";
    }
    context.print(&format!(
        "session {} ended as {}; {released}\n{lines}",
        clean(&session, 200),
        ended.state.as_str()
    ))?;
    Ok(Exit::Ok)
}

pub fn list(args: List) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let sessions = context.look(|client, _| client.sessions((!args.all).then_some(SessionState::Active)))?;
    let own = context.access.session.as_deref();
    let heading = ["", "SESSION", "NAME", "STATE", "HOLDS", "WAITS FOR", "LAST SEEN", "FEATURE"];
    let row = |info: &SessionInfo| {
        let text = |text: Option<&str>| text.map_or_else(String::new, |text| clean(text, 200));
        let mut waits: Vec<String> = info.waiting_for.iter().map(|key| describe::key(key, None)).collect();
        waits.extend(info.more_waiting_for.map(|more| format!("and {more} more")));
        vec![
            if own == Some(&info.session_id) { "*" } else { "" }.to_owned(),
            clean(&info.session_id, 200),
            text(info.name.as_deref()),
            state(info, context.now()),
            info.held_count.to_string(),
            waits.join(", "),
            format!("{} ago", time_left(clock::between(info.last_seen_at, context.now()))),
            text(info.feature.as_deref()),
        ]
    };
    if sessions.is_empty() && !context.json {
        talk::say("there are no sessions; start one with: git dibs session start, or: git dibs run -- COMMAND");
        return Ok(Exit::Ok);
    }
    let rows = sessions.iter().map(row).collect();
    context.print(&talk::table(&heading, rows))?;
    Ok(Exit::Ok)
}

/// The state of a session; "silent" for an active one that has not called for a while and does not wait.
fn state(info: &SessionInfo, now: Time) -> String {
    let is_silent = info.waiting_for.is_empty() && clock::between(info.last_seen_at, now) > SILENT_AFTER;
    match info.state {
        SessionState::Active if is_silent => "silent".to_owned(),
        state => state.as_str().to_owned(),
    }
}

/// What a new session is called, for `session start` and `run`.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct NewSessionArgs {
    /// The session's display name, shown beside what it holds [default: DIBS_NAME, git config dibs.name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The feature it works on; a pause of the feature pauses the session [default: DIBS_FEATURE, git config dibs.feature]
    #[arg(long, value_name = "FEATURE")]
    feature: Option<String>,
    /// The session's id, 1 to 128 of A-Z, a-z, 0-9, _, . and - [default: the name and four random characters]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

impl NewSessionArgs {
    /// Whether nothing is said about the session.
    pub(super) fn is_empty(&self) -> bool {
        self.name.is_none() && self.feature.is_none() && self.id.is_none()
    }
}

/// Creates a session, with `default_name` if neither a flag nor a setting names it.
pub(super) fn create(
    context: &mut Context,
    args: &NewSessionArgs,
    default_name: Option<String>,
) -> Result<CreatedSession, Failure> {
    let new = NewSession { id: args.id.clone(), name: args.name.clone(), feature: args.feature.clone() };
    let mut new = new.with_defaults(&context.workspace);
    new.name = new.name.or(default_name);
    session::create(&context.access, &mut context.client, new).map_err(|error| failure(context, error))
}

fn failure(context: &Context, error: CreateError) -> Failure {
    let exit = match &error {
        CreateError::Call(error) => return context.failure(error),
        CreateError::NotAllowed(_) => Exit::Auth,
        CreateError::BadRequest(_) => Exit::Usage,
        CreateError::BadToken(_) | CreateError::NoFreeId | CreateError::Network(_) => Exit::Error,
    };
    Failure::new(exit, error.to_string()).for_program(context.json)
}

fn end_state(text: &str) -> Result<EndState, String> {
    match text {
        "completed" => Ok(EndState::Completed),
        "failed" => Ok(EndState::Failed),
        "stopped" => Ok(EndState::Stopped),
        _ => Err("use completed, failed or stopped".to_owned()),
    }
}
