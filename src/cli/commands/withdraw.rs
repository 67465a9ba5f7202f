//! `git-dibs withdraw`: take back a request of your own.

use anyhow::Result;

use super::requests::{pick, unanswered};
use crate::cli::Exit;
use crate::cli::context::{CommonArgs, Context};
use crate::local::describe;

#[derive(clap::Args)]
pub struct Args {
    /// The request, as git dibs requests shows it; its beginning is enough, and it can be left out if only one is open
    #[arg(value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    let id = pick(&mut context, &session, args.id.as_deref(), |all| all.outgoing)?;
    let result = context.client.withdraw_unlock(&session, &id);
    let request = result.map_err(|error| unanswered(&context, &error))?;
    context.print(&format!("no longer asking for {}\n", describe::key(&request.file_path, request.encoding)))?;
    Ok(Exit::Ok)
}
