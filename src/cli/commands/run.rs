//! `git-dibs run`: a session that lives exactly as long as a command.
//!
//! The command finds the session in its environment, and whatever lost that finds it in the worktree's token file. A
//! thread keeps the session alive. However the command ends, the session ends with it; should this process be killed
//! itself, the server ends the session when it has been silent for too long.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;

use crate::cli::child::{self, Ending};
use crate::cli::failure::Failure;
use crate::cli::here::{Common, Here};
use crate::cli::opening::{self, NewSession, Opened};
use crate::cli::residence::{self, Occupied};
use crate::cli::{Exit, notices, talk};
use crate::client::{Client, ClientError, Limits};
use crate::git::Repo;
use crate::hook::text::clean;
use crate::wire::{Code, EndSession, EndState, Time};

/// The longest pause between two heartbeats. What is reserved right after one must last until the next, so this is what
/// `--help` promises; a file's default of 60 s survives five that are lost.
const BEAT_MAX: Duration = Duration::from_secs(10);

/// The shortest, so that a reservation of a second does not keep the server busy.
const BEAT_MIN: Duration = Duration::from_millis(250);

/// More released paths than this are only counted.
const NAMED_MAX: usize = 10;

/// What a shell says when it cannot find a command, and when it cannot start one.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// Runs a command in a session of its own.
#[derive(clap::Args)]
pub struct Args {
    /// Say nothing about the session
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    new: NewSession,
}

