//! `git-dibs release` and `git-dibs renew`: let go, or hold on.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;

use super::here::{Common, Here};
use super::package::Package;
use super::{Exit, talk};
use crate::text::terminal::time_left;
use crate::wire;

/// Lets go of what the session holds.
#[derive(clap::Args)]
pub struct Args {
    /// What to let go of, named as it was reserved
    #[arg(value_name = "KEY", required_unless_present_any = ["all", "package"])]
    keys: Vec<OsString>,
    /// Let go of everything
    #[arg(long, conflicts_with_all = ["keys", "package"])]
    all: bool,
    /// Let go of what a work package lists; - reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    package: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Renews what the session holds.
#[derive(clap::Args)]
pub struct RenewArgs {
    /// What to renew, named as it was reserved; without any, everything, as a heartbeat does
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
    /// For how many seconds from now on; without it, as long as before
    #[arg(long, value_name = "SECONDS", requires = "keys")]
    ttl: Option<i64>,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    if args.all {
        let answer = here.client.release_all(&session);
        let released = here.heard(answer)?;
        let lines = released.released_paths.iter().map(|key| format!("released {}\n", talk::key(key, None)));
        here.tell(&lines.collect::<String>())?;
        if released.released_count == 0 && !here.json {
            talk::say("nothing was held");
        }
        return Ok(Exit::Ok);
    }
    let names = match &args.package {
        Some(file) => Package::read(file, args.common.json)?.names(),
        None => here.names(&args.keys)?,
    };
    let mut texts = names.texts();
    let (one, many) =
        if texts.len() == 1 && args.package.is_none() { (texts.pop(), None) } else { (None, Some(texts)) };
    let ask = wire::Release { file_path: one, file_paths: many, encoding: names.encoding() };
    let answer = here.client.release(&session, &ask);
    let released = here.heard(answer)?;
    let text = match (released.released_count, names.len()) {
        (0, _) => String::new(),
        (count, asked) if count == asked as u64 => {
            let texts = ask.file_path.iter().chain(ask.file_paths.iter().flatten());
            texts.map(|key| format!("released {}\n", talk::key(key, ask.encoding))).collect()
        }
        (count, asked) => format!("released {count} of {asked}; the rest was not held\n"),
    };
    here.tell(&text)?;
    if released.released_count == 0 && !here.json {
        talk::say("nothing was released, because this session holds nothing of that name; see: git dibs status --mine");
    }
    Ok(Exit::Ok)
}

pub fn renew(args: RenewArgs) -> Result<Exit> {
    let mut here = Here::open(&args.common)?;
    let session = here.session()?;
    if args.keys.is_empty() {
        let answer = here.client.heartbeat(&session);
        let alive = here.heard(answer)?;
        let text = match alive.renewed_count {
            0 => "the session is alive and holds nothing\n".to_owned(),
            n => {
                let left = time_left(here.left(alive.expires_at));
                format!("renewed {}, the first to run out in {left}\n", talk::count(n as usize, "reservation"))
            }
        };
        here.tell(&text)?;
        return Ok(Exit::Ok);
    }
    let names = here.names(&args.keys)?;
    let mut texts = names.texts();
    let (one, many) = if texts.len() == 1 { (texts.pop(), None) } else { (None, Some(texts)) };
    let ask = wire::Renew { file_path: one, file_paths: many, ttl_seconds: args.ttl, encoding: names.encoding() };
    let answer = here.client.renew(&session, &ask);
    let renewed = here.heard(answer)?.into_reservations();
    let line = |one: &wire::Renewed| {
        format!("renewed {} for {}\n", talk::key(&one.file_path, one.encoding), time_left(here.left(one.expires_at)))
    };
    here.tell(&renewed.iter().map(line).collect::<String>())?;
    Ok(Exit::Ok)
}
