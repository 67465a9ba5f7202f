//! `git-dibs uninstall`: removes the git hooks from the current repository.

use anyhow::Result;

use super::install::{checked, print, print_json, repository};
use crate::cli::{Exit, talk};
use crate::hook::install::{Report, uninstall};

#[derive(clap::Args)]
pub struct Args {
    /// Print what was done as one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let repo = repository(args.json)?;
    let report = checked(uninstall(&repo), args.json)?;
    if args.json {
        return print_json(&report);
    }
    print(&report)?;
    if report == Report::default() {
        talk::say("no git-dibs hooks are installed here");
    }
    Ok(Exit::Ok)
}
