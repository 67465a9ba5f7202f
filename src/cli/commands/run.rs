//! `git-dibs run`: a session that lives exactly as long as a command.
//!
//! The command finds the session in `DIBS_TOKEN`; a program that loses that variable finds it through `DIBS_RUN`. Other
//! processes in the same worktree are not in the session. A thread keeps the session alive with heartbeats. When the
//! command ends, the session ends. If this process is killed, the next git-dibs command in the repository ends the session,
//! or the server after its timeout.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use anyhow::Result;

use super::session::{NewSessionArgs, create};
use crate::cli::child::{self, ChildExit};
use crate::cli::context::Context;
use crate::cli::failure::{Failure, sentence_of};
use crate::cli::{Exit, talk};
use crate::client::{Client, ClientError, Endpoint, Limits, are_nodes, joined};
use crate::git::Repo;
use crate::local::session::CreatedSession;
use crate::local::session_file::{RUN_VARIABLE, RunFile};
use crate::local::{describe, heartbeat, notices};
use crate::text::terminal::clean;
use crate::wire::{Code, Encoding, EndSession, EndState, Ended, Release, SessionState, Time};

/// The most released paths that are listed; the others are counted.
const NAMED_MAX: usize = 10;

/// The exit codes of a shell that cannot find a command, and that cannot start one.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

#[derive(clap::Args)]
pub struct Args {
    /// Print nothing about the session
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    new: NewSessionArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    // Before anything else, so that no signal can arrive between creating a session and being able to end it.
    let signals = child::Signals::block();
    let mut context = Context::open_without_session(&args.new.server, false)?;
    let program = args.command[0].to_string_lossy().into_owned();
    let name = Path::new(&program).file_name().map(|name| clean(&name.to_string_lossy(), 100));
    let session = match create(&mut context, &args.new, name) {
        Ok(created) => RunningSession::begin(&context, created, args.quiet)?,
        // Where no session can be made, as in a container that was given one, the command runs in that.
        Err(failure) => match given_session(&context).filter(|_| failure.exit == Exit::Auth && args.new.is_empty()) {
            Some(given) => RunningSession::join(&mut context, given, args.quiet)?,
            None => return Err(failure.into()),
        },
    };

    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    // The port rather than the socket: the command may be able to use HTTP, but not over Unix sockets. A local server's
    // certificate is for another name than the port's address.
    let (access, is_plain) = (&context.access, |endpoint: &&Endpoint| !endpoint.address.is_tls());
    let url = access.endpoints.iter().rev().find(is_plain).or(access.endpoints.last());
    let url = match are_nodes(&access.endpoints) {
        true => joined(&access.endpoints),
        false => url.map(ToString::to_string).unwrap_or_default(),
    };
    command.env("DIBS_URL", url).env("DIBS_TOKEN", session.created.credential.token());
    command.env("DIBS_SESSION", &session.created.id);
    match &session.file {
        Some(file) => command.env(RUN_VARIABLE, &file.handle),
        // An inherited one would lead to another session.
        None => command.env_remove(RUN_VARIABLE),
    };

    let ending = signals.run(command);
    let (state, exit) = match &ending {
        Ok(ChildExit::Exited(0)) => (EndState::Completed, 0),
        Ok(ChildExit::Exited(code)) => (EndState::Failed, *code),
        Ok(ChildExit::Killed(signal)) => (state_of(*signal), 128u8.wrapping_add(*signal as u8)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (EndState::Failed, NOT_FOUND),
        Err(_) => (EndState::Failed, NOT_STARTED),
    };
    session.end(&context, state, args.quiet);
    if let Err(error) = ending {
        let sentence = format!("cannot run {}: {error}", clean(&program, 300));
        return Err(Failure::new(Exit::Child(exit), sentence).into());
    }
    Ok(Exit::Child(exit))
}

/// How a command ended that a signal killed: stopped on purpose, or failed.
fn state_of(signal: i32) -> EndState {
    match signal {
        libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => EndState::Stopped,
        _ => EndState::Failed,
    }
}

/// The session whose token the caller has.
fn given_session(context: &Context) -> Option<CreatedSession> {
    let credential = context.access.credential.clone()?;
    let id = credential.session.clone().filter(|_| !credential.is_admin && !credential.is_worker)?;
    let expires_at = Time(credential.expires.unwrap_or_default().saturating_mul(1000));
    Some(CreatedSession { id, name: None, credential, expires_at })
}

/// The session while its command runs.
struct RunningSession {
    created: CreatedSession,
    /// What a session held that was there before. It goes on after the command, with this alone.
    held_before: Option<HashSet<String>>,
    /// Dropped to stop the heartbeats.
    stop: Sender<()>,
    heartbeats: JoinHandle<Option<ClientError>>,
    /// None outside of a repository.
    file: Option<RunFile>,
}

impl RunningSession {
    /// Writes the session file and starts the heartbeats.
    fn begin(context: &Context, created: CreatedSession, quiet: bool) -> Result<RunningSession> {
        let repo = context.workspace.repo.as_ref();
        let file = repo.map(|repo| RunFile::create(repo, &context.access, &created.credential));
        let file = file.transpose().unwrap_or_else(|error| {
            talk::say(&format!("only DIBS_TOKEN names the session, and not {RUN_VARIABLE} ({error:#})"));
            None
        });
        if !quiet {
            let who = describe::session(&created.id, created.name.as_deref());
            talk::say(&format!("started session {who}; server {}", talk::addresses(&context.access.endpoints)));
        }
        // A server that was stopped stays stopped until a command needs it.
        let access = context.access.without_start();
        let client = access.client_as(Some(created.credential.clone()), Limits::default())?;
        let (stop, stopped) = channel();
        let (session, repo) = (created.id.clone(), repo.cloned());
        let heartbeats = std::thread::spawn(move || send_heartbeats(client, &session, repo.as_ref(), &stopped));
        Ok(RunningSession { created, held_before: None, stop, heartbeats, file })
    }

