//! Before a shell command: nothing, except for an agent in whose shell git hooks do not run. Its commits and pushes are
//! checked here.
//!
//! What a commit would contain is what is staged, and what the command stages or commits by its paths. What the command
//! itself writes before that is not known yet; the look after the command and the check of the push find it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::answer::Answer;
use super::call::{COMMIT, HookCall, PUSH};
use super::command_line::{GitUse, GitWork, PathArgs, git_uses};
use super::event::Event;
use super::session::{Need, find_server, handles};
use super::words;
use crate::git::changed::{self, Change};
use crate::git::range::{Range, Update};
use crate::git::{self, GitError, Oid, Place, Repo, status_typed};
use crate::judge::{self, Occasion};
use crate::local::{DiscoverError, Environment, clock};
use crate::wire::CheckReply;

/// Checks the commits and pushes in a command.
pub fn before_shell(event: &Event, command: &str, environment: &Environment) -> Answer {
    let may_matter = command.contains("git") && (command.contains("commit") || command.contains("push"));
    if !event.agent.switches_git_hooks_off() || !may_matter {
        return Answer::Allow;
    }
    // What the command stages before it commits.
    let mut staged: Vec<(&Path, &PathArgs)> = Vec::new();
    let uses = git_uses(command, &event.cwd).into_iter();
    let uses: Vec<GitUse> = uses.map(|one| GitUse { dir: at_home(&one.dir, environment), ..one }).collect();
    for GitUse { dir, what } in &uses {
        let answer = match what {
            GitWork::Stage(paths) => {
                staged.push((dir, paths));
                continue;
            }
            GitWork::Commit { all, paths } => check(event, environment, dir, COMMIT, |call| {
                call.reply(event, &committed(&call.repo, dir, *all, paths, &staged)?)
            }),
            GitWork::Push { all, args } => check(event, environment, dir, PUSH, |call| {
                let changes = pushed(&call.repo, *all, args)?;
                call.reply(event, &changes)
            }),
        };
        if answer != Answer::Allow {
            return answer;
        }
    }
    Answer::Allow
}

