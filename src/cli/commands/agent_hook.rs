//! `git-dibs agent-hook`: answers an event of a coding agent. The agent calls it.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use crate::agent::{self, Agent, keeper};
use crate::cli::{Exit, talk};

#[derive(clap::Args)]
pub struct Args {
    /// The agent that calls: claude, codex, gemini, copilot, qwen, opencode or cursor
    #[arg(value_name = "AGENT")]
    agent: OsString,
    /// What else there is to say to a keeper
    #[arg(hide = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Parses a call without the program's name: `agent-hook AGENT`. Building the parser for all commands would slow down
/// every edit; a call that is written in another way goes through clap.
pub fn parse_call(mut words: impl Iterator<Item = OsString>) -> Option<Args> {
    if words.next()? != "agent-hook" {
        return None;
    }
    let agent = words.next().filter(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    Some(Args { agent, args: words.collect() })
}

/// Answers the event on stdin. The exit code is 0 whatever happens: some agents take any other one for a denial.
pub fn run_call(args: &Args) -> Exit {
    let name = args.agent.to_string_lossy();
    match (name.parse::<Agent>(), args.args.as_slice()) {
        (Ok(agent), _) => agent::main(agent, &mut std::io::stdin().lock(), &mut std::io::stdout().lock()),
        (Err(_), [common_dir, file]) if name == keeper::KEEPER => {
            keeper::run(Path::new(common_dir), &file.to_string_lossy());
        }
        (Err(unknown), _) => talk::say(&unknown.to_string()),
    }
    Exit::Ok
}

pub fn run(args: Args) -> Result<Exit> {
    Ok(run_call(&args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_of_an_agent_is_parsed_without_clap() {
        let parse = |words: &str| parse_call(words.split(' ').map(OsString::from)).map(|args| args.agent);
        assert_eq!(parse("agent-hook claude").unwrap(), "claude");
        for other in ["agent-hook", "agent-hook --help", "hook pre-commit", ""] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
