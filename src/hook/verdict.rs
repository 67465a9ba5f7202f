//! The verdict: pass, warn or block, and the words for it.
//!
//! Pure: what was heard and what the settings say goes in, a [`Verdict`] comes out. Which paths a verdict is about is
//! found out before, by [`super::collect`]; whether some of them merely undo a change, after [`suspects`] named them.

use std::collections::HashSet;
use std::fmt::Write;

use crate::git::Path;
use crate::text::{shell, terminal};

use super::Moment;
use super::ask::{Answer, AskError, Conflict, Pause};
use super::policy::{Enforce, OnUnreachable, Policy, Require};

/// More lines than this help nobody; the rest is counted.
const LINES_MAX: usize = 10;
/// Paths named in the command we suggest.
const SUGGESTED_MAX: usize = 3;
/// A reason is a sentence; a longer one is cut.
const REASON_MAX: usize = 200;
/// The same for names, session ids and keys.
const NAME_MAX: usize = 80;

/// What a hook does in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go on, nothing to say.
    Pass,
    /// Go on, but say this.
    Warn(String),
    /// Stop, and say this.
    Block(String),
}

/// Why nothing could be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The server gave no answer.
    Silence(AskError),
    /// Git did not tell what is changed.
    Unread(String),
}

/// Paths that speak against this change, unless they only undo one.
pub fn suspects(policy: &Policy, paths: &[Path], answer: &Answer) -> Vec<Path> {
    let foreign: HashSet<&Path> = answer.conflicts.iter().map(|conflict| &conflict.path).collect();
    let mut suspects: Vec<Path> = unheld(policy, paths, answer).into_iter().chain(foreign).cloned().collect();
    suspects.sort_unstable();
    suspects.dedup();
    suspects
}

/// Judges. `forgiven` are those suspects that only undo a change.
pub fn judge(
    moment: Moment,
    policy: &Policy,
    paths: &[Path],
    heard: Result<&Answer, &Trouble>,
    forgiven: &HashSet<Path>,
) -> Verdict {
    let mut says = Says { moment, policy, stop: false, text: String::new() };
    for complaint in &policy.complaints {
        says.line(&format!("git-dibs: {complaint}."));
    }
    match heard {
        Err(trouble) => says.trouble(trouble),
        Ok(answer) => {
            says.pause(answer.paused.as_ref());
            let foreign = answer.conflicts.iter().filter(|conflict| !forgiven.contains(&conflict.path));
            says.conflicts(&foreign.collect::<Vec<_>>(), answer.me.is_some());
            let held_by_others: HashSet<&Path> = answer.conflicts.iter().map(|conflict| &conflict.path).collect();
            let unheld = unheld(policy, paths, answer);
            let mine_to_take = |path: &&Path| !forgiven.contains(*path) && !held_by_others.contains(*path);
            says.unheld(&unheld.into_iter().filter(mine_to_take).collect::<Vec<_>>());
        }
    }
    match (says.stop, says.text) {
        (true, text) => Verdict::Block(text),
        (false, text) if text.is_empty() => Verdict::Pass,
        (false, text) => Verdict::Warn(text),
    }
}

/// Paths a session would have to hold and does not. A person without a session is only kept from what others hold.
fn unheld<'a>(policy: &Policy, paths: &'a [Path], answer: &Answer) -> Vec<&'a Path> {
    if policy.require.value != Require::Held || answer.me.is_none() {
        return Vec::new();
    }
    let held: HashSet<&Path> = answer.held.iter().collect();
    paths.iter().filter(|path| !held.contains(path)).collect()
}

struct Says<'a> {
    moment: Moment,
    policy: &'a Policy,
    stop: bool,
    text: String,
}

