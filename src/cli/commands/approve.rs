//! `git-dibs approve`: release a key because another session asked for it.

use anyhow::Result;

use super::requests::{drop_answered, pick, requester, unanswered};
use crate::cli::Exit;
use crate::cli::context::{CommonArgs, Context};
use crate::local::describe;
use crate::wire;

#[derive(clap::Args)]
pub struct Args {
    /// The request, as git dibs requests shows it; its beginning is enough, and it can be left out if only one is open
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Pass the key straight to the session that asked, before any other session can reserve it
    #[arg(long)]
    hand_over: bool,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    let id = pick(&mut context, &session, args.id.as_deref(), |all| all.incoming)?;
    let body = wire::Approve { hand_over: args.hand_over.then_some(true) };
    let result = context.client.approve_unlock(&session, &id, &body);
    let request = result.map_err(|error| unanswered(&context, &error))?;
    let (key, who) = (describe::whole(&request.file_path, request.encoding), requester(&request));
    let text = match args.hand_over {
        true => format!("passed {key} to {who}\n"),
        false => format!("released {key} for {who}\n"),
    };
    drop_answered(&context, &id);
    context.print(&text)?;
    Ok(Exit::Ok)
}
