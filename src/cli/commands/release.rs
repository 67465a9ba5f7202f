//! `git-dibs release`: release keys that the session holds.

use std::ffi::OsString;

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context};
use crate::cli::package::PackageArgs;
use crate::cli::{Exit, talk};
use crate::local::describe;
use crate::wire;

#[derive(clap::Args)]
pub struct Args {
    /// What to release, named as it was reserved
    #[arg(value_name = "KEY", required_unless_present_any = ["all", "package"])]
    keys: Vec<OsString>,
    /// Release everything
    #[arg(long, conflicts_with_all = ["keys", "package"])]
    all: bool,
    #[command(flatten)]
    package: PackageArgs,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    if args.all {
        let result = context.client.release_all(&session);
        let reply = context.checked(result)?;
        let lines = reply.released_paths.iter().map(|key| format!("released {}\n", describe::key(key, None)));
        let mut text = lines.collect::<String>();
        match reply.released_count.saturating_sub(reply.released_paths.len() as u64) {
            0 => {}
            more => text += &format!("released {more} more\n"),
        }
        context.print(&text)?;
        if reply.released_count == 0 && !context.json {
            talk::say("this session held nothing");
        }
        return Ok(Exit::Ok);
    }
    let package = args.package.read_one(args.common.json)?;
    let names = match &package {
        Some(package) => package.names(),
        None => context.names(&args.keys)?,
    };
    let mut texts = names.texts();
    let (one, many) = if texts.len() == 1 && package.is_none() { (texts.pop(), None) } else { (None, Some(texts)) };
    let encoding = names.encoding();
    let request = wire::Release { file_path: one, file_paths: many, encoding, ..wire::Release::default() };
    let result = context.client.release(&session, &request);
    let reply = context.checked(result)?;
    let text = match (reply.released_count, names.count()) {
        (0, _) => String::new(),
        (released, total) if released == total as u64 => {
            let texts = request.file_path.iter().chain(request.file_paths.iter().flatten());
            texts.map(|key| format!("released {}\n", describe::key(key, request.encoding))).collect()
        }
        (released, total) => format!("released {released} of {total}; this session did not hold the rest\n"),
    };
    context.print(&text)?;
    if reply.released_count == 0 && !context.json {
        talk::say("nothing was released: this session holds no key of that name; see: git dibs status --mine");
    }
    Ok(Exit::Ok)
}
