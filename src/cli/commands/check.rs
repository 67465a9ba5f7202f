//! `git-dibs check`: what is in the way of a change, before it is made.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::cli::context::{CommonArgs, Context};
use crate::cli::failure::{Failure, sentence_of};
use crate::cli::package::{Package, PackageArgs};
use crate::cli::{Exit, talk};
use crate::git::changed::Change;
use crate::git::{self, GitError, Repo};
use crate::hook::collect::{Collected, Plan};
use crate::hook::excuse::Helpers;
use crate::hook::{Moment, WAIT_MAX};
use crate::judge::{self, CheckPolicy, Objections, explain};
use crate::local::{Names, describe, split_paths};
use crate::text::terminal;
use crate::wire::{self, Encoding, Mode};

/// The most conflicts that are listed; the others are counted.
const LINES_MAX: usize = 20;

#[derive(clap::Args)]
pub struct Args {
    /// Files, directories (with a slash at the end), patterns, logical keys or URIs [default: what is staged]
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
    #[command(flatten)]
    from: From,
    /// Paths on stdin end with NUL bytes, as git prints them with -z, instead of line feeds
    #[arg(short = 'z', requires = "stdin")]
    nul: bool,
    /// The package that is meant, where the file lists several
    #[arg(long, value_name = "NAME", requires = "package")]
    name: Option<String>,
    /// Check whether you could hold it shared, together with other sessions that share it
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// Where the paths come from if they are not arguments.
#[derive(clap::Args)]
#[group(id = "from", multiple = false, conflicts_with = "keys")]
struct From {
    /// Check what is staged, as the hook of a commit does
    #[arg(long)]
    staged: bool,
    /// Check paths from stdin, written as git writes them, from the top of the repository
    #[arg(long)]
    stdin: bool,
    /// Check what the commits of a range change, such as origin/main..HEAD, as the hook of a push does
    #[arg(long, value_name = "A..B")]
    range: Option<String>,
    /// Validate a work package and check what it lists; - reads stdin
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<Exit> {
    // The package is read before the server is asked: its mistakes do not depend on a server.
    let from = PackageArgs { package: args.from.package.clone(), name: args.name.clone() };
    let chosen = from.read(args.common.json)?;
    let mut context = Context::open(&args.common)?;
    if let Some(chosen) = &chosen {
        chosen.validate_others(&mut context)?;
    }
    let package = chosen.map(|chosen| chosen.package);
    if let Some((moment, collected)) = change(&context, &args)? {
        return check_change(&mut context, &args, moment, &collected);
    }
    let names = match &package {
        Some(package) => package.names(),
        None if args.from.stdin => names_on_stdin(args.nul)?,
        None => context.names(&args.keys)?,
    };
    check_keys(&mut context, &args, &names, package.as_ref())
}

/// The change that `--staged` or `--range` means, and the hook that would check it.
fn change(context: &Context, args: &Args) -> Result<Option<(Moment, Collected)>, Failure> {
    let repo = || -> Result<&Repo, Failure> {
        let repo = context.workspace.repo.as_ref();
        repo.ok_or_else(|| Failure::new(Exit::Error, "there is no repository here").for_program(context.json))
    };
    let failed = |error: GitError| Failure::new(Exit::Error, error.to_string()).for_program(context.json);
    let is_bare = args.keys.is_empty() && !args.from.stdin && args.from.range.is_none() && args.from.package.is_none();
    if args.from.staged || is_bare {
        let repo = repo()?;
        let collected = Plan::staged(repo).collect(repo).map_err(failed)?;
        return Ok(Some((Moment::PreCommit, collected)));
    }
    match &args.from.range {
        Some(range) => Ok(Some((Moment::PrePush, Collected::in_range(repo()?, range).map_err(failed)?))),
        None => Ok(None),
    }
}

/// Checks a change as its hook would: with the same question, the same settings, and undone paths left out.
fn check_change(context: &mut Context, args: &Args, moment: Moment, collected: &Collected) -> Result<Exit> {
    let paths = collected.paths();
    let deadline = Instant::now() + WAIT_MAX;
    let mut requests = 0;
    let reply = judge::in_pieces(&paths, deadline, |piece, _| {
        requests += 1;
        let mut question = judge::question(piece);
        if args.shared {
            (question.mode, question.intent) = (Some(Mode::Shared), None);
        }
        context.look(|client, session| client.check(session, &question))
    })?;
    // The client remembers the latest reply, which is all of it if there was one request.
    let is_whole = requests <= 1;
    let cut_short = reply.cut_short.clone();
    let document = if is_whole { context.client.latest_body().to_vec() } else { serde_json::to_vec(&reply)? };
    let session = context.access.session.clone();
    let policy = CheckPolicy::read(&moment.occasion(), &context.workspace.environment, &context.workspace.settings);
    let committed = |contents: &[Change]| judge::committed_by_holder(&context.access, contents, deadline);
    let helpers = Helpers { committed_by_holder: &committed, deadline };
    let excused = |suspects: &[git::Path]| -> HashSet<git::Path> {
        let repo = context.workspace.repo.as_ref();
        let excused = repo.and_then(|repo| collected.excused(repo, &policy, suspects, helpers).ok());
        excused.unwrap_or_default().paths
    };
    let held = reply.held.len();
    let now = reply.server_time.unwrap_or_else(|| context.now());
    let objections = Objections::find(&policy, &paths, session.as_deref(), reply, now, excused);
    if context.json && !(is_whole && objections.excused.is_empty()) {
        talk::document(without_excused(&document, &objections.excused).to_string().as_bytes())?;
        context.print_notices();
    } else {
        context.print(&lines(&objections.conflicts, Some(Encoding::Percent), context))?;
    }
    if !context.json {
        for path in &objections.unreserved {
            talk::say(&format!("{} is not reserved, and {} requires it", terminal::path(path), policy.require.source));
        }
        let total = paths.len();
        report(context, &objections, total, objections.conflicting_paths().len(), held);
    }
    match cut_short {
        Some(why) if objections.is_empty() => {
            Err(Failure::new(Exit::Unreachable, why).for_program(context.json).into())
        }
        _ => Ok(if objections.is_empty() { Exit::Ok } else { Exit::Conflict }),
    }
}

/// Checks whether keys could be reserved.
fn check_keys(context: &mut Context, args: &Args, names: &Names, package: Option<&Package>) -> Result<Exit> {
    let mode = args.shared.then_some(Mode::Shared);
    let question = match package {
        Some(package) => package.question(mode),
        None => {
            let (paths, encoding) = (Some(names.texts()), names.encoding());
            wire::Check { paths, mode, encoding, ..wire::Check::default() }
        }
    };
    let result = context.try_look(|client, session| client.check(session, &question))?;
    let reply = result.map_err(|error| match package.and_then(|package| package.line_of(&error)) {
        Some(line) => context.failure_with(&error, format!("{} ({line})", sentence_of(&error))),
        None => context.failure(&error),
    })?;
    context.print(&lines(&reply.conflicts, question.encoding, context))?;
    let (held, taken) = (reply.held.len(), names.count().saturating_sub(reply.clear.len()));
    let objections =
        Objections { conflicts: reply.conflicts, paused: reply.paused, now: context.now(), ..Objections::default() };
    if !context.json {
        report(context, &objections, names.count(), taken, held);
    }
    Ok(if objections.is_empty() { Exit::Ok } else { Exit::Conflict })
}

fn names_on_stdin(nul: bool) -> Result<Names> {
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).context("cannot read the paths on stdin")?;
    Ok(Names::from_git(split_paths(&input, if nul { 0 } else { b'\n' })))
}

fn lines(conflicts: &[wire::Conflict], encoding: Option<wire::Encoding>, context: &Context) -> String {
    let lines = explain::conflict_lines(conflicts, encoding, context.now(), LINES_MAX);
    lines.lines().map(|line| format!("{}\n", line.trim_start())).collect()
}

/// The server's reply with the undone paths moved from the conflicts to the clear ones.
fn without_excused(reply: &[u8], undone: &HashSet<git::Path>) -> Value {
    let mut reply: Value = serde_json::from_slice(reply).unwrap_or_default();
    let mut clear: Vec<Value> = reply["clear"].as_array().cloned().unwrap_or_default();
    if let Some(conflicts) = reply["conflicts"].as_array_mut() {
        conflicts.retain(|conflict| {
            let name = conflict["filePath"].as_str().unwrap_or_default();
            let counts = !undone.contains(&judge::path_of(name));
            if !counts && !clear.contains(&conflict["filePath"]) {
                clear.push(conflict["filePath"].clone());
            }
            counts
        });
    }
    reply["clear"] = json!(clear);
    reply
}

/// Says what is paused, and how many paths are free.
fn report(context: &Context, objections: &Objections, total: usize, taken: usize, held: usize) {
    if let Some(pause) = &objections.paused {
        talk::say(&explain::pause_sentence(pause, context.now()));
    }
    talk::say(&summary(total, taken, objections.excused.len(), held));
}

fn summary(total: usize, taken: usize, undone: usize, held: usize) -> String {
    let yours = if held == 0 { String::new() } else { format!(", {held} of them yours") };
    let undone = if undone == 0 { String::new() } else { format!(", {undone} only undoing a change") };
    match (total, taken) {
        (0, _) => "there is nothing to check".to_owned(),
        (total, 0) => format!("{} clear{yours}{undone}", describe::count(total, "path")),
        (total, taken) => {
            let verb = if taken == 1 { "is held by another session" } else { "are held by other sessions" };
            format!("{taken} of {} {verb}, {} clear{yours}{undone}", describe::count(total, "path"), total - taken)
        }
    }
}
