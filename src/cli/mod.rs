//! The command line. The only room that prints: data goes to stdout, messages go to stderr.
//!
//! Each command has a file in `commands`, with its arguments and its work. A setting comes from a flag, else from a `DIBS_*`
//! variable, else from a file, else from a default.

mod background;
mod backoff;
mod browser;
mod child;
mod commands;
mod context;
mod data_dir;
mod event_line;
mod failure;
mod follow;
mod package;
mod talk;
mod unpaused;
mod yaml;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use commands::*;
use failure::Failure;

use crate::local::BadName;

/// The exit codes of the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok,
    /// Any failure without a code of its own.
    Error,
    /// An argument is wrong.
    Usage,
    /// Another session holds it.
    Conflict,
    /// The token is missing, invalid, or does not allow it; or the server's policy does not.
    Auth,
    /// No server answers.
    Unreachable,
    /// The session has ended.
    Ended,
    /// The wait timed out.
    TimedOut,
    /// The exit code of the command that was run.
    Child(u8),
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Conflict => 3,
            Exit::Auth => 4,
            Exit::Unreachable => 5,
            Exit::Ended => 6,
            Exit::TimedOut => 7,
            Exit::Child(code) => code,
        }
    }
}

/// Reserve files before you change them. Until you release them, commits and pushes of others cannot change them.
#[derive(Parser)]
#[command(name = "git-dibs", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Protect the current repository: hooks, agents and the server in one step
    ///
    /// Installs the git hooks, sets up the agents that are installed on this machine or used in this repository, starts the
    /// server in the background, and tests all of it. Doing it twice changes nothing. It asks nothing.
    Init(init::Args),
    /// Serve reservations for the current repository
    Serve(Box<serve::Args>),
    /// Stop the server of the current repository
    ///
    /// What is held stays held. The next command or commit that needs the server starts it again; git config dibs.autostart
    /// false keeps it off.
    Stop(stop::Args),
    /// Sign a token with the local server's secret
    Token(token::Args),
    /// Run a command in a session of its own
    ///
    /// The session lives as long as the command runs; when the command ends, everything it holds is released. While it
    /// runs, everything it holds is renewed at least every 10 seconds. Only the command and what it starts are in the
    /// session, through DIBS_URL and DIBS_TOKEN; a program that removes DIBS_TOKEN from its environment finds the session
    /// through DIBS_RUN. DIBS_SESSION is the session's id. The exit code is the command's, or 128 plus the number of the
    /// signal that ended it.
    #[command(override_usage = "git-dibs run [OPTIONS] [--] <COMMAND>...")]
    Run(run::Args),
    /// Start, end or list sessions
    Session(session::Args),
    /// List the sessions of this repository, and which of them are silent
    Sessions(session::List),
    /// Reserve files and other keys, all or none of them
    ///
    /// Files and patterns are relative to the current directory. :/ before a name makes it relative to the top of the
    /// repository; file: before a name makes it literal. Reserving what you hold already renews it.
    Reserve(reserve::Args),
    /// Release what you reserved
    Release(release::Args),
    /// Renew what you reserved
    Renew(renew::Args),
    /// Show who is in the way of a change; exits with 3 if another session is
    Check(check::Args),
    /// Wait until keys are free and reserve them
    Wait(wait::Args),
    /// Pause a feature: its sessions get nothing new, and cannot commit or push, until it goes on
    ///
    /// An admin without a session, with an admin's token or as the owner of a local server, pauses in a session of its own.
    Pause(pause::Args),
    /// Let a paused feature go on
    ///
    /// A session ends its own pause. An admin, with an admin's token or as the owner of a local server without a session, ends
    /// every session's.
    Resume(pause::ResumeArgs),
    /// Allocate ports that no other session has
    Ports(ports::Args),
    /// Show who holds what
    Status(status::Args),
    /// Show the dashboard in a browser, signed in as you
    ///
    /// Without --admin, the page acts for the session that runs you or that this worktree is bound to; without a session,
    /// it is read only. The printed address works once and for a minute.
    Open(open::Args),
    /// Print a line for each change, as it happens, until Ctrl-C
    ///
    /// After the connection was lost, it continues where it was: no event is left out, and none is printed twice.
    Watch(watch::Args),
    /// Show who holds a file or another key now
    Who(who::Args),
    /// Show who held what, when and why, the latest first
    Log(log::Args),
    /// Check and share the ledger, the history in git
    Ledger(ledger::Args),
    /// Back up, restore, check or compact the journal
    Db(db::Args),
    /// Look at a cluster of servers, and move repositories in it
    Cluster(cluster::Args),
    /// Ask a holder to release a key; if several sessions share it, all of them
    Request(request::Args),
    /// List requests to your session and requests from it
    Requests(requests::Args),
    /// Release what another session asked for
    Approve(approve::Args),
    /// Keep what another session asked for
    Reject(reject::Args),
    /// Take back your own request
    Withdraw(withdraw::Args),
    /// Serve the tools for agents over stdin and stdout (MCP)
    ///
    /// An agent starts this by itself, from its MCP configuration: command git-dibs, argument mcp. The tools reserve, check,
    /// release and wait for files as the session that runs the agent. If there is none, the connection has a session of
    /// its own, which ends with it.
    Mcp(mcp::Args),
    /// Install the git hooks in every worktree of the current repository
    ///
    /// A hook that exists already is kept and still runs. If a hook manager owns the hooks, the command prints what to add
    /// to its configuration. Installing again changes nothing.
    Install(install::Args),
    /// Remove the git hooks and restore the hooks that were there before
    Uninstall(uninstall::Args),
    /// Test every hook in every worktree and the server, and say what does not work
    Doctor(doctor::Args),
    /// Make coding agents call git-dibs: their edits then reserve files by themselves
    ///
    /// Writes the hooks and the MCP server into the agent's configuration and shows the difference. Everything else in the
    /// files stays as it is, and the old files are copied first. Setting up again changes nothing. The commands do nothing
    /// on a machine without git-dibs, so the files can be committed. Trusting the hooks is left to you; the command says how.
    Setup(setup::Args),
    /// Give git-lfs the token of your session; git calls it as a credential helper
    ///
    /// Install it with: git dibs install --lfs. It answers only for the address of this repository's server, stores
    /// nothing, and prints nothing for any other address.
    #[command(hide = true)]
    Credential(credential::Args),
    /// Print what a model is told about git-dibs, for AGENTS.md, CLAUDE.md or a prompt
    Preamble(preamble::Args),
    /// Run a git hook; used by the installed scripts
    #[command(hide = true)]
    Hook(hook::Args),
    /// Answer an event of a coding agent; used by the agents' hooks
    #[command(hide = true)]
    AgentHook(agent_hook::Args),
    /// Print a completion script for a shell, or install completions and manual pages
    Completions(completions::Args),
    /// Print the manual page
    #[command(hide = true)]
    Man(man::Args),
    /// Link rlock, runlock and rlock-heartbeat to this program
    InstallCommands(install_commands::Args),
}

