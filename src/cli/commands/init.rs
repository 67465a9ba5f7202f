//! `git-dibs init`: from nothing to protection in one step, and back.
//!
//! What it changed is noted in the repository, so that `--undo` takes back exactly that: hooks that were installed before,
//! and agents that were set up before, stay.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::install::{checked, program, repository};
use super::setup::{Report, agents_json, set_up, verb};
use super::{doctor, install};
use crate::agent::Agent;
use crate::agent::setup::{Places, Scope, Wish};
use crate::cli::context::{Context, ServerArgs};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::Repo;
use crate::hook::doctor::{Finding, Level};
use crate::hook::install as hooks;
use crate::local::{autostart, data_dir};

#[derive(clap::Args)]
pub struct Args {
    /// Whose configuration of agents to write: project (files to commit) or user (all your repositories)
    #[arg(long, value_name = "SCOPE", default_value = "project", value_parser = ["project", "user"], conflicts_with = "undo")]
    scope: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Take back what earlier calls changed
    #[arg(long)]
    undo: bool,
    /// Print what was changed and tested as one JSON document
    #[arg(long)]
    json: bool,
}

/// What earlier calls changed and `--undo` takes back.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changes {
    /// There were no hooks of ours before.
    #[serde(default)]
    hooks: bool,
    /// The agents that were set up, with their scopes.
    #[serde(default)]
    agents: Vec<(String, String)>,
}

/// What one call did, for the user.
#[derive(Default)]
struct Outcome {
    hooks: hooks::Report,
    agents: Vec<Report>,
    /// A sentence about the server.
    server: String,
    findings: Vec<Finding>,
}

pub fn run(args: Args) -> Result<Exit> {
    let repo = repository(args.json)?;
    let outcome = if args.undo { undo(&repo, &args)? } else { set_up_all(&repo, &args)? };
    print(&outcome, &args)?;
    let has_failed = outcome.agents.iter().any(|report| matches!(report, Report::Failed(..)));
    Ok(if has_failed { Exit::Error } else { doctor::exit(&outcome.findings) })
}

fn set_up_all(repo: &Repo, args: &Args) -> Result<Outcome> {
    let mut changes = Changes::read(repo);
    let had_hooks = checked(hooks::is_installed(repo), args.json)?;
    let wish = hooks::Wish { program: program()?, strict: false, server: false, dry_run: args.dry_run };
    let hooks = checked(hooks::install(repo, &wish), args.json)?;
    changes.hooks |= !had_hooks && !hooks.done.is_empty();
    let scope = if args.scope == "user" { Scope::User } else { Scope::Project };
    let places = Places::new(Some(repo), |name| std::env::var_os(name));
    let agents = set_up(&places.agents(), &Wish::new(scope), &places, args.dry_run);
    for report in &agents {
        let pair = |agent: Agent| (agent.name().to_owned(), scope.name().to_owned());
        match report {
            Report::Done(plan, _) if !plan.changes.is_empty() && !changes.agents.contains(&pair(plan.agent)) => {
                changes.agents.push(pair(plan.agent));
            }
            _ => {}
        }
    }
    if args.dry_run {
        let server = match autostart::running(&repo.common_dir) {
            Some(_) => "the server runs already".to_owned(),
            None => "the server would be started in the background".to_owned(),
        };
        return Ok(Outcome { hooks, agents, server, findings: Vec::new() });
    }
    changes.write(repo)?;
    let server = start_server(repo);
    Ok(Outcome { hooks, agents, server, findings: doctor::examine_all(repo) })
}

/// Starts the server, and says what became of it. That there is none is one of the doctor's findings.
fn start_server(repo: &Repo) -> String {
    let was_running = autostart::running(&repo.common_dir).is_some();
    match Context::open_without_session(&ServerArgs::default(), false) {
        Err(failure) => failure.sentence,
        Ok(context) => {
            let at = talk::addresses(&context.access.endpoints);
            match context.access.is_local && !was_running {
                true => format!("the server was started in the background at {at}"),
                false => format!("the server is the one at {at}"),
            }
        }
    }
}

