//! `git-dibs who`: who holds a key now.

use std::ffi::OsString;

use anyhow::Result;
use serde_json::json;

use crate::cli::here::{Common, Here, ServerArgs};
use crate::cli::{Exit, talk};
use crate::git::Repo;
use crate::local::{Cwd, Names, data_dir};
use crate::serve::history;
use crate::wire::{self, Encoding};

/// Shows who holds a key, directly or through a pattern.
#[derive(clap::Args)]
pub struct Args {
    /// A file, directory (with a slash at the end), pattern, logical key or URI
    #[arg(value_name = "PATH")]
    path: OsString,
    /// Print the answer as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let common = Common { json: args.json, session: None, server: args.server.clone() };
    let asked = Here::open(&common).and_then(|mut here| {
        let names = here.names(std::slice::from_ref(&args.path))?;
        let ask = wire::Check { paths: Some(names.texts()), encoding: names.encoding(), ..wire::Check::default() };
        // As nobody: whoever holds it is told, also where that is oneself.
        let answer = here.client.check(None, &ask);
        let checked = here.heard(answer)?;
        Ok((here, checked, ask.encoding))
    });
    match asked {
        Ok((here, checked, encoding)) => {
            let lines = talk::conflicts(&checked.conflicts, encoding, |until| here.left(until));
            here.tell(&lines.lines().map(|line| format!("{}\n", line.trim_start())).collect::<String>())?;
            if checked.conflicts.is_empty() && !args.json {
                talk::say("nobody holds it");
            }
            Ok(Exit::Ok)
        }
        Err(failure) => {
            let ledger = Repo::from_environment().ok().map(|repo| (data_dir::ledger(&data_dir::dibs_dir(&repo)), repo));
            match ledger {
                Some((path, repo)) if failure.exit == Exit::Unreachable && path.exists() => {
                    without_server(&args, &path, &repo)
                }
                _ => Err(failure.into()),
            }
        }
    }
}

fn without_server(args: &Args, path: &std::path::Path, repo: &Repo) -> Result<Exit> {
    let names = Names::typed(&Cwd::of(Some(repo)), std::slice::from_ref(&args.path))?;
    let text = names.texts().pop().unwrap_or_default();
    let held = history::holders(path, &text, names.encoding() == Some(Encoding::Percent))?;
    talk::say("no server answers; this is what the ledger here tells");
    if args.json {
        talk::document(json!({ "holders": held }).to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    for held in &held {
        let who = talk::person(held.session.as_str(), held.name.as_deref());
        let why = talk::because(held.reason.as_deref());
        talk::data(&format!("{}: held by {who}{why}\n", talk::key(&held.key.shown(), None)))?;
    }
    if held.is_empty() {
        talk::say("nobody holds it");
    }
    Ok(Exit::Ok)
}
