//! The look after a shell command: which files it changed, so that they are reserved too.
//!
//! A look compares what differs from HEAD with the look before. A file counts as changed by this session if it differs from
//! HEAD and was written since then. What a checkout or a pull wrote is as in HEAD, or part of a merge that is not finished;
//! what was there at the first look is another's, also when a stash has put it away and back. Where other sessions live in
//! the same checkout, no one can tell who wrote a file: then nothing is reserved, and the model is told. A file that one of
//! them holds was most likely written by that session, so the model is told to leave it as it is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::call::{EDIT, HookCall};
use super::event::Event;
use super::reserve::{Refused, Reserved};
use super::session::{AgentSession, NoSession};
use super::state::{SessionState, changed_at, dir_name};
use super::{settle, words};
use crate::client::Limits;
use crate::git::{self, GitError, Place, Repo, StatusEntry, Untracked};
use crate::judge::{self, CheckError, path_of};
use crate::local::agent_file::{self, LivingSession};
use crate::local::{Environment, clock, notices};
use crate::text::{hex, percent};
use crate::wire::Conflict;

/// The most files that one look reserves or reports.
pub const FILES_MAX: usize = 200;

/// The most paths that a look remembers.
const REMEMBERED_MAX: usize = 20_000;

/// The most files that one look reads, and the largest of them in bytes. Others are known by what the file system says.
const CONTENTS_MAX: usize = 200;
const CONTENT_BYTES_MAX: u64 = 1 << 20;

/// What makes git put changes of others into the index: a merge, a rebase and the like that is not finished.
const UNFINISHED: [&str; 6] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "rebase-merge", "rebase-apply"];

/// What the looks of a session have seen, by the git directory of the worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Looks(BTreeMap<String, Look>);

/// One look at a worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Look {
    /// When it was, by the clock of files.
    at: u64,
    /// What differed from HEAD, percent-encoded, now or at an earlier look.
    paths: BTreeMap<String, Seen>,
}

/// Remembers what differs from HEAD when the session begins: that is not its own.
pub fn first_look(call: &HookCall<'_>, session: &AgentSession) {
    if let Some(state) = &session.state {
        // If git cannot tell, the first look after a command remembers.
        let _ = changed(call.place, &call.repo, state);
    }
}

/// Reserves what a shell command changed, releases what it committed, and tells the model what it should know.
pub fn after_shell(event: &Event, environment: &Environment) -> Answer {
    let Some(place) = Place::around(&event.cwd) else { return Answer::Allow };
    let Ok(Some(call)) = HookCall::open(event.agent, environment, &place, EDIT) else { return Answer::Allow };
    match look(&call, event) {
        Ok(lines) if lines.is_empty() => Answer::Allow,
        Ok(lines) => Answer::Context(lines.join("\n")),
        Err(NoSession::Person(_)) => Answer::Allow,
        Err(NoSession::Unkept(_, error) | NoSession::Trouble(error)) => {
            // The command has run, so there is nothing to deny.
            call.unchecked(&error);
            Answer::Allow
        }
    }
}

