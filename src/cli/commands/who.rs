//! `git-dibs who`: who holds a key now.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::status;
use crate::cli::context::{Context, ServerArgs};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::Repo;
use crate::judge::explain;
use crate::local::{Cwd, Names, data_dir, describe};
use crate::serve::upkeep;
use crate::wire::{self, Encoding};

/// The most holders that are listed; the others are counted.
const LINES_MAX: usize = 20;

#[derive(clap::Args)]
pub struct Args {
    /// A file, directory (with a slash at the end), pattern, logical key or URI; without one, everything that is held, as
    /// git dibs status shows it
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// Print the reply as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let Some(path) = &args.path else {
        return status::run(status::Args::of_all(args.server, args.json));
    };
    match ask(&args, path) {
        Ok((context, reply, encoding)) => {
            let lines = explain::conflict_lines(&reply.conflicts, encoding, context.now(), LINES_MAX);
            context.print(&lines.lines().map(|line| format!("{}\n", line.trim_start())).collect::<String>())?;
            if reply.conflicts.is_empty() && !args.json {
                talk::say("no session holds it");
            }
            Ok(Exit::Ok)
        }
        Err(failure) => {
            let ledger = Repo::from_environment().ok().map(|repo| (data_dir::ledger(&data_dir::dibs_dir(&repo)), repo));
            match ledger {
                Some((ledger, repo)) if failure.exit == Exit::Unreachable && ledger.exists() => {
                    without_server(&args, path, &ledger, &repo)
                }
                _ => Err(failure.into()),
            }
        }
    }
}

fn ask(args: &Args, path: &OsString) -> Result<(Context, wire::CheckReply, Option<Encoding>), Failure> {
    let mut context = Context::open_for_history(&args.server, args.json)?;
    let names = context.names(std::slice::from_ref(path))?;
    let question = wire::Check { paths: Some(names.texts()), encoding: names.encoding(), ..wire::Check::default() };
    // Without a session every holder is a conflict, the caller's own session too.
    let reply = context.look(|client, _| client.check(None, &question))?;
    Ok((context, reply, question.encoding))
}

/// Reads the ledger of this repository.
fn without_server(args: &Args, path: &OsString, ledger: &Path, repo: &Repo) -> Result<Exit> {
    let names = Names::typed(&Cwd::of(Some(repo)), std::slice::from_ref(path))?;
    names.notes().for_each(|note| talk::say(&note));
    let text = names.texts().pop().unwrap_or_default();
    let holders = upkeep::ledger::holders(ledger, &text, names.encoding() == Some(Encoding::Percent))?;
    talk::say("no server answers; this is what the ledger in this repository says");
    if args.json {
        talk::document(json!({ "holders": holders }).to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    for held in &holders {
        let who = describe::session(held.session.as_str(), held.name.as_deref());
        let reason = describe::colon_reason(held.reason.as_deref());
        talk::data(&format!("{}: held by {who}{reason}\n", describe::key(&held.key.shown(), None)))?;
    }
    if holders.is_empty() {
        talk::say("no session holds it");
    }
    Ok(Exit::Ok)
}
