//! The verdict and its words: the text of a blocked commit or push, and the lines of `git-dibs check` and `reserve`.
//!
//! Pure: the objections and the policy go in, text comes out.

use std::fmt::Write;

use super::ask::CheckError;
use super::objections::{Objections, Standing, path_of};
use super::policy::{CheckPolicy, Enforce, OnUnreachable, PolicySetting};
use super::{Occasion, Unchecked, Verdict};
use crate::git::Path;
use crate::local::clock;
use crate::local::describe::{self, NAME_MAX, colon_reason};
use crate::text::{shell, terminal};
use crate::wire::{Conflict, Encoding, Mode, Paused, Time};

/// The most conflicts or paths that a verdict lists; the others are counted.
const LINES_MAX: usize = 10;
/// The most paths that a suggested command names.
const SUGGESTED_MAX: usize = 3;
/// The longest error that is repeated, in characters.
const ERROR_MAX: usize = 600;

/// Decides by the policy, and words the decision.
pub fn verdict(occasion: &Occasion, policy: &CheckPolicy, objections: Result<&Objections, &Unchecked>) -> Verdict {
    let mut message = Message { occasion, policy, blocks: false, text: String::new() };
    for complaint in &policy.complaints {
        message.line(&format!("git-dibs: {complaint}."));
    }
    match objections {
        Err(unchecked) => message.unchecked(unchecked),
        Ok(objections) => {
            message.pause(objections);
            message.conflicts(objections);
            message.unreserved(&objections.unreserved);
        }
    }
    match (message.blocks, message.text) {
        (true, text) => Verdict::Block(text),
        (false, text) if text.is_empty() => Verdict::Pass,
        (false, text) => Verdict::Warn(text),
    }
}

struct Message<'a> {
    occasion: &'a Occasion,
    policy: &'a CheckPolicy,
    blocks: bool,
    text: String,
}

