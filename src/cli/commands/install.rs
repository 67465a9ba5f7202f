//! `git-dibs install`: installs the git hooks in the current repository.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::cli::context::{Context, ServerArgs};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::{GitError, Repo};
use crate::hook::install::{self, InstallError, Report, Wish, stable_program};
use crate::local::lfs::LfsAddress;

#[derive(clap::Args)]
pub struct Args {
    /// Also check every ref update, so that update-ref and fast-import are blocked too
    #[arg(long, conflicts_with = "server")]
    strict: bool,
    /// The repository receives pushes: install pre-receive instead
    #[arg(long)]
    server: bool,
    /// Also make git lfs lock at the server: lfs.url, lfs.locksverify and a credential helper for this clone
    #[arg(long, conflicts_with = "server")]
    lfs: bool,
    /// Print what was done as one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let repo = repository(args.json)?;
    let wish = Wish { program: program()?, strict: args.strict, server: args.server, dry_run: false };
    // First, because without a server there is no address to write, and then nothing is changed.
    let server = if args.lfs { Some(lfs_server(args.json)?) } else { None };
    let mut report = checked(install::install(&repo, &wish), args.json)?;
    if let Some(server) = server {
        let written = install::lfs::install(&repo, &wish.program, &server, &mut report);
        checked(written.map(|()| Report::default()).map_err(InstallError::from), args.json)?;
    }
    if args.json {
        return print_json(&report);
    }
    print(&report)?;
    match (report.done.is_empty(), report.by_hand.is_empty()) {
        (true, true) => talk::say("the hooks are installed already"),
        (_, true) => talk::say("the hooks are installed; test them with: git dibs doctor"),
        (_, false) => talk::say("what is printed above is left to you; test the hooks with: git dibs doctor"),
    }
    Ok(Exit::Ok)
}

/// The path of this program that the hooks run.
pub(super) fn program() -> Result<PathBuf> {
    let running = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(stable_program(&running, std::env::var_os("PATH").as_deref()))
}

/// The server as Git LFS addresses it. It is started if none runs, because it is only then known where it listens.
fn lfs_server(json: bool) -> Result<LfsAddress, Failure> {
    let mut context = Context::open_without_session(&ServerArgs::default(), json)?;
    let result = context.client.health();
    context.checked(result)?;
    let context = Context::open_without_session(&ServerArgs::default(), json)?;
    LfsAddress::of(&context.access).ok_or_else(|| {
        let sentence = "the server listens only on a socket, which Git LFS cannot use; start it with: git dibs serve \
                        --listen 127.0.0.1:3427";
        Failure::new(Exit::Unreachable, sentence).for_program(json)
    })
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

pub(super) fn checked<T>(result: Result<T, InstallError>, json: bool) -> Result<T, Failure> {
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
