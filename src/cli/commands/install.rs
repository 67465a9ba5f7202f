//! `git-dibs install`: installs the git hooks in the current repository.

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::{GitError, Repo};
use crate::hook::install::{self, InstallError, Report, Wish, stable_program};

#[derive(clap::Args)]
pub struct Args {
    /// Also check every ref update, so that update-ref and fast-import are blocked too
    #[arg(long, conflicts_with = "server")]
    strict: bool,
    /// The repository receives pushes: install pre-receive instead
    #[arg(long)]
    server: bool,
    /// Print what was done as one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let repo = repository(args.json)?;
    let running = std::env::current_exe().context("cannot find the path of this program")?;
    let program = stable_program(&running, std::env::var_os("PATH").as_deref());
    let wish = Wish { program, strict: args.strict, server: args.server };
    let report = checked(install::install(&repo, &wish), args.json)?;
    if args.json {
        return print_json(&report);
    }
    print(&report)?;
    match (report.done.is_empty(), report.by_hand.is_empty()) {
        (true, true) => talk::say("the hooks are installed already"),
        (_, true) => talk::say("the hooks are installed; test them with: git dibs doctor"),
        (_, false) => talk::say("do the steps above yourself, then test the hooks with: git dibs doctor"),
    }
    Ok(Exit::Ok)
}

pub(super) fn repository(json: bool) -> Result<Repo, Failure> {
    Repo::from_environment().map_err(|error| {
        let sentence = match &error {
            GitError::Failed { said, .. } if said.contains("not a git repository") => {
                "there is no repository here; go into one".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::new(Exit::Error, sentence).for_program_as(json, "NO_REPOSITORY")
    })
}

pub(super) fn checked(result: Result<Report, InstallError>, json: bool) -> Result<Report, Failure> {
    result.map_err(|error| Failure::new(Exit::Error, error.to_string()).for_program_as(json, "NOT_INSTALLED"))
}

pub(super) fn print_json(report: &Report) -> Result<Exit> {
    talk::document(json!({ "done": report.done, "byHand": report.by_hand }).to_string().as_bytes())?;
    Ok(Exit::Ok)
}

pub(super) fn print(report: &Report) -> std::io::Result<()> {
    let mut text = String::new();
    for line in report.done.iter().chain(&report.by_hand) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    talk::data(&text)
}
