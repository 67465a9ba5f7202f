//! `git-dibs session`: start a session in this worktree, end it, list the sessions of the repository.

use anyhow::Result;
use serde_json::json;

use crate::cli::context::{CommonArgs, Context, ServerArgs};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::local::session::{self, CreateError, CreatedSession, NewSession};
use crate::local::worktree::{self, WorktreeSession};
use crate::local::{clock, describe};
use crate::text::terminal::{clean, time_left};
use crate::wire::{EndSession, EndState, SessionInfo, SessionState};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Start a session in this worktree
    ///
    /// The session's token is written to a file of the worktree that only you can read, and from then on every git-dibs
    /// command and git hook here acts for this session. The server ends a session that makes no call for 30 minutes
    /// (the server's default); for a session that lives as long as a command runs, see: git dibs run.
    Start(Start),
    /// End this worktree's session and release everything it holds
    End(End),
    /// List the sessions of this repository
    List(List),
}

#[derive(clap::Args)]
struct Start {
    /// Take over the worktree from a session that is still active; that session goes on, but not here
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
struct List {
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
    if !args.replace
        && let Some(active) = active_session(&mut context)
    {
        let sentence = format!(
            "session {} already works in this worktree; end it with: git dibs session end, \
             or take over with: git dibs session start --replace",
            clean(&active, 200)
        );
        return Err(Failure::new(Exit::Error, sentence).for_program_as(args.json, "SESSION_EXISTS").into());
    }
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let created = create(&mut context, &args.new, user)?;
    let repo = context.workspace.repo.as_ref();
    if let Some(repo) = repo {
        worktree::keep(repo, &created.credential)?;
    }
    if args.json {
        let (id, token) = (&created.id, created.credential.token());
        let document = json!({ "sessionId": id, "token": token, "expiresAt": created.expires_at });
        talk::document(document.to_string().as_bytes())?;
    } else {
        talk::data(&format!("{}\n", created.id))?;
    }
    match repo {
        Some(_) if std::env::var_os("DIBS_TOKEN").is_some() => {
            talk::say(
                "DIBS_TOKEN is set and takes precedence over this worktree's session; unset it to act for the new session",
            );
        }
        Some(_) => {}
        None => {
            talk::say("there is no worktree here to store the token in; take it from --json and set DIBS_TOKEN to it")
        }
    }
    Ok(Exit::Ok)
}

fn end(args: End) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = match &args.id {
        Some(id) => id.clone(),
        None => context.session()?,
    };
    let result = context.client.end(&session, &EndSession { state: Some(args.state) });
    let ended = context.checked(result)?;
    if let Some(repo) = &context.workspace.repo {
        worktree::forget(repo, &session);
    }
    let released = match ended.released_paths.len() {
        0 => "it held nothing".to_owned(),
        n => format!("released {}", describe::count(n, "reservation")),
    };
    let lines: String = ended.released_paths.iter().map(|path| format!("  {}\n", describe::key(path, None))).collect();
    context.print(&format!(
        "session {} ended as {}; {released}\n{lines}",
        clean(&session, 200),
        ended.state.as_str()
    ))?;
    Ok(Exit::Ok)
}

fn list(args: List) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let result = context.client.sessions((!args.all).then_some(SessionState::Active));
    let sessions = context.checked(result)?;
    let own = context.access.session.as_deref();
    let heading = ["", "SESSION", "NAME", "STATE", "HOLDS", "WAITS FOR", "LAST SEEN", "FEATURE"];
    let row = |info: &SessionInfo| {
        let text = |text: Option<&str>| text.map_or_else(String::new, |text| clean(text, 200));
        let waits: Vec<String> = info.waiting_for.iter().map(|key| describe::key(key, None)).collect();
        vec![
            if own == Some(&info.session_id) { "*" } else { "" }.to_owned(),
            clean(&info.session_id, 200),
            text(info.name.as_deref()),
            info.state.as_str().to_owned(),
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

/// What a new session is called, for `session start` and `run`.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct NewSessionArgs {
    /// The session's display name, shown beside what it holds [default: DIBS_NAME, git config dibs.name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The feature it works on; a pause of the feature pauses the session [default: DIBS_FEATURE, git config dibs.feature]
    #[arg(long, value_name = "FEATURE")]
    feature: Option<String>,
    /// The session's id, 1 to 128 of A-Z, a-z, 0-9, _, . and - [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
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
    session::create(&context.access, &mut context.client, new).map_err(|error| {
        let exit = match &error {
            CreateError::Call(error) => return context.failure(error),
            CreateError::NotAllowed(_) => Exit::Auth,
            CreateError::BadRequest(_) => Exit::Usage,
            CreateError::BadToken(_) | CreateError::Network(_) => Exit::Error,
        };
        Failure::new(exit, error.to_string()).for_program(context.json)
    })
}

/// The session that works in this worktree. An abandoned one is ended, which is reported.
pub(super) fn active_session(context: &mut Context) -> Option<String> {
    let repo = context.workspace.repo.as_ref()?;
    match worktree::current_session(repo, &context.access, &mut context.client) {
        WorktreeSession::None => None,
        WorktreeSession::Active(session) => Some(session),
        WorktreeSession::Abandoned(session) => {
            let id = clean(&session, 200);
            talk::say(&format!("session {id} was left behind by a command that was killed; it has been ended"));
            None
        }
    }
}

fn end_state(text: &str) -> Result<EndState, String> {
    match text {
        "completed" => Ok(EndState::Completed),
        "failed" => Ok(EndState::Failed),
        "stopped" => Ok(EndState::Stopped),
        _ => Err("use completed, failed or stopped".to_owned()),
    }
}
