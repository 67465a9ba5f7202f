//! `git-dibs install-commands`: links that run this program under other names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::rlock;
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};

#[derive(clap::Args)]
pub struct Args {
    /// A directory, best one that is in PATH
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print the links as one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let json = args.json;
    link(args).map_err(|error| Failure::of(error, json).into())
}

fn link(args: Args) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    if !args.dir.is_dir() {
        bail!("{} is not a directory; create it first, or name another", args.dir.display());
    }
    // Checks all names before it creates the first link: either all links are made or none.
    let mut missing = Vec::new();
    for name in rlock::NAMES {
        let link = args.dir.join(name);
        match (fs::read_link(&link), fs::symlink_metadata(&link)) {
            (Ok(target), _) if target == program => {}
            (Ok(target), _) if target.file_name() == program.file_name() => missing.push((link, true)),
            (_, Ok(_)) => {
                bail!(
                    "{} already exists and is not a link to git-dibs; move it, or name another directory",
                    link.display()
                )
            }
            (_, Err(_)) => missing.push((link, false)),
        }
    }
    for (link, is_old) in missing {
        if is_old {
            fs::remove_file(&link).with_context(|| format!("cannot replace {}", link.display()))?;
        }
        symlink(&program, &link).with_context(|| format!("cannot create the link {}", link.display()))?;
    }
    if args.json {
        let links = rlock::NAMES.map(|name| args.dir.join(name).display().to_string());
        talk::document(json!({ "links": links }).to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    let lines: String = rlock::NAMES.iter().map(|name| format!("{}\n", args.dir.join(name).display())).collect();
    talk::data(&lines)?;
    Ok(Exit::Ok)
}
