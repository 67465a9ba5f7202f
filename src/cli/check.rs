//! `git-dibs check`: what is in the way of a change, before it is made.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::failure::Failure;
use super::here::{Common, Here};
use super::names::{Names, listed};
use super::package::Package;
use super::{Exit, talk};
use crate::git::{GitError, Repo, changed, range};
use crate::wire::{self, Mode};

/// Says who holds what would be changed.
#[derive(clap::Args)]
pub struct Args {
    /// Files, directories (with a slash at the end), patterns, logical keys or URIs
    #[arg(value_name = "KEY", required_unless_present = "from")]
    keys: Vec<OsString>,
    #[command(flatten)]
    from: From,
    /// Paths on stdin end with NUL bytes, as git prints them with -z, instead of line feeds
    #[arg(short = 'z', requires = "stdin")]
    nul: bool,
    /// Check for holding it together with others who share it
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    common: Common,
}

/// Where names come from, if they are not typed.
#[derive(clap::Args)]
#[group(id = "from", multiple = false, conflicts_with = "keys")]
struct From {
    /// Check what is staged, as a commit would
    #[arg(long)]
    staged: bool,
    /// Check paths from stdin, each as git names it from the top of the repository
    #[arg(long)]
    stdin: bool,
    /// Check what the commits of a range change, such as origin/main..HEAD
    #[arg(long, value_name = "A..B")]
    range: Option<String>,
    /// Validate a work package and check what it lists; - reads stdin
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<Exit> {
    // A package is read before anybody is asked: what is wrong with it does not depend on a server.
    let package = args.from.package.as_deref().map(|file| Package::read(file, args.common.json)).transpose()?;
    let mut here = Here::open(&args.common)?;
    let names = match &package {
        Some(package) => package.names(),
        None => names(&here, &args)?,
    };
    let ask = wire::Check {
        paths: Some(names.texts()),
        mode: args.shared.then_some(Mode::Shared),
        encoding: names.encoding(),
        ..wire::Check::default()
    };
    let session = here.found.session.clone();
    let answer = here.client.check(session.as_deref(), &ask);
    let checked = here.heard(answer)?;
    let mut text = String::new();
    for line in talk::conflicts(&checked.conflicts, ask.encoding, |until| here.left(until)).lines() {
        text.push_str(line.trim_start());
        text.push('\n');
    }
    here.tell(&text)?;
    if !here.json {
        if let Some(pause) = &checked.paused {
            talk::say(&talk::paused(pause, |until| here.left(until)));
        }
        talk::say(&summary(names.len(), &checked));
    }
    Ok(if checked.conflicts.is_empty() && checked.paused.is_none() { Exit::Ok } else { Exit::Conflict })
}

fn names(here: &Here, args: &Args) -> Result<Names> {
    let repo = || -> Result<&Repo, Failure> {
        here.repo.as_ref().ok_or_else(|| Failure::new(Exit::Error, "there is no repository here to look at"))
    };
    let failed = |error: GitError| Failure::new(Exit::Error, error.to_string());
    if args.from.staged {
        let repo = repo()?;
        return Ok(Names::from_git(changed::staged_merge(repo, &changed::merge_heads(repo)).map_err(failed)?));
    }
    if let Some(range) = &args.from.range {
        return Ok(Names::from_git(range::written(repo()?, range).map_err(failed)?));
    }
    if args.from.stdin {
        let mut input = Vec::new();
        std::io::stdin().read_to_end(&mut input).context("cannot read the paths on stdin")?;
        return Ok(Names::from_git(listed(&input, if args.nul { 0 } else { b'\n' })));
    }
    Ok(here.names(&args.keys)?)
}

fn summary(asked: usize, checked: &wire::CheckReply) -> String {
    let clear = checked.clear.len();
    let yours = match checked.held.len() {
        0 => String::new(),
        n => format!(", {n} of them yours"),
    };
    match (asked, clear) {
        (0, _) => "there is nothing to check".to_owned(),
        (asked, clear) if asked == clear => format!("{} clear{yours}", talk::count(asked, "path")),
        (asked, clear) => {
            let taken = asked - clear;
            let verb = if taken == 1 { "is" } else { "are" };
            format!("{taken} of {} {verb} held by somebody else, {clear} clear{yours}", talk::count(asked, "path"))
        }
    }
}
