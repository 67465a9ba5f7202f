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
    if args.json {
        let all: Vec<_> = findings.iter().map(in_json).collect();
        talk::document(json!({ "ok": bad(&findings) == 0, "findings": all }).to_string().as_bytes())?;
        return Ok(exit(&findings));
    }
    talk::data(&findings.iter().map(in_text).collect::<String>())?;
    talk::say(&summary(&findings));
    Ok(exit(&findings))
}

fn bad(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.level == Level::Bad).count()
}

pub(super) fn exit(findings: &[Finding]) -> Exit {
    if bad(findings) == 0 { Exit::Ok } else { Exit::Error }
}

/// All findings in one sentence.
pub(super) fn summary(findings: &[Finding]) -> String {
    match bad(findings) {
        0 => "everything works".to_owned(),
        1 => "one thing does not work".to_owned(),
        n => format!("{n} things do not work"),
    }
}

pub(super) fn in_json(finding: &Finding) -> Value {
    json!({ "level": word(finding.level), "what": finding.what, "advice": finding.advice })
}

pub(super) fn in_text(finding: &Finding) -> String {
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
