//! `git-dibs hook`: runs a git hook. Git calls it through the installed scripts.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::cli::{Exit, talk};
use crate::hook::{self, Call};

#[derive(clap::Args)]
pub struct Args {
    /// Git's name of the hook
    #[arg(value_name = "NAME")]
    name: String,
    /// The hook that was there before; it runs too
    #[arg(long, value_name = "FILE")]
    next: Option<PathBuf>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
    /// The arguments that git passed to the hook
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Parses a call as the installed scripts write it, without the program's name: `hook NAME --next FILE -- ARGS…`.
///
/// Git runs two hooks for every commit, and building the parser for all commands would slow each of them down. A call
/// that is written in another way goes through clap.
pub fn parse_call(mut words: impl Iterator<Item = OsString>) -> Option<Call> {
    if words.next()? != "hook" {
        return None;
    }
    let name = words.next()?.into_string().ok().filter(|name| !name.starts_with('-'))?;
    let mut word = words.next()?;
    let mut next = None;
    if word == "--next" {
        next = Some(PathBuf::from(words.next()?));
        word = words.next()?;
    }
    (word == "--").then(|| Call { name, next, args: words.collect() })
}

pub fn run(args: Args) -> Result<Exit> {
    let call = Call { name: args.name, next: args.next, args: args.args };
    if !args.json {
        return Ok(run_call(&call));
    }
    let mut text = Vec::new();
    let code = hook::main(&call, &mut std::io::stdin(), &mut text);
    let message = String::from_utf8_lossy(&text);
    talk::document(json!({ "hook": call.name, "exitCode": code, "message": message }).to_string().as_bytes())?;
    Ok(exit(code))
}

/// Runs a hook; its messages go to stderr.
pub fn run_call(call: &Call) -> Exit {
    exit(hook::main(call, &mut std::io::stdin(), &mut talk::CleanStderr))
}

fn exit(code: i32) -> Exit {
    // An exit code that does not fit into a byte is a failure too.
    Exit::Child(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Option<Call> {
        parse_call(words.split(' ').map(OsString::from))
    }

    #[test]
    fn the_call_of_a_shim_is_parsed_without_clap() {
        let call = |name: &str, next: Option<&str>, args: &[&str]| {
            let (next, args) = (next.map(PathBuf::from), args.iter().map(OsString::from).collect());
            Some(Call { name: name.to_owned(), next, args })
        };
        assert_eq!(
            read("hook pre-push --next x.dibs-next -- origin --url"),
            call("pre-push", Some("x.dibs-next"), &["origin", "--url"])
        );
        assert_eq!(read("hook pre-commit --"), call("pre-commit", None, &[]));
        for other in
            ["", "hook", "hook pre-commit", "hook --help", "hook pre-commit --json --", "hook x --next y", "reserve --"]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
