//! `git-dibs doctor`: tests the hooks and the server, and says what does not work.

use anyhow::Result;
use serde_json::{Value, json};

use super::install::repository;
use crate::agent::setup::{self, Places};
use crate::cli::{Exit, talk};
use crate::git::Repo;
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
    let findings = examine_all(&repo);
    if args.json {
        let all: Vec<_> = findings.iter().map(in_json).collect();
        talk::document(json!({ "ok": bad(&findings) == 0, "findings": all }).to_string().as_bytes())?;
        return Ok(exit(&findings));
    }
    talk::data(&findings.iter().map(in_text).collect::<String>())?;
    talk::say(&summary(&findings));
    Ok(exit(&findings))
}

/// The findings about git, the server, and the agents that are set up here.
pub(super) fn examine_all(repo: &Repo) -> Vec<Finding> {
    let mut findings = examine(repo, &Environment::of_process());
    findings.extend(hooks_without_program(repo));
    findings
}

/// The hooks of agents do nothing where their command is not found, and cannot say so.
fn hooks_without_program(repo: &Repo) -> Option<Finding> {
    let agents = setup::in_work_tree(repo.work_dir.as_ref()?);
    let is_found = Places::new(Some(repo), |name| std::env::var_os(name)).has_program("git-dibs");
    let names: Vec<&str> = agents.iter().map(|agent| agent.product()).collect();
    let program = std::env::current_exe().ok();
    let dir = program.as_ref().and_then(|program| program.parent()).map(|dir| dir.display().to_string());
    let dir = dir.unwrap_or_else(|| "the directory of git-dibs".to_owned());
    (!is_found && !agents.is_empty()).then(|| Finding {
        level: Level::Bad,
        what: format!("git-dibs is not in PATH, so the hooks of {} do nothing", names.join(", ")),
        advice: Some(format!("Add {dir} to the PATH that your agents are started with.")),
    })
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
