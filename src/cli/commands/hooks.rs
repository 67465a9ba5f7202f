//! The hooks: `hook`, which git runs, and `install`, `uninstall` and `doctor` around it.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::{GitError, Repo};
use crate::hook::doctor::{Finding, Level, examine};
use crate::hook::install::{self, InstallError, Report, Wish, stable_program};
use crate::hook::{self, Call};
use crate::local::Environment;

/// What git runs.
#[derive(clap::Args)]
pub struct HookArgs {
    /// Git's name of the hook
    #[arg(value_name = "NAME")]
    name: String,
    /// The hook that was there before and is run too
    #[arg(long, value_name = "FILE")]
    next: Option<PathBuf>,
    /// Print what there is to say as one JSON document
    #[arg(long)]
    json: bool,
    /// What git gave the hook
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Installs the hooks in the repository you are in.
#[derive(clap::Args)]
pub struct InstallArgs {
    /// Also watch every ref, so that update-ref and fast-import are stopped too
    #[arg(long, conflicts_with = "server")]
    strict: bool,
    /// The repository receives pushes: install pre-receive instead
    #[arg(long)]
    server: bool,
    /// Print what was done as one JSON document
    #[arg(long)]
    json: bool,
}

/// Takes the hooks away again.
#[derive(clap::Args)]
pub struct UninstallArgs {
    /// Print what was done as one JSON document
    #[arg(long)]
    json: bool,
}

/// Looks whether everything works here.
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// Print what was found as one JSON document
    #[arg(long)]
    json: bool,
}

/// A call as our own shims write it: `hook NAME --next FILE -- ARGS…`, without the program's name.
///
/// Git runs two hooks for every commit, and neither should wait until all the other commands have been described to
/// the command line's reader. What is written in any other way is left to that.
pub fn called(mut words: impl Iterator<Item = OsString>) -> Option<Call> {
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

/// Runs one hook.
pub fn hook(args: HookArgs) -> Result<Exit> {
    let call = Call { name: args.name, next: args.next, args: args.args };
    if !args.json {
        return Ok(answered(&call));
    }
    let mut said = String::new();
    let code = hook::main(&call, &mut std::io::stdin(), &mut |text| said.push_str(text));
    talk::document(json!({ "hook": call.name, "exitCode": code, "message": said }).to_string().as_bytes())?;
    Ok(exit(code))
}

/// Runs one hook and says what there is to say.
pub fn answered(call: &Call) -> Exit {
    exit(hook::main(call, &mut std::io::stdin(), &mut talk::pass_on))
}

pub fn install(args: InstallArgs) -> Result<Exit> {
    let repo = repository(args.json)?;
    let running = std::env::current_exe().context("cannot tell where this program is")?;
    let program = stable_program(&running, std::env::var_os("PATH").as_deref());
    let wish = Wish { program, strict: args.strict, server: args.server };
    let report = reported(install::install(&repo, &wish), args.json)?;
    if args.json {
        return document(&report);
    }
    tell(&report)?;
    match (report.done.is_empty(), report.by_hand.is_empty()) {
        (true, true) => talk::say("the hooks are in place already"),
        (_, true) => talk::say("the hooks are in place; see that they work with: git dibs doctor"),
        (_, false) => talk::say("the rest is yours to do; then see that it works with: git dibs doctor"),
    }
    Ok(Exit::Ok)
}

pub fn uninstall(args: UninstallArgs) -> Result<Exit> {
    let repo = repository(args.json)?;
    let report = reported(install::uninstall(&repo), args.json)?;
    if args.json {
        return document(&report);
    }
    tell(&report)?;
    if report == Report::default() {
        talk::say("no hook of git-dibs is here");
    }
    Ok(Exit::Ok)
}

pub fn doctor(args: DoctorArgs) -> Result<Exit> {
    let repo = repository(args.json)?;
    let found = examine(&repo, &Environment::of_process());
    let bad = found.iter().filter(|finding| finding.level == Level::Bad).count();
    let exit = if bad == 0 { Exit::Ok } else { Exit::Error };
    if args.json {
        let findings: Vec<_> = found.iter().map(in_json).collect();
        talk::document(json!({ "ok": bad == 0, "findings": findings }).to_string().as_bytes())?;
        return Ok(exit);
    }
    talk::data(&found.iter().map(in_words).collect::<String>())?;
    match bad {
        0 => talk::say("everything works"),
        n => talk::say(&format!(
            "{} not work",
            if n == 1 { "one thing does".to_owned() } else { format!("{n} things do") }
        )),
    }
    Ok(exit)
}

fn exit(code: i32) -> Exit {
    // A code that fits nowhere is still no success.
    Exit::Child(u8::try_from(code).unwrap_or(1))
}

fn repository(json: bool) -> Result<Repo, Failure> {
    Repo::from_environment().map_err(|error| {
        let sentence = match &error {
            GitError::Failed { said, .. } if said.contains("not a git repository") => {
                "there is no repository here; go into one".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::new(Exit::Error, sentence).for_program_as(json, "NO_REPOSITORY")
    })
}

fn reported(done: Result<Report, InstallError>, json: bool) -> Result<Report, Failure> {
    done.map_err(|error| Failure::new(Exit::Error, error.to_string()).for_program_as(json, "NOT_INSTALLED"))
}

fn document(report: &Report) -> Result<Exit> {
    talk::document(json!({ "done": report.done, "byHand": report.by_hand }).to_string().as_bytes())?;
    Ok(Exit::Ok)
}

fn tell(report: &Report) -> std::io::Result<()> {
    let mut text = String::new();
    for line in report.done.iter().chain(&report.by_hand) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    talk::data(&text)
}

fn in_json(finding: &Finding) -> serde_json::Value {
    json!({ "level": word(finding.level), "what": finding.what, "advice": finding.advice })
}

fn in_words(finding: &Finding) -> String {
    let advice = finding.advice.as_ref().map_or_else(String::new, |advice| format!("      {advice}\n"));
    format!("{:<5} {}\n{advice}", word(finding.level), finding.what)
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Note => "note",
        Level::Bad => "bad",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Option<Call> {
        called(words.split(' ').map(OsString::from))
    }

    #[test]
    fn a_shims_call_is_read_without_the_command_lines_help() {
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
