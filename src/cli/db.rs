//! `git-dibs db`: looks after the journal's file: a copy, a thorough look, a smaller file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::data_dir::DataDir;
use super::{Exit, talk};
use crate::journal::db;
use crate::local::data_dir;

/// Works on the journal's file; needs no server.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    data: DataDir,
    /// The repository's name, where the server's directory has several
    #[arg(long, value_name = "NAME", global = true)]
    repo: Option<String>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Copy it into a new file, as it is at one moment; also while a server uses it
    ///
    /// To go back to a copy, stop the server and put it in the place of journal.db, without the files beside that.
    Backup {
        /// The copy; must not be there yet
        file: PathBuf,
    },
    /// Read all of it and say what is there, or what is wrong; also while a server uses it
    Check {
        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give the room of dropped records back to the file system; not while a server uses it
    Compact,
}

pub fn run(args: Args) -> Result<Exit> {
    let dir = args.repo.iter().fold(args.data.find()?, |dir, name| dir.join(name));
    let path = std::path::absolute(data_dir::journal(&dir))?;
    match args.command {
        Command::Backup { file } => backup(&path, &file),
        Command::Check { json } => check(&path, json),
        Command::Compact => compact(&path),
    }
}

fn backup(path: &Path, to: &Path) -> Result<Exit> {
    db::backup(path, to)?;
    let copied = db::check(to).context("the copy cannot be read; make another one")?;
    talk::say(&format!("{} has everything up to record {}", to.display(), copied.head.0));
    Ok(Exit::Ok)
}

fn check(path: &Path, json: bool) -> Result<Exit> {
    let found = db::check(path)?;
    if json {
        let snapshot = found.snapshot.map(|seq| seq.0);
        let found =
            json!({ "oldest": found.oldest.0, "last": found.head.0, "records": found.records, "snapshot": snapshot });
        talk::document(found.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    let records = talk::count(usize::try_from(found.records)?, "record");
    let snapshot = found.snapshot.map_or_else(String::new, |seq| format!(" and a snapshot at {}", seq.0));
    talk::data(&format!("{} is whole: {records} up to {}{snapshot}\n", path.display(), found.head.0))?;
    Ok(Exit::Ok)
}

fn compact(path: &Path) -> Result<Exit> {
    let (before, after) = db::compact(path)?;
    talk::data(&format!("{} had {before} bytes and has {after}\n", path.display()))?;
    Ok(Exit::Ok)
}
