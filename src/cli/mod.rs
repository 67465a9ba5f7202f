//! The command line. The only room that prints: stdout is data, stderr is talk.
//!
//! Each command has a file of its own with its arguments and its work. Settings come from a flag, else from a `DIBS_*`
//! variable, else from a file, else from a default.

mod backoff;
mod check;
mod child;
mod config;
mod db;
mod failure;
mod here;
mod hooks;
mod ledger;
mod log;
mod logging;
mod mint;
mod names;
mod notices;
mod opening;
mod package;
mod past;
mod place;
mod release;
mod reserve;
mod residence;
mod rlock;
mod run;
mod serve;
mod session;
mod shell;
mod status;
mod talk;
mod token;
mod unlock;
mod who;
mod yaml;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;

/// How a command ended, for the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Ok,
    /// It could not.
    Error,
    /// It was asked for something that makes no sense.
    Usage,
    /// Somebody else holds it.
    Conflict,
    /// The caller may not.
    Auth,
    /// Nobody answers.
    Unreachable,
    /// The session is over.
    Ended,
    /// It waited, and the time ran out.
    TimedOut,
    /// As the command that ran inside ended.
    Child(u8),
}

impl Exit {
    /// The number the shell sees.
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
    /// Run a command in a session of its own
    ///
    /// The session is alive as long as the command runs, and everything it holds is released when the command ends. What
    /// it holds is renewed at least every 10 seconds. The command finds its session in DIBS_URL, DIBS_TOKEN and
    /// DIBS_SESSION. Exits as the command does, or with 128 and the signal's number where a signal ended it.
    #[command(override_usage = "git-dibs run [OPTIONS] [--] <COMMAND>...")]
    Run(run::Args),
    /// Start, end or list sessions
    Session(session::Args),
    /// Reserve files and other keys, all or none of them
    ///
    /// Files and patterns are relative to the current directory; :/ in front makes them relative to the top of the
    /// repository, and file: takes a name literally. Reserving what you hold renews it.
    Reserve(reserve::Args),
    /// Let go of what you reserved
    Release(release::Args),
    /// Renew what you reserved
    Renew(release::RenewArgs),
    /// Show who is in the way of a change; exits with 3 if somebody is
    Check(check::Args),
    /// Wait until keys are free and reserve them
    Wait(reserve::WaitArgs),
    /// Show who holds what
    Status(status::Args),
    /// Show who holds a file or another key now
    Who(who::Args),
    /// Show who held what, when and why, the latest first
    Log(log::Args),
    /// Look after the ledger, the history in git
    Ledger(ledger::Args),
    /// Look after the journal's file: copy it, check it, make it smaller
    Db(db::Args),
    /// Ask a holder to let go
    Request(unlock::RequestArgs),
    /// List what others ask of you and what you ask of them
    Requests(unlock::RequestsArgs),
    /// Let go of what somebody asked for
    Approve(unlock::ApproveArgs),
    /// Keep what somebody asked for
    Reject(unlock::RejectArgs),
    /// Take back what you asked for
    Withdraw(unlock::WithdrawArgs),
    /// Put the git hooks in place, in every worktree of the repository you are in
    ///
    /// A hook that is there already is kept and run. Where a hook manager owns the hooks, what to add to its configuration
    /// is printed instead. Doing it again changes nothing.
    Install(hooks::InstallArgs),
    /// Take the git hooks away and bring back what was there before
    Uninstall(hooks::UninstallArgs),
    /// Run every hook in every worktree, ask the server, and say what does not work
    Doctor(hooks::DoctorArgs),
    /// Run a git hook; for the scripts that install puts in place
    #[command(hide = true)]
    Hook(hooks::HookArgs),
    /// Print a completion script for a shell
    Completions(shell::CompletionsArgs),
    /// Print the manual page
    #[command(hide = true)]
    Man(shell::ManArgs),
    /// Link rlock, runlock and rlock-heartbeat to this program
    InstallCommands(shell::LinksArgs),
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
    if let Some(call) = hooks::called(std::env::args_os().skip(1)) {
        return ExitCode::from(hooks::answered(&call).code());
    }
    // Parsing ends the process itself on --help, --version and usage errors, the latter with 2.
    let done = match Args::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Token(args) => token::run(args),
        Command::Run(args) => run::run(args),
        Command::Session(args) => session::run(args),
        Command::Reserve(args) => reserve::run(args),
        Command::Release(args) => release::run(args),
        Command::Renew(args) => release::renew(args),
        Command::Check(args) => check::run(args),
        Command::Wait(args) => reserve::wait(args),
        Command::Status(args) => status::run(args),
        Command::Who(args) => who::run(args),
        Command::Log(args) => log::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Db(args) => db::run(args),
        Command::Request(args) => unlock::request(args),
        Command::Requests(args) => unlock::requests(args),
        Command::Approve(args) => unlock::approve(args),
        Command::Reject(args) => unlock::reject(args),
        Command::Withdraw(args) => unlock::withdraw(args),
        Command::Install(args) => hooks::install(args),
        Command::Uninstall(args) => hooks::uninstall(args),
        Command::Doctor(args) => hooks::doctor(args),
        Command::Hook(args) => hooks::hook(args),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
        Command::InstallCommands(args) => shell::links(args),
    };
    let exit = match done {
        Ok(exit) => exit,
        Err(error) => failed(&error),
    };
    ExitCode::from(exit.code())
}

/// Says why, and gives the exit code.
fn failed(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<Failure>() {
        Some(Failure { exit, document: Some(document), .. }) => {
            // Whoever cannot take the document has the exit code.
            let _ = talk::document(document);
            *exit
        }
        Some(failure) => {
            talk::say(&failure.sentence);
            failure.exit
        }
        None => {
            talk::say(&format!("{error:#}"));
            Exit::Error
        }
    }
}

/// Whether a text is a work package; if not, what is wrong with it, each with its line.
pub fn examine_package(text: &[u8]) -> Result<(), Vec<(usize, String)>> {
    package::Package::examine(text)
}
