//! `git-dibs reserve` and `git-dibs wait`: take keys, now or as soon as they are free.

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::failure::{Failure, sentence_of};
use super::here::{Common, Here};
use super::names::Names;
use super::package::Package;
use super::{Exit, backoff, talk};
use crate::client::ClientError;
use crate::text::shell;
use crate::text::terminal::time_left;
use crate::wire::limits::WAIT_SECONDS_MAX;
use crate::wire::{self, Code, Mode, Time};

/// Conflicts named in the commands that are suggested.
const SUGGESTED_MAX: usize = 3;

/// What to hold, and how.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct Wanted {
    /// For how many seconds, unless renewed; the server has a default and a limit
    #[arg(long, value_name = "SECONDS")]
    pub ttl: Option<i64>,
    /// Hold it together with others who share it
    #[arg(long)]
    pub shared: bool,
    /// What for; others see it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Reserves keys, all of them or none.
#[derive(clap::Args)]
pub struct Args {
    /// Files, directories (with a slash at the end), patterns, logical keys or URIs
    #[arg(value_name = "KEY", required_unless_present = "package")]
    keys: Vec<OsString>,
    /// Reserve what a work package lists (YAML with locks: files, keys, ttl_minutes, reason); - reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    package: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    /// Wait in the queue for up to so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=i64::from(WAIT_SECONDS_MAX)))]
    wait: Option<u32>,
    /// Ask so many times more, after 100, 200, 400, 800 and then every 1000 ms
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: usize,
    /// Only if the key is still at this version
    #[arg(long, value_name = "N")]
    if_version: Option<i64>,
    #[command(flatten)]
    common: Common,
}

/// Waits for keys and takes them.
#[derive(clap::Args)]
pub struct WaitArgs {
    /// Files, directories (with a slash at the end), patterns, logical keys or URIs
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
    /// Give up after so many seconds; after 300 the place in the queue is a new one
    #[arg(long, value_name = "SECONDS", default_value_t = WAIT_SECONDS_MAX, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    let package = args.package.as_deref().map(|file| Package::read(file, args.common.json)).transpose()?;
    let names = match &package {
        Some(package) => package.names(),
        None => here.names(&args.keys)?,
    };
    let mut ask = asked(&names, &args.wanted);
    ask.wait_seconds = args.wait.map(i64::from);
    ask.if_version = args.if_version;
    if let Some(package) = &package {
        ask.file_path = None;
        ask.file_paths = Some(names.texts());
        ask.ttl_seconds = ask.ttl_seconds.or(package.ttl_seconds());
        ask.reason = ask.reason.or(package.reason().map(Into::into));
    }
    let mut failed = 0;
    let granted = loop {
        match attempt(&mut here, &session, &ask) {
            Ok(granted) => break granted,
            Err(error) if failed < args.retries && may_pass(&error) => {
                failed += 1;
                thread::sleep(backoff::pause(failed));
            }
            Err(error) => {
                let line = package.as_ref().and_then(|package| package.ttl_problem(&error));
                return Err(refused(&here, &error, &names, line).into());
            }
        }
    };
    tell(&here, &granted)
}

pub fn wait(args: WaitArgs) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    let names = here.names(&args.keys)?;
    let mut ask = asked(&names, &args.wanted);
    // A server that is not there from the beginning is told at once; one that goes away meanwhile may come back.
    say_what_for(&mut here, &session, &ask, &names, args.timeout)?;
    let end = Instant::now() + Duration::from_secs(args.timeout.into());
    let mut failed = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis().div_ceil(1000);
        ask.wait_seconds = Some(i64::try_from(left).unwrap_or(i64::MAX).clamp(1, i64::from(WAIT_SECONDS_MAX)));
        let error = match attempt(&mut here, &session, &ask) {
            Ok(granted) => return tell(&here, &granted),
            Err(error) => error,
        };
        let is_over = Instant::now() >= end;
        match (&error, error.code()) {
            (_, Some(Code::LockAcquisitionFailed)) if !is_over => failed = 0,
            (ClientError::Unreachable { .. }, _) | (_, Some(Code::Unavailable)) if !is_over => {
                failed += 1;
                thread::sleep(backoff::pause(failed));
            }
            _ => return Err(refused(&here, &error, &names, None).into()),
        }
    }
}

/// What was granted, whether one was asked for or several.
struct Granted(Vec<(String, Option<wire::Encoding>, Mode, Time)>);

