//! The command line. The only room that prints: stdout is data, stderr is talk.
//!
//! Each command has a file of its own with its arguments and its work. Settings come from a flag, else from a `DIBS_*`
//! variable, else from a file, else from a default.

mod config;
mod place;
mod serve;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// How a command ended, for the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// It could not.
    Error = 1,
}

/// Reserve files before you change them; nobody else's commit or push touches them until you let go.
#[derive(Parser)]
#[command(name = "git-dibs", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve reservations for the repository you are in.
    Serve(serve::Args),
    /// Make a token with the local server's secret.
    Token(token::Args),
}

/// Runs the command line this process was started with.
pub fn main() -> ExitCode {
    // Parsing ends the process itself on --help, --version and usage errors, the latter with 2.
    let done = match Args::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Token(args) => token::run(args),
    };
    match done {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            eprintln!("git-dibs: {error:#}");
            ExitCode::from(Exit::Error as u8)
        }
    }
}