fn check(
    event: &Event,
    environment: &Environment,
    dir: &Path,
    occasion: Occasion,
    ask: impl FnOnce(&HookCall<'_>) -> Result<CheckReply, String>,
) -> Answer {
    let place = dir.canonicalize().ok().and_then(|dir| Place::around(&dir));
    let Some(place) = place else { return Answer::Allow };
    let call = match HookCall::open(event.agent, environment, &place, occasion) {
        Ok(Some(call)) => call,
        Ok(None) => return Answer::Allow,
        Err(answer) => return answer,
    };
    match ask(&call) {
        Ok(reply) if reply.conflicts.is_empty() => Answer::Allow,
        Ok(reply) => {
            let now = reply.server_time.unwrap_or_else(clock::now);
            call.objection(words::conflict(&reply.conflicts, now))
        }
        Err(what) => call.trouble(&what),
    }
}

/// The directory with the home directory in the place of `~`, as the shell finds it.
fn at_home(dir: &Path, environment: &Environment) -> PathBuf {
    match (dir.strip_prefix("~"), environment.text("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => dir.to_owned(),
    }
}

impl HookCall<'_> {
    /// What the server says about changes of the agent's session.
    fn reply(&self, event: &Event, changes: &[Change]) -> Result<CheckReply, String> {
        if changes.is_empty() {
            return Ok(CheckReply::default());
        }
        let access = find_server(self.place, self.environment, &self.settings, &handles(event), Need::Check);
        let mut access = match access {
            Err(DiscoverError::NothingHeld) => return Ok(CheckReply::default()),
            access => access.map_err(|error| error.to_string())?,
        };
        let deadline = Instant::now() + judge::ASK_TIME_MIN;
        judge::ask_about(&mut access, changes, false, deadline).map_err(|error| error.to_string())
    }
}

/// What a commit would contain.
fn committed(
    repo: &Repo,
    dir: &Path,
    all: bool,
    paths: &PathArgs,
    staged: &[(&Path, &PathArgs)],
) -> Result<Vec<Change>, String> {
    let text = |error: GitError| error.to_string();
    let mut found: BTreeSet<git::Path> = BTreeSet::new();
    let mut add = |dir: &Path, args: &PathArgs, untracked: bool| -> Result<(), GitError> {
        let typed = if args.everything { &[][..] } else { &args.paths };
        let entries = status_typed(dir, typed)?.into_iter().filter(|entry| untracked || !entry.is_untracked());
        found.extend(entries.map(|entry| entry.path));
        Ok(())
    };
    for (dir, args) in staged {
        // A directory that the command makes itself cannot be read yet.
        let _ = add(dir, args, true);
    }
    let everything = PathArgs { paths: Vec::new(), everything: true };
    let is_named = !paths.paths.is_empty() || paths.everything;
    if all {
        add(dir, &everything, false).map_err(text)?;
    } else if is_named {
        add(dir, paths, false).map_err(text)?;
    }
    // With paths, git commits these alone.
    let mut changes = if is_named { Vec::new() } else { changed::staged(repo).map_err(text)? };
    let known: BTreeSet<git::Path> = changes.iter().map(|change| change.path.clone()).collect();
    changes.extend(found.difference(&known).map(|path| Change { path: path.clone(), after: None }));
    changes.sort_unstable();
    Ok(changes)
}

/// What a push would bring to the other side.
fn pushed(repo: &Repo, all: bool, args: &[String]) -> Result<Vec<Change>, String> {
    let text = |error: GitError| error.to_string();
    let (remote, refs) = match args.split_first() {
        Some((remote, refs)) => (remote.clone(), refs),
        None => (default_remote(repo), &[][..]),
    };
    let refs = match refs {
        _ if all => branches(repo).map_err(text)?,
        [] => vec!["HEAD".to_owned()],
        refs => refs.to_vec(),
    };
    let mut updates = Vec::new();
    for reference in &refs {
        let reference = reference.trim_start_matches('+');
        let (source, name) = reference.split_once(':').unwrap_or((reference, reference));
        // An empty source deletes; what cannot be resolved is not pushed either.
        if let Some(new) = repo.commit(source).ok().flatten().filter(|_| !source.is_empty()) {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            updates.push(Update { name: format!("refs/heads/{branch}"), old: Oid::zero(), new });
        }
    }
    let url = repo.git().args(["remote", "get-url", "--push", "--", &remote]).answer().ok().flatten();
    let url =
        url.map(|url| String::from_utf8_lossy(url.trim_ascii_end()).into_owned()).unwrap_or_else(|| remote.clone());
    let range = Range::of_push(repo, OsString::from(&remote).as_os_str(), OsString::from(&url).as_os_str(), &updates);
    match range.map_err(text)? {
        None => Ok(Vec::new()),
        Some(range) => Ok(range.changes(repo).map_err(text)?.changes()),
    }
}

/// The names of all branches.
fn branches(repo: &Repo) -> Result<Vec<String>, GitError> {
    let listed = repo.git().args(["for-each-ref", "--format=%(refname)", "refs/heads"]).output()?;
    Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
}

/// The remote that `git push` uses without one.
fn default_remote(repo: &Repo) -> String {
    let branch = repo.git().args(["symbolic-ref", "--quiet", "--short", "HEAD"]).answer().ok().flatten();
    let branch = branch.map(|branch| String::from_utf8_lossy(branch.trim_ascii_end()).into_owned());
    let configured = branch.and_then(|branch| {
        let name = format!("branch.{branch}.remote");
        repo.git().args(["config", "--get", &name]).answer().ok().flatten()
    });
    configured.map_or_else(|| "origin".to_owned(), |name| String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}
