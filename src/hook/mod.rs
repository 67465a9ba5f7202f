//! The git hooks: collect the changed paths, ask the server, give a verdict.
//!
//! Three steps that know nothing of each other: [`collect`] reads git, [`ask`] reaches the server, and [`verdict`] is
//! a pure function of what was heard and what the settings say. [`main`] does them in turn.
//! No rule about reservations is in here; the server decides who holds what.

pub mod ask;
pub mod collect;
pub mod doctor;
pub mod install;
mod moment;
mod next;
mod passed;
mod policy;
pub mod shim;
pub mod text;
pub mod verdict;

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use ask::{Answer, AskError, Conflict, Pause};
pub use moment::Moment;
pub use policy::{Enforce, OnUnreachable, Policy, Require, Setting};

use collect::Told;
use verdict::{Trouble, Verdict};

use crate::git::{self, Repo, Settings, SettingsCall};
use crate::local::Environment;

/// When it is set, a hook answers the doctor and does nothing else.
pub const PROBE: &str = "DIBS_PROBE";

/// Exit codes of a hook.
const PASS: i32 = 0;
const BLOCK: i32 = 1;
const USAGE: i32 = 2;

/// A hook waits for others, a remote and the server, no longer than this in all; git's own reading takes as long as it
/// takes.
pub const PATIENCE: Duration = Duration::from_millis(2900);

/// A call of `git-dibs hook <name> [--next FILE] -- ARGS…`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// Git's name of the hook.
    pub name: String,
    /// The hook that was there before us.
    pub next: Option<PathBuf>,
    /// What git gave the hook.
    pub args: Vec<OsString>,
}

/// Runs one hook and gives its exit code: 0 lets git go on, 1 stops it.
///
/// `say` hears what there is to say, whole lines of it, and nothing when all is well.
pub fn main(call: &Call, stdin: &mut dyn Read, say: &mut dyn FnMut(&str)) -> i32 {
    let environment = Environment::of_process();
    let Some(moment) = Moment::parse(&call.name) else {
        let known = Moment::ALL.map(Moment::name).join(", ");
        say(&format!("git-dibs: there is no hook {:?}; it takes part in {known}.\n", call.name));
        return USAGE;
    };
    if let Some(probe) = environment.text(PROBE) {
        say(&format!("{}\n", probe_answer(&probe, moment)));
        return PASS;
    }
    let mut input = Vec::new();
    if moment.reads_stdin() {
        // What cannot be read is judged as if git had said nothing more.
        let _ = stdin.read_to_end(&mut input);
    }
    let next = |say: &mut dyn FnMut(&str)| {
        let stdin = moment.reads_stdin().then_some(&*input);
        call.next.as_deref().and_then(|file| next::run(file, &call.args, stdin, say)).unwrap_or(PASS)
    };
    if moment.next_goes_first() {
        let code = next(say);
        if code != PASS {
            return code;
        }
    }
    match judged(Told { moment, args: &call.args, stdin: &input, environment: &environment }) {
        Verdict::Pass => {}
        Verdict::Warn(text) => say(&text),
        Verdict::Block(text) => {
            say(&text);
            return BLOCK;
        }
    }
    if moment.next_goes_first() { PASS } else { next(say) }
}

/// What a hook says to the doctor's probe.
pub(crate) fn probe_answer(probe: &str, moment: Moment) -> String {
    format!("git-dibs-probe {probe} {moment} {}", env!("CARGO_PKG_VERSION"))
}

fn judged(told: Told<'_>) -> Verdict {
    let deadline = Instant::now() + PATIENCE;
    // The environment counts before every setting, so where it says off nothing else need be read.
    if Policy::read(told.moment, told.environment, &Settings::default()).enforce.value == Enforce::Off {
        return Verdict::Pass;
    }
    // Git has decided to run this repository's hooks, so it trusts it.
    git::trust_every_owner();
    let unread = |settings: &Settings, error: git::GitError| {
        let policy = Policy::read(told.moment, told.environment, settings);
        verdict::judge(told.moment, &policy, &[], Err(&Trouble::Unread(error.to_string())), &Default::default())
    };
    let repo = match Repo::from_environment() {
        Ok(repo) => repo,
        Err(error) => return unread(&Settings::default(), error),
    };
    let Some(plan) = collect::plan(&repo, told) else { return Verdict::Pass };
    // Where git has to be started for both, it is started for both at once.
    let settings = SettingsCall::start(&repo);
    let collected = plan.collect(&repo);
    let settings = match settings.and_then(SettingsCall::finish) {
        Ok(settings) => settings,
        Err(error) => return unread(&Settings::default(), error),
    };
    let policy = Policy::read(told.moment, told.environment, &settings);
    if policy.enforce.value == Enforce::Off {
        return Verdict::Pass;
    }
    let collected = match collected {
        Ok(collected) => collected,
        Err(error) => return unread(&settings, error),
    };
    let paths = &collected.paths;
    if paths.is_empty() {
        return Verdict::Pass;
    }
    let found = ask::find(Some(told.moment), &repo, told.environment, &settings);
    let heard = found.and_then(|found| ask::ask(&found, paths, deadline)).map_err(Trouble::Silence);
    let forgiven = match &heard {
        Ok(answer) => collected.forgiven(&repo, &policy, &verdict::suspects(&policy, paths, answer)),
        Err(_) => Ok(Default::default()),
    };
    // Not being able to find out whether a path is only undone forgives nothing.
    let forgiven = forgiven.unwrap_or_default();
    let verdict = verdict::judge(told.moment, &policy, paths, heard.as_ref(), &forgiven);
    if matches!(told.moment, Moment::PreCommit | Moment::PreMergeCommit) && !matches!(verdict, Verdict::Block(_)) {
        passed::note(&repo);
    }
    verdict
}