impl Message<'_> {
    fn conflicts(&mut self, objections: &Objections) {
        let paths = objections.conflicting_paths();
        let what = match paths.len() {
            0 => return,
            1 => "it changes a path that another session holds".to_owned(),
            n => format!("it changes {n} paths that other sessions hold"),
        };
        self.headline(&what, &self.policy.enforce, "");
        for conflict in objections.conflicts.iter().take(LINES_MAX) {
            self.line(&format!("  {}", conflict_line(conflict, Some(Encoding::Percent), objections.now)));
            if let Some(commit) = objections.commits.get(&path_of(&conflict.file_path)) {
                self.line(&format!("    changed by {commit}"));
            }
        }
        if objections.conflicts.len() > LINES_MAX {
            self.line(&format!("  and {} more", objections.conflicts.len() - LINES_MAX));
        }
        for note in &objections.notes {
            self.line(&terminal::clean(note, ERROR_MAX));
        }
        let words: Vec<String> = paths.iter().map(|path| shell::path_argument(path)).collect();
        if self.occasion.is_staged {
            // Several sessions may work in one checkout, and `git commit -a` takes the changes of all of them.
            let them = if paths.len() == 1 { "it" } else { "them" };
            self.line(&format!("To leave {them} out, commit only your own paths: git commit -- PATH..."));
        }
        self.line(&next_steps(words, &objections.conflicts, objections.standing));
    }

    fn unreserved(&mut self, paths: &[Path]) {
        let (what, them) = match paths.len() {
            0 => return,
            1 => ("it changes a path that you have not reserved".to_owned(), "it"),
            n => (format!("it changes {n} paths that you have not reserved"), "them"),
        };
        self.headline(&what, &self.policy.require, "");
        for path in paths.iter().take(LINES_MAX) {
            self.line(&format!("  {}", terminal::path(path)));
        }
        if paths.len() > LINES_MAX {
            self.line(&format!("  and {} more", paths.len() - LINES_MAX));
        }
        let words = arguments(paths.iter().map(|path| shell::path_argument(path)).collect());
        self.line(&format!("Reserve {them} first: git dibs reserve {words}"));
    }

    fn pause(&mut self, objections: &Objections) {
        let Some(pause) = &objections.paused else { return };
        let what = format!(
            "your feature {} is paused by {}",
            terminal::clean(&pause.feature, NAME_MAX),
            describe::session(&pause.reserved_by, pause.reserved_by_name.as_deref()),
        );
        self.headline(&what, &self.policy.enforce, &colon_reason(pause.reason.as_deref()));
        self.line("See who holds the pause, and for how long: git dibs status");
    }

    /// The first line of an objection: what happens, why, and which setting decides it.
    fn headline<T>(&mut self, what: &str, setting: &PolicySetting<T>, reason: &str) {
        let (noun, source) = (self.occasion.noun, &setting.source);
        let end = if reason.is_empty() { "." } else { reason };
        let line = match self.policy.enforce.value {
            Enforce::Block => format!("git-dibs: this {noun} is blocked: {what} ({source}){end}"),
            _ => format!("git-dibs: warning for this {noun}: {what} ({source}){end}"),
        };
        self.blocks |= self.policy.enforce.value == Enforce::Block;
        self.line(&line);
    }

    fn unchecked(&mut self, unchecked: &Unchecked) {
        let (what, advice) = match unchecked {
            Unchecked::Server(CheckError::Unauthorized(what)) => (what, "Get a valid token: git dibs session start"),
            Unchecked::Server(CheckError::SessionEnded(what)) => (what, "Start a new session: git dibs session start"),
            Unchecked::Server(CheckError::Unreachable(what) | CheckError::BadReply(what)) | Unchecked::Paths(what) => {
                (what, "Find the cause: git dibs doctor")
            }
        };
        let (noun, setting) = (self.occasion.noun, &self.policy.on_unreachable.source);
        let what = terminal::clean(what, ERROR_MAX);
        let what = if what.ends_with(['.', '?']) { what } else { what + "." };
        let line = match (self.policy.on_unreachable.value, self.policy.enforce.value) {
            (OnUnreachable::Allow, _) => return,
            (OnUnreachable::Block, Enforce::Block) => {
                self.blocks = true;
                format!("git-dibs: this {noun} is blocked because it could not be checked ({setting}): {what}")
            }
            _ => format!("git-dibs: this {noun} was not checked ({setting}): {what}"),
        };
        self.line(&line);
        self.line(advice);
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Conflicts, an indented line for each of the first `max`. `encoding` is how the request wrote its paths.
pub fn conflict_lines(conflicts: &[Conflict], encoding: Option<Encoding>, now: Time, max: usize) -> String {
    let mut lines = String::new();
    for conflict in conflicts.iter().take(max) {
        let _ = writeln!(lines, "  {}", conflict_line(conflict, encoding, now));
    }
    if conflicts.len() > max {
        let _ = writeln!(lines, "  and {} more", conflicts.len() - max);
    }
    lines
}

/// One conflict: path, holder, key that covers the path, time left, queue, reason.
pub fn conflict_line(conflict: &Conflict, encoding: Option<Encoding>, now: Time) -> String {
    let path = describe::key(&conflict.file_path, encoding.or(conflict.encoding));
    let key = describe::key(&conflict.key, conflict.encoding);
    let who = describe::session(&conflict.reserved_by, conflict.reserved_by_name.as_deref());
    let is_same = key == path || key.strip_prefix("file:") == Some(&path);
    // What was asked about is larger than what is held, or only overlaps it.
    let overlaps = !is_same && encoding.is_none() && describe::covers_several(&conflict.file_path);
    let example = conflict.example.as_ref().filter(|example| **example != path && **example != key);
    let example = example.map(|example| format!(" (both match {})", describe::key(example, conflict.encoding)));
    let example = example.unwrap_or_default();
    let through = if is_same { String::new() } else { format!(" through {key}") };
    let mut line = match (conflict.waiting, overlaps) {
        (true, _) => format!("{path}: {who} is ahead in the queue{through}{example}"),
        (false, true) => format!("{path}: overlaps {key}{example}, held by {who}"),
        (false, false) => format!("{path}: held by {who}{through}{example}"),
    };
    if conflict.mode == Mode::Shared {
        line.push_str(", shared");
    }
    if !conflict.waiting {
        let _ = write!(line, ", {} left", terminal::time_left(clock::between(now, conflict.expires_at)));
    }
    if let Some(waiting) = conflict.queue_length.filter(|n| *n > 0) {
        let _ = write!(line, ", {waiting} waiting");
    }
    line + &colon_reason(conflict.reason.as_deref())
}

/// A pause as a sentence, for commands.
pub fn pause_sentence(pause: &Paused, now: Time) -> String {
    format!(
        "your feature {} is paused by {}, {} left{}",
        terminal::clean(&pause.feature, NAME_MAX),
        describe::session(&pause.reserved_by, pause.reserved_by_name.as_deref()),
        terminal::time_left(clock::between(now, pause.expires_at)),
        colon_reason(pause.reason.as_deref()),
    )
}

/// What to do about paths that other sessions hold. `words` are the paths as a shell reads them.
pub fn next_steps(words: Vec<String>, conflicts: &[Conflict], standing: Standing) -> String {
    let (words, with) = (arguments(words), released_with(conflicts));
    match standing {
        Standing::Session => format!(
            "Ask the holder to release it{with}: git dibs request {words} --reason TEXT\n\
             Or wait for it: git dibs wait {words}"
        ),
        Standing::Reader => {
            "Talk to the holder. To wait for it you need a session, and your token cannot start one: ask the \
                             person who runs the server for a worker token."
                .to_owned()
        }
        Standing::Person => {
            format!("Talk to the holder, or start a session and wait: git dibs session start && git dibs wait {words}")
        }
    }
}

/// What the holder releases beside the paths themselves: reservations are released as a whole.
fn released_with(conflicts: &[Conflict]) -> String {
    let wider = |conflict: &&Conflict| conflict.key != conflict.file_path && describe::covers_several(&conflict.key);
    let mut keys: Vec<String> =
        conflicts.iter().filter(wider).map(|conflict| describe::key(&conflict.key, conflict.encoding)).collect();
    keys.sort_unstable();
    keys.dedup();
    match keys.as_slice() {
        [] => String::new(),
        [key] => format!(", with all of {key}"),
        _ => ", with all that these patterns cover".to_owned(),
    }
}

/// The first few words, with `…` if there are more.
fn arguments(mut words: Vec<String>) -> String {
    if words.len() > SUGGESTED_MAX {
        words.truncate(SUGGESTED_MAX);
        words.push("…".to_owned());
    }
    words.join(" ")
}
