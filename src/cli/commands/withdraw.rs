//! `git-dibs withdraw`: take back a request of your own.

use anyhow::Result;

use super::requests::unanswered;
use crate::cli::Exit;
use crate::cli::context::{CommonArgs, Context};
use crate::local::describe;

#[derive(clap::Args)]
pub struct Args {
    /// The request, as git dibs requests shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    let result = context.client.withdraw_unlock(&session, &args.id);
    let request = result.map_err(|error| unanswered(&context, &error))?;
    context.print(&format!("no longer asking for {}\n", describe::key(&request.file_path, request.encoding)))?;
    Ok(Exit::Ok)
}