fn look(call: &HookCall<'_>, event: &Event) -> Result<Vec<String>, NoSession> {
    let session = AgentSession::find_or_open(call, event)?;
    let Some(state) = &session.state else { return Ok(Vec::new()) };
    settle::settle(state, &session.id, &[], || session.access.client(Limits::default()).ok());
    let mut lines = told(call, &session, state);
    let changed = changed(call.place, &call.repo, state).map_err(|error| CheckError::BadReply(error.to_string()))?;
    let held = state.held();
    let mut new: Vec<git::Path> = changed.into_iter().filter(|path| !held.knows(&call.place.git_dir, path)).collect();
    if new.is_empty() {
        return Ok(lines);
    }
    let left_out = new.len().saturating_sub(FILES_MAX);
    new.truncate(FILES_MAX);
    let neighbours = neighbours(call, &session);
    let mut access = session.access.clone();
    let reply = judge::ask(&mut access, &judge::question(&new), std::time::Instant::now() + judge::ASK_TIME_MIN)?;
    let now = reply.server_time.unwrap_or_else(clock::now);
    let free: Vec<git::Path> = reply.clear.iter().map(|name| path_of(name)).collect();
    let is_neighbours = |conflict: &Conflict| neighbours.iter().any(|id| *id == *conflict.reserved_by);
    let (theirs, changed_anyway): (Vec<Conflict>, Vec<Conflict>) = reply.conflicts.into_iter().partition(is_neighbours);
    lines.extend(words::changed_anyway(&changed_anyway, now));
    lines.extend(words::neighbours_files(&theirs, now));
    if !neighbours.is_empty() {
        lines.extend(words::not_reserved(&free));
        leave_to_others(call.place, state, &new);
    } else if !free.is_empty() {
        match Reserved::attempt(call, session, &free) {
            Ok(_) => {}
            Err(Refused::Objection(sentence)) => lines.push(sentence),
            Err(Refused::NoSession(..)) => {}
            Err(Refused::Session(_, error) | Refused::Trouble(error)) => return Err(error.into()),
        }
    }
    lines.extend(words::more_changed(left_out));
    Ok(lines)
}

/// The ids of the other sessions that live in this checkout: their hooks have looked at it, or, where that is not known,
/// their processes work in it. A process whose directory cannot be read counts.
fn neighbours(call: &HookCall<'_>, session: &AgentSession) -> Vec<String> {
    let place = call.place;
    let token = session.access.credential.as_ref().map(|credential| credential.token()).unwrap_or_default();
    let lives_here = |other: &LivingSession| {
        let looks: Option<Looks> = SessionState::of(&place.common_dir, &other.id).map(|state| state.read("look"));
        match looks.filter(|looks| !looks.0.is_empty()) {
            Some(looks) => looks.0.contains_key(&dir_name(&place.git_dir)),
            None => other
                .process
                .directory()
                .is_none_or(|dir| Place::around(&dir).is_some_and(|around| around.git_dir == place.git_dir)),
        }
    };
    let others = agent_file::others(&place.common_dir, token);
    others.into_iter().filter(lives_here).map(|other| other.id).filter(|id| *id != session.id).collect()
}

/// Remembers that these files, though changed, may be another session's.
fn leave_to_others(place: &Place, state: &SessionState, paths: &[git::Path]) {
    let mut looks: Looks = state.read("look");
    let Some(look) = looks.0.get_mut(&dir_name(&place.git_dir)) else { return };
    for path in paths {
        if let Some(seen) = look.paths.get_mut(&percent::encode(path)) {
            seen.is_others = true;
        }
    }
    state.write("look", &looks);
}

/// What the server told the session since its last command, and what other sessions ask it for.
fn told(call: &HookCall<'_>, session: &AgentSession, state: &SessionState) -> Vec<String> {
    let mut all = notices::take(&call.place.common_dir, &session.id);
    all.extend(state.requests());
    let new = notices::not_shown_lately(&call.place.common_dir, &session.id, all, SystemTime::now());
    new.iter().filter_map(words::notice).collect()
}