    /// Runs the command in a session that is there already.
    fn join(context: &mut Context, given: CreatedSession, quiet: bool) -> Result<RunningSession> {
        let result = context.client.reserved_files(&given.id);
        let held = context.checked(result)?.reservations.into_iter().map(|one| one.reservation_id).collect();
        Ok(RunningSession { held_before: Some(held), ..RunningSession::begin(context, given, quiet)? })
    }

    /// Ends the session and reports it. Nothing here changes the exit code, which is the command's.
    fn end(self, context: &Context, state: EndState, quiet: bool) {
        let RunningSession { created, held_before, stop, heartbeats, file } = self;
        drop(stop);
        let heartbeat_error = heartbeats.join().ok().flatten();
        let id = clean(&created.id, 200);
        let client = context.client_as(Some(created.credential.clone()), Limits::default());
        let ended = client.map(|mut client| match &held_before {
            None => client.end(&created.id, &EndSession { state: Some(state) }),
            Some(before) => leave(&mut client, &created.id, before),
        });
        match (ended, heartbeat_error) {
            (_, Some(error)) if error.code() == Some(Code::SessionEnded) => {
                talk::say(&format!(
                    "session {id} ended before the command did; what it held was released at that time"
                ));
            }
            (Ok(Ok(ended)), _) if !quiet && ended.released_count > 0 => {
                let paths = ended.released_paths.iter().take(NAMED_MAX).map(|path| describe::key(path, None));
                let paths = paths.collect::<Vec<_>>().join(", ");
                let more = match ended.released_count.saturating_sub(NAMED_MAX as u64) {
                    0 => String::new(),
                    n => format!(" and {n} more"),
                };
                let what = if held_before.is_some() { "goes on" } else { "ended" };
                talk::say(&format!("session {id} {what}; released {paths}{more}"));
            }
            (Ok(Ok(_)), _) => {}
            (Ok(Err(error)), _) => talk::say(&format!(
                "session {id} could not be ended ({}); the server will end it after its timeout",
                sentence_of(&error)
            )),
            (Err(failure), _) => talk::say(&failure.sentence),
        }
        if let Some(file) = file {
            file.remove();
        }
        if let Some(repo) = &context.workspace.repo {
            // No later command of this session could show them.
            let saved = notices::take(&repo.common_dir, &created.id);
            if !quiet {
                context.print_sentences(&saved);
            }
        }
    }
}

/// Releases what the session reserved since the command was started. The rest is as the end of a session tells it.
fn leave(client: &mut Client, session: &str, before: &HashSet<String>) -> Result<Ended, ClientError> {
    let held = client.reserved_files(session)?.reservations;
    let new: Vec<_> = held.into_iter().filter(|one| !before.contains(&one.reservation_id)).collect();
    // Names that are not UTF-8 are written in another way than the rest.
    for encoding in [None, Some(Encoding::Percent)] {
        let paths: Vec<String> =
            new.iter().filter(|one| one.encoding == encoding).map(|one| one.file_path.clone()).collect();
        if !paths.is_empty() {
            client.release(session, &Release { file_paths: Some(paths), encoding, ..Release::default() })?;
        }
    }
    let released_paths: Vec<String> = new.into_iter().map(|one| one.file_path).collect();
    let released_count = released_paths.len() as u64;
    Ok(Ended { state: SessionState::Active, released_count, released_paths })
}

/// Sends heartbeats until the channel is closed. Returns the error of the last heartbeat, if it failed.
fn send_heartbeats(
    mut client: Client,
    session: &str,
    repo: Option<&Repo>,
    stopped: &Receiver<()>,
) -> Option<ClientError> {
    let mut pause = heartbeat::MIN;
    let mut last_error = None;
    loop {
        match stopped.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return last_error,
        }
        // Nothing is printed: the terminal belongs to the command.
        last_error = match client.heartbeat(session) {
            Ok(reply) => {
                if let Some(repo) = repo {
                    notices::save(&repo.common_dir, session, &reply.notices);
                }
                pause = heartbeat::until_next(reply.expires_at, client.server_time());
                None
            }
            Err(error) => {
                pause = heartbeat::MAX / 3;
                Some(error)
            }
        };
        if last_error.as_ref().is_some_and(|error| error.code() == Some(Code::SessionEnded)) {
            return last_error;
        }
    }
}
