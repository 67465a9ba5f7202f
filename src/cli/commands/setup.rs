//! `git-dibs setup`: makes agents call git-dibs.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::agent::setup::{self, Action, Places, Plan, Scope, SetupError, Wish};
use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::Repo;

#[derive(clap::Args)]
pub struct Args {
    /// claude, codex, gemini, copilot, qwen, opencode, cursor, aider; or all: those installed here or used in this
    /// repository
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<AgentName>,
    /// Whose configuration to write: project (files to commit), user (all your repositories), or local (Claude Code's own
    /// file for this work tree, not committed)
    #[arg(long, value_name = "SCOPE", default_value = "project", value_parser = scope)]
    scope: Scope,
    /// Remove everything that setup wrote
    #[arg(long)]
    remove: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Also keep the preamble in the agent's file of instructions (AGENTS.md, CLAUDE.md, …), between two markers
    #[arg(long)]
    instructions: bool,
    /// Also keep the preamble as an Agent Skill
    #[arg(long)]
    skill: bool,
    /// Print what was changed as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentName {
    All,
    One(Agent),
}

impl std::str::FromStr for AgentName {
    type Err = crate::agent::UnknownAgent;

    fn from_str(name: &str) -> Result<AgentName, Self::Err> {
        if name == "all" { Ok(AgentName::All) } else { name.parse().map(AgentName::One) }
    }
}

fn scope(name: &str) -> Result<Scope, String> {
    let known = Scope::ALL.into_iter().find(|scope| scope.name() == name);
    known.ok_or_else(|| "a scope is project, user or local".to_owned())
}

pub fn run(args: Args) -> Result<Exit> {
    let places = Places::new(Repo::from_environment().ok().as_ref(), |name| std::env::var_os(name));
    let wish = Wish { scope: args.scope, remove: args.remove, instructions: args.instructions, skill: args.skill };
    let agents = chosen(&args, &places)?;
    let reports = set_up(&agents, &wish, &places, args.dry_run);
    if let [Report::Failed(_, error)] = &*reports {
        return Err(Failure::new(Exit::Error, error.clone()).for_program_as(args.json, "NOT_SET_UP").into());
    }
    let has_failed = reports.iter().any(|report| matches!(report, Report::Failed(..)));
    let exit = if has_failed { Exit::Error } else { Exit::Ok };
    match args.json {
        true => talk::document(document(&reports, args.dry_run).to_string().as_bytes())?,
        false => print(&reports, &args)?,
    }
    Ok(exit)
}

/// Sets agents up, or removes what setup wrote. If one of them fails, the others are still set up.
pub(super) fn set_up(agents: &[Agent], wish: &Wish, places: &Places, dry_run: bool) -> Vec<Report> {
    let report = |agent: &Agent| one(*agent, wish, places, dry_run);
    agents.iter().map(|agent| report(agent).unwrap_or_else(|error| Report::Failed(*agent, error.to_string()))).collect()
}

/// What became of one agent.
pub(super) enum Report {
    Done(Plan, Vec<Option<std::path::PathBuf>>),
    Failed(Agent, String),
}

fn one(agent: Agent, wish: &Wish, places: &Places, dry_run: bool) -> Result<Report, SetupError> {
    let plan = setup::plan(agent, wish, places)?;
    let backups = if dry_run { plan.changes.iter().map(|_| None).collect() } else { plan.write()? };
    Ok(Report::Done(plan, backups))
}

/// The agents to set up, each once.
fn chosen(args: &Args, places: &Places) -> Result<Vec<Agent>, Failure> {
    let mut agents = Vec::new();
    for name in &args.agents {
        let named = match name {
            AgentName::One(agent) => vec![*agent],
            AgentName::All if args.remove => Agent::ALL.to_vec(),
            AgentName::All => places.agents(),
        };
        // Only Claude Code has a local scope; "all" means those that have one.
        let fits = |agent: &Agent| args.scope != Scope::Local || *name != AgentName::All || *agent == Agent::Claude;
        agents.extend(named.into_iter().filter(fits));
    }
    let mut seen = std::collections::BTreeSet::new();
    agents.retain(|agent| seen.insert(*agent));
    if agents.is_empty() {
        let sentence = "no agent is installed here or used in this repository; name one: git dibs setup claude";
        return Err(Failure::new(Exit::Error, sentence).for_program_as(args.json, "NO_AGENT"));
    }
    Ok(agents)
}

fn print(reports: &[Report], args: &Args) -> Result<()> {
    for report in reports {
        match report {
            Report::Failed(agent, error) => talk::say(&format!("{}: {error}", agent.product())),
            Report::Done(plan, backups) => print_one(plan, backups, args)?,
        }
    }
    let has_changes = |report: &Report| matches!(report, Report::Done(plan, _) if !plan.changes.is_empty());
    if args.scope == Scope::Project && !args.remove && reports.iter().any(has_changes) {
        talk::say("commit these files: other worktrees and clones have them only then");
    }
    Ok(())
}

fn print_one(plan: &Plan, backups: &[Option<std::path::PathBuf>], args: &Args) -> Result<()> {
    let name = plan.agent.product();
    for change in &plan.changes {
        talk::data(&change.diff())?;
    }
    for (change, backup) in plan.changes.iter().zip(backups).filter(|_| !args.dry_run) {
        let backup = backup.as_deref().map(|backup| format!("; the old file is {}", backup.display()));
        talk::say(&format!(
            "{name}: {} {}{}",
            change.path.display(),
            verb(change.action()),
            backup.unwrap_or_default()
        ));
    }
    match (plan.changes.is_empty(), args.remove, args.dry_run) {
        (true, false, _) => talk::say(&format!("{name}: is set up already")),
        (true, true, _) => talk::say(&format!("{name}: nothing of git-dibs is there")),
        (false, _, true) => talk::say(&format!("{name}: this would change; nothing was changed")),
        (false, _, false) => {}
    }
    for line in plan.notes.iter().chain(&plan.steps) {
        talk::say(&format!("{name}: {line}"));
    }
    Ok(())
}

fn document(reports: &[Report], dry_run: bool) -> Value {
    json!({ "dryRun": dry_run, "agents": agents_json(reports) })
}

/// What became of each agent, for a program.
pub(super) fn agents_json(reports: &[Report]) -> Value {
    let change = |(change, backup): (&setup::Change, &Option<std::path::PathBuf>)| {
        let show = |path: &Path| path.display().to_string();
        json!({
            "path": show(&change.path),
            "action": verb(change.action()),
            "diff": change.diff(),
            "backup": backup.as_deref().map(show),
        })
    };
    let agents = reports.iter().map(|report| match report {
        Report::Failed(agent, error) => json!({ "agent": agent.name(), "error": error }),
        Report::Done(plan, backups) => json!({
            "agent": plan.agent.name(),
            "changes": plan.changes.iter().zip(backups).map(change).collect::<Vec<_>>(),
            "steps": plan.steps,
            "notes": plan.notes,
        }),
    });
    agents.collect::<Vec<_>>().into()
}

pub(super) fn verb(action: Action) -> &'static str {
    match action {
        Action::Create => "created",
        Action::Change => "changed",
        Action::Remove => "removed",
    }
}
