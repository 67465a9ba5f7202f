//! `git-dibs preamble`: what a model is told about git-dibs.

use anyhow::Result;
use serde_json::json;

use crate::agent::Agent;
use crate::agent::preamble::{self, Edits, LOOK_MAX};
use crate::cli::context::{CommonArgs, Context, ServerArgs};
use crate::cli::{Exit, talk};
use crate::client::ReservationFilter;

#[derive(clap::Args)]
pub struct Args {
    /// Print what this agent is told when its session starts, with who holds what now [claude, codex, gemini, copilot,
    /// qwen, opencode, cursor, aider]
    #[arg(long, value_name = "AGENT")]
    agent: Option<Agent>,
    /// Print it as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let text = match args.agent {
        None => preamble::instructions(Edits::ByCommand),
        Some(agent) => at_start(agent, args.server),
    };
    match args.json {
        true => talk::document(json!({ "preamble": text }).to_string().as_bytes())?,
        false => talk::data(&text)?,
    }
    Ok(Exit::Ok)
}

/// With the holders, if a server answers. Without one nothing is held, or it is not known; the instructions are valid.
fn at_start(agent: Agent, server: ServerArgs) -> String {
    let edits = if agent.has_hooks() { Edits::ByHook } else { Edits::ByCommand };
    let held = || {
        let mut context = Context::open(&CommonArgs { json: false, session: None, server }).ok()?;
        let own = context.access.session.clone();
        let list = context.client.oldest_reservations(&ReservationFilter::default(), LOOK_MAX).ok()?;
        Some(preamble::with_holders(edits, &list.reservations, own.as_deref(), context.now()))
    };
    held().unwrap_or_else(|| preamble::instructions(edits))
}