fn undo(repo: &Repo, args: &Args) -> Result<Outcome> {
    let changes = Changes::read(repo);
    let places = Places::new(Some(repo), |name| std::env::var_os(name));
    let mut outcome = Outcome::default();
    for (agent, scope) in &changes.agents {
        let (Ok(agent), Some(scope)) = (agent.parse(), Scope::ALL.into_iter().find(|one| one.name() == scope)) else {
            continue;
        };
        let wish = Wish { remove: true, ..Wish::new(scope) };
        outcome.agents.extend(set_up(&[agent], &wish, &places, args.dry_run));
    }
    let is_background = autostart::running(&repo.common_dir).is_some_and(|record| record.background);
    if args.dry_run {
        if changes.hooks {
            outcome.hooks.done.push("the git hooks would be removed".to_owned());
        }
        if is_background {
            outcome.server = "the server would be stopped".to_owned();
        }
        return Ok(outcome);
    }
    if changes.hooks {
        outcome.hooks = checked(hooks::uninstall(repo), args.json)?;
    }
    if is_background {
        autostart::stop(&repo.common_dir)
            .map_err(|sentence| Failure::new(Exit::Error, sentence).for_program(args.json))?;
        outcome.server = "the server was stopped; the next command that needs it starts it again".to_owned();
    }
    // What could not be taken back can be tried again.
    if outcome.agents.iter().all(|report| matches!(report, Report::Done(..))) {
        Changes::forget(repo);
    }
    Ok(outcome)
}

impl Changes {
    fn file(repo: &Repo) -> PathBuf {
        data_dir::dibs_dir(repo).join("init.json")
    }

    fn read(repo: &Repo) -> Changes {
        std::fs::read(Changes::file(repo))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    fn write(&self, repo: &Repo) -> Result<()> {
        data_dir::make_private(&data_dir::dibs_dir(repo))?;
        data_dir::write_private(&Changes::file(repo), &serde_json::to_vec(self)?)
    }

    fn forget(repo: &Repo) {
        let _ = std::fs::remove_file(Changes::file(repo));
    }
}

fn print(outcome: &Outcome, args: &Args) -> Result<()> {
    if args.json {
        let document = json!({
            "dryRun": args.dry_run,
            "hooks": { "done": outcome.hooks.done, "byHand": outcome.hooks.by_hand },
            "agents": agents_json(&outcome.agents),
            "server": outcome.server,
            "findings": outcome.findings.iter().map(doctor::in_json).collect::<Vec<Value>>(),
        });
        return Ok(talk::document(document.to_string().as_bytes())?);
    }
    install::print(&outcome.hooks)?;
    let mut is_changed = !outcome.hooks.done.is_empty();
    for report in &outcome.agents {
        is_changed |= print_agent(report, args)?;
    }
    if outcome.agents.is_empty() && !args.undo {
        talk::say("no coding agent was found on this machine or in this repository; for one: git dibs setup AGENT");
    }
    if !outcome.server.is_empty() {
        talk::say(&outcome.server);
    }
    match (is_changed, args.undo, args.dry_run) {
        (false, true, _) => talk::say("there is nothing to take back"),
        (false, false, _) => talk::say("hooks and agents were set up already"),
        (true, _, true) => talk::say("this would change; nothing was changed"),
        (true, true, false) => talk::say("this was taken back"),
        (true, false, false) => {}
    }
    if !args.undo && !args.dry_run {
        let worth_reading = outcome.findings.iter().filter(|finding| finding.level == Level::Bad);
        talk::data(&worth_reading.map(doctor::in_text).collect::<String>())?;
        let failed: Vec<&str> = outcome.agents.iter().filter_map(failed).collect();
        let summary = match (failed.is_empty(), doctor::exit(&outcome.findings)) {
            (true, _) => doctor::summary(&outcome.findings),
            (false, Exit::Ok) => format!("{} could not be set up; everything else works", failed.join(", ")),
            (false, _) => {
                format!("{} could not be set up, and {}", failed.join(", "), doctor::summary(&outcome.findings))
            }
        };
        talk::say(&format!("{summary}; git dibs doctor says more"));
    }
    Ok(())
}

/// The agent that could not be set up.
fn failed(report: &Report) -> Option<&'static str> {
    match report {
        Report::Failed(agent, _) => Some(agent.product()),
        Report::Done(..) => None,
    }
}

/// Prints what became of an agent: its files, and what the user still has to do. Returns whether anything changed.
fn print_agent(report: &Report, args: &Args) -> Result<bool> {
    let plan = match report {
        Report::Failed(agent, error) => {
            talk::say(&format!("{}: {error}", agent.product()));
            return Ok(false);
        }
        Report::Done(plan, _) => plan,
    };
    let name = plan.agent.product();
    for change in &plan.changes {
        talk::data(&format!("{} {} for {name}\n", change.path.display(), verb(change.action())))?;
        if args.dry_run {
            talk::data(&change.diff())?;
        }
    }
    for line in plan.notes.iter().chain(&plan.steps).filter(|_| !plan.changes.is_empty()) {
        talk::say(&format!("{name}: {line}"));
    }
    Ok(!plan.changes.is_empty())
}
