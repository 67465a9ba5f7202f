//! `git-dibs doctor`: tests the hooks and the server, and says what does not work.

use anyhow::Result;
use serde_json::{Value, json};

use super::install::repository;
use crate::cli::{Exit, talk};
use crate::hook::doctor::{Finding, Level, examine};
use crate::local::Environment;

#[derive(clap::Args)]
pub struct Args {
    /// Print the findings as one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let repo = repository(args.json)?;
    let findings = examine(&repo, &Environment::of_process());
    let bad = findings.iter().filter(|finding| finding.level == Level::Bad).count();
    let exit = if bad == 0 { Exit::Ok } else { Exit::Error };
    if args.json {
        let findings: Vec<_> = findings.iter().map(in_json).collect();
        talk::document(json!({ "ok": bad == 0, "findings": findings }).to_string().as_bytes())?;
        return Ok(exit);
    }
    talk::data(&findings.iter().map(in_text).collect::<String>())?;
    match bad {
        0 => talk::say("everything works"),
        1 => talk::say("one thing does not work"),
        n => talk::say(&format!("{n} things do not work")),
    }
    Ok(exit)
}

fn in_json(finding: &Finding) -> Value {
    json!({ "level": word(finding.level), "what": finding.what, "advice": finding.advice })
}

fn in_text(finding: &Finding) -> String {
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
