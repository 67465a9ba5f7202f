//! `git-dibs reserve`: reserve keys now, or fail.

use std::collections::HashSet;
use std::ffi::OsString;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context};
use crate::cli::failure::{Failure, plain_sentence_of, sentence_of};
use crate::cli::package::PackageArgs;
use crate::cli::{Exit, backoff, unpaused};
use crate::client::ClientError;
use crate::judge::{Standing, explain};
use crate::local::{Names, describe};
use crate::text::shell;
use crate::text::terminal::time_left;
use crate::wire::limits::WAIT_SECONDS_MAX;
use crate::wire::{self, Code, Mode};

/// The most conflicts that are listed; the others are counted.
pub(super) const LINES_MAX: usize = 20;

/// How to hold the keys.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct HoldArgs {
    /// For this many seconds, unless renewed [default: as long as the session makes calls, see --idle]
    #[arg(long, value_name = "SECONDS")]
    pub ttl: Option<i64>,
    /// How many seconds to hold it after the last call of the session [default: the timeout of a session, 30 minutes]
    #[arg(long, value_name = "SECONDS", conflicts_with = "ttl")]
    pub idle: Option<i64>,
    /// Hold it shared, together with other sessions that share it
    #[arg(long)]
    pub shared: bool,
    /// What for; other sessions see it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(clap::Args)]
pub struct Args {
    /// Files, directories (with a slash at the end), patterns, logical keys or URIs
    #[arg(value_name = "KEY", required_unless_present = "package")]
    keys: Vec<OsString>,
    #[command(flatten)]
    package: PackageArgs,
    #[command(flatten)]
    hold: HoldArgs,
    /// Wait in the queue, and until a pause ends, for up to this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=i64::from(WAIT_SECONDS_MAX)))]
    wait: Option<u32>,
    /// Try again this many times, after 100, 200, 400, 800 and then every 1000 ms
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: usize,
    /// Only if the key is still at this version
    #[arg(long, value_name = "N")]
    if_version: Option<i64>,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    let chosen = args.package.read(args.common.json)?;
    if let Some(chosen) = &chosen {
        chosen.validate_others(&mut context)?;
    }
    let package = chosen.map(|chosen| chosen.package);
    let names = match &package {
        Some(package) => package.names(),
        None => context.names(&args.keys)?,
    };
    let mut request = request(&names, &args.hold);
    request.wait_seconds = args.wait.map(i64::from);
    request.if_version = args.if_version;
    if let Some(package) = &package {
        request.file_path = None;
        request.file_paths = Some(names.texts());
        if args.hold.idle.is_none() && args.hold.ttl.is_none() {
            request.idle_seconds = Some(package.idle_seconds());
        }
        request.reason = request.reason.or(package.reason().map(Into::into));
    }
    let mut failures = 0;
    let end = Instant::now() + Duration::from_secs(args.wait.unwrap_or(0).into());
    let granted = loop {
        match attempt(&mut context, &session, &request) {
            Ok(granted) => break granted,
            // A pause refuses at once, also a request that may wait.
            Err(error)
                if error.code() == Some(Code::FeaturePaused)
                    && Instant::now() < end
                    && unpaused::wait_for_session(&mut context, &session, end)? =>
            {
                request.wait_seconds = Some(seconds_until(end));
            }
            Err(error) if failures < args.retries && is_temporary(&error) => {
                failures += 1;
                thread::sleep(backoff::pause(failures));
            }
            Err(error) if error.code() == Some(Code::FeaturePaused) && args.wait.is_some() => {
                return Err(still_paused(&context, &error).into());
            }
            Err(error) => {
                let line = package.as_ref().and_then(|package| package.line_of(&error));
                return Err(refused(&context, &error, &names, line).into());
            }
        }
    };
    print(&context, &granted)
}

/// The time left to wait, as the server takes it.
pub(super) fn seconds_until(end: Instant) -> i64 {
    let left = end.saturating_duration_since(Instant::now()).as_millis().div_ceil(1000);
    i64::try_from(left).unwrap_or(i64::MAX).min(i64::from(WAIT_SECONDS_MAX))
}

