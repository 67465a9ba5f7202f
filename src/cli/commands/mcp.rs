//! `git-dibs mcp`: the tools for agents, over stdin and stdout.

use std::io;
use std::sync::Arc;

use anyhow::Result;

use crate::cli::Exit;
use crate::cli::child::Signals;
use crate::cli::context::ServerArgs;
use crate::local::Flags;
use crate::mcp::Connection;

#[derive(clap::Args)]
pub struct Args {
    /// The session to act for, with an admin's or a worker's token [default: DIBS_SESSION]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    // Before any thread is started, so that a signal always finds the thread that ends the session.
    let signals = Signals::block();
    let ServerArgs { url, token_file, repo } = args.server;
    let flags = Flags { url, token_file, repo, session: args.session };
    let connection = Arc::new(Connection::new(flags));
    let stopped = Arc::clone(&connection);
    std::thread::spawn(move || {
        let signal = signals.wait();
        stopped.stop();
        std::process::exit(128 + signal);
    });
    connection.serve(io::stdin().lock(), io::stdout())?;
    Ok(Exit::Ok)
}