fn asked(names: &Names, wanted: &Wanted) -> wire::Reserve {
    let mut texts = names.texts();
    let (one, many) = if texts.len() == 1 { (texts.pop(), None) } else { (None, Some(texts)) };
    wire::Reserve {
        file_path: one,
        file_paths: many,
        ttl_seconds: wanted.ttl,
        mode: wanted.shared.then_some(Mode::Shared),
        reason: wanted.reason.as_deref().map(Into::into),
        encoding: names.encoding(),
        ..wire::Reserve::default()
    }
}

fn attempt(here: &mut Here, session: &str, ask: &wire::Reserve) -> Result<Granted, ClientError> {
    let row = |one: wire::Reserved| (one.file_path, one.encoding, one.mode, one.expires_at);
    let reply = here.client.reserve(session, ask)?;
    Ok(Granted(reply.into_reservations().into_iter().map(row).collect()))
}

fn tell(here: &Here, granted: &Granted) -> Result<Exit> {
    let line = |(key, encoding, mode, until): &(String, Option<wire::Encoding>, Mode, Time)| {
        let shared = if *mode == Mode::Shared { ", shared" } else { "" };
        format!("reserved {} for {}{shared}\n", talk::key(key, *encoding), time_left(here.left(*until)))
    };
    here.tell(&granted.0.iter().map(line).collect::<String>())?;
    Ok(Exit::Ok)
}

/// Whether asking again could lead to something else.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::TimedOut { .. } | ClientError::Garbage { .. } => false,
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

/// Why nothing was reserved, and what to do next. `line` is what a work package has to do with it.
fn refused(here: &Here, error: &ClientError, names: &Names, line: Option<String>) -> Failure {
    let ClientError::Refused { body, .. } = error else { return here.failure(error) };
    let conflicts = body.conflicts.as_deref().unwrap_or_default();
    let sentence = match body.code {
        Code::ResourceLocked | Code::LockAcquisitionFailed => {
            let paths: std::collections::HashSet<&str> = conflicts.iter().map(|one| &*one.file_path).collect();
            let what = match paths.len() {
                1 => "it is held by somebody else".to_owned(),
                n => format!("{n} of {} are held by somebody else", names.len().max(n)),
            };
            let waited = if body.code == Code::LockAcquisitionFailed { "waited, and nothing" } else { "nothing" };
            let lines = talk::conflicts(conflicts, None, |until| here.left(until));
            format!("{waited} was reserved: {what}\n{lines}{}", next_step(here, conflicts))
        }
        Code::PossibleDeadlock => {
            let mut text = "nothing was reserved, because this wait would never end:\n".to_owned();
            for step in body.cycle.iter().flatten() {
                let (who, holds, wants) =
                    (talk::person(&step.session, None), talk::key(&step.holds, None), talk::key(&step.wants, None));
                text.push_str(&format!("  {who} holds {holds} and wants {wants}\n"));
            }
            text + "Release something you hold first, or ask for it: git dibs request KEY --reason TEXT"
        }
        _ => match line {
            Some(line) => format!("{} ({line})", sentence_of(error)),
            None => sentence_of(error),
        },
    };
    here.failure_saying(error, sentence)
}

fn next_step(here: &Here, conflicts: &[wire::Conflict]) -> String {
    let mut words: Vec<String> = Vec::new();
    for conflict in conflicts {
        if let Some(word) = shell::word(&here.cwd.typed(&conflict.file_path))
            && !words.contains(&word)
        {
            words.push(word);
        }
    }
    if words.len() > SUGGESTED_MAX {
        words.truncate(SUGGESTED_MAX);
        words.push("…".to_owned());
    }
    let words = words.join(" ");
    format!("Ask for it with: git dibs request {words} --reason TEXT — or wait for it: git dibs wait {words}")
}

/// Says whom we are about to wait for, so that a silent terminal is not a riddle.
fn say_what_for(
    here: &mut Here,
    session: &str,
    ask: &wire::Reserve,
    names: &Names,
    seconds: u32,
) -> Result<(), Failure> {
    let check =
        wire::Check { paths: Some(names.texts()), mode: ask.mode, encoding: ask.encoding, ..wire::Check::default() };
    let answer = here.client.check(Some(session), &check);
    let checked = here.heard(answer)?;
    if here.json {
        return Ok(());
    }
    if !checked.conflicts.is_empty() {
        let lines = talk::conflicts(&checked.conflicts, names.encoding(), |until| here.left(until));
        let limit = time_left(Duration::from_secs(seconds.into()));
        talk::say(&format!("waiting for up to {limit}:\n{}", lines.trim_end()));
    }
    here.tell_notices();
    Ok(())
}
