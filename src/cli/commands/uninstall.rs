//! `git-dibs uninstall`: removes the git hooks from the current repository.

use anyhow::{Result, anyhow};

use super::install::{checked, print, print_json, repository};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::hook::install::{Report, uninstall};
use crate::local::autostart;
use crate::serve::upkeep::data;

#[derive(clap::Args)]
pub struct Args {
    /// Also delete everything git-dibs keeps in this repository: journal, history, secret, tokens and its dibs.* settings
    #[arg(long)]
    all: bool,
    /// Print what was done as one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let repo = repository(args.json)?;
    // First, because a running server refuses it, and then nothing is changed. A server that started by itself is stopped.
    if args.all && autostart::running(&repo.common_dir).is_some_and(|record| record.background) {
        autostart::stop(&repo.common_dir).map_err(|sentence| Failure::of(anyhow!(sentence), args.json))?;
    }
    let removed = match args.all {
        true => data::remove(&repo).map_err(|error| Failure::of(error, args.json))?,
        false => Vec::new(),
    };
    let mut report = checked(uninstall(&repo), args.json)?;
    report.done.extend(removed);
    if args.json {
        return print_json(&report);
    }
    print(&report)?;
    if report == Report::default() {
        talk::say("no git-dibs hooks are installed here");
    }
    Ok(Exit::Ok)
}
