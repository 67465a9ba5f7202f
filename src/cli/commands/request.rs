//! `git-dibs request`: ask a holder, or all holders of a shared key, to release it.

use std::ffi::OsString;

use anyhow::Result;
use serde_json::{Value, json};

use super::requests::holder;
use crate::cli::context::{CommonArgs, Context};
use crate::cli::{Exit, talk};
use crate::local::describe;
use crate::text::terminal::clean;
use crate::wire::{self, UnlockRequestInfo};

#[derive(clap::Args)]
pub struct Args {
    /// What the holder should release
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
    /// Why; the holder reads it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    let names = context.names(&args.keys)?;
    let texts = names.texts();
    let several = texts.len() > 1;
    let mut exit = Exit::Ok;
    let mut documents: Vec<Value> = Vec::new();
    for text in texts {
        let request =
            wire::UnlockRequest { file_path: text, reason: args.reason.as_str().into(), encoding: names.encoding() };
        let result = context.client.request_unlock(&session, &request);
        match context.checked(result) {
            Ok(info) if !context.json => {
                // Every session that shares the key is asked.
                let lines = std::iter::once(&info).chain(&info.others).map(|info| line(&request, info));
                talk::data(&lines.collect::<String>())?;
            }
            Ok(_) => {}
            // If no session holds one of the keys, the others are still asked for.
            Err(failure) if several => {
                exit = failure.exit;
                if !context.json {
                    talk::say(&failure.sentence);
                }
            }
            Err(failure) => return Err(failure.into()),
        }
        documents.push(serde_json::from_slice(context.client.latest_body()).unwrap_or_default());
    }
    match documents.as_slice() {
        [_] if context.json => talk::document(context.client.latest_body())?,
        _ if context.json => talk::document(json!({ "requests": documents }).to_string().as_bytes())?,
        _ => {}
    }
    context.print_notices();
    Ok(exit)
}

fn line(asked: &wire::UnlockRequest, info: &UnlockRequestInfo) -> String {
    let (key, wanted) =
        (describe::key(&info.file_path, info.encoding), describe::key(&asked.file_path, asked.encoding));
    let (holder, whole) = (holder(info), describe::whole(&info.file_path, info.encoding));
    let is_part = wanted != key && whole != key;
    let part = if is_part { format!(", which {wanted} is part of") } else { String::new() };
    format!("{} asks {holder} to release {whole}{part}\n", clean(&info.id, 64))
}
