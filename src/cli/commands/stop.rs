//! `git-dibs stop`: stops the server of the repository.

use anyhow::Result;
use serde_json::json;

use super::install::repository;
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::local::autostart;
use crate::local::describe::NAME_MAX;
use crate::text::terminal::clean;

#[derive(clap::Args)]
pub struct Args {
    /// Print what was stopped as one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let repo = repository(args.json)?;
    let stopped = autostart::stop(&repo.common_dir);
    let stopped = stopped.map_err(|sentence| Failure::new(Exit::Error, sentence).for_program(args.json))?;
    if args.json {
        let document = match &stopped {
            Some(record) => json!({ "stopped": true, "pid": record.pid, "url": record.url }),
            None => json!({ "stopped": false }),
        };
        talk::document(document.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    match stopped {
        Some(record) => {
            let (names, pid) = (clean(&record.repositories.join(", "), NAME_MAX), record.pid);
            talk::say(&format!("stopped the server of {names}, process {pid}; what is held stays held"));
        }
        None => talk::say("no server runs for this repository"),
    }
    Ok(Exit::Ok)
}
