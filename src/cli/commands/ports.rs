//! `git-dibs ports`: ports that no other session has.

use anyhow::Result;

use crate::cli::context::{CommonArgs, Context};
use crate::cli::{Exit, talk};
use crate::local::describe;
use crate::text::shell;
use crate::text::terminal::time_left;
use crate::wire;
use crate::wire::limits::PORTS_MAX;

#[derive(clap::Args)]
pub struct Args {
    /// How many ports [default: as the server is configured, usually 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(PORTS_MAX)))]
    count: Option<u16>,
    /// Print lines for a shell: eval "$(git dibs ports --env)"
    #[arg(long)]
    env: bool,
    /// For this many seconds, unless asked for again; the server has a default and a limit
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<i64>,
    /// What for; other sessions see it
    #[arg(long, value_name = "TEXT")]
    purpose: Option<String>,
    /// Only show the ports that the session has
    #[arg(long, conflicts_with_all = ["count", "ttl", "purpose"])]
    list: bool,
    /// Free the ports of the session
    #[arg(long, conflicts_with_all = ["count", "ttl", "purpose", "list", "env"])]
    free: bool,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open(&args.common)?;
    let session = context.session()?;
    if args.free {
        let result = context.client.free_ports(&session);
        let reply = context.checked(result)?;
        let count = usize::try_from(reply.released_count).unwrap_or(usize::MAX);
        context.print(&format!("freed {}\n", describe::count(count, "port")))?;
        return Ok(Exit::Ok);
    }
    let result = match args.list {
        true => context.client.ports(&session),
        false => {
            let (count, purpose) = (args.count.map(i64::from), args.purpose.as_deref().map(Into::into));
            let request =
                wire::AllocatePorts { count, ttl_seconds: args.ttl, purpose, ..wire::AllocatePorts::default() };
            context.client.allocate_ports(&session, &request)
        }
    };
    let reply = context.checked(result)?;
    if args.env {
        let line =
            |(name, value): (&String, &String)| format!("export {name}={}\n", shell::word(value).unwrap_or_default());
        context.print(&reply.env.iter().map(line).collect::<String>())?;
        return Ok(Exit::Ok);
    }
    let numbers: Vec<String> = reply.ports.iter().map(u16::to_string).collect();
    context.print(&numbers.iter().map(|number| format!("{number}\n")).collect::<String>())?;
    match reply.expires_at {
        Some(expires_at) if !context.json => {
            let left = time_left(context.time_left(expires_at));
            talk::say(&format!("allocated for {left}; ask again to keep them longer"));
        }
        None if !context.json => talk::say("this session has no ports; allocate some with: git dibs ports"),
        _ => {}
    }
    Ok(Exit::Ok)
}
