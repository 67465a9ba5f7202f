//! `git-dibs session`: start one in this worktree, end it, list those there are.

use anyhow::Result;

use crate::cli::failure::Failure;
use crate::cli::here::{Common, Here};
use crate::cli::opening::{self, NewSession};
use crate::cli::{Exit, residence, talk};
use crate::hook::text::{clean, time_left};
use crate::wire::{EndSession, EndState, SessionInfo, SessionState};

/// Starts, ends and lists sessions.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Start a session in this worktree
    ///
    /// Its token goes into a file of the worktree that only you can read, and every git-dibs command and git hook here
    /// acts for it from then on. A session that is silent for 30 minutes ends by itself; for one that stays alive as
    /// long as a command runs, see: git dibs run.
    Start(Start),
    /// End this worktree's session and release everything it holds
    End(End),
    /// List the sessions of this repository
    List(List),
}

#[derive(clap::Args)]
struct Start {
    /// Take over the worktree from a session that is still alive; that one goes on, but not here
    #[arg(long)]
    replace: bool,
    /// Print the new session as JSON, with its token
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    new: NewSession,
}

#[derive(clap::Args)]
struct End {
    /// The session to end; another than your own needs an admin token
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// How it went: completed, failed or stopped
    #[arg(long, value_name = "STATE", default_value = "completed", value_parser = end_state)]
    state: EndState,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct List {
    /// List those that have ended, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Exit> {
    match args.command {
        Command::Start(args) => start(args),
        Command::End(args) => end(args),
        Command::List(args) => list(args),
    }
}

fn start(args: Start) -> Result<Exit> {
    let common = Common { json: args.json, session: None, server: args.new.server.clone() };
    let mut here = Here::open(&common)?;
    if !args.replace
        && let Some(living) = residence::resident(&mut here)
    {
        let sentence = format!(
            "session {} already works in this worktree; end it with: git dibs session end, \
             or take over with: git dibs session start --replace",
            clean(&living, 200)
        );
        return Err(Failure::new(Exit::Error, sentence).for_program_as(args.json, "SESSION_EXISTS").into());
    }
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let opened = opening::open(&mut here, &args.new, user)?;
    let kept = residence::keep(&here, &opened)?;
    if args.json {
        talk::document(opened.document.to_string().as_bytes())?;
    } else {
        talk::data(&format!("{}\n", opened.session))?;
    }
    match kept {
        Some(_) if std::env::var_os("DIBS_TOKEN").is_some() => {
            talk::say("DIBS_TOKEN is set and counts before this worktree's session; unset it to act for the new one");
        }
        Some(_) => {}
        None => {
            talk::say("there is no worktree here to keep the token in; take it from --json and set DIBS_TOKEN to it")
        }
    }
    Ok(Exit::Ok)
}

fn end(args: End) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = match &args.id {
        Some(id) => id.clone(),
        None => here.session()?,
    };
    let answer = here.client.end(&session, &EndSession { state: Some(args.state) });
    let ended = here.heard(answer)?;
    if let Some(repo) = &here.repo {
        residence::forget(repo, &session);
    }
    let released = match ended.released_paths.len() {
        0 => "nothing was held".to_owned(),
        n => format!("released {}", talk::count(n, "reservation")),
    };
    let lines: String = ended.released_paths.iter().map(|path| format!("  {}\n", talk::key(path, None))).collect();
    here.tell(&format!("session {} ended as {}; {released}\n{lines}", clean(&session, 200), ended.state.as_str()))?;
    Ok(Exit::Ok)
}

fn list(args: List) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let answer = here.client.sessions((!args.all).then_some(SessionState::Active));
    let sessions = here.heard(answer)?;
    let own = here.found.session.as_deref();
    let heading = ["", "SESSION", "NAME", "STATE", "HOLDS", "WAITS FOR", "LAST SEEN", "FEATURE"];
    let row = |info: &SessionInfo| {
        let text = |text: Option<&str>| text.map_or_else(String::new, |text| clean(text, 200));
        let waits: Vec<String> = info.waiting_for.iter().map(|key| talk::key(key, None)).collect();
        vec![
            if own == Some(&info.session_id) { "*" } else { "" }.to_owned(),
            clean(&info.session_id, 200),
            text(info.name.as_deref()),
            info.state.as_str().to_owned(),
            info.held_count.to_string(),
            waits.join(", "),
            format!("{} ago", time_left(since(&here, info))),
            text(info.feature.as_deref()),
        ]
    };
    if sessions.is_empty() && !here.json {
        talk::say("there are no sessions; start one with: git dibs session start, or: git dibs run -- COMMAND");
        return Ok(Exit::Ok);
    }
    let rows = sessions.iter().map(row).collect();
    here.tell(&talk::table(&heading, rows))?;
    Ok(Exit::Ok)
}

fn since(here: &Here, info: &SessionInfo) -> std::time::Duration {
    let now = here.client.server_time().unwrap_or_else(crate::cli::here::wall_clock);
    std::time::Duration::from_millis(u64::try_from(now.0 - info.last_seen_at.0).unwrap_or(0))
}

fn end_state(text: &str) -> Result<EndState, String> {
    match text {
        "completed" => Ok(EndState::Completed),
        "failed" => Ok(EndState::Failed),
        "stopped" => Ok(EndState::Stopped),
        _ => Err("take completed, failed or stopped".to_owned()),
    }
}