/// The files that were changed since the look before; none at the first look.
fn changed(place: &Place, repo: &Repo, state: &SessionState) -> Result<Vec<git::Path>, GitError> {
    let at = state.file_time();
    let entries = entries(repo)?;
    let mut looks: Looks = state.read("look");
    let name = dir_name(&place.git_dir);
    let before = looks.0.get(&name).cloned();
    let mut now = Look { at, paths: before.as_ref().map(Look::of_others).unwrap_or_default() };
    let (mut changed, mut to_read) = (Vec::new(), CONTENTS_MAX);
    for entry in &entries {
        let path = percent::encode(&entry.path);
        let known = before.as_ref().and_then(|before| before.paths.get(&path));
        let file = place.top.join(OsStr::from_bytes(&entry.path));
        let (mut seen, written) = Seen::of(&file, known, &mut to_read);
        let is_changed = match (&before, known) {
            (None, _) => false,
            (Some(_), Some(known)) => !known.is_same(&seen),
            (Some(before), None) => written.is_none_or(|written| written > before.at),
        };
        seen.is_others = !is_changed && known.is_none_or(|known| known.is_others);
        if is_changed {
            changed.push(entry.path.clone());
        }
        if now.paths.len() < REMEMBERED_MAX || now.paths.contains_key(&path) {
            now.paths.insert(path, seen);
        }
    }
    looks.0.insert(name, now);
    state.write("look", &looks);
    let is_unfinished = UNFINISHED.iter().any(|file| place.git_dir.join(file).exists());
    Ok(if is_unfinished { Vec::new() } else { changed })
}

/// What differs from HEAD, with the files of new directories.
fn entries(repo: &Repo) -> Result<Vec<StatusEntry>, GitError> {
    let mut entries = git::status(repo, Untracked::Directories)?;
    let is_directory = |entry: &StatusEntry| entry.is_untracked() && entry.path.ends_with(b"/");
    let directories: Vec<git::Path> =
        entries.iter().filter(|entry| is_directory(entry)).map(|entry| entry.path.clone()).take(FILES_MAX).collect();
    entries.retain(|entry| !is_directory(entry));
    if !directories.is_empty() {
        entries.extend(git::status_of(repo, &directories)?.into_iter().filter(StatusEntry::is_untracked));
        // What is still a directory is a repository of its own.
        entries.retain(|entry| !is_directory(entry));
    }
    Ok(entries)
}

/// When another commit was last checked out or made in a submodule: git then replaces the index file.
fn submodule_changed_at(top: &Path) -> Option<u64> {
    let place = Place::around(top).filter(|place| place.top == top)?;
    std::fs::metadata(place.git_dir.join("index")).ok().map(|about| changed_at(&about))
}

/// What identifies the content of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// What the file system says: enough to know that nothing was written.
    stamp: String,
    /// The hash of the content, if it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// This session has not changed it.
    #[serde(default)]
    is_others: bool,
}

impl Look {
    /// What stays known although it may no longer differ: a stash puts the changes of others away, and brings them back.
    fn of_others(&self) -> BTreeMap<String, Seen> {
        let is_kept = |seen: &Seen| seen.is_others && seen.content.is_some();
        self.paths.iter().filter(|(_, seen)| is_kept(seen)).map(|(path, seen)| (path.clone(), seen.clone())).collect()
    }
}

impl Seen {
    /// Looks at a file, and reads it if it was written since it was last seen. Also returns when it was last written or put
    /// in its place; none if it is gone.
    fn of(file: &Path, known: Option<&Seen>, to_read: &mut usize) -> (Seen, Option<u64>) {
        let Ok(about) = std::fs::symlink_metadata(file) else {
            return (Seen { stamp: "gone".to_owned(), ..Seen::default() }, None);
        };
        let written = match about.is_dir() {
            true => submodule_changed_at(file).unwrap_or_else(|| changed_at(&about)),
            false => changed_at(&about),
        };
        let stamp = format!("{}.{}.{written}", about.ino(), about.size());
        if let Some(known) = known.filter(|known| known.stamp == stamp) {
            return (known.clone(), Some(written));
        }
        let may_read = about.is_file() && about.size() <= CONTENT_BYTES_MAX && *to_read > 0;
        *to_read -= usize::from(may_read);
        let bytes = may_read.then(|| std::fs::read(file).ok()).flatten();
        let content = bytes.map(|bytes| hex::encode(digest::digest(&digest::SHA256, &bytes).as_ref()));
        (Seen { stamp, content, is_others: false }, Some(written))
    }

    fn is_same(&self, other: &Seen) -> bool {
        self.stamp == other.stamp || (self.content.is_some() && self.content == other.content)
    }
}