impl Says<'_> {
    fn conflicts(&mut self, conflicts: &[&Conflict], has_session: bool) {
        // A shared path has a conflict per holder, and is still one path.
        let mut seen = HashSet::new();
        let paths = conflicts.iter().map(|conflict| &conflict.path).filter(|path| seen.insert(*path));
        let paths: Vec<&Path> = paths.collect();
        if paths.is_empty() {
            return;
        }
        self.stop |= self.policy.enforce.value == Enforce::Block;
        let (noun, count) = (self.moment.noun(), count(paths.len()));
        let (then, setting) = (self.then(), self.policy.enforce.source.clone());
        self.line(&format!("git-dibs: this {noun} changes {count} held by somebody else{then} ({setting})."));
        for conflict in conflicts.iter().take(LINES_MAX) {
            self.line(&format!("  {}", described(conflict)));
        }
        self.more(conflicts.len());
        let names = arguments(&paths);
        self.line(&match has_session {
            true => format!(
                "Ask for it with: git dibs request {names} --reason TEXT — or wait for it: git dibs wait {names}"
            ),
            false => {
                format!("Talk to the holder, or start a session (git dibs session start) and: git dibs wait {names}")
            }
        });
    }

    fn unheld(&mut self, paths: &[&Path]) {
        if paths.is_empty() {
            return;
        }
        self.stop |= self.policy.enforce.value == Enforce::Block;
        let (noun, count) = (self.moment.noun(), count(paths.len()));
        let (then, setting) = (self.then(), self.policy.require.source.clone());
        self.line(&format!("git-dibs: this {noun} changes {count} you have not reserved{then} ({setting})."));
        for path in paths.iter().take(LINES_MAX) {
            self.line(&format!("  {}", terminal::path(path)));
        }
        self.more(paths.len());
        self.line(&format!("Reserve it first: git dibs reserve {}", arguments(paths)));
    }

    fn pause(&mut self, pause: Option<&Pause>) {
        let Some(pause) = pause else { return };
        self.stop |= self.policy.enforce.value == Enforce::Block;
        let (by, noun) = (terminal::clean(&pause.by, NAME_MAX), self.moment.noun());
        let (then, setting) = (self.then(), self.policy.enforce.source.clone());
        let reason = reason(pause.reason.as_deref());
        self.line(&format!(
            "git-dibs: your feature is paused by {by}, so this {noun} should wait{then} ({setting}){reason}"
        ));
        self.line("See when it goes on with: git dibs status");
    }

    fn trouble(&mut self, trouble: &Trouble) {
        let (what, advice) = match trouble {
            Trouble::Silence(AskError::Unreachable(what)) => (what, "Find out more with: git dibs doctor"),
            Trouble::Silence(AskError::Broken(what)) => (what, "Find out more with: git dibs doctor"),
            Trouble::Silence(AskError::Unauthorized(what)) => (what, "Get a valid token with: git dibs session start"),
            Trouble::Silence(AskError::Ended(what)) => (what, "Start a new session with: git dibs session start"),
            Trouble::Unread(what) => (what, "Find out more with: git dibs doctor"),
        };
        let (noun, setting) = (self.moment.noun(), self.policy.on_unreachable.source.clone());
        let what = terminal::clean(what, 600);
        let what = if what.ends_with(['.', '?']) { what } else { what + "." };
        match (self.policy.on_unreachable.value, self.policy.enforce.value) {
            (OnUnreachable::Allow, _) => return,
            (OnUnreachable::Block, Enforce::Block) => {
                self.stop = true;
                self.line(&format!(
                    "git-dibs: this {noun} is blocked because it could not be checked ({setting}): {what}"
                ));
            }
            _ => self.line(&format!("git-dibs: this {noun} was not checked ({setting}): {what}")),
        }
        self.line(advice);
    }

    /// How a headline ends: what follows from it.
    fn then(&self) -> &'static str {
        if self.policy.enforce.value == Enforce::Block { "; it is blocked" } else { "; this is only a warning" }
    }

    fn more(&mut self, all: usize) {
        if all > LINES_MAX {
            self.line(&format!("  and {} more", all - LINES_MAX));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// One conflict in one line: path, holder, how long, why.
fn described(conflict: &Conflict) -> String {
    let path = terminal::path(&conflict.path);
    let id = terminal::clean(&conflict.holder, NAME_MAX);
    let mut line = match &conflict.holder_name {
        Some(name) if *name != conflict.holder => format!("{path}: held by {} ({id})", terminal::clean(name, NAME_MAX)),
        _ => format!("{path}: held by {id}"),
    };
    if !conflict.key.is_empty() && conflict.key != conflict.path {
        let _ = write!(line, " through {}", terminal::clean(&terminal::path(&conflict.key), NAME_MAX));
    }
    if let Some(time) = conflict.expires_in {
        let _ = write!(line, ", {} left", terminal::time_left(time));
    }
    line + &reason(conflict.reason.as_deref())
}

fn reason(reason: Option<&str>) -> String {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    reason.map_or_else(String::new, |reason| format!(": {}", terminal::clean(reason, REASON_MAX)))
}

fn count(paths: usize) -> String {
    if paths == 1 { "a path".to_owned() } else { format!("{paths} paths") }
}

fn arguments(paths: &[&Path]) -> String {
    let mut words: Vec<String> = paths.iter().take(SUGGESTED_MAX).map(|path| shell::path_argument(path)).collect();
    if paths.len() > SUGGESTED_MAX {
        words.push("…".to_owned());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests;