/// The body of the request.
pub(super) fn request(names: &Names, hold: &HoldArgs) -> wire::Reserve {
    let mut texts = names.texts();
    let (one, many) = if texts.len() == 1 { (texts.pop(), None) } else { (None, Some(texts)) };
    wire::Reserve {
        file_path: one,
        file_paths: many,
        ttl_seconds: hold.ttl,
        // A hold by hand does not expire while its session is at work.
        while_session: hold.ttl.is_none().then_some(true),
        idle_seconds: hold.idle,
        mode: hold.shared.then_some(Mode::Shared),
        reason: hold.reason.as_deref().map(Into::into),
        encoding: names.encoding(),
        ..wire::Reserve::default()
    }
}

/// Sends the request once.
pub(super) fn attempt(
    context: &mut Context,
    session: &str,
    request: &wire::Reserve,
) -> Result<Vec<wire::Reserved>, ClientError> {
    Ok(context.client.reserve(session, request)?.into_reservations())
}

pub(super) fn print(context: &Context, granted: &[wire::Reserved]) -> Result<Exit> {
    let line = |one: &wire::Reserved| {
        let shared = if one.mode == Mode::Shared { ", shared" } else { "" };
        let left = time_left(context.time_left(one.expires_at));
        format!("reserved {} for {left}{shared}\n", describe::key(&one.file_path, one.encoding))
    };
    context.print(&granted.iter().map(line).collect::<String>())?;
    Ok(Exit::Ok)
}

/// Whether the same request may succeed later.
fn is_temporary(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::TimedOut { .. }
        | ClientError::Garbage { .. }
        | ClientError::OtherUser { .. }
        | ClientError::Cancelled => false,
        ClientError::Refused { body, .. } => matches!(
            body.code,
            Code::ResourceLocked
                | Code::LockAcquisitionFailed
                | Code::PossibleDeadlock
                | Code::FeaturePaused
                | Code::QuotaExceeded
                | Code::Unavailable
        ),
    }
}

/// The wait was over before the pause was.
pub(super) fn still_paused(context: &Context, error: &ClientError) -> Failure {
    let sentence = format!(
        "the wait timed out and nothing was reserved: {}\nTo wait for the end of a pause: git dibs wait --unpaused FEATURE",
        sentence_of(error)
    );
    Failure { exit: Exit::TimedOut, ..context.failure_with(error, sentence) }
}

/// Why nothing was reserved, and what to do next. `line` says which line of a work package is the cause.
pub(super) fn refused(context: &Context, error: &ClientError, names: &Names, line: Option<String>) -> Failure {
    let ClientError::Refused { body, .. } = error else { return context.failure(error) };
    let conflicts = body.conflicts.as_deref().unwrap_or_default();
    let sentence = match body.code {
        Code::ResourceLocked | Code::LockAcquisitionFailed => {
            let paths: HashSet<&str> = conflicts.iter().map(|one| &*one.file_path).collect();
            let what = match paths.len() {
                1 => "another session holds it".to_owned(),
                n => format!("other sessions hold {n} of {}", names.count().max(n)),
            };
            let start =
                if body.code == Code::LockAcquisitionFailed { "the wait timed out and nothing" } else { "nothing" };
            let lines = explain::conflict_lines(conflicts, None, context.now(), LINES_MAX);
            format!(
                "{start} was reserved: {what}\n{lines}{}",
                explain::next_steps(words(context, conflicts), conflicts, Standing::Session)
            )
        }
        Code::PossibleDeadlock => {
            let mut text = "nothing was reserved, because this wait would never end:\n".to_owned();
            for step in body.cycle.iter().flatten() {
                let who = describe::session(&step.session, None);
                let (holds, wants) = (describe::key(&step.holds, None), describe::key(&step.wants, None));
                text.push_str(&format!("  {who} holds {holds} and wants {wants}\n"));
            }
            text + "Release a key that you hold, or ask for the one you want: git dibs request KEY --reason TEXT"
        }
        _ => match line {
            // A work package has no flags.
            Some(line) => format!("{} ({line})", plain_sentence_of(error)),
            None => sentence_of(error),
        },
    };
    context.failure_with(error, sentence)
}

/// The paths in conflict as they are typed in this directory, each once.
fn words(context: &Context, conflicts: &[wire::Conflict]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for conflict in conflicts {
        if let Some(word) = shell::word(&context.workspace.cwd.typed(&conflict.file_path))
            && !words.contains(&word)
        {
            words.push(word);
        }
    }
    words
}
