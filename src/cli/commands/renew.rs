//! `git-dibs renew`: renew keys that the session holds.

use std::ffi::OsString;

use anyhow::Result;

use crate::cli::Exit;
use crate::cli::context::{CommonArgs, Context};
use crate::cli::failure::sentence_of;
use crate::local::describe;
use crate::text::terminal::time_left;
use crate::wire::{self, Code};

#[derive(clap::Args)]
pub struct Args {
    /// What to renew, named as it was reserved; without any, everything, as a heartbeat does
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
    /// For how many seconds from now on; without it, as long as before
    #[arg(long, value_name = "SECONDS", requires = "keys")]
    ttl: Option<i64>,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    if args.keys.is_empty() {
        let result = context.client.heartbeat(&session);
        let reply = context.checked(result)?;
        let text = match reply.renewed_count {
            0 => "the session is alive and holds nothing\n".to_owned(),
            n => {
                let left = time_left(context.time_left(reply.expires_at));
                format!("renewed {}; the first expires in {left}\n", describe::count(n as usize, "reservation"))
            }
        };
        context.print(&text)?;
        return Ok(Exit::Ok);
    }
    let names = context.names(&args.keys)?;
    let mut texts = names.texts();
    let (one, many) = if texts.len() == 1 { (texts.pop(), None) } else { (None, Some(texts)) };
    let (ttl_seconds, encoding) = (args.ttl, names.encoding());
    let request = wire::Renew { file_path: one, file_paths: many, ttl_seconds, encoding, ..wire::Renew::default() };
    let result = context.client.renew(&session, &request);
    let renewed = result.map_err(|error| match error.code() {
        Some(Code::LockNotHeld) => {
            let sentence = format!("nothing was renewed: {}; see: git dibs status --mine", sentence_of(&error));
            context.failure_with(&error, sentence)
        }
        _ => context.failure(&error),
    })?;
    let renewed = renewed.into_reservations();
    let line = |one: &wire::Renewed| {
        let left = time_left(context.time_left(one.expires_at));
        format!("renewed {} for {left}\n", describe::key(&one.file_path, one.encoding))
    };
    context.print(&renewed.iter().map(line).collect::<String>())?;
    Ok(Exit::Ok)
}
