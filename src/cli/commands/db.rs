//! `git-dibs db`: backs up, checks, compacts and restores the journal's file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use crate::cli::data_dir::DataDir;
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::local::data_dir;
use crate::serve::upkeep::journal;

/// Works on the journal's file directly, so no server needs to run.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    data: DataDir,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Copy the journal to a new file; a server may use the journal meanwhile
    ///
    /// The copy is the journal at one moment; `git dibs db restore` puts it back.
    Backup {
        /// The new file; it must not exist yet
        file: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Read the whole journal and report what it contains, or what is damaged; a server may use it meanwhile
    Check {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace the journal by a backup; no server may use it meanwhile
    ///
    /// The journal that was there is kept beside the new one. What happened since the backup is undone: what was released is
    /// held again, and what was reserved is free. Fences and event numbers continue far above those that were used before.
    Restore {
        /// A file that `git dibs db backup` wrote
        file: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the file smaller by the space of deleted records; no server may use it meanwhile
    Compact {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args) -> Result<Exit> {
    let json = match args.command {
        Command::Backup { json, .. }
        | Command::Check { json }
        | Command::Restore { json, .. }
        | Command::Compact { json } => json,
    };
    let run = || -> Result<Exit> {
        let dir = args.data.find()?;
        let path = std::path::absolute(data_dir::journal(&dir))?;
        match args.command {
            Command::Backup { file, .. } => backup(&path, &file, json),
            Command::Check { .. } => check(&path, json),
            Command::Restore { file, .. } => restore(&dir, &file, json),
            Command::Compact { .. } => compact(&path, json),
        }
    };
    run().map_err(|error| Failure::of(error, json).into())
}

fn backup(path: &Path, to: &Path, json: bool) -> Result<Exit> {
    let last = journal::backup(path, to)?;
    if json {
        talk::document(json!({ "file": to.display().to_string(), "last": last.0 }).to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    talk::say(&format!("{} is a copy of the journal up to record {}", to.display(), last.0));
    Ok(Exit::Ok)
}

fn check(path: &Path, json: bool) -> Result<Exit> {
    let found = journal::check(path)?;
    if json {
        let snapshot = found.snapshot.map(|seq| seq.0);
        let report =
            json!({ "oldest": found.oldest.0, "last": found.head.0, "records": found.records, "snapshot": snapshot });
        talk::document(report.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    let records = talk::count(usize::try_from(found.records)?, "record");
    let snapshot = found.snapshot.map_or_else(String::new, |seq| format!(" and a snapshot at record {}", seq.0));
    let last = found.head.0;
    talk::data(&format!("{} is undamaged: {records}, the last is {last}{snapshot}\n", path.display()))?;
    Ok(Exit::Ok)
}

fn restore(dir: &Path, backup: &Path, json: bool) -> Result<Exit> {
    let restored = journal::restore(dir, backup)?;
    let replaced = restored.replaced.as_ref().map(|path| path.display().to_string());
    if json {
        let report = json!({ "lastKept": restored.kept.0, "next": restored.begins.0, "replaced": replaced });
        talk::document(report.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    let (kept, begins) = (restored.kept.0, restored.begins.0);
    talk::say(&format!("the journal is as it was after record {kept}; its numbers continue at {begins}"));
    if let Some(replaced) = replaced {
        talk::say(&format!("the journal that was there is now {replaced}"));
    }
    Ok(Exit::Ok)
}

fn compact(path: &Path, json: bool) -> Result<Exit> {
    let (before, after) = journal::compact(path)?;
    if json {
        talk::document(json!({ "bytesBefore": before, "bytesAfter": after }).to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    talk::data(&format!("{}: {before} bytes before, {after} bytes now\n", path.display()))?;
    Ok(Exit::Ok)
}
