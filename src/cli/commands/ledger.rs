//! `git-dibs ledger`: prints where the ledger is, verifies it, and shares it between clones.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use crate::cli::data_dir::DataDir;
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::Repo;
use crate::local::{Cwd, Names, data_dir};
use crate::serve::upkeep::ledger;
use crate::text::terminal::clean;

/// Works on the ledger's directory directly, so no server needs to run.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    data: DataDir,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Read the whole ledger and check that no event is missing and that every tree matches the events
    Verify {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Push the ledger to a remote of this repository or to a URL, as refs/dibs/ledger
    Push {
        /// The name of a remote, or a URL
        remote: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch a shared ledger; the ledger that is written here stays as it is
    Fetch {
        /// The name of a remote, or a URL
        remote: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the ledger's directory, for git --git-dir; with keys, the path of each key in the ledger's tree
    ShowPath {
        /// Files, directories, patterns, logical keys or URIs
        #[arg(value_name = "KEY")]
        keys: Vec<OsString>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args) -> Result<Exit> {
    let json = match args.command {
        Command::Verify { json }
        | Command::Push { json, .. }
        | Command::Fetch { json, .. }
        | Command::ShowPath { json, .. } => json,
    };
    let run = || -> Result<Exit> {
        let path = std::path::absolute(data_dir::ledger(&args.data.find()?))?;
        match args.command {
            Command::Verify { .. } => verify(&path, json),
            Command::Push { remote, .. } => push(&path, &remote, json),
            Command::Fetch { remote, .. } => fetch(&path, &remote, json),
            Command::ShowPath { keys, .. } => show_path(&path, &keys, json),
        }
    };
    run().map_err(|error| Failure::of(error, json).into())
}

/// Where the ledger was copied from or to, for a program.
fn shared_document(remote: &str) -> Result<Exit> {
    talk::document(json!({ "remote": remote, "ref": ledger::SHARED }).to_string().as_bytes())?;
    Ok(Exit::Ok)
}

fn verify(path: &Path, json: bool) -> Result<Exit> {
    let found = ledger::verify(path)?;
    if json {
        let gaps: Vec<_> = found.gaps.iter().map(|(first, last)| json!({ "first": first, "last": last })).collect();
        let report = json!({ "commits": found.commits, "events": found.events, "last": found.last, "held": found.held, "missing": gaps });
        talk::document(report.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    let (commits, events) =
        (talk::count(found.commits as usize, "commit"), talk::count(found.events as usize, "event"));
    let held = talk::count(found.held, "reservation");
    talk::data(&format!("the ledger is undamaged: {events} in {commits}, the last is {}; {held} held\n", found.last))?;
    for (first, last) in &found.gaps {
        talk::say(&format!("the events {first} to {last} are missing, and the ledger says so itself"));
    }
    Ok(Exit::Ok)
}

fn push(path: &Path, remote: &str, json: bool) -> Result<Exit> {
    ledger::push(path, remote)?;
    if json {
        return shared_document(remote);
    }
    talk::say(&format!("pushed the ledger to {} of {}", ledger::SHARED, clean(remote, 200)));
    Ok(Exit::Ok)
}

fn fetch(path: &Path, remote: &str, json: bool) -> Result<Exit> {
    ledger::fetch(path, remote)?;
    if json {
        return shared_document(remote);
    }
    let (remote, shared) = (clean(remote, 200), ledger::SHARED);
    talk::say(&format!("fetched the ledger of {remote} into {shared} of {}", path.display()));
    Ok(Exit::Ok)
}

fn show_path(path: &Path, keys: &[OsString], json: bool) -> Result<Exit> {
    let repo = Repo::from_environment().ok();
    if json {
        let mut paths = serde_json::Map::new();
        if !keys.is_empty() {
            for key in Names::typed(&Cwd::of(repo.as_ref()), keys)?.texts() {
                let in_tree = ledger::path_in_tree(path, &key)?;
                paths.insert(key, json!(in_tree));
            }
        }
        let document = json!({ "ledger": path.display().to_string(), "paths": paths });
        talk::document(document.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    if keys.is_empty() {
        talk::data(&format!("{}\n", path.display()))?;
        return Ok(Exit::Ok);
    }
    for key in Names::typed(&Cwd::of(repo.as_ref()), keys)?.texts() {
        talk::data(&format!("{}\n", ledger::path_in_tree(path, &key)?))?;
    }
    Ok(Exit::Ok)
}
