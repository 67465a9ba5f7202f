//! `git-dibs reject`: keep a key although another session asked for it.

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
    /// A note for the session that asked
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    let id = pick(&mut context, &session, args.id.as_deref(), |all| all.incoming)?;
    let body = wire::Reject { note: args.note.as_deref().map(Into::into) };
    let result = context.client.reject_unlock(&session, &id, &body);
    let request = result.map_err(|error| unanswered(&context, &error))?;
    let (key, who) = (describe::key(&request.file_path, request.encoding), requester(&request));
    drop_answered(&context, &id);
    context.print(&format!("kept {key}; {who} will be notified\n"))?;
    Ok(Exit::Ok)
}