pub fn run(args: Args) -> Result<Exit> {
    // Before anything else, so that no signal can come between making a session and being able to end it.
    let signals = child::Signals::hold();
    let common = Common { json: false, session: None, server: args.new.server.clone() };
    let mut here = Here::open(&common)?;
    let program = args.command[0].to_string_lossy().into_owned();
    let name = Path::new(&program).file_name().map(|name| clean(&name.to_string_lossy(), 100));
    let resident = residence::resident(&mut here);
    let opened = opening::open(&mut here, &args.new, name)?;
    let session = Session::begin(&here, opened, resident.as_deref(), args.quiet)?;

    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    // The port rather than the socket: whatever runs in there may speak HTTP, but not over Unix sockets.
    let url = here.found.endpoints.last().map(ToString::to_string).unwrap_or_default();
    command.env("DIBS_URL", url).env("DIBS_TOKEN", session.opened.credential.token());
    command.env("DIBS_SESSION", &session.opened.session);

    let ending = signals.run(command);
    let (state, exit) = match &ending {
        Ok(Ending::Exited(0)) => (EndState::Completed, 0),
        Ok(Ending::Exited(code)) => (EndState::Failed, *code),
        Ok(Ending::Killed(signal)) => (state_of(*signal), 128u8.wrapping_add(*signal as u8)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (EndState::Failed, NOT_FOUND),
        Err(_) => (EndState::Failed, NOT_STARTED),
    };
    session.end(&mut here, state, args.quiet);
    if let Err(error) = ending {
        let sentence = format!("{} cannot be run: {error}", clean(&program, 300));
        return Err(Failure::new(Exit::Child(exit), sentence).into());
    }
    Ok(Exit::Child(exit))
}

/// Somebody stopped it, or it broke.
fn state_of(signal: i32) -> EndState {
    match signal {
        libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => EndState::Stopped,
        _ => EndState::Failed,
    }
}

/// The session while its command runs.
struct Session {
    opened: Opened,
    /// Dropped to stop the heart.
    beating: Sender<()>,
    heart: JoinHandle<Option<ClientError>>,
    /// The worktree's token file is this session's.
    _occupied: Option<Occupied>,
}

impl Session {
    fn begin(here: &Here, opened: Opened, resident: Option<&str>, quiet: bool) -> Result<Session> {
        let occupied = match resident {
            None => residence::occupy(here, &opened).unwrap_or_else(|error| {
                talk::say(&format!("the session is known only to the command's environment ({error:#})"));
                None
            }),
            Some(other) => {
                if !quiet {
                    talk::say(&format!(
                        "session {} works in this worktree too, so its token file stays; programs that lose their \
                         environment will act for that session",
                        clean(other, 200)
                    ));
                }
                None
            }
        };
        if !quiet {
            let who = talk::person(&opened.session, opened.name.as_deref());
            talk::say(&format!("session of {who} at {}", talk::ways(&here.found.endpoints)));
        }
        let client = here.client_as(Some(opened.credential.clone()), Limits::default())?;
        let (beating, stopped) = channel();
        let (session, repo) = (opened.session.clone(), here.repo.clone());
        let heart = std::thread::spawn(move || beat(client, &session, repo.as_ref(), &stopped));
        Ok(Session { opened, beating, heart, _occupied: occupied })
    }

    /// Ends the session and says what there is to say. The command's own end counts, so nothing here is an error.
    fn end(self, here: &mut Here, state: EndState, quiet: bool) {
        let Session { opened, beating, heart, _occupied } = self;
        drop(beating);
        let broken = heart.join().ok().flatten();
        let id = clean(&opened.session, 200);
        let client = here.client_as(Some(opened.credential.clone()), Limits::default());
        let ended = client.map(|mut client| client.end(&opened.session, &EndSession { state: Some(state) }));
        match (ended, broken) {
            (_, Some(error)) if error.code() == Some(Code::SessionEnded) => {
                talk::say(&format!("session {id} ended before the command did; what it held was released then"));
            }
            (Ok(Ok(ended)), _) if !quiet && ended.released_count > 0 => {
                let paths = ended.released_paths.iter().take(NAMED_MAX).map(|path| talk::key(path, None));
                let paths = paths.collect::<Vec<_>>().join(", ");
                let more = match ended.released_paths.len().saturating_sub(NAMED_MAX) {
                    0 => String::new(),
                    n => format!(" and {n} more"),
                };
                talk::say(&format!("session {id} ended; released {paths}{more}"));
            }
            (Ok(Ok(_)), _) => {}
            (Ok(Err(error)), _) => talk::say(&format!(
                "session {id} could not be ended ({}); the server ends it when it has been silent for too long",
                crate::cli::failure::sentence_of(&error)
            )),
            (Err(failure), _) => talk::say(&failure.sentence),
        }
        if let Some(repo) = &here.repo {
            residence::forget(repo, &opened.session);
            // Nobody is left who could hear of it later.
            let late = notices::collect(repo, &opened.session);
            if !quiet {
                notices::say(&late, &here.cwd);
            }
        }
    }
}

/// Keeps the session alive until it is told to stop; gives the last trouble, if it was still there then.
fn beat(mut client: Client, session: &str, repo: Option<&Repo>, stopped: &Receiver<()>) -> Option<ClientError> {
    let mut pause = BEAT_MIN;
    let mut trouble = None;
    loop {
        match stopped.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return trouble,
        }
        // Nothing is said meanwhile: the terminal belongs to the command.
        trouble = match client.heartbeat(session) {
            Ok(alive) => {
                if let Some(repo) = repo {
                    notices::leave(repo, session, &alive.notices);
                }
                pause = until_next(alive.expires_at, client.server_time());
                None
            }
            Err(error) => {
                pause = BEAT_MAX / 3;
                Some(error)
            }
        };
        if trouble.as_ref().is_some_and(|error| error.code() == Some(Code::SessionEnded)) {
            return trouble;
        }
    }
}

/// A third of the time that is left, so that a lost heartbeat or two do no harm.
fn until_next(expires: Time, now: Option<Time>) -> Duration {
    let now = now.unwrap_or_else(crate::cli::here::wall_clock);
    let left = Duration::from_millis(u64::try_from(expires.0 - now.0).unwrap_or(0));
    (left / 3).clamp(BEAT_MIN, BEAT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heart_beats_before_anything_runs_out() {
        let next = |ms| until_next(Time(ms), Some(Time(0)));
        assert_eq!(next(60_000), Duration::from_secs(10));
        assert_eq!(next(15_000), Duration::from_secs(5));
        assert_eq!(next(100), BEAT_MIN);
        assert_eq!(next(-5), BEAT_MIN);
        assert_eq!(next(i64::MAX), BEAT_MAX);
    }
}
