//! Records the paths a hook would be judged by, instead of asking a server.
//!
//! The hooks run this test binary in place of the program, and it collects the paths with the library's own code.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::time::Instant;

use git_dibs::git::{Git, Repo, Settings, Version};
use git_dibs::hook::Moment;
use git_dibs::hook::collect::{HookInput, plan};
use git_dibs::hook::excuse::Helpers;
use git_dibs::judge::CheckPolicy;
use git_dibs::local::Environment;
use git_dibs::text::terminal;

/// A script that replaces the program and runs [`as_a_hook`] of this test binary.
pub fn program() -> String {
    let binary = std::env::current_exe().unwrap();
    let arguments = "DIBS_TEST_ARGS=$(printf '%s\\n' \"$@\")";
    format!("#!/bin/sh\n{arguments} exec '{}' --exact record::as_a_hook --nocapture\n", binary.display())
}

/// Not a test: what git's hooks run while paths are recorded.
#[test]
fn as_a_hook() {
    let Ok(args) = std::env::var("DIBS_TEST_ARGS") else { return };
    // `hook NAME --next FILE -- ARGS…`, each on a line.
    let mut args = args.lines().map(str::to_owned).skip(1);
    let name = args.next().unwrap();
    let next = args.clone().skip_while(|arg| arg != "--next").nth(1);
    if runs_in_configuration(&name) && !next.is_some_and(|next| next.contains("/dibs/hooks/")) {
        // This git has run the hook in its configuration already.
        std::process::exit(0);
    }
    let args: Vec<OsString> = args.skip_while(|arg| arg != "--").skip(1).map(OsString::from).collect();
    record(&name, &args);
    // The harness would print its summary where the hook's output goes.
    std::process::exit(0);
}

/// Whether git also runs this hook from its configuration.
fn runs_in_configuration(name: &str) -> bool {
    let key = format!("hook.dibs-{name}.command");
    Version::of_git().unwrap() >= Version::CONFIG_HOOKS
        && Git::here().args(["config", "--get", &key]).answer().unwrap().is_some()
}

/// Collects paths as the hook would, and records them.
fn record(name: &str, args: &[OsString]) {
    git_dibs::git::trust_every_owner();
    let environment = Environment::of_process();
    let moment = Moment::parse(name).unwrap();
    let mut stdin = Vec::new();
    if moment.reads_stdin() {
        std::io::stdin().read_to_end(&mut stdin).unwrap();
    }
    let repo = Repo::from_environment().unwrap();
    let input = HookInput { moment, args, stdin: &stdin, environment: &environment };
    let mut line = moment.name().to_owned();
    match plan(&repo, input) {
        None => line.push_str(" -"),
        Some(plan) => {
            let collected = plan.collect(&repo).unwrap();
            let policy = CheckPolicy::read(&moment.occasion(), &environment, &Settings::of(&repo).unwrap());
            let (paths, deadline) = (collected.paths(), Instant::now() + git_dibs::hook::WAIT_MAX);
            let helpers = Helpers { committed_by_holder: &|_| HashSet::new(), deadline };
            let excused = collected.excused(&repo, &policy, &paths, helpers).unwrap().paths;
            for path in &paths {
                let mark = if excused.contains(path) { "~" } else { "" };
                write!(line, " {mark}{}", terminal::path(path)).unwrap();
            }
        }
    }
    line.push('\n');
    let file = std::env::var_os("DIBS_TEST_RECORD").unwrap();
    let mut out = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
    out.write_all(line.as_bytes()).unwrap();
}