/// Every command with its arguments, as clap knows them.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command line this process was started with.
pub fn main() -> ExitCode {
    let called = std::env::args_os().next().map(PathBuf::from);
    let name = called.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    if let Some(exit) = name.and_then(rlock::called_as) {
        return exit;
    }
    if let Some(call) = hook::parse_call(std::env::args_os().skip(1)) {
        return ExitCode::from(hook::run_call(&call).code());
    }
    if let Some(call) = agent_hook::parse_call(std::env::args_os().skip(1)) {
        return ExitCode::from(agent_hook::run_call(&call).code());
    }
    // Parsing ends the process on --help, --version and usage errors, the latter with exit code 2.
    let result = match Args::parse().command {
        Command::Init(args) => init::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Stop(args) => stop::run(args),
        Command::Token(args) => token::run(args),
        Command::Run(args) => run::run(args),
        Command::Session(args) => session::run(args),
        Command::Sessions(args) => session::list(args),
        Command::Reserve(args) => reserve::run(args),
        Command::Release(args) => release::run(args),
        Command::Renew(args) => renew::run(args),
        Command::Check(args) => check::run(args),
        Command::Wait(args) => wait::run(args),
        Command::Pause(args) => pause::run(args),
        Command::Resume(args) => pause::resume(args),
        Command::Ports(args) => ports::run(args),
        Command::Status(args) => status::run(args),
        Command::Open(args) => open::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Who(args) => who::run(args),
        Command::Log(args) => log::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Db(args) => db::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Request(args) => request::run(args),
        Command::Requests(args) => requests::run(args),
        Command::Approve(args) => approve::run(args),
        Command::Reject(args) => reject::run(args),
        Command::Withdraw(args) => withdraw::run(args),
        Command::Mcp(args) => mcp::run(args),
        Command::Install(args) => install::run(args),
        Command::Credential(args) => credential::run(args),
        Command::Uninstall(args) => uninstall::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Setup(args) => setup::run(args),
        Command::Preamble(args) => preamble::run(args),
        Command::Hook(args) => hook::run(args),
        Command::AgentHook(args) => agent_hook::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
        Command::InstallCommands(args) => install_commands::run(args),
    };
    let exit = match result {
        Ok(exit) => exit,
        Err(error) => failed(&error),
    };
    ExitCode::from(exit.code())
}

/// Prints the error and returns the exit code.
fn failed(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<Failure>() {
        Some(Failure { exit, document: Some(document), .. }) => {
            // If stdout is closed, the exit code still tells the failure.
            let _ = talk::document(document);
            *exit
        }
        Some(failure) => {
            talk::say(&failure.sentence);
            failure.exit
        }
        None => {
            talk::say(&format!("{error:#}"));
            if error.is::<BadName>() { Exit::Usage } else { Exit::Error }
        }
    }
}

/// Checks whether a text is a valid work package. The error lists every problem with its line.
pub fn examine_package(text: &[u8]) -> Result<(), Vec<(usize, String)>> {
    package::Package::examine(text)
}
