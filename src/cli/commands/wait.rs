//! `git-dibs wait`: wait until keys are free, and reserve them.

use std::ffi::OsString;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::pause::pause_key;
use super::reserve::{HoldArgs, LINES_MAX, attempt, print, refused, request, seconds_until, still_paused};
use crate::cli::context::{CommonArgs, Context};
use crate::cli::failure::Failure;
use crate::cli::{Exit, backoff, talk, unpaused};
use crate::client::ClientError;
use crate::judge::explain;
use crate::key::{Key, KeyRules};
use crate::local::{Names, describe};
use crate::text::terminal::{clean, time_left};
use crate::wire::limits::WAIT_SECONDS_MAX;
use crate::wire::{self, Code};

#[derive(clap::Args)]
pub struct Args {
    /// Files, directories (with a slash at the end), patterns, logical keys or URIs
    #[arg(value_name = "KEY", required_unless_present = "unpaused")]
    keys: Vec<OsString>,
    /// Wait until this feature is not paused, and reserve nothing
    #[arg(long, value_name = "FEATURE", conflicts_with_all = ["keys", "ttl", "idle", "shared", "reason"])]
    unpaused: Option<String>,
    /// Give up after this many seconds; beyond 300, the request goes to the end of the queue every 300 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = WAIT_SECONDS_MAX, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    #[command(flatten)]
    hold: HoldArgs,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let end = Instant::now() + Duration::from_secs(args.timeout.into());
    if let Some(feature) = &args.unpaused {
        return wait_unpaused(&mut context, feature, end);
    }
    let session = context.session()?;
    let names = context.names(&args.keys)?;
    let mut request = request(&names, &args.hold);
    // If no server answers at the start, the command fails at once. A server that goes away later may come back.
    show_holders(&mut context, &session, &request, &names, args.timeout)?;
    let mut failures = 0;
    loop {
        request.wait_seconds = Some(seconds_until(end).max(1));
        let error = match attempt(&mut context, &session, &request) {
            Ok(granted) => return print(&context, &granted),
            Err(error) => error,
        };
        let is_over = Instant::now() >= end;
        match (&error, error.code()) {
            (_, Some(Code::LockAcquisitionFailed)) if !is_over => failures = 0,
            (_, Some(Code::FeaturePaused)) if !is_over && unpaused::wait_for_session(&mut context, &session, end)? => {}
            (ClientError::Unreachable { .. }, _) | (_, Some(Code::Unavailable)) if !is_over => {
                failures += 1;
                thread::sleep(backoff::pause(failures));
            }
            (_, Some(Code::FeaturePaused)) => return Err(still_paused(&context, &error).into()),
            _ => return Err(refused(&context, &error, &names, None).into()),
        }
    }
}

/// Waits until no session pauses the feature.
fn wait_unpaused(context: &mut Context, feature: &str, end: Instant) -> Result<Exit> {
    let key = pause_key(feature);
    // What cannot be paused would never be seen as paused.
    if let Err(error) = Key::parse(&key, &KeyRules::any_configuration(&key)) {
        return Err(Failure::usage(error.to_string()).for_program(context.json).into());
    }
    let shown = clean(feature, 200);
    let by = |one: &wire::Reservation| {
        let why = one.reason.as_ref().map(|reason| format!(" ({})", clean(reason, 200))).unwrap_or_default();
        format!("feature {shown} is paused by {}{why}", describe::session(&one.session_id, one.session_name.as_deref()))
    };
    let tell = |context: &Context, one: &wire::Reservation| {
        if !context.json {
            talk::say(&format!("{}; waiting", by(one)));
        }
    };
    match unpaused::wait_for_key(context, &key, end, tell)? {
        None => {
            context.print(&format!("feature {shown} is not paused\n"))?;
            Ok(Exit::Ok)
        }
        Some(holder) => {
            let sentence = format!("the wait timed out: {}", by(&holder));
            Err(Failure::new(Exit::TimedOut, sentence).for_program_as(context.json, "FEATURE_PAUSED").into())
        }
    }
}

/// Shows which sessions the command is about to wait for.
fn show_holders(
    context: &mut Context,
    session: &str,
    request: &wire::Reserve,
    names: &Names,
    seconds: u32,
) -> Result<(), Failure> {
    let question = wire::Check {
        paths: Some(names.texts()),
        mode: request.mode,
        encoding: request.encoding,
        ..wire::Check::default()
    };
    let result = context.client.check(Some(session), &question);
    let reply = context.checked(result)?;
    if context.json {
        return Ok(());
    }
    if !reply.conflicts.is_empty() {
        let lines = explain::conflict_lines(&reply.conflicts, names.encoding(), context.now(), LINES_MAX);
        let limit = time_left(Duration::from_secs(seconds.into()));
        talk::say(&format!("waiting for up to {limit}:\n{}", lines.trim_end()));
    }
    context.print_notices();
    Ok(())
}
